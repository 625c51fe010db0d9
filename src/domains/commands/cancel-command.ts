/** Cancels a command. After the answer no new effect begins; the effect under way is finished, and undone if the mode says so. */
import type { Actor } from '#kernel/actor'
import { cancelApprovals } from '#domains/approvals'
import type { CommandState } from '#kernel/machines/command'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { failpoint } from '#store'
import { cutText } from '#kernel/cut-text'
import { redactText } from '#kernel/secret-shapes'
import { awaitedOf } from './advance.ts'
import { type Change, composeWrite, move, set, emitEvent } from './change.ts'
import {
  type CommandWithEffects,
  listForeignUndos,
  lockCommand,
  processOf,
  refuseMissing,
  type StoredCommand,
} from './command-table.ts'
import { type CommandDeps, isAllowed } from './deps.ts'
import { wakeDependents } from './write-command.ts'
import { decideCancellationMode } from './submit.ts'
import { readBackOf, wakeOptionsOf, taskOf } from './tasks.ts'
import { asEffect, planUndo, type UndoPlan } from './undo-plan.ts'

type CancelCommand = {
  readonly workspaceId: string
  readonly commandId: string
  readonly reason?: string | undefined
  /** Replaces the mode of the command. */
  readonly cancellationMode?: string | undefined
  /** An operator's last resort: a command whose driver no longer responds ends at once, and one that has ended frees the key of its contract. */
  readonly force?: boolean | undefined
}

export type Cancelled = { readonly command: StoredCommand; readonly changed: boolean }

const REASON_CHARS_MAX = 500

export async function cancelCommand(deps: CommandDeps, by: Actor, input: CancelCommand): Promise<Decision<Cancelled>> {
  const mode = decideCancellationMode(input.cancellationMode)
  if (!mode.ok) return mode
  const outcome = await deps.db.transaction(async (tx) => {
    const found = await lockCommand(tx, input.workspaceId, input.commandId)
    if (!found) return refuseMissing()
    const { command } = found
    const allowed = taskOf(deps.catalog, command)?.type.cancellable_by ?? ['requester', 'admin']
    if (!isAllowed(by, command, allowed))
      return refuse('commands.action.not_allowed', 'The contract of this command does not let you cancel it.', {
        facts: { allowed },
      })
    const at = deps.now()
    const cancellation_mode = mode.value ?? command.cancellation_mode
    const isOver = input.force === true && command.completed_at !== null
    const undos = isOver ? await tx.run(listForeignUndos, [input.workspaceId, [input.commandId]]) : []
    const plan = planUndo([...found.effects, ...undos.map(asEffect)], deps.catalog, at)
    const way = decideCancel({ ...command, cancellation_mode }, plan)
    const decided = input.force ? decideForce(found, by, way) : accept(way)
    if (!decided.ok) return decided
    const terms = { cancellation_mode, cancel_reason: reasonOf(input.reason), cancelled_by: by.id }
    const released = isOver ? releaseKey(found, plan, by, terms) : []
    const cancelled = cancelChanges(command, decided.value, by, terms, input.force ?? false, at)
    const isMoved = decided.value.t !== 'nothing'
    const changed = isMoved || released.length > 0
    const changes = [...released, ...(isMoved || !changed ? cancelled : [])]
    const written = await deps.writes.commitIn(tx, composeWrite(found, 'any', changes, at))
    if (!written.ok) return written
    const { workspaceId, commandId } = input
    const actorKind = by.kind === 'user' || by.kind === 'operator' ? by.kind : 'system'
    const closes = { workspaceId, commandId, why: 'command_cancelled', actorKind } as const
    if (command.status === 'waiting_for_approval') await cancelApprovals(tx, deps.newId, by, closes)
    // The question whether an effect may begin is closed. The question for the outcome of one stays open.
    const unasked = command.status === 'blocked' ? found.effects.filter((effect) => !readBackOf(effect).asked) : []
    for (const { status, domain_effect_id: domainEffectId } of unasked)
      if (status === 'planned' || status === 'executing')
        await cancelApprovals(tx, deps.newId, by, { ...closes, domainEffectId })
    const ended = changed ? undefined : refuseEnded(command)
    if (ended) return tx.commitRefusal(ended)
    if (isMoved) await deps.wake(processOf(command.command_id), { tx, ...wakeOptionsOf(deps.catalog, command) })
    await failpoint('commands.cancel_written')
    const awaited = awaitedOf(found.effects)?.commandId
    return accept({ written: written.value, changed, awaited })
  })
  await failpoint('commands.cancel_committed')
  if (!outcome.ok) return outcome
  const { written, changed, awaited } = outcome.value
  await wakeDependents(deps, written.dependents).catch(() => {})
  // The command that it waits for is cancelled too, so that this one can end.
  if (changed && awaited !== undefined)
    await cancelCommand(deps, { ...by, kind: 'system' }, { ...input, commandId: awaited, force: false })
  return accept({ command: written.command, changed })
}

/** Repeating a cancel changes nothing and is no error. A cancel that arrives after another end is refused, and is on record. */
function refuseEnded({ status, cancellation_requested }: StoredCommand): Refusal | undefined {
  const facts = { status }
  if (status === 'succeeded')
    return refuse('commands.cancel.succeeded', 'It has succeeded, so there is nothing to cancel.', { facts })
  if (status === 'expired' || (status === 'compensated' && !cancellation_requested))
    return refuse('commands.cancel.ended', `It ${sayState(status)}, so there is nothing to cancel.`, { facts })
  return undefined
}

type CancelTerms = { readonly cancellation_mode: StoredCommand['cancellation_mode']; readonly [field: string]: unknown }

function cancelChanges(
  { status }: StoredCommand,
  way: CancelWay,
  by: Actor,
  terms: CancelTerms,
  forced: boolean,
  at: Date,
): readonly Change[] {
  if (way.t === 'nothing') return [emitEvent('cancellation_ignored', by, { ...terms, status })]
  const isEnd = way.t === 'move' && way.to === 'cancelled'
  const { cancellation_mode } = terms
  const isRecordedByMove = way.t === 'move' && way.to !== 'compensating'
  const to = way.t === 'move' ? way.to : status
  return [
    set({ cancellation_requested: true, cancellation_mode, run_after: isEnd ? null : at }),
    ...(isRecordedByMove ? [] : [emitEvent('cancellation_requested', by, { ...terms, from: status, to })]),
    ...(way.t === 'move' ? [move(way.to, by, { ...terms, forced })] : []),
  ]
}

/** The effects of an ended command that cannot be undone stay, but no longer keep the same thing from being asked for again. */
function releaseKey(
  { command, effects }: CommandWithEffects,
  { steps, unsettled }: UndoPlan,
  by: Actor,
  terms: CancelTerms,
): readonly Change[] {
  const { contract_key: from } = command
  if (from === null || steps.length + unsettled.length > 0) return []
  const released = effects.map((effect): Change => {
    const read_back = { ...readBackOf(effect), released: true }
    return { t: 'effect', id: effect.domain_effect_id, by, set: { read_back } }
  })
  const freed = emitEvent('contract_key_changed', by, { from, to: null, reason: 'released', ...terms })
  return [...released, set({ contract_key: null }), freed]
}

/** A free text for the record, without secrets. */
export function reasonOf(reason: string | undefined): string | null {
  return reason === undefined ? null : cutText(redactText(reason), REASON_CHARS_MAX)
}

type CancelWay =
  | { readonly t: 'move'; readonly to: Extract<CommandState, 'cancelled' | 'cancelling' | 'compensating'> }
  /** Queued again after effects had succeeded: it passes through `running`, which undoes them if the mode requires it. */
  | { readonly t: 'flag' }
  | { readonly t: 'nothing' }

type CancelledRow = Pick<StoredCommand, 'status' | 'cancellation_mode' | 'cancellation_requested'>

/** `cancellation_mode` is the mode of this request, which may differ from that of the row. */
export function decideCancel(command: CancelledRow, { steps, unsettled, isTouched: hasDone }: UndoPlan): CancelWay {
  const isUndoable = steps.length + unsettled.length > 0
  switch (command.status) {
    case 'created':
    case 'validated':
    case 'waiting_for_input':
    case 'waiting_for_approval':
    case 'approved':
      return { t: 'move', to: 'cancelled' }
    case 'failed': {
      const undoes = isUndoable && command.cancellation_mode === 'compensate_then_stop'
      return { t: 'move', to: undoes ? 'compensating' : 'cancelled' }
    }
    case 'queued':
      if (!hasDone) return { t: 'move', to: 'cancelled' }
      return command.cancellation_requested ? { t: 'nothing' } : { t: 'flag' }
    case 'running':
      return { t: 'move', to: 'cancelling' }
    case 'blocked':
      return { t: 'move', to: hasDone ? 'cancelling' : 'cancelled' }
    case 'cancelling':
    case 'compensating':
    case 'compensated':
    case 'succeeded':
    case 'cancelled':
    case 'expired':
      return { t: 'nothing' }
  }
}

/** Only for operators, and only while no effect is executing: its outcome could not be recorded on an ended command. */
function decideForce(
  { command, effects }: CommandWithEffects,
  by: Pick<Actor, 'kind'>,
  way: CancelWay,
): Decision<CancelWay> {
  if (by.kind !== 'operator')
    return refuse('commands.action.not_allowed', 'Only an operator may end a command by force.')
  if (command.status !== 'running') return accept(way)
  if (effects.some(({ status }) => status === 'executing')) {
    return refuse('commands.command.moved', 'An effect is executing; its outcome must be known first.')
  }
  return accept({ t: 'move', to: 'cancelled' })
}
