/** Templates and job types over HTTP: work that is described once. */
import { createRoute, type z } from '@hono/zod-openapi'
import { pageView } from '#contract'
import {
  archiveTemplate,
  changeTemplate,
  changeTemplateBody,
  createTemplate,
  jobTypeView,
  readPlans,
  templateBody,
  templateView,
  toJobTypeView,
  toTemplateView,
} from '#domains/scheduler'
import { accept, quote, refuse } from '#kernel/refusal'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, newRouter, problems, queryOf, refused } from './route-kit.ts'
import { bodyOf, mayRun, type SchedulerRouteDeps, templateParam, withScheduler } from './scheduler-api.ts'

const reads = headOf('scheduler', needs('reader', 'org'))
const writes = headOf('scheduler', needs('writer', 'org'))

const query = queryOf({})

const getTypes = createRoute({
  ...reads('get', '/scheduler/job_types', 'listSchedulerJobTypes', 'The registered kinds of work'),
  request: { query },
  responses: { 200: jsonAnswer(pageView(jobTypeView, 'SchedulerJobTypePage'), 'All of them.'), ...problems(404, 422) },
})
const getTemplates = createRoute({
  ...reads('get', '/scheduler/templates', 'listSchedulerTemplates', 'All templates, by name'),
  request: { query },
  responses: {
    200: jsonAnswer(pageView(templateView, 'SchedulerTemplatePage'), 'All of them.'),
    ...problems(404, 422),
  },
})
const postTemplate = createRoute({
  ...writes('post', '/scheduler/templates', 'createSchedulerTemplate', 'Name a job type with params and a priority'),
  request: { query, body: jsonBody(templateBody, 'The template') },
  responses: { 201: jsonAnswer(templateView, 'The template.'), ...problems(404, 409, ...bodyProblems) },
})
const getTemplate = createRoute({
  ...reads('get', '/scheduler/templates/{template_id}', 'readSchedulerTemplate', 'One template'),
  request: { query, params: templateParam },
  responses: { 200: jsonAnswer(templateView, 'The template.'), ...problems(400, 404, 422) },
})
const patchTemplate = createRoute({
  ...writes(
    'patch',
    '/scheduler/templates/{template_id}',
    'changeSchedulerTemplate',
    'Change a template; jobs that were made from it keep what they got',
  ),
  request: { query, params: templateParam, body: jsonBody(changeTemplateBody, 'What changes') },
  responses: { 200: jsonAnswer(templateView, 'The template.'), ...problems(404, 409, ...bodyProblems) },
})
const deleteTemplate = createRoute({
  ...writes(
    'delete',
    '/scheduler/templates/{template_id}',
    'archiveSchedulerTemplate',
    'Put a template away that no schedule uses',
  ),
  request: { query, params: templateParam },
  responses: { 200: jsonAnswer(templateView, 'The template.'), ...problems(404, 409, ...bodyProblems) },
})

export function schedulerTemplateRoutes(deps: SchedulerRouteDeps) {
  return newRouter()
    .openapi(getTypes, (c) => {
      const done = withScheduler(c, deps, readPlans)
      return done.ok
        ? c.json({ items: done.value.jobTypes.map(toJobTypeView), next_cursor: null }, 200)
        : refused(c, done)
    })
    .openapi(getTemplates, (c) => {
      const done = withScheduler(c, deps, readPlans)
      return done.ok
        ? c.json({ items: done.value.templates.map(toTemplateView), next_cursor: null }, 200)
        : refused(c, done)
    })
    .openapi(postTemplate, async (c) => {
      const body = await bodyOf<z.input<typeof templateBody>>(c)
      const done = withScheduler(c, deps, (scheduler) => {
        const allowed = mayRun(c, scheduler, [{ job_type: body.job_type }])
        return allowed.ok ? createTemplate(scheduler, body) : allowed
      })
      return done.ok ? c.json(toTemplateView(done.value), 201) : refused(c, done)
    })
    .openapi(getTemplate, (c) => {
      const { template_id } = c.req.valid('param')
      const done = withScheduler(c, deps, (scheduler) => {
        const plans = readPlans(scheduler)
        if (!plans.ok) return plans
        const found = plans.value.templates.find((each) => each.template_id === template_id)
        return found
          ? accept(found)
          : refuse('scheduler.template.not_found', `there is no template ${quote(template_id)}`)
      })
      return done.ok ? c.json(toTemplateView(done.value), 200) : refused(c, done)
    })
    .openapi(patchTemplate, async (c) => {
      const body = await bodyOf<z.input<typeof changeTemplateBody>>(c)
      const { template_id } = c.req.valid('param')
      const done = withScheduler(c, deps, (scheduler) => {
        const allowed = mayRun(c, scheduler, [{ template_id, params: body }])
        return allowed.ok ? changeTemplate(scheduler, template_id, body) : allowed
      })
      return done.ok ? c.json(toTemplateView(done.value), 200) : refused(c, done)
    })
    .openapi(deleteTemplate, (c) => {
      const done = withScheduler(c, deps, (scheduler) => archiveTemplate(scheduler, c.req.valid('param').template_id))
      return done.ok ? c.json(toTemplateView(done.value), 200) : refused(c, done)
    })
}
