/** Keeps on record that somebody asked for a move that the state does not allow; the row itself is not touched. */
import type { CommandState } from '#kernel/machines/command'
import type { Refusal } from '#kernel/refusal'
import { appendEvents, type Sql } from '#store'
import type { StoredCommand } from './command-row.ts'
import { commandLog } from './events.ts'
import type { Acting, CommandDeps } from './deps.ts'

export async function recordRefusal(
  sql: Sql,
  deps: Pick<CommandDeps, 'now' | 'newId'>,
  by: Acting,
  command: StoredCommand,
  to: CommandState,
  refusal: Refusal,
): Promise<Refusal> {
  const event = {
    eventId: deps.newId(),
    type: 'status_change_refused' as const,
    payload: {
      from: command.status,
      to,
      code: refusal.code,
      reason: refusal.reason,
      target_type: 'command',
      target_id: command.command_id,
    },
    actor: by.actor,
    actorKind: by.kind,
    traceId: by.traceId,
    at: deps.now(),
    links: { workspace_id: command.workspace_id, command_id: command.command_id },
  }
  await appendEvents(sql, commandLog, [event])
  return refusal
}
