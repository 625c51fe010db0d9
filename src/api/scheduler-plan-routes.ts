/** Job types, templates and schedules over HTTP. */
import { z } from '@hono/zod-openapi'
import { idField, pageView, parsedField } from '#contract'
import {
  archiveTemplate,
  changeSchedule,
  changeScheduleBody,
  changeTemplate,
  changeTemplateBody,
  createSchedule,
  createTemplate,
  deleteSchedule,
  firingView,
  jobTypeView,
  nextOccurrences,
  readPlans,
  readSchedule,
  scheduleBody,
  scheduleView,
  templateBody,
  templateView,
  toFiringView,
  toJobTypeView,
  toScheduleView,
  toTemplateView,
} from '#domains/scheduler'
import { encodeId } from '#kernel/ids'
import { parsePageLimit } from '#kernel/page-limit'
import { accept, quote, refuse } from '#kernel/refusal'
import { bodyProblems } from './problem.ts'
import { routes, shown } from './resource.ts'
import { change, get, patch, post, remove, viewFrom, withScheduler } from './scheduler-api.ts'

const template = { template_id: idField('job_template') }
const schedule = { schedule_id: idField('schedule') }
const templateFact = (id: string) => ({ template_id: encodeId('job_template', id) })
const scheduleFact = (id: string) => ({ schedule_id: encodeId('schedule', id) })

export const schedulerTemplateRoutes = routes({
  listSchedulerJobTypes: get('/scheduler/job_types', {
    summary: 'List the registered job types',
    role: 'reader',
    answers: { 200: ['All of them.', pageView(jobTypeView, 'SchedulerJobTypePage')] },
    problems: [404],
    handle: (call) =>
      shown(withScheduler(call, readPlans), ({ jobTypes }) => ({
        items: jobTypes.map(toJobTypeView),
        next_cursor: null,
      })),
  }),
  listSchedulerTemplates: get('/scheduler/templates', {
    summary: 'List all templates by name',
    role: 'reader',
    answers: { 200: ['All of them.', pageView(templateView, 'SchedulerTemplatePage')] },
    problems: [404],
    handle: (call) =>
      shown(withScheduler(call, readPlans), ({ templates }) => ({
        items: templates.map(toTemplateView),
        next_cursor: null,
      })),
  }),
  createSchedulerTemplate: post('/scheduler/templates', {
    summary: 'Create a template: a job type with params and a priority',
    role: 'writer',
    body: [templateBody, 'The template'],
    answers: { 201: ['The template.', templateView] },
    problems: [404, 409],
    handle(call) {
      const { name, job_type } = call.body
      const asked = { operation: 'create_template', may: [{ job_type }], facts: { name, job_type } }
      return change(call, asked, toTemplateView, (scheduler) => createTemplate(scheduler, call.sent))
    },
  }),
  readSchedulerTemplate: get('/scheduler/templates/{template_id}', {
    summary: 'Get one template',
    role: 'reader',
    params: template,
    answers: { 200: ['The template.', templateView] },
    problems: [400, 404],
    handle(call) {
      const { template_id } = call.params
      return viewFrom(call, toTemplateView, (scheduler) => {
        const plans = readPlans(scheduler)
        if (!plans.ok) return plans
        const found = plans.value.templates.find((each) => each.template_id === template_id)
        return found
          ? accept(found)
          : refuse('scheduler.template.not_found', `There is no template ${quote(template_id)}.`)
      })
    },
  }),
  changeSchedulerTemplate: patch('/scheduler/templates/{template_id}', {
    summary: 'Change a template; existing jobs keep their params',
    role: 'writer',
    params: template,
    body: [changeTemplateBody, 'The changes'],
    answers: { 200: ['The template.', templateView] },
    problems: [404, 409],
    handle(call) {
      const { template_id } = call.params
      const may = [{ template_id, params: call.sent }]
      return change(
        call,
        { operation: 'change_template', may, facts: templateFact(template_id) },
        toTemplateView,
        (scheduler) => changeTemplate(scheduler, template_id, call.sent),
      )
    },
  }),
  archiveSchedulerTemplate: remove('/scheduler/templates/{template_id}', {
    summary: 'Archive a template that no schedule uses',
    role: 'writer',
    params: template,
    answers: { 200: ['The template.', templateView] },
    problems: [404, 409, ...bodyProblems],
    handle(call) {
      const { template_id } = call.params
      return change(
        call,
        { operation: 'archive_template', facts: templateFact(template_id) },
        toTemplateView,
        (scheduler) => archiveTemplate(scheduler, template_id),
      )
    },
  }),
})

const scheduleReportView = z
  .object({
    schedule: scheduleView,
    firings: z.array(firingView).meta({ description: 'The newest decided due times.' }),
  })
  .meta({ id: 'SchedulerScheduleReport' })

const timesView = z
  .object({ timezone: z.string(), times: z.array(z.string().meta({ format: 'date-time' })) })
  .meta({ id: 'SchedulerTimes' })

const switchTo = (verb: 'enable' | 'disable', summary: string) =>
  post(`/scheduler/schedules/{schedule_id}/${verb}`, {
    summary,
    role: 'writer',
    params: schedule,
    answers: { 200: ['The schedule.', scheduleView] },
    problems: [404, 409, ...bodyProblems],
    handle: (call) =>
      change(
        call,
        { operation: `${verb}_schedule`, facts: scheduleFact(call.params.schedule_id) },
        toScheduleView,
        (scheduler, requested) =>
          changeSchedule(scheduler, call.params.schedule_id, { enabled: verb === 'enable' }, requested),
      ),
  })

export const schedulerScheduleRoutes = routes({
  listSchedulerSchedules: get('/scheduler/schedules', {
    summary: 'List all schedules with their next due times',
    role: 'reader',
    answers: { 200: ['All of them.', pageView(scheduleView, 'SchedulerSchedulePage')] },
    problems: [404],
    handle: (call) =>
      shown(withScheduler(call, readPlans), ({ schedules }) => ({
        items: schedules.map(toScheduleView),
        next_cursor: null,
      })),
  }),
  createSchedulerSchedule: post('/scheduler/schedules', {
    summary: 'Create a schedule for a template',
    role: 'writer',
    body: [scheduleBody, 'The schedule'],
    answers: { 201: ['The schedule.', scheduleView] },
    problems: [404, 409],
    handle(call) {
      const { template_id, param_overrides } = call.body
      const work = [{ template_id, params: param_overrides ?? undefined }]
      const facts = { name: call.body.name, ...templateFact(template_id) }
      const asked = { operation: 'create_schedule', may: work, runs: work, facts }
      return change(call, asked, toScheduleView, (scheduler, requested) =>
        createSchedule(scheduler, call.sent, requested),
      )
    },
  }),
  readSchedulerSchedule: get('/scheduler/schedules/{schedule_id}', {
    summary: 'Get one schedule with the decisions on its newest due times',
    role: 'reader',
    params: schedule,
    answers: { 200: ['The schedule.', scheduleReportView] },
    problems: [400, 404],
    handle: (call) =>
      shown(
        withScheduler(call, (scheduler) => readSchedule(scheduler, call.params.schedule_id)),
        (found) => ({ schedule: toScheduleView(found.schedule), firings: found.firings.map(toFiringView) }),
      ),
  }),
  changeSchedulerSchedule: patch('/scheduler/schedules/{schedule_id}', {
    summary: 'Change a schedule; the change applies from now',
    role: 'writer',
    params: schedule,
    body: [changeScheduleBody, 'The changes'],
    answers: { 200: ['The schedule.', scheduleView] },
    problems: [404, 409],
    handle(call) {
      const { schedule_id } = call.params
      const found = withScheduler(call, (scheduler) => readSchedule(scheduler, schedule_id, 1))
      if (!found.ok) return found
      const { template_id = found.value.schedule.template_id } = call.body
      // Existing overrides would also apply to another template.
      const isOther = call.sent.param_overrides != null || call.sent.template_id !== undefined
      const may = [{ template_id, params: isOther ? call.sent : undefined }]
      const facts = { ...scheduleFact(schedule_id), ...templateFact(template_id) }
      return change(call, { operation: 'change_schedule', may, facts }, toScheduleView, (scheduler, requested) =>
        changeSchedule(scheduler, schedule_id, call.sent, requested),
      )
    },
  }),
  deleteSchedulerSchedule: remove('/scheduler/schedules/{schedule_id}', {
    summary: 'Delete a schedule; its jobs stay',
    role: 'writer',
    params: schedule,
    answers: { 200: ['The deleted schedule.', scheduleView] },
    problems: [404, ...bodyProblems],
    handle(call) {
      const { schedule_id } = call.params
      return change(
        call,
        { operation: 'delete_schedule', facts: scheduleFact(schedule_id) },
        toScheduleView,
        (scheduler) => deleteSchedule(scheduler, schedule_id),
      )
    },
  }),
  enableSchedulerSchedule: switchTo('enable', 'Enable a schedule from now'),
  disableSchedulerSchedule: switchTo('disable', 'Disable a schedule'),
  nextSchedulerTimes: get('/scheduler/schedules/{schedule_id}/next', {
    summary: 'List the next due times of a schedule',
    role: 'reader',
    query: {
      count: parsedField(parsePageLimit)
        .optional()
        .meta({ type: 'integer', minimum: 1, maximum: 500, default: 5, example: 5 }),
    },
    params: schedule,
    answers: { 200: ['The due times in UTC.', timesView] },
    problems: [400, 404],
    handle: (call) =>
      withScheduler(call, (scheduler) => {
        const found = readSchedule(scheduler, call.params.schedule_id, 1)
        if (!found.ok) return found
        const { cron_expression, timezone } = found.value.schedule
        const times = nextOccurrences(cron_expression, timezone, scheduler.deps.now(), call.query.count ?? 5)
        return times.ok ? accept({ timezone, times: times.value.map((time) => time.toISOString()) }) : times
      }),
  }),
})
