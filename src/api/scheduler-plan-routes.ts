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
  digestSchedule,
  digestTemplate,
  digestWork,
  firingView,
  jobTypeView,
  listJobTypes,
  listSchedules,
  listTemplates,
  nextOccurrences,
  readSchedule,
  readTemplate,
  type Scheduler,
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
import { accept } from '#kernel/refusal'
import { bodyProblems } from './problem.ts'
import { routes, shown } from './resource.ts'
import {
  change,
  fullPage,
  get,
  list,
  namePage,
  patch,
  post,
  remove,
  requireScheduler,
  viewFrom,
  withScheduler,
} from './scheduler-api.ts'

const template = { template_id: idField('job_template') }
const schedule = { schedule_id: idField('schedule') }
const templateFact = (id: string) => ({ template_id: encodeId('job_template', id) })
const scheduleFact = (id: string) => ({ schedule_id: encodeId('schedule', id) })

export const schedulerTemplateRoutes = routes({
  listSchedulerJobTypes: list('/scheduler/job_types', {
    summary: 'List the registered job types by name',
    role: 'reader',
    allow: requireScheduler,
    page: [pageView(jobTypeView, 'SchedulerJobTypePage'), 'A page.'],
    problems: [404],
    scope: () => [],
    read(call, from, limit) {
      const done = withScheduler(call, (scheduler) => listJobTypes(scheduler, namePage(from, limit)))
      return shown(done, (rows) => fullPage(rows, limit, toJobTypeView, ({ job_type }) => job_type))
    },
  }),
  listSchedulerTemplates: list('/scheduler/templates', {
    summary: 'List templates by name',
    role: 'reader',
    allow: requireScheduler,
    page: [pageView(templateView, 'SchedulerTemplatePage'), 'A page.'],
    problems: [404],
    scope: () => [],
    read(call, from, limit) {
      const done = withScheduler(call, (scheduler) => listTemplates(scheduler, namePage(from, limit)))
      return shown(done, (rows) => fullPage(rows, limit, toTemplateView, ({ name }) => name))
    },
  }),
  createSchedulerTemplate: post('/scheduler/templates', {
    summary: 'Create a template: a job type with params and a priority',
    role: 'writer',
    body: [templateBody, 'The template'],
    answers: { 201: ['The template.', templateView] },
    problems: [404, 409],
    handle(call) {
      const { name, job_type, params } = call.body
      const asked = {
        operation: 'create_template',
        may: [{ job_type }],
        runs: (scheduler: Scheduler) => digestTemplate(scheduler, { job_type }, params),
        facts: { name, job_type },
      }
      return change(call, asked, toTemplateView, (scheduler, recorded) =>
        createTemplate(scheduler, call.sent, recorded),
      )
    },
  }),
  readSchedulerTemplate: get('/scheduler/templates/{template_id}', {
    summary: 'Get one template',
    role: 'reader',
    params: template,
    answers: { 200: ['The template.', templateView] },
    problems: [400, 404],
    handle: (call) => viewFrom(call, toTemplateView, (scheduler) => readTemplate(scheduler, call.params.template_id)),
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
      const asked = {
        operation: 'change_template',
        may: [{ template_id, params: call.sent }],
        runs: (scheduler: Scheduler) => digestTemplate(scheduler, { template_id }, call.body.params),
        facts: templateFact(template_id),
      }
      return change(call, asked, toTemplateView, (scheduler, recorded) =>
        changeTemplate(scheduler, template_id, call.sent, recorded),
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
    handle(call) {
      const { schedule_id } = call.params
      const asked = {
        operation: `${verb}_schedule`,
        runs: verb === 'enable' ? (scheduler: Scheduler) => digestSchedule(scheduler, schedule_id) : undefined,
        facts: scheduleFact(schedule_id),
      }
      return change(call, asked, toScheduleView, (scheduler, recorded) =>
        changeSchedule(scheduler, schedule_id, { enabled: verb === 'enable' }, recorded),
      )
    },
  })

export const schedulerScheduleRoutes = routes({
  listSchedulerSchedules: list('/scheduler/schedules', {
    summary: 'List schedules by name, with their next due times',
    role: 'reader',
    allow: requireScheduler,
    page: [pageView(scheduleView, 'SchedulerSchedulePage'), 'A page.'],
    problems: [404],
    scope: () => [],
    read(call, from, limit) {
      const done = withScheduler(call, (scheduler) => listSchedules(scheduler, namePage(from, limit)))
      return shown(done, (rows) => fullPage(rows, limit, toScheduleView, ({ name }) => name))
    },
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
      const runs = (scheduler: Scheduler) => digestWork(scheduler, work)
      const asked = { operation: 'create_schedule', may: work, runs, facts }
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
      const runs = (scheduler: Scheduler) => digestSchedule(scheduler, schedule_id, call.body)
      return change(call, { operation: 'change_schedule', may, runs, facts }, toScheduleView, (scheduler, recorded) =>
        changeSchedule(scheduler, schedule_id, call.sent, recorded),
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
