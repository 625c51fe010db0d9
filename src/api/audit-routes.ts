/** The audit of a workspace and its counts. */
import { createRoute, z } from '@hono/zod-openapi'
import { idField, pageFields, pageView } from '#contract'
import {
  type CommandDeps,
  countArchiveFiles,
  countCommands,
  eventView,
  listAudit,
  toEventView,
} from '#domains/commands'
import type { ApiDeps } from './api-deps.ts'
import { openPageCursors } from './page-cursor.ts'
import { readPage } from './read-page.ts'
import { workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { headOf } from './route-head.ts'
import { jsonAnswer, newRouter, problems, queryOf, refused } from './route-kit.ts'

const reads = headOf('audit', needs('reader'))

/** A page of the audit never looks as if it were all there was. */
export function auditPageOf(id: string) {
  const archived_files = z.int().meta({
    description:
      'Files of the archive with events of the named command, or without one of everything here, that are no longer in the database. ' +
      '`concord history` reads them.',
  })
  return pageView(eventView, `${id}Rows`)
    .extend({ archived_files })
    .meta({ id, description: 'One page, and whether the archive holds more.' })
}

const getAudit = createRoute({
  ...reads('get', '/audit', 'listAudit', 'Who asked, what was decided, what was done, what failed: newest first'),
  request: {
    query: queryOf({
      ...pageFields,
      command_id: idField('command').optional(),
      event_type: z.string().max(100).optional().meta({ example: 'policy_evaluated' }),
    }),
  },
  responses: { 200: jsonAnswer(auditPageOf('AuditPage'), 'A page of the audit.'), ...problems(400, 422) },
})

const counts = z.record(z.string(), z.int())
const getStats = createRoute({
  ...reads(
    'get',
    '/stats',
    'countCommands',
    'How the commands of the last 30 days stand, by status and by error class',
  ),
  request: { query: queryOf({}) },
  responses: {
    200: jsonAnswer(
      z
        .object({ commands: counts, errors: counts, effects_open: z.int() })
        .meta({ id: 'WorkspaceStats', description: 'Counts of one workspace.' }),
      'The counts.',
    ),
    ...problems(422),
  },
})

const DAYS_MS = 30 * 24 * 3_600_000

export function auditRoutes(deps: Pick<ApiDeps, 'db' | 'cursorKey'>, world: Pick<CommandDeps, 'now'>) {
  const cursors = openPageCursors(deps.cursorKey)
  return newRouter()
    .openapi(getAudit, async (c) => {
      const query = c.req.valid('query')
      const workspaceId = workspaceOf(c).id
      const { command_id: commandId, event_type: eventType } = query
      const page = await readPage(cursors, query, {
        scope: ['listAudit', workspaceId, commandId ?? null, eventType ?? null],
        read: (beforeSeq, limit) => listAudit(deps.db, workspaceId, { commandId, eventType, beforeSeq, limit }),
        view: toEventView,
        position: ({ seq }) => seq,
      })
      if (!page.ok) return refused(c, page)
      // After the page: what was moved before it was read has its row by now.
      const archived_files = await countArchiveFiles(deps.db, workspaceId, commandId)
      return c.json({ ...page.value, archived_files }, 200)
    })
    .openapi(getStats, async (c) => {
      const { commands, errors, effects_open } = await countCommands(
        deps.db,
        workspaceOf(c).id,
        new Date(world.now().getTime() - DAYS_MS),
      )
      return c.json({ commands: { ...commands }, errors: { ...errors }, effects_open }, 200)
    })
}
