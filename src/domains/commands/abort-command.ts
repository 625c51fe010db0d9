/**
 * An operator's last word about a command: no turn has it any more, neither one of the runtime nor one on the spot, until it is resumed.
 * The row bears a token that is nobody's, so whoever has the turn now loses it with its next write and is told within a second or two.
 */
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { redactText } from '#kernel/secret-shapes'
import { appendEvents, statement, type Tx } from '#store'
import { refuseMissing } from './command-repository.ts'
import type { StoredCommand } from './command-row.ts'
import { commandLog } from './events.ts'
import { ABORT_TOKEN } from './spot-token.ts'
import { type CommandWorld, processOf } from './world.ts'
import type { Runtime } from '#runtime'

export type Operating = Pick<CommandWorld, 'newId' | 'now'> & {
  readonly runtime: Pick<Runtime, 'abort' | 'resume' | 'wake'>
}

export type OperatorAct = {
  readonly commandId: string
  readonly actor: string
  readonly traceId: string
  readonly reason: string
}

type Acted = Pick<StoredCommand, 'command_id' | 'workspace_id' | 'status'>

/** $1 command, $2 the token. Also where a cancel still has to be finished after everything was undone. */
const abortTurns = statement<Acted>(
  'commands_abort_turns',
  `update concord.commands as c set turn_token = $2::uuid, turn_until = '9999-12-31T00:00:00Z'
where c.command_id = $1::uuid and (c.completed_at is null or (c.status = 'compensated' and c.cancellation_requested))
returning c.command_id, c.workspace_id, c.status`,
)

/** $1 command, $2 the token. Gives the row back to whoever comes first. */
const freeTurns = statement<Acted>(
  'commands_free_turns',
  `update concord.commands as c
set turn_token = case when c.turn_token = $2::uuid then null else c.turn_token end,
  turn_until = case when c.turn_token = $2::uuid then null else c.turn_until end
where c.command_id = $1::uuid returning c.command_id, c.workspace_id, c.status`,
)

const findStatus = statement<Acted>(
  'commands_find_status',
  `select c.command_id, c.workspace_id, c.status from concord.commands as c where c.command_id = $1::uuid`,
)

/** Row, line of the runtime and record are one commit. */
export async function abortCommand(world: Operating, tx: Tx, act: OperatorAct): Promise<Decision<Acted>> {
  const [row] = await tx.run(abortTurns, [act.commandId, ABORT_TOKEN])
  if (!row) return refuseEnded(tx, act.commandId)
  await record(world, tx, 'command_aborted', row, act)
  await world.runtime.abort(processOf(act.commandId), act.reason, { tx })
  return accept(row)
}

/** Undefined: there is no such command. `isParked` is one that the runtime has not given up. */
export async function resumeCommand(
  world: Operating,
  tx: Tx,
  act: OperatorAct & { readonly why: string; readonly isParked: boolean },
): Promise<Acted | undefined> {
  const [row] = await tx.run(freeTurns, [act.commandId, ABORT_TOKEN])
  if (!row) return undefined
  const process = processOf(act.commandId)
  if (act.isParked) await world.runtime.wake(process, { tx })
  // Somebody else was faster: there is nothing more to record.
  else if (!(await world.runtime.resume(process, { tx })).ok) return row
  await record(world, tx, 'command_resumed', row, act, { why: act.why })
  return row
}

async function refuseEnded(tx: Tx, commandId: string): Promise<Decision<never>> {
  const [row] = await tx.run(findStatus, [commandId])
  if (!row) return refuseMissing()
  return refuse('commands.command.moved', `It ${sayState(row.status)} and gets no more turns anyway.`, {
    hint: `concord why ${encodeId('command', commandId)}`,
  })
}

const REASON_CHARS_MAX = 500

async function record(
  { newId, now }: Operating,
  tx: Tx,
  type: 'command_aborted' | 'command_resumed',
  { command_id, workspace_id, status }: Acted,
  { actor, traceId, reason }: OperatorAct,
  more: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const payload = {
    target_type: 'command',
    target_id: command_id,
    status,
    reason: redactText(reason).slice(0, REASON_CHARS_MAX),
    ...more,
  }
  const event = { eventId: newId(), type, payload, actor, actorKind: 'operator', traceId, at: now() }
  await appendEvents(tx, commandLog, [{ ...event, links: { workspace_id, command_id } }])
}
