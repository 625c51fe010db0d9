/** The story of a command: what happened to it, what it did outside, and why it is where it is. */
import { createRoute, z } from '@hono/zod-openapi'
import { pageFields, pageView } from '#contract'
import { findBlocked, findPending, listEdits } from '#domains/approvals'
import {
  actorsOf,
  archivedView,
  type CommandDeps,
  effectView,
  eventView,
  explainCommand,
  explanationView,
  readCommand,
  listArchivesOf,
  listCommandEvents,
  taskOf,
  toArchivedView,
  toEffectView,
  toEventView,
  toExplanationView,
} from '#domains/commands'
import { listNames } from '#domains/identity'
import type { ApiDeps } from './api-deps.ts'
import { commandParams } from './command-routes.ts'
import { openPageCursors } from './page-cursor.ts'
import { readPage } from './read-page.ts'
import { type ApiContext, principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { jsonAnswer, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('commands', needs('reader'))
const EVENTS_MAX = 1_000

const eventPage = pageView(eventView, 'DomainEventPage').extend({ archived: archivedView }).meta({
  id: 'CommandEventPage',
  description: 'One page, and the files that hold what is no longer in the database.',
})
const getEvents = createRoute({
  ...reads('get', '/commands/{command_id}/events', 'listCommandEvents', 'What happened to a command, in order'),
  request: { query: queryOf(pageFields), params: commandParams },
  responses: { 200: jsonAnswer(eventPage, 'A page of events.'), ...problems(400, 404, 422) },
})

const getEffects = createRoute({
  ...reads(
    'get',
    '/commands/{command_id}/effects',
    'listCommandEffects',
    'What a command does to the outside world, in the order of its plan',
  ),
  request: { query: queryOf({}), params: commandParams },
  responses: {
    200: jsonAnswer(z.object({ items: z.array(effectView) }).meta({ id: 'EffectList' }), 'Its effects.'),
    ...problems(400, 404, 422),
  },
})

const getExplanation = createRoute({
  ...reads(
    'get',
    '/commands/{command_id}/explanation',
    'explainCommand',
    'Why a command is where it is: who asked, which rule decided, who approved, what was done',
  ),
  request: { query: queryOf({}), params: commandParams },
  responses: { 200: jsonAnswer(explanationView, 'The chain, in plain words.'), ...problems(400, 404, 422) },
})

export function commandStoryRoutes(deps: Pick<ApiDeps, 'db' | 'cursorKey'>, world: CommandDeps) {
  const cursors = openPageCursors(deps.cursorKey)
  const find = (c: ApiContext, commandId: string) => readCommand(deps.db, workspaceOf(c).id, commandId)

  return newRouter()
    .openapi(getEvents, async (c) => {
      const { command_id: commandId } = c.req.valid('param')
      const workspaceId = workspaceOf(c).id
      const found = await find(c, commandId)
      if (!found.ok) return refused(c, found)
      const page = await readPage(cursors, c.req.valid('query'), {
        scope: ['listCommandEvents', workspaceId, commandId],
        read: (afterSeq, limit) => listCommandEvents(deps.db, workspaceId, commandId, { afterSeq, limit }),
        view: toEventView,
        position: ({ seq }) => seq,
      })
      if (!page.ok) return refused(c, page)
      // After the page: what was moved before it was read has its row by now.
      const archived = toArchivedView(await listArchivesOf(deps.db, workspaceId, commandId))
      return c.json({ ...page.value, archived }, 200)
    })
    .openapi(getEffects, async (c) => {
      const found = await find(c, c.req.valid('param').command_id)
      return found.ok ? c.json({ items: found.value.effects.map(toEffectView) }, 200) : refused(c, found)
    })
    .openapi(getExplanation, async (c) => {
      const { command_id: commandId } = c.req.valid('param')
      const found = await find(c, commandId)
      if (!found.ok) return refused(c, found)
      const events = await listCommandEvents(deps.db, workspaceOf(c).id, commandId, {
        afterSeq: null,
        limit: EVENTS_MAX,
      })
      const edits = await listEdits(deps.db, { workspaceId: workspaceOf(c).id, commandId })
      const names = await listNames(deps.db, principalOf(c).orgId, actorsOf(found.value, events, edits))
      const task = taskOf(world.catalog, found.value.command)
      const pending = await findPending(deps.db, { workspaceId: workspaceOf(c).id, commandId })
      const blocked = [...(await findBlocked(deps.db, pending)).values()]
      const facts = { names, edits, fields: task?.type.fields, isTaskGone: !task, blocked }
      const archives = await listArchivesOf(deps.db, workspaceOf(c).id, commandId)
      return c.json(toExplanationView(commandId, explainCommand(found.value, events, facts), archives), 200)
    })
}
