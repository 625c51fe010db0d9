/** The audit of a workspace and its counts. */
import { z } from '@hono/zod-openapi'
import { idField, pageView, textField, timeView } from '#contract'
import { type CommandDeps, countArchiveFiles, eventView, listAudit, toEventView } from '#domains/commands'
import { formatInstant } from '#kernel/instant'
import { accept } from '#kernel/refusal'
import { cutPage } from '#store'
import type { ApiDeps } from './api-deps.ts'
import type { Position } from './page-cursor.ts'
import { resource, routes } from './resource.ts'

type Api = Pick<ApiDeps, 'db'> & { readonly commands: Pick<CommandDeps, 'counts'> }

const { list, get } = resource<Api>('audit')

/** A page of the audit states whether archived files hold more. */
export function auditPageOf(id: string) {
  const archived_files = z.int().meta({
    description:
      'Number of archive files with events of the given command, or of the whole workspace, that are no longer in the database. ' +
      '`concord history` reads them.',
  })
  return pageView(eventView, `${id}Rows`)
    .extend({ archived_files })
    .meta({ id, description: 'One page, and the number of archive files with more events.' })
}

type AuditPosition = { readonly xid: string; readonly seq: string }
export const auditPosition = ({ xid, seq }: AuditPosition): Position => [xid, seq]
export function beforePosition([xid, seq]: Position = []): AuditPosition | null {
  return xid === undefined || seq === undefined ? null : { xid, seq }
}

const counts = z.record(z.string(), z.int())

export const auditRoutes = routes({
  listAudit: list('/audit', {
    summary: 'List the audit log, newest first',
    role: 'reader',
    query: {
      command_id: idField('command').optional(),
      event_type: textField(100).optional().meta({ example: 'policy_evaluated' }),
    },
    page: [auditPageOf('AuditPage'), 'A page of the audit.'],
    scope: ({ workspaceId, query: { command_id = null, event_type = null } }) => [workspaceId, command_id, event_type],
    async read({ deps: { db }, workspaceId, query }, from, limit) {
      const { command_id: commandId, event_type: eventType } = query
      const asked = { commandId, eventType, before: beforePosition(from), limit }
      const rows = await listAudit(db, workspaceId, asked)
      // Counted after the page is read: events archived before the read are included.
      const archived_files = await countArchiveFiles(db, workspaceId, commandId)
      return accept({ ...cutPage(rows, limit, toEventView, auditPosition), archived_files })
    },
  }),
  countCommands: get('/stats', {
    summary: 'Count the commands of the last 30 days by status and by error class',
    role: 'reader',
    answers: {
      200: [
        'The counts.',
        z
          .object({
            since: timeView('The commands submitted since then are counted.'),
            counted_at: timeView(
              'The counts are exact for this time. A count that takes longer than 20 ms is kept for 50 times as long.',
            ),
            commands: counts,
            errors: counts,
            effects_open: z.int(),
          })
          .meta({ id: 'WorkspaceStats', description: 'Counts of one workspace.' }),
      ],
    },
    async handle({ deps, workspaceId }) {
      const { since, countedAt, commands, errors, effectsOpen } = await deps.commands.counts(workspaceId)
      return accept({
        since: formatInstant(since),
        counted_at: formatInstant(countedAt),
        commands: { ...commands },
        errors: { ...errors },
        effects_open: effectsOpen,
      })
    },
  }),
})
