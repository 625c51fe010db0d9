/** Commands by the clock: the list with its next due times and last firings, and making, changing, switching and ending one. */
import { idField, pageView, parsedField } from '#contract'
import {
  changeCommandSchedule,
  changeCommandScheduleBody,
  createCommandSchedule,
  createCommandScheduleBody,
  getCommandSchedule,
  listCommandSchedules,
  OCCURRENCES_DEFAULT,
  removeCommandSchedule,
  commandScheduleDetailView,
  type CommandScheduleDeps,
  commandScheduleView,
  type StoredCommandSchedule,
  toCommandScheduleDetailView,
  toCommandScheduleView,
} from '#domains/command-schedules'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { cutPage, Known, resource, routes, shown } from './resource.ts'

const OCCURRENCES_MAX = 100

/** A due time in a zone with summer time costs up to 2 ms of the thread that answers everybody: a page has so many altogether. */
const OCCURRENCES_OF_PAGE_MAX = 500

function shareOf(asked: number, schedules: number): number {
  return Math.min(asked, Math.max(1, Math.floor(OCCURRENCES_OF_PAGE_MAX / Math.max(1, schedules))))
}

function parseOccurrences(text: string): Decision<number> {
  const count = /^(0|[1-9]\d{0,2})$/.test(text) ? Number(text) : -1
  if (count >= 0 && count <= OCCURRENCES_MAX) return accept(count)
  return refuse('limit_range', `The number of occurrences is from 0 to ${OCCURRENCES_MAX}.`, {
    facts: { minimum: 0, maximum: OCCURRENCES_MAX },
  })
}

const params = { schedule_id: idField('command_schedule') }
const query = {
  occurrences: parsedField(parseOccurrences)
    .optional()
    .meta({
      type: 'integer',
      minimum: 0,
      maximum: OCCURRENCES_MAX,
      default: OCCURRENCES_DEFAULT,
      description: `How many of the next due times to show; a page shows at most ${OCCURRENCES_OF_PAGE_MAX} of all its schedules.`,
    }),
}

type Api = { readonly schedules: CommandScheduleDeps }

const view =
  ({ schedules: { commands } }: Api, occurrences?: number) =>
  (schedule: StoredCommandSchedule) =>
    toCommandScheduleView(schedule, commands.catalog, { now: commands.now(), occurrences })

const { list, get, post, patch, delete: remove } = resource<Api>('schedules')

export const commandScheduleRoutes = routes({
  listSchedules: list('/schedules', {
    summary: 'The schedules of the workspace, by name, with their next due times and last firings',
    role: 'reader',
    query,
    page: [pageView(commandScheduleView, 'SchedulePage'), 'A page of schedules.'],
    problems: [400, 404],
    scope: ({ workspaceId }) => [workspaceId],
    async read({ deps, workspaceId, query: { occurrences = OCCURRENCES_DEFAULT } }, from, limit) {
      const { db } = deps.schedules.commands
      const asked = { afterName: from?.[0] ?? null, limit: limit + 1 }
      const rows = await listCommandSchedules(db, workspaceId, asked)
      const shownEach = shareOf(occurrences, Math.min(rows.length, limit))
      return accept(cutPage(rows, limit, view(deps, shownEach), ({ name }) => name))
    },
  }),
  createSchedule: post('/schedules', {
    summary: 'Have a command asked for by the clock, with your rights',
    role: 'writer',
    body: [createCommandScheduleBody, 'What, and when'],
    answers: {
      200: ['The same schedule was there already.', commandScheduleView],
      201: ['The schedule.', commandScheduleView],
    },
    problems: [404, 409],
    handle: ({ deps, principal, workspaceId, traceId, body }) =>
      shown(createCommandSchedule(deps.schedules, principal, { ...given(body), workspaceId, traceId }), (made) => {
        const schedule = view(deps)(made.schedule)
        return made.isNew ? schedule : new Known(schedule)
      }),
  }),
  getSchedule: get('/schedules/{schedule_id}', {
    summary: 'One schedule, with its counts',
    role: 'reader',
    query,
    params,
    answers: { 200: ['The schedule.', commandScheduleDetailView] },
    problems: [400, 404],
    handle: ({ deps: { schedules }, workspaceId, params: { schedule_id }, query: { occurrences } }) =>
      shown(getCommandSchedule(schedules, workspaceId, schedule_id), (detail) =>
        toCommandScheduleDetailView(detail, schedules.commands.catalog, { now: schedules.commands.now(), occurrences }),
      ),
  }),
  changeSchedule: patch('/schedules/{schedule_id}', {
    summary: 'Change a schedule, or switch it on or off',
    role: 'writer',
    params,
    body: [changeCommandScheduleBody, 'What shall be different'],
    answers: { 200: ['The schedule as it is now.', commandScheduleView] },
    problems: [404, 409],
    handle: ({ deps, principal, workspaceId, traceId, params: { schedule_id: scheduleId }, body }) =>
      shown(
        changeCommandSchedule(deps.schedules, principal, { workspaceId, scheduleId, traceId, change: given(body) }),
        view(deps),
      ),
  }),
  removeSchedule: remove('/schedules/{schedule_id}', {
    summary: 'End a schedule; what it asked for goes on',
    role: 'writer',
    params,
    answers: { 204: ['It fires no more.'] },
    problems: [400, 404, 409],
    handle: ({ deps, principal, workspaceId, traceId, params: { schedule_id: scheduleId } }) =>
      shown(removeCommandSchedule(deps.schedules, principal, { workspaceId, scheduleId, traceId }), () => undefined),
  }),
})

type Given<T> = { readonly [Field in keyof T]: Exclude<T[Field], undefined> }

/** What was left out is absent, not undefined. */
function given<T extends object>(body: T): Given<T> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)) as Given<T>
}
