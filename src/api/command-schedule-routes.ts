/** Schedules of commands: list with next due times and last firings, get, create, change, enable, disable and delete. */
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
import { byPerson } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { cutPage } from '#store'
import { Known, resource, routes, shown } from './resource.ts'

const OCCURRENCES_MAX = 100

/** Computing a due time in a zone with daylight saving takes up to 2 ms of the main thread, so a page is limited in total. */
const OCCURRENCES_OF_PAGE_MAX = 500

function shareOf(asked: number, schedules: number): number {
  return Math.min(asked, Math.max(1, Math.floor(OCCURRENCES_OF_PAGE_MAX / Math.max(1, schedules))))
}

function parseOccurrences(text: string): Decision<number> {
  const count = /^(0|[1-9]\d{0,2})$/.test(text) ? Number(text) : -1
  if (count >= 0 && count <= OCCURRENCES_MAX) return accept(count)
  return refuse('limit_range', `The number of occurrences must be 0 to ${OCCURRENCES_MAX}.`, {
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
      description: `How many of the next due times to show. A page shows at most ${OCCURRENCES_OF_PAGE_MAX} for all its schedules together.`,
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
    summary: 'List the schedules of the workspace by name, with their next due times and last firings',
    role: 'reader',
    query,
    page: [pageView(commandScheduleView, 'SchedulePage'), 'A page of schedules.'],
    problems: [404],
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
    summary: 'Create a schedule that submits a command with your rights',
    role: 'writer',
    body: [createCommandScheduleBody, 'The schedule'],
    answers: {
      200: ['The same schedule already exists.', commandScheduleView],
      201: ['The schedule.', commandScheduleView],
    },
    problems: [404, 409],
    handle: ({ deps, principal, workspaceId, traceId, body }) =>
      shown(
        createCommandSchedule(deps.schedules, byPerson(principal, traceId), { ...given(body), workspaceId }),
        (made) => {
          const schedule = view(deps)(made.schedule)
          return made.isNew ? schedule : new Known(schedule)
        },
      ),
  }),
  getSchedule: get('/schedules/{schedule_id}', {
    summary: 'Get one schedule with its counts',
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
    summary: 'Change, enable or disable a schedule',
    role: 'writer',
    params,
    body: [changeCommandScheduleBody, 'The changes'],
    answers: { 200: ['The changed schedule.', commandScheduleView] },
    problems: [404, 409],
    handle: ({ deps, principal, workspaceId, traceId, params: { schedule_id: scheduleId }, body }) =>
      shown(
        changeCommandSchedule(deps.schedules, byPerson(principal, traceId), {
          workspaceId,
          scheduleId,
          change: given(body),
        }),
        view(deps),
      ),
  }),
  removeSchedule: remove('/schedules/{schedule_id}', {
    summary: 'Delete a schedule; commands that it submitted continue',
    role: 'writer',
    params,
    answers: { 204: ['The schedule is deleted.'] },
    problems: [400, 404, 409],
    handle: ({ deps, principal, workspaceId, traceId, params: { schedule_id: scheduleId } }) =>
      shown(
        removeCommandSchedule(deps.schedules, byPerson(principal, traceId), { workspaceId, scheduleId }),
        () => undefined,
      ),
  }),
})

type Given<T> = { readonly [Field in keyof T]: Exclude<T[Field], undefined> }

/** Drops undefined fields. */
function given<T extends object>(body: T): Given<T> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)) as Given<T>
}
