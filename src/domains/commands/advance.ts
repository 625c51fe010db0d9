/**
 * The life of a command: `advance` decides the next step from the rows and from what has been seen, and `fold` takes steps in memory until
 * something has to be called, asked, loaded or waited for. So everything between two calls is one write. Pure: no database, no await.
 */
import { encodeId } from '#kernel/ids'
import { classifyError } from '#kernel/error-classes'
import { KernelFault } from '#kernel/errors'
import type { NewId } from '#kernel/clock'
import { isStatusReachable } from '#kernel/machine-graph'
import { commandMachine } from '#kernel/machines/command'
import type { UndoStep } from '#kernel/saga/compensation'
import { accept } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import {
  aboutEffect,
  type AfterStep,
  applyChanges,
  systemActor,
  workerActor,
  type Change,
  type Draft,
  fail,
  move,
  need,
  type NewEffect,
  openDraft,
  proceed,
  planEffect,
  releaseTurn,
  rest,
  type Seen,
  set,
  type Step,
  STOPPED,
  emitEvent,
} from './change.ts'
import { inputDeadline } from './asks.ts'
import type { CompiledTask } from './catalog/open-catalog.ts'
import type { CommandWithEffects, ParentFact, StoredEffect } from './command-table.ts'
import { planApproved, decide, validate } from './intake.ts'
import { judgeOpen, newUndo, nextEffect, planCommand, replanCommand, undoneBy, undoPayload } from './plan.ts'
import { beginEffect, failEffect, recordOutcome, settleDoubt } from './outcome.ts'
import { findHandler, readBackOf, taskOf, undoTypeOf } from './tasks.ts'
import { planUndo } from './undo-plan.ts'

/** The end of another command wakes its dependents. This poll covers a wake that was lost with its process. */
const LOOK_AGAIN_MS = 60_000
/** More than the steps between any two calls. */
const STEPS_MAX = 40

export type Folded = { readonly draft: Draft; readonly next: AfterStep }

/** How far a fold goes: to its end, only to the next call, which then does not begin, or only over the outcome of the last call. */
export type FoldLimit = 'none' | 'no_call' | 'outcome'

export function fold(
  draft: Draft,
  { outcome, ...seen }: Seen,
  at: Date,
  newId: NewId,
  limit: FoldLimit = 'none',
): Folded {
  let now = draft
  for (let steps = 0; steps < (limit === 'outcome' ? 1 : STEPS_MAX); steps++) {
    const isOutcome = outcome !== undefined && steps === 0
    try {
      const step = undoAfterFailure(now, advance(now.now, isOutcome ? { ...seen, outcome } : seen, at, newId), seen, at)
      const isCall = step.next.t === 'call' || step.next.t === 'look_up'
      if (isCall && limit === 'no_call') return { draft: now, next: proceed }
      now = applyChanges(now, step.changes, at)
      if (step.next.t !== 'proceed') return { draft: now, next: step.next }
    } catch (error) {
      // The outcome of the call is written even if a step after it fails. That step fails again in the next fold.
      if (outcome === undefined || isOutcome) throw error
      return { draft: now, next: proceed }
    }
  }
  return { draft: now, next: proceed }
}

/** A contract with `on_failure: undo` undoes what a failed run has done in the write that records the failure. A failed undo stays failed. */
function undoAfterFailure(draft: Draft, step: Step, seen: Pick<Seen, 'catalog'>, at: Date): Step {
  const { command } = draft.now
  if (!step.changes.some((change) => change.t === 'move' && change.to === 'failed')) return step
  if (command.status === 'compensating' || taskOf(seen.catalog, command)?.type.on_failure !== 'undo') return step
  const { steps, unsettled } = planUndo(applyChanges(draft, step.changes, at).now.effects, seen.catalog, at)
  if (steps.length + unsettled.length === 0) return step
  const kept = step.changes.filter(({ t }) => t !== 'release_turn')
  return { changes: [...kept, move('compensating', systemActor, { reason: 'on_failure' })], next: proceed }
}

/** Ends a run between two effects, when an operator says so. An attempt that has done nothing and would be retried has failed. */
export function endRun(
  found: CommandWithEffects,
  seen: Pick<Seen, 'catalog'>,
  error: string,
  at: Date,
): readonly Change[] {
  const errorClass = 'approval_rejected'
  const open = found.effects.find(({ status }) => status === 'executing')
  const failed = open && failEffect(found, open, { errorClass, message: error, happened: 'no' }).changes
  const step = fail(errorClass, error, set({ run_after: at }), ...(failed ?? []))
  return undoAfterFailure(openDraft(found, 'any', at), step, seen, at).changes
}

/** Deterministic: the same rows, `seen`, time and ids give the same step. */
export function advance(found: CommandWithEffects, seen: Seen, at: Date, newId: NewId): Step {
  if (seen.outcome) return recordOutcome(found, seen, seen.outcome, at)
  const { command } = found
  switch (command.status) {
    case 'created':
      return validate(found, seen, at, newId)
    case 'validated':
      return decide(found, seen, at, newId)
    case 'waiting_for_input': {
      const deadline = inputDeadline(found.effects)
      if (deadline === null || deadline > at) return rest(deadline)
      return end(move('expired', systemActor, { reason: 'no input arrived in time' }))
    }
    case 'waiting_for_approval':
      return rest(null)
    case 'blocked': {
      const awaited = awaitedOf(found.effects)
      if (!awaited && command.error === STOPPED) return goOn(seen, at)
      // Otherwise a person has been asked, and the answer wakes the command.
      return awaited ? settleAwaited(found, seen, awaited, at) : rest(null)
    }
    case 'approved':
      return planApproved(found, seen, at, newId)
    case 'queued':
      return start(found, seen, at, newId)
    case 'running':
      return run(found, seen, at)
    case 'cancelling':
      return leave(found, seen, at)
    case 'compensating':
      return compensate(found, seen, at, newId)
    case 'compensated':
      return command.cancellation_requested ? end(move('cancelled', workerActor)) : ended
    case 'succeeded':
    case 'failed':
    case 'cancelled':
    case 'expired':
      return ended
    default:
      throw unreadable('its status is not in the machine', { status: command.status })
  }
}

const ended: Step = { changes: [], next: { t: 'end' } }
const end = (...changes: readonly Change[]): Step => ({ changes: [...changes, releaseTurn(null)], next: { t: 'end' } })

function unreadable(what: string, facts: Readonly<Record<string, unknown>>): KernelFault {
  return new KernelFault('commands.row.unreadable', what, facts)
}

export type DependencyVerdict =
  | { readonly t: 'satisfied' }
  | { readonly t: 'waiting'; readonly on: readonly string[] }
  /** One parent can no longer reach its required status. */
  | { readonly t: 'unreachable'; readonly parent: ParentFact }

export function judgeDependencies(parents: readonly ParentFact[]): DependencyVerdict {
  const open = parents.filter(({ status, required_status }) => status !== required_status)
  const hopeless = open.filter(
    ({ status, required_status }) =>
      !isStatusReachable(commandMachine, status, required_status, { isRetryPending: false }),
  )
  // A dependency that cancels takes precedence over one that fails.
  const parent = hopeless.find(({ propagate_cancellation }) => propagate_cancellation) ?? hopeless[0]
  if (parent) return { t: 'unreachable', parent }
  return open.length === 0
    ? { t: 'satisfied' }
    : { t: 'waiting', on: open.map(({ parent_command_id }) => parent_command_id) }
}

/** A queued command runs when all its dependencies have their required status, and never if one cannot reach it. */
function start(found: CommandWithEffects, seen: Seen, at: Date, newId: NewId): Step {
  const { command } = found
  const parents = seen.hasParents ? seen.parents : []
  if (!parents) return need('parents')
  const verdict = judgeDependencies(parents)
  if (verdict.t === 'waiting') return rest(new Date(at.getTime() + LOOK_AGAIN_MS))
  if (verdict.t === 'unreachable') {
    const { parent_command_id, status, required_status, propagate_cancellation } = verdict.parent
    const reason = 'dependency_unreachable'
    if (!propagate_cancellation) return fail('validation_error', reason)
    return end(
      set({ cancellation_requested: true, error: reason }),
      move('cancelled', systemActor, {
        reason,
        parent_command_id,
        parent_status: status,
        required_status,
        cancel_reason: reason,
        cancelled_by: 'system',
        cancellation_mode: command.cancellation_mode,
      }),
    )
  }
  const task = taskOf(seen.catalog, command)
  const isUndo = command.attempt > 1 && undoneBy(command.plan).size > 0
  if (isUndo && !seen.facts) return need('facts')
  const replan = isUndo && task ? replanUndo(found, seen, task, newId) : undefined
  const replanned = replan ?? (command.attempt > 1 ? replanCommand(seen.catalog, found, newId, seen.tries) : undefined)
  if (replanned && !replanned.ok) return fail('validation_error', replanned.reason)
  const satisfied =
    parents.length > 0 ? [emitEvent('dependency_satisfied', systemActor, { parents: parents.length })] : []
  // It was queued again after effects had succeeded, then cancelled: it passes through `cancelling`, which undoes them.
  const cancelled = move('cancelling', systemActor, {
    cancel_reason: 'requested while queued',
    cancelled_by: 'system',
    cancellation_mode: command.cancellation_mode,
  })
  const exit = command.cancellation_requested ? [cancelled] : []
  return { changes: [...satisfied, ...(replanned?.value ?? []), move('running', workerActor), ...exit], next: proceed }
}

/**
 * Another run of an Undo Command: another undo may have undone an effect meanwhile, so it plans what is left, and only of what its first plan would undo.
 * Every other command runs the steps again that failed, as they were approved.
 */
function replanUndo(found: CommandWithEffects, seen: Seen, task: CompiledTask, newId: NewId) {
  const { plan } = found.command
  const isApproved = plan?.steps.some(({ primitive }) => primitive === 'human_approval') ?? false
  const policy = { decision: 'allow' as const, metadata: {} }
  const terms = { policy, isApproved, facts: seen.facts, within: undoneBy(plan) }
  const planned = planCommand(seen.catalog, task, found, terms, newId)
  if (!planned.ok) return planned
  const { changes, effects } = planned.value
  return accept([...changes, ...effects.map((effect) => planEffect(effect, systemActor))])
}

function run(found: CommandWithEffects, seen: Seen, at: Date): Step {
  const next = nextEffect(found, at)
  switch (next.t) {
    case 'finished':
      return finish(found, seen, next.results)
    case 'torn':
      // The turn fails and is repeated with a fresh read. If that does not help, operators see it as stuck.
      throw new KernelFault('commands.plan.torn', `not every step is settled: ${next.steps.join(', ')}`, {
        command_id: found.command.command_id,
      })
    case 'failed':
      return fail(next.effect.error_class ?? 'internal_error', next.effect.error ?? 'an effect failed')
    case 'wait':
      return rest(next.until)
    case 'begin':
    case 'retry':
      return beginEffect(found, seen, next.effect)
    case 'in_doubt':
      return settleDoubt(found, seen, next.effect)
  }
}

/** A function that throws fails its command. The effects stay recorded. */
function finish({ command }: CommandWithEffects, seen: Seen, results: readonly unknown[]): Step {
  const task = taskOf(seen.catalog, command)
  try {
    const result = task?.fn.result ? task.fn.result(results) : (results.at(-1) ?? {})
    return end(set({ result, error: null, error_class: null }), move('succeeded', workerActor))
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown'
    return fail('internal_error', `The function ${task?.fn.name ?? ''} could not compute its result: ${why}`)
  }
}

type Awaited = { readonly effect: StoredEffect; readonly commandId: string }

export function awaitedOf(effects: readonly StoredEffect[]): Awaited | undefined {
  for (const effect of effects.filter(({ status }) => status === 'executing')) {
    const { outcome, command_id: commandId } = readBackOf(effect)
    if (outcome === 'waiting' && commandId !== undefined) return { effect, commandId }
  }
  return undefined
}

/** Also for commands that are cancelling or compensating: the awaited command must end first. */
function settleAwaited({ command }: CommandWithEffects, seen: Seen, { effect, commandId }: Awaited, at: Date): Step {
  if (seen.awaited?.commandId !== commandId) return { changes: [], next: { t: 'need', what: 'awaited', commandId } }
  const child = seen.awaited.row
  if (child && child.completed_at === null) return rest(new Date(at.getTime() + LOOK_AGAIN_MS))
  const isBlocked = command.status === 'blocked'
  const wanted = readBackOf(effect).wanted ?? 'succeeded'
  const awaitedChild = { child_command_id: commandId }
  const settle = { t: 'effect', id: effect.domain_effect_id, by: workerActor } as const
  if (child?.status === wanted) {
    const result =
      wanted === 'succeeded'
        ? (child.result ?? {})
        : { command_id: encodeId('command', commandId), status: child.status }
    const read_back = { outcome: 'done', command_id: commandId }
    const done: Change = { ...settle, to: 'succeeded', set: { result, read_back }, payload: awaitedChild }
    return { changes: isBlocked ? [done, move('running', workerActor, awaitedChild)] : [done], next: proceed }
  }
  const error_class = child?.error_class ?? 'internal_error'
  const error = `the awaited command ${sayState(child?.status ?? 'gone')}: ${child?.error ?? ''}`
  const failed: Change = {
    ...settle,
    to: 'failed',
    set: { error, error_class },
    payload: { ...awaitedChild, error_class },
  }
  if (!isBlocked) return { changes: [failed], next: proceed }
  const why = set({ error, error_class })
  const step = command.plan?.steps.find(({ metadata }) => metadata['domain_effect_id'] === effect.domain_effect_id)
  if (step?.metadata['terminal_on_child_failure'] !== true)
    return end(failed, why, move('failed', workerActor, { error_class, ...awaitedChild }))
  // The failure of the child cancels this command in its own mode.
  const cancelled = move('cancelling', systemActor, {
    cancellation_mode: command.cancellation_mode,
    cancel_reason: error,
    cancelled_by: systemActor.id,
    ...awaitedChild,
  })
  return { changes: [failed, why, set({ cancellation_requested: true }), cancelled], next: proceed }
}

/** After a stop of agents. The lift wakes the command. */
function goOn({ stop }: Seen, at: Date): Step {
  if (stop === undefined) return need('stop')
  if (stop) return rest(new Date(at.getTime() + LOOK_AGAIN_MS))
  return { changes: [set({ error: null }), move('running', systemActor, { reason: 'stop_lifted' })], next: proceed }
}

/** Cancelling: the effect that had begun is settled first, and nothing new begins. */
function leave(found: CommandWithEffects, seen: Seen, at: Date): Step {
  const open = found.effects.find(({ status }) => status === 'executing')
  if (open) return settleOpen(found, seen, open, at)
  const skipped = found.effects
    .filter(({ status }) => status === 'planned')
    .map((effect) =>
      emitEvent(
        'effect_skipped',
        workerActor,
        { effect_type: effect.effect_type, reason: 'cancelled' },
        aboutEffect(effect),
      ),
    )
  if (found.command.cancellation_mode === 'compensate_then_stop')
    return { changes: [...skipped, move('compensating', workerActor)], next: proceed }
  return end(...skipped, move('cancelled', workerActor))
}

/** Settles an executing effect. A failed attempt is not repeated, unless its outcome is unknown. */
function settleOpen(found: CommandWithEffects, seen: Seen, effect: StoredEffect, at: Date): Step {
  const awaited = awaitedOf([effect])
  if (awaited) return settleAwaited(found, seen, awaited, at)
  const handler = findHandler(seen.catalog, effect)
  if (!handler) {
    const error = `no handler for ${effect.effect_type}`
    return end(set({ error, error_class: 'internal_error' }), move('failed', workerActor, { reason: 'the exit broke' }))
  }
  const { outcome, asked } = readBackOf(effect)
  // A read has changed nothing, whatever became of its call.
  if (handler.class === 'read' || (effect.run_after !== null && outcome === 'not_done')) {
    const errorClass = classifyError(effect.error_class)
    const failure = { errorClass, message: effect.error ?? 'cancelled', happened: 'no' as const }
    return failEffect(found, effect, failure)
  }
  // A person has been asked and has not answered yet.
  return asked ? rest(null) : settleDoubt(found, seen, effect)
}

/** Undoes the effects, last first. */
function compensate(found: CommandWithEffects, seen: Seen, at: Date, newId: NewId): Step {
  const { command, effects } = found
  const { steps, unsettled } = planUndo(effects, seen.catalog, at)
  const doubtful = effects.find(({ domain_effect_id }) => domain_effect_id === unsettled[0])
  if (doubtful) return settleOpen(found, seen, doubtful, at)
  const [step] = steps
  // A cancelled command ends cancelled; one that was undone after a failure ends compensated.
  if (!step)
    return end(
      move('compensated', workerActor),
      ...(command.cancellation_requested ? [move('cancelled', workerActor)] : []),
    )
  const begun = effects.find(({ domain_effect_id }) => domain_effect_id === step.begun_as)
  if (!begun) return { changes: [planEffect(undoEffect(found, seen, step, newId), workerActor)], next: proceed }
  const next = judgeOpen(begun, at)
  switch (next.t) {
    case 'wait':
      return rest(next.until)
    case 'begin':
    case 'retry':
      return beginEffect(found, seen, begun)
    case 'in_doubt':
      return readBackOf(begun).asked ? rest(null) : settleDoubt(found, seen, begun)
  }
}

function undoEffect({ effects }: CommandWithEffects, seen: Seen, step: UndoStep, newId: NewId): NewEffect {
  const { effect_id } = step
  const before = effects.filter(({ compensates_effect_id }) => compensates_effect_id === effect_id).length
  const undone = effects.find(({ domain_effect_id }) => domain_effect_id === effect_id)
  const effect_payload = undoPayload(step, undone?.effect_type ?? null)
  const undo = { effect_type: undoTypeOf(step.compensation), effect_payload, effect_id, nth: before + 1 }
  return newUndo(seen.catalog, undo, newId(), effects.length)
}
