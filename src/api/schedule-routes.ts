/** Commands by the clock: the list with its next due times and last firings, and making, changing, switching and ending one. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView, parsedField } from '#contract'
import {
  changeSchedule,
  changeScheduleBody,
  createSchedule,
  createScheduleBody,
  getSchedule,
  listSchedules,
  OCCURRENCES_DEFAULT,
  removeSchedule,
  scheduleDetailView,
  scheduleView,
  type ScheduleDeps,
  toScheduleDetailView,
  toScheduleView,
} from '#domains/schedules'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ApiDeps } from './api-deps.ts'
import { openPageCursors } from './page-cursor.ts'
import { principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { bodyProblems, jsonAnswer, jsonBody, limitOf, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('schedules', needs('reader'))
const writes = headOf('schedules', needs('writer'))

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

const params = z.object({ schedule_id: idField('command_schedule') })
const occurrences = parsedField(parseOccurrences)
  .optional()
  .meta({
    type: 'integer',
    minimum: 0,
    maximum: OCCURRENCES_MAX,
    default: OCCURRENCES_DEFAULT,
    description: `How many of the next due times to show; a page shows at most ${OCCURRENCES_OF_PAGE_MAX} of all its schedules.`,
  })

const getSchedules = createRoute({
  ...reads(
    'get',
    '/schedules',
    'listSchedules',
    'The schedules of the workspace, by name, with their next due times and last firings',
  ),
  request: { query: queryOf({ ...pageFields, occurrences }) },
  responses: {
    200: jsonAnswer(pageView(scheduleView, 'SchedulePage'), 'A page of schedules.'),
    ...problems(400, 404, 422),
  },
})

const postSchedule = createRoute({
  ...writes('post', '/schedules', 'createSchedule', 'Have a command asked for by the clock, with your rights'),
  request: { query: queryOf({}), body: jsonBody(createScheduleBody, 'What, and when') },
  responses: {
    200: jsonAnswer(scheduleView, 'The same schedule was there already.'),
    201: jsonAnswer(scheduleView, 'The schedule.'),
    ...problems(404, 409, ...bodyProblems),
  },
})

const getOneSchedule = createRoute({
  ...reads('get', '/schedules/{schedule_id}', 'getSchedule', 'One schedule, with its counts'),
  request: { query: queryOf({ occurrences }), params },
  responses: { 200: jsonAnswer(scheduleDetailView, 'The schedule.'), ...problems(400, 404, 422) },
})

const patchSchedule = createRoute({
  ...writes('patch', '/schedules/{schedule_id}', 'changeSchedule', 'Change a schedule, or switch it on or off'),
  request: { query: queryOf({}), params, body: jsonBody(changeScheduleBody, 'What shall be different') },
  responses: { 200: jsonAnswer(scheduleView, 'The schedule as it is now.'), ...problems(404, 409, ...bodyProblems) },
})

const deleteSchedule = createRoute({
  ...writes('delete', '/schedules/{schedule_id}', 'removeSchedule', 'End a schedule; what it asked for goes on'),
  request: { query: queryOf({}), params },
  responses: { 204: { description: 'It fires no more.' }, ...problems(400, 404, 409, 422) },
})

export function scheduleRoutes({ cursorKey }: Pick<ApiDeps, 'cursorKey'>, world: ScheduleDeps) {
  const cursors = openPageCursors(cursorKey)
  const { db, catalog, now } = world.commands
  return newRouter()
    .openapi(getSchedules, async (c) => {
      const [workspace, query] = [workspaceOf(c), c.req.valid('query')]
      const scope = ['listSchedules', workspace.id]
      const after = query.cursor === undefined ? undefined : cursors.open(scope, query.cursor)
      if (after && !after.ok) return refused(c, after)
      const page = await listSchedules(db, workspace.id, { afterName: after?.value[0] ?? null, limit: limitOf(query) })
      const shown = shareOf(query.occurrences ?? OCCURRENCES_DEFAULT, page.items.length)
      const options = { now: now(), occurrences: shown }
      const items = page.items.map((schedule) => toScheduleView(schedule, catalog, options))
      return c.json({ items, next_cursor: page.next ? cursors.seal(scope, page.next) : null }, 200)
    })
    .openapi(postSchedule, async (c) => {
      const { traceId } = c.get('ids')
      const input = { ...given(c.req.valid('json')), workspaceId: workspaceOf(c).id, traceId }
      const created = await createSchedule(world, principalOf(c), input)
      if (!created.ok) return refused(c, created)
      const { schedule, isNew } = created.value
      return c.json(toScheduleView(schedule, catalog, { now: now() }), isNew ? 201 : 200)
    })
    .openapi(getOneSchedule, async (c) => {
      const found = await getSchedule(world, workspaceOf(c).id, c.req.valid('param').schedule_id)
      if (!found.ok) return refused(c, found)
      const options = { now: now(), occurrences: c.req.valid('query').occurrences }
      return c.json(toScheduleDetailView(found.value, catalog, options), 200)
    })
    .openapi(patchSchedule, async (c) => {
      const changed = await changeSchedule(world, principalOf(c), {
        workspaceId: workspaceOf(c).id,
        scheduleId: c.req.valid('param').schedule_id,
        traceId: c.get('ids').traceId,
        change: given(c.req.valid('json')),
      })
      return changed.ok ? c.json(toScheduleView(changed.value, catalog, { now: now() }), 200) : refused(c, changed)
    })
    .openapi(deleteSchedule, async (c) => {
      const removed = await removeSchedule(world, principalOf(c), {
        workspaceId: workspaceOf(c).id,
        scheduleId: c.req.valid('param').schedule_id,
        traceId: c.get('ids').traceId,
      })
      return removed.ok ? c.body(null, 204) : refused(c, removed)
    })
}

type Given<T> = { readonly [Field in keyof T]: Exclude<T[Field], undefined> }

/** What was left out is absent, not undefined. */
function given<T extends { readonly payload?: JsonObject | undefined }>(body: T): Given<T> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)) as Given<T>
}
