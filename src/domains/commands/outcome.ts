/**
 * Decides what follows an attempt at an effect, from what is known about it: record it, retry later, fail, look it up, or ask a person. Pure.
 */
import type { Random } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { boundedWait, decideRetry, type RetrySettings } from '#kernel/retry'
import {
  compensationDrift,
  type CoreEvent,
  decideAfterUndoFailure,
  decideDrift,
  hasDrift,
  planCompensation,
  type UndoStep,
} from '#kernel/saga/compensation'
import {
  aboutEffect,
  type CallOutcome,
  type Change,
  type LookUp,
  move,
  proceed,
  releaseTurn,
  rest,
  type Seen,
  set,
  type Step,
  emitEvent,
  workerActor,
  stay,
} from './change.ts'
import { reconcileAsk } from './asks.ts'
import type { EffectClass } from './catalog/effect-definition.ts'
import type { CommandWithEffects, StoredEffect } from './command-table.ts'
import {
  type AttemptFailure,
  contentOf,
  type EffectHandler,
  findHandler,
  isWaiting,
  readBackOf,
  taskOf,
} from './tasks.ts'
import { recordPending, settlesAt, waitOn, waitToSettle } from './pending.ts'
import { fillInputs } from './step-inputs.ts'

type AfterAttempt =
  | { readonly t: 'retry'; readonly delayMs: number }
  /** Known not to have happened. */
  | { readonly t: 'fail' }
  /** Look it up before anything else is decided. */
  | { readonly t: 'look_up' }
  | { readonly t: 'ask_person' }

export function decideAfterFailure(
  effectClass: EffectClass,
  settings: RetrySettings,
  { errorClass, happened, retryAfterMs, isRefused }: AttemptFailure,
  { attempt, random }: { readonly attempt: number; readonly random: Random },
): AfterAttempt {
  const retry = decideRetry(settings, { attempt, errorClass, random, askedToWaitMs: retryAfterMs })
  const retryOr = (otherwise: AfterAttempt): AfterAttempt =>
    retry.retry ? { t: 'retry', delayMs: retry.delayMs } : otherwise
  if (isRefused) return { t: 'fail' }
  if (happened === 'no' || effectClass === 'read') return retryOr({ t: 'fail' })
  switch (effectClass) {
    case 'keyed':
      // The provider knows our key: a repeated call changes nothing and reports the outcome of the first.
      return retryOr({ t: 'ask_person' })
    case 'queryable':
      return { t: 'look_up' }
    case 'opaque':
      return { t: 'ask_person' }
  }
}

type InDoubt = 'repeat' | 'look_up' | 'fail' | 'ask_person'

/** For an `executing` effect that no turn executes: its driver ended between the call and the record. */
export function decideInDoubt(effectClass: EffectClass, attempt: number, maxAttempts: number): InDoubt {
  const isLeft = attempt < maxAttempts
  switch (effectClass) {
    case 'read':
      return isLeft ? 'repeat' : 'fail'
    case 'keyed':
      return isLeft ? 'repeat' : 'ask_person'
    case 'queryable':
      return 'look_up'
    case 'opaque':
      return 'ask_person'
  }
}

/** How soon a provider that could not be reached is asked again. */
const LOOK_AGAIN_MS = 30_000

/** Begins an attempt. The statement that writes it checks that the command is still in the state in which it was read. */
export function beginEffect(found: CommandWithEffects, { turn }: Seen, effect: StoredEffect): Step {
  const { command } = found
  const effect_payload = effect.status === 'planned' ? fillInputs(found, effect) : undefined
  // Executing with no retry due: an earlier attempt may have done it. That stays in doubt until the provider reports it.
  const isCut = effect.status === 'executing' && effect.run_after === null
  const attempt = effect.attempt + 1
  const change: Change = {
    t: 'effect',
    id: effect.domain_effect_id,
    ...(effect.status === 'planned' ? { to: 'executing' as const } : {}),
    by: workerActor,
    set: {
      ...(isCut ? { read_back: { outcome: 'unknown' } } : {}),
      ...(effect_payload && { effect_payload }),
      attempt,
      run_after: null,
      turn_token: turn?.token ?? null,
      executed_by_runtime_workflow_id: turn && (command.runtime_workflow_id ?? turn.name),
    },
    payload: {
      attempt,
      max_attempts: effect.max_attempts,
      idempotency_key: effect.idempotency_key,
      ...(effect_payload && { payload: effect_payload }),
    },
  }
  return { changes: [stay, change], next: { t: 'call', effectId: effect.domain_effect_id } }
}

/** An effect whose outcome is being decided, with everything that decides it. */
type Attempted = {
  readonly found: CommandWithEffects
  readonly seen: Seen
  readonly effect: StoredEffect
  readonly handler: EffectHandler
  readonly at: Date
}

/** Finds out what happened to an effect that is executing while no turn executes it. */
export function settleDoubt(found: CommandWithEffects, seen: Seen, effect: StoredEffect): Step {
  const handler = findHandler(seen.catalog, effect)
  if (!handler) return askOutcome(found, seen, effect, unhandled(effect))
  const attempted = { found, seen, effect, handler }
  const message = 'the driver ended during the call'
  const cause: AttemptFailure = { errorClass: 'internal_error', message, happened: 'unknown' }
  if (isWaiting(effect)) return lookUp(attempted, { why: 'process', cause })
  switch (decideInDoubt(handler.class, effect.attempt, effect.max_attempts)) {
    case 'repeat':
      // In any state of the command: this effect had begun, and its outcome must be known.
      return beginEffect(found, seen, effect)
    case 'look_up': {
      const { cause: failure } = readBackOf(effect)
      if (failure) return lookUp(attempted, { why: 'failed', cause: failure })
      return lookUp(attempted, { why: 'cut', cause: { ...cause, errorClass: 'transient_connector_error' } })
    }
    case 'fail':
      return failEffect(found, effect, cause)
    case 'ask_person':
      return askOutcome(found, seen, effect, cause)
  }
}

/** The first step after a call or a look-up: records its outcome before anything else is decided. */
export function recordOutcome(found: CommandWithEffects, seen: Seen, outcome: CallOutcome, at: Date): Step {
  const effect = found.effects.find(({ domain_effect_id }) => domain_effect_id === outcome.effectId)
  if (effect?.status !== 'executing') return { changes: [], next: proceed }
  const handler = findHandler(seen.catalog, effect)
  if (!handler) return askOutcome(found, seen, effect, unhandled(effect))
  const attempted = { found, seen, effect, handler, at }
  const { result, lookUp: asked } = outcome
  // A turn that lost the row meanwhile: only a success still counts. A failure or a wait of an earlier attempt would overwrite the state of
  // the current one.
  const isRetried = effect.run_after !== null && !isWaiting(effect)
  const isStale = effect.attempt !== outcome.attempt || isRetried || readBackOf(effect).asked === true
  if (isStale && result.t !== 'done' && result.t !== 'found') return { changes: [], next: proceed }
  switch (result.t) {
    case 'done':
      return recordDone(attempted, result, result.emitted, undefined)
    case 'found':
      return recordDone(attempted, result, handler.produces, { outcome: 'done', result: result.result })
    case 'pending':
      if (!('commandId' in result.awaits) && !handler.find)
        throw new KernelFault('commands.effect.pending', 'an effect that waits for a process or a time needs `find`')
      if (asked?.why === 'process' && !('until' in result.awaits)) return waitOn(effect, at)
      return recordPending(found, effect, result.awaits, at)
    case 'missing':
      return afterMissing(attempted, asked)
    case 'failed':
      return asked
        ? afterSilence(attempted, asked, result.failure)
        : afterFailure(attempted, result.failure, result.emitted)
  }
}

function recordDone(
  { found, effect, handler }: Attempted,
  { result, facts }: { readonly result: unknown; readonly facts?: JsonObject },
  emitted: readonly string[],
  readBack: unknown,
): Step {
  const { attempt, max_attempts, idempotency_key } = effect
  const done: Change = {
    t: 'effect',
    id: effect.domain_effect_id,
    to: 'succeeded',
    by: workerActor,
    set: {
      result,
      error: null,
      error_class: null,
      run_after: null,
      ...(readBack === undefined ? {} : { read_back: readBack }),
    },
    payload: { attempt, max_attempts, idempotency_key, result, ...facts },
  }
  // A person was asked meanwhile. The outcome is known now, so the command continues; the drive closes the question.
  const isBlocked = found.command.status === 'blocked' && readBackOf(effect).asked === true
  const unblocked = isBlocked ? [move('running', workerActor, { reason: 'outcome_known' })] : []
  const drift = handler.isUndo ? decideDrift(handler.produces, emitted) : undefined
  if (!drift || !hasDrift(drift)) return { changes: [done, ...unblocked], next: proceed }
  const { payload } = compensationDrift(effect.compensates_effect_id ?? effect.domain_effect_id, drift)
  return { changes: [done, ...unblocked, emitEvent('compensation_drift', workerActor, payload)], next: proceed }
}

function afterFailure(
  attempted: Attempted,
  reported: AttemptFailure,
  emitted: readonly string[] = [],
  isSettled = false,
): Step {
  const { found, seen, effect, handler, at } = attempted
  // "Not done" is about this attempt. An earlier attempt that was interrupted may have done it.
  const isDoubtful = !isSettled && readBackOf(effect).outcome === 'unknown'
  const failure = isDoubtful ? { ...reported, happened: 'unknown' as const } : reported
  const { attempt } = effect
  const next = decideAfterFailure(handler.class, handler.retry, failure, { attempt, random: seen.random })
  switch (next.t) {
    case 'look_up':
      return lookUp(attempted, { why: 'failed', cause: failure })
    case 'ask_person':
      return askOutcome(found, seen, effect, failure)
    case 'fail':
      return failEffect(found, effect, failure, emitted)
    case 'retry':
      return retryLater(effect, failure, new Date(at.getTime() + next.delayMs))
  }
}

/** The provider has no record of the effect. */
function afterMissing(attempted: Attempted, asked: LookUp | undefined): Step {
  const { found, seen, effect, handler, at } = attempted
  if (!asked || asked.why === 'process') return waitOn(effect, at)
  const settling = waitToSettle(found, effect, handler, asked, at)
  if (settling) return settling
  const { status } = found.command
  const missing = { ...asked.cause, happened: 'no' as const }
  // The undos of an Undo Command are begun while it is running.
  const goesOn = status === 'running' || (handler.isUndo && status === 'compensating')
  if (!goesOn) return failEffect(found, effect, missing)
  // Its driver died and nothing was done, so the provider needs no delay.
  if (asked.why === 'cut' && effect.attempt < effect.max_attempts) return beginEffect(found, seen, effect)
  return afterFailure(attempted, missing, [], true)
}

/** The look-up failed and proves nothing: it is repeated later, or a person is asked. */
function afterSilence({ found, seen, effect, handler, at }: Attempted, { why }: LookUp, failure: AttemptFailure): Step {
  if (why === 'process')
    return failure.happened === 'unknown' ? waitOn({ run_after: null }, at) : failEffect(found, effect, failure)
  if (effect.attempt >= effect.max_attempts) return askOutcome(found, seen, effect, failure)
  const delayMs = Math.max(LOOK_AGAIN_MS, boundedWait(handler.retry.backoff, failure.retryAfterMs))
  const untilMs = Math.max(at.getTime() + delayMs, settlesAt(found, effect, handler, at).getTime())
  return retryLater(effect, { ...failure, happened: 'unknown' }, new Date(untilMs))
}

function lookUp({ found, seen, effect, handler }: Omit<Attempted, 'at'>, asked: LookUp): Step {
  if (!handler.find) return askOutcome(found, seen, effect, asked.cause)
  return { changes: [], next: { t: 'look_up', effectId: effect.domain_effect_id, lookUp: asked } }
}

function unhandled({ effect_type }: StoredEffect): AttemptFailure {
  return { errorClass: 'internal_error', message: `no handler for ${effect_type}`, happened: 'unknown' }
}

function retryLater(effect: StoredEffect, failure: AttemptFailure, until: Date): Step {
  const { message: error, errorClass: error_class, happened } = failure
  const read_back = { outcome: happened === 'no' ? 'not_done' : 'unknown' }
  return rest(
    until,
    {
      t: 'effect',
      id: effect.domain_effect_id,
      by: workerActor,
      set: { error, error_class, run_after: until, read_back },
    },
    emitEvent('retry_scheduled', workerActor, attemptOf(effect, failure, until), aboutEffect(effect)),
  )
}

/** The payload of every failed attempt. */
function attemptOf(effect: StoredEffect, failure: AttemptFailure, runAfter: Date | null) {
  return {
    effect_type: effect.effect_type,
    attempt: effect.attempt,
    max_attempts: effect.max_attempts,
    run_after: runAfter?.toISOString() ?? null,
    last_error: failure.message,
    error_class: failure.errorClass,
    happened: failure.happened,
    ...(failure.retryAfterMs === undefined ? {} : { asked_to_wait_ms: failure.retryAfterMs }),
  }
}

/** The effect is known not to have happened, or Concord refused what it returned: then it stays in doubt. A failed undo stops the compensation in the same commit. */
export function failEffect(
  found: CommandWithEffects,
  effect: StoredEffect,
  failure: AttemptFailure,
  emitted: readonly string[] = [],
): Step {
  const { message: error, errorClass: error_class } = failure
  const failed: Change = {
    t: 'effect',
    id: effect.domain_effect_id,
    to: 'failed',
    by: workerActor,
    set: { error, error_class, run_after: null, ...doubtAfter(effect, failure) },
    payload: { ...attemptOf(effect, failure, null), emitted },
  }
  const { status } = found.command
  if (effect.compensates_effect_id === null || (status !== 'compensating' && status !== 'running'))
    return { changes: [failed], next: proceed }
  const halted = haltedAt(found, effect)
  // An Undo Command fails in the next step, like every command with a failed effect.
  if (status === 'running')
    return { changes: [failed, emitEvent('compensation_drift', workerActor, halted)], next: proceed }
  const why = { error: `undo failed: ${failure.message}`, error_class: failure.errorClass }
  const end = [set(why), move('failed', workerActor, why, { compensation_drift: halted }), releaseTurn(null)]
  return { changes: [failed, ...end], next: { t: 'end' } }
}

/** An effect that may have acted outside counts as standing, see `isInDoubt`. A later attempt that is known to have failed settles an earlier doubt. */
function doubtAfter(effect: StoredEffect, { happened }: AttemptFailure): { readonly read_back?: object } {
  const note = readBackOf(effect)
  if (happened === 'no' && note.outcome !== 'unknown') return {}
  return { read_back: { ...note, outcome: happened === 'no' ? 'not_done' : 'unknown' } }
}

/** Nothing further is undone. The payload of the drift event records how far the undo got. */
function haltedAt({ command, effects }: CommandWithEffects, effect: StoredEffect): CoreEvent['payload'] {
  const stepOf = ({ compensates_effect_id, effect_type, domain_effect_id }: StoredEffect): UndoStep => ({
    effect_id: compensates_effect_id ?? '',
    compensation: effect_type,
    begun_as: domain_effect_id,
  })
  const undos = effects.filter(({ compensates_effect_id }) => compensates_effect_id !== null)
  const open = undos.filter(({ status }) => status === 'planned').map(stepOf)
  const left = command.status === 'running' ? open : planCompensation(effects).steps
  const after = decideAfterUndoFailure({
    retry: { retry: false, why: effect.attempt >= effect.max_attempts ? 'exhausted' : 'not_retryable' },
    failed: stepOf(effect),
    completed: undos.filter(({ status }) => status === 'succeeded').map(stepOf),
    remaining: left.filter(({ effect_id }) => effect_id !== effect.compensates_effect_id),
    drift: { drift: [], missing: [] },
  })
  return after.next === 'halt' ? after.event.payload : {}
}

/** The effect stays `executing` and a person is asked for its outcome. It is never repeated on a guess. */
function askOutcome(found: CommandWithEffects, seen: Seen, effect: StoredEffect, failure: AttemptFailure): Step {
  const { command } = found
  const { message: error, errorClass: error_class } = failure
  const { effect_type, attempt } = effect
  const task = taskOf(seen.catalog, command)
  const content = task
    ? contentOf(task, command.payload, [{ effect_type, payload: effect.effect_payload }])
    : { arguments: command.payload, effects: [], policy_version: 'none', command_version: 'none' }
  const changes: Change[] = [
    {
      t: 'effect',
      id: effect.domain_effect_id,
      by: workerActor,
      set: { error, error_class, run_after: null, read_back: { outcome: 'unknown', asked: true } },
    },
    emitEvent('effect_outcome_unknown', workerActor, { effect_type, attempt, error, error_class }, aboutEffect(effect)),
    ...(command.status === 'running' ? [move('blocked', workerActor, { reason: 'outcome_unknown' })] : []),
    releaseTurn(null),
  ]
  return { changes, next: { t: 'ask', what: 'outcome', requests: [reconcileAsk(command, effect, content, failure)] } }
}
