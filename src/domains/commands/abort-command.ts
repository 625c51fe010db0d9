/**
 * An operator stops a command: no turn has it any more, neither one of the runtime nor an in-process one, until it is resumed. The row bears a
 * token that no turn has, so the turn under way loses it with its next write and is stopped within a second or two.
 */
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { redactText } from '#kernel/secret-shapes'
import { appendEvents, statement, type Tx } from '#store'
import { ABORT_TOKEN } from '#turns'
import { processOf, refuseMissing, type StoredCommand } from './command-table.ts'
import { commandLog } from './events.ts'
import type { CommandDeps } from './deps.ts'
import { DEFAULT_QUEUE, type Runtime } from '#runtime'

export type Operating = Pick<CommandDeps, 'newId' | 'now'> & {
  readonly runtime: Pick<Runtime, 'abort' | 'resume' | 'wake'>
}

export type OperatorAct = {
  readonly commandId: string
  readonly actor: string
  readonly traceId: string
  readonly reason: string
}

type Acted = Pick<StoredCommand, 'command_id' | 'workspace_id' | 'status'>
/** Where its plan says that its turns wait; null before there is one. */
type Planned = Acted & { readonly queue: string | null }

/** $1 command, $2 the token. Also where a cancel still has to be finished after everything was undone. */
const abortTurns = statement<Planned>(
  'commands_abort_turns',
  `update concord.commands as c set turn_token = $2::uuid, turn_until = '9999-12-31T00:00:00Z'
where c.command_id = $1::uuid and (c.completed_at is null or (c.status = 'compensated' and c.cancellation_requested))
returning c.command_id, c.workspace_id, c.status, c.plan->>'queue' as queue`,
)

/** $1 command, $2 the token. Gives the row back to the turn that comes first. */
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

/** Row, line of the runtime and record are one commit. */
export async function abortCommand(deps: Operating, tx: Tx, act: OperatorAct): Promise<Decision<Acted>> {
  const [row] = await tx.run(abortTurns, [act.commandId, ABORT_TOKEN])
  if (!row) return refuseEnded(tx, act.commandId)
  await record(deps, tx, 'command_aborted', row, act)
  // A command whose turns were all in-process is new to the runtime: without its queue a resume would lead past its limits.
  const { queue } = row
  const options = queue === null ? { tx } : { tx, queue }
  await deps.runtime.abort(processOf(act.commandId), sayReason(act), options)
  return accept(row)
}

/** Undefined: there is no such command. `isParked` is one that the runtime has not given up. */
export async function resumeCommand(
  deps: Operating,
  tx: Tx,
  act: OperatorAct & { readonly why: string; readonly isParked: boolean },
): Promise<Acted | undefined> {
  const [row] = await tx.run(freeTurns, [act.commandId, ABORT_TOKEN])
  if (!row) return undefined
  const process = processOf(act.commandId)
  if (act.isParked) await deps.runtime.wake(process, { tx, queue: row.queue ?? DEFAULT_QUEUE })
  // Somebody else was faster: there is nothing more to record.
  else if (!(await deps.runtime.resume(process, { tx })).ok) return row
  await record(deps, tx, 'command_resumed', row, act, { why: act.why })
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

/** Free words go onto the line and into the record; a secret among them does not. */
function sayReason({ reason }: Pick<OperatorAct, 'reason'>): string {
  return redactText(reason).slice(0, REASON_CHARS_MAX)
}

async function record(
  { newId, now }: Operating,
  tx: Tx,
  type: 'command_aborted' | 'command_resumed',
  { command_id, workspace_id, status }: Acted,
  act: OperatorAct,
  more: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const payload = {
    target_type: 'command',
    target_id: command_id,
    status,
    reason: sayReason(act),
    ...more,
  }
  const { actor, traceId } = act
  const event = { eventId: newId(), type, payload, actor, actorKind: 'operator', traceId, at: now() }
  await appendEvents(tx, commandLog, [{ ...event, links: { workspace_id, command_id } }])
}
