/**
 * Puts a command aside whose row makes no sense: a state that nobody knows, a payload too deep to walk. No rule lets such a row
 * in; if one is there all the same, it is told once and left alone, and all the others go on.
 */
import { KernelFault } from '#kernel/errors'
import type { Next } from '#runtime'
import { appendEvents, statement } from '#store'
import { commandLog } from './events.ts'
import type { Turn } from './turn.ts'
import { bySystem } from './deps.ts'

/** $1 command, $2 token. Without a due time the reconciler does not see it; its state stays what it was, for whoever looks. */
const setAside = statement<{ readonly command_id: string }>(
  'commands_set_aside',
  `update concord.commands set run_after = null, turn_token = null, turn_until = null
where command_id = $1::uuid and turn_token = $2::uuid returning command_id`,
)

export function unreadable(what: string, facts: Readonly<Record<string, unknown>>): KernelFault {
  return new KernelFault('commands.row.unreadable', what, facts)
}

/** Ours to say, or the engine's: a value nested too deep ends its stack. */
export function isUnreadable(error: unknown): error is Error {
  return (error instanceof KernelFault && error.code === 'commands.row.unreadable') || error instanceof RangeError
}

export async function quarantine({ deps, command, token }: Turn, error: Error): Promise<Next> {
  await deps.db.transaction(async (tx) => {
    const [row] = await tx.run(setAside, [command.command_id, token])
    if (!row) return
    const event = {
      eventId: deps.newId(),
      type: 'command_quarantined' as const,
      payload: { reason: error.message, status: command.status, target_type: 'command', target_id: command.command_id },
      actor: bySystem.actor,
      actorKind: bySystem.kind,
      traceId: command.context.trace_id,
      at: deps.now(),
    }
    const links = { workspace_id: command.workspace_id, command_id: command.command_id }
    await appendEvents(tx, commandLog, [{ ...event, links }])
  })
  return { t: 'wait', until: null }
}
