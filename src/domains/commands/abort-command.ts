/**
 * Lets an operator stop a command until it is resumed. The row gets a token that no turn has, so the turn under way loses the row at its next
 * write and stops within a second or two.
 */
import type { Actor } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { DEFAULT_QUEUE, type Runtime } from '#runtime'
import { statement, type Tx } from '#store'
import { ABORT_TOKEN } from '#turns'
import { reasonOf } from './cancel-command.ts'
import { processOf, refuseMissing, type StoredCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { appendCommandEvent } from './events.ts'

export type Operating = Pick<CommandDeps, 'newId' | 'now'> & {
  readonly runtime: Pick<Runtime, 'abort' | 'resume' | 'wake'>
}

type OperatorAct = {
  readonly commandId: string
  readonly actor: string
  readonly traceId: string
  readonly reason: string
}

type Acted = Pick<StoredCommand, 'command_id' | 'workspace_id' | 'status'>
/** The queue of its plan. Null before there is a plan. */
type Planned = Acted & { readonly queue: string | null }

/** $1 command, $2 the token. Includes a command whose cancel is not finished after its compensation. */
const abortTurns = statement<Planned>(
  'commands_abort_turns',
  `update concord.commands as c set turn_token = $2::uuid, turn_until = '9999-12-31T00:00:00Z'
where c.command_id = $1::uuid and (c.completed_at is null or (c.status = 'compensated' and c.cancellation_requested))
returning c.command_id, c.workspace_id, c.status, c.plan->>'queue' as queue`,
)

/** $1 command, $2 the token. The next turn can take the row again. */
const freeTurns = statement<Planned>(
  'commands_free_turns',
  `update concord.commands as c
set turn_token = case when c.turn_token = $2::uuid then null else c.turn_token end,
  turn_until = case when c.turn_token = $2::uuid then null else c.turn_until end
where c.command_id = $1::uuid returning c.command_id, c.workspace_id, c.status, c.plan->>'queue' as queue`,
)

const findStatus = statement<Acted>(
  'commands_find_status',
  `select c.command_id, c.workspace_id, c.status from concord.commands as c where c.command_id = $1::uuid`,
)

/** Commits the row, the runtime's entry and the event together. */
export async function abortCommand(deps: Operating, tx: Tx, act: OperatorAct): Promise<Decision<Acted>> {
  const [row] = await tx.run(abortTurns, [act.commandId, ABORT_TOKEN])
  if (!row) return refuseEnded(tx, act.commandId)
  const reason = reasonOf(act.reason) ?? ''
  await appendCommandEvent(tx, deps, operatorOf(act), 'command_aborted', row, { status: row.status, reason })
  // The runtime does not know a command that had only in-process turns. Without the queue a resume would bypass its limits.
  const options = row.queue === null ? { tx } : { tx, queue: row.queue }
  await deps.runtime.abort(processOf(act.commandId), reason, options)
  return accept(row)
}

/** Undefined: there is no such command. `isParked`: the runtime has not given the command up. */
export async function resumeCommand(
  deps: Operating,
  tx: Tx,
  act: OperatorAct & { readonly why: string; readonly isParked: boolean },
): Promise<Acted | undefined> {
  const [row] = await tx.run(freeTurns, [act.commandId, ABORT_TOKEN])
  if (!row) return undefined
  const process = processOf(act.commandId)
  if (act.isParked) await deps.runtime.wake(process, { tx, queue: row.queue ?? DEFAULT_QUEUE })
  // Another operator has already resumed it.
  else if (!(await deps.runtime.resume(process, { tx })).ok) return row
  const payload = { status: row.status, reason: reasonOf(act.reason) ?? '', why: act.why }
  await appendCommandEvent(tx, deps, operatorOf(act), 'command_resumed', row, payload)
  return row
}

async function refuseEnded(tx: Tx, commandId: string): Promise<Decision<never>> {
  const [row] = await tx.run(findStatus, [commandId])
  if (!row) return refuseMissing()
  return refuse('commands.command.moved', `It ${sayState(row.status)} and gets no more turns.`, {
    hint: `Run \`concord why ${encodeId('command', commandId)}\`.`,
  })
}

function operatorOf({ actor, traceId }: OperatorAct): Actor<'operator'> {
  return { id: actor, kind: 'operator', traceId }
}
