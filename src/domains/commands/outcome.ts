/** What follows from an attempt at an effect, by what can be known about it: done, again later, failed, a look-up, or a question for a person. Pure. */
import type { Random } from '#kernel/clock'
import { KernelFault } from '#kernel/errors'
import type { CommandState } from '#kernel/machines/command'
import { boundedWait, decideRetry, type RetrySettings } from '#kernel/retry'
import {
  compensationDrift,
  decideAfterUndoFailure,
  decideDrift,
  hasDrift,
  planCompensation,
} from '#kernel/saga/compensation'
import { isUuid } from '#kernel/ids'
import { aboutEffect, byWorker, type Change, move, release, set, tell } from './change.ts'
import { reconcileAsk } from './asks.ts'
import type { Awaits, EffectClass } from './catalog/effect-definition.ts'
import type { CommandWithEffects, StoredEffect } from './command-table.ts'
import { type EffectHandler, findHandler, readBackOf } from './effect-handler.ts'
import { again, type AttemptFailure, type CallOutcome, type LookUp, rest, type Seen, type Step } from './step.ts'
import { contentOf, taskOf } from './tasks.ts'

export type AfterAttempt =
  | { readonly t: 'retry'; readonly delayMs: number }
  /** Known not to have happened. */
  | { readonly t: 'fail' }
  /** Look it up before anything else is decided. */
  | { readonly t: 'look_up' }
  | { readonly t: 'ask_person' }

export function decideAfterFailure(
  effectClass: EffectClass,
  settings: RetrySettings,
  { errorClass, happened, retryAfterMs }: AttemptFailure,
  { attempt, random }: { readonly attempt: number; readonly random: Random },
): AfterAttempt {
  const retry = decideRetry(settings, { attempt, errorClass, random, askedToWaitMs: retryAfterMs })
  if (happened === 'no' || effectClass === 'read')
    return retry.retry ? { t: 'retry', delayMs: retry.delayMs } : { t: 'fail' }
  switch (effectClass) {
    case 'keyed':
      // The provider knows our key: the same call again does nothing twice, and tells what became of the first.
      return retry.retry ? { t: 'retry', delayMs: retry.delayMs } : { t: 'ask_person' }
    case 'queryable':
      return { t: 'look_up' }
    case 'opaque':
      return { t: 'ask_person' }
  }
}

export type InDoubt = 'repeat' | 'look_up' | 'fail' | 'ask_person'

/** An effect found `executing` that nobody is executing: its driver ended between the call and the record. */
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

/** A provider that cannot be asked right now is asked again after this. */
const LOOK_AGAIN_MS = 30_000
/** The end of a process wakes the command; this is for the wake that was lost with its worker. */
const PROCESS_AGAIN_MS = 60_000

/** An attempt begins only if the command is still in the state that allows it; the statement that begins it checks that. */
export function beginEffect(
  { command }: CommandWithEffects,
  { turn }: Seen,
  effect: StoredEffect,
  requires: CommandState,
): Step {
  // Found executing with no retry due: an earlier attempt may have done it, and stays in doubt until the provider can tell.
  const isCut = effect.status === 'executing' && effect.run_after === null
  const attempt = effect.attempt + 1
  const change: Change = {
    t: 'effect',
    id: effect.domain_effect_id,
    ...(effect.status === 'planned' ? { to: 'executing' as const } : {}),
    by: byWorker,
    set: {
      ...(isCut ? { read_back: { outcome: 'unknown' } } : {}),
      attempt,
      run_after: null,
      turn_token: turn?.token ?? null,
      executed_by_runtime_workflow_id: turn && (command.runtime_workflow_id ?? turn.name),
    },
    payload: { attempt, max_attempts: effect.max_attempts, idempotency_key: effect.idempotency_key },
    requires,
  }
  return { changes: [change], next: { t: 'call', effectId: effect.domain_effect_id } }
}

/** An effect is executing and this turn does not execute it: what became of it is found out first. */
export function settleDoubt(found: CommandWithEffects, seen: Seen, effect: StoredEffect): Step {
  const handler = findHandler(seen.catalog, found, effect)
  if (!handler) return askOutcome(found, seen, effect, unhandled(effect))
  const cause = {
    errorClass: 'internal_error' as const,
    message: 'the driver ended during the call',
    happened: 'unknown' as const,
  }
  if (readBackOf(effect).process) return lookUp(found, seen, effect, handler, { why: 'process', cause })
  switch (decideInDoubt(handler.class, effect.attempt, effect.max_attempts)) {
    case 'repeat':
      // In whatever state the command is: this effect had begun, and its outcome must be known.
      return beginEffect(found, seen, effect, found.command.status)
    case 'look_up':
      return lookUp(found, seen, effect, handler, {
        why: 'cut',
        cause: { ...cause, errorClass: 'transient_connector_error' },
      })
    case 'fail':
      return { changes: failEffect(found, effect, cause, []), next: afterFailed(found, effect) }
    case 'ask_person':
      return askOutcome(found, seen, effect, cause)
  }
}

/** The first step after a call or a look-up: its outcome is recorded before anything else is decided. */
export function recordOutcome(found: CommandWithEffects, seen: Seen, outcome: CallOutcome, at: Date): Step {
  const effect = found.effects.find(({ domain_effect_id }) => domain_effect_id === outcome.effectId)
  if (effect?.status !== 'executing') return { changes: [], next: again }
  const handler = findHandler(seen.catalog, found, effect)
  if (!handler) return askOutcome(found, seen, effect, unhandled(effect))
  const { result, lookUp: asked } = outcome
  // A turn that lost the row in between: only what is known to have happened still counts, since a failure or a wait of an earlier attempt
  // would overwrite the state of the current one.
  const isStale = effect.attempt !== outcome.attempt || effect.run_after !== null
  if (isStale && result.t !== 'done' && result.t !== 'found') return { changes: [], next: again }
  switch (result.t) {
    case 'done':
      return recordDone(effect, handler, result.result, result.emitted, undefined)
    case 'found':
      return recordDone(effect, handler, result.result, handler.produces, { outcome: 'done', result: result.result })
    case 'pending':
      if ('process' in result.awaits && !handler.find)
        throw new KernelFault('commands.effect.pending', 'an effect that waits for a process needs `find`')
      return asked?.why === 'process' ? awaitProcess(at) : recordPending(found, effect, result.awaits)
    case 'missing':
      return afterMissing(found, seen, effect, handler, asked, at)
    case 'failed':
      return asked
        ? afterSilence(found, seen, effect, handler, asked, result.failure, at)
        : afterFailure(found, seen, effect, handler, result.failure, result.emitted, at)
  }
}

function recordDone(
  effect: StoredEffect,
  handler: EffectHandler,
  result: unknown,
  emitted: readonly string[],
  readBack: unknown,
): Step {
  const { attempt, max_attempts, idempotency_key } = effect
  const done: Change = {
    t: 'effect',
    id: effect.domain_effect_id,
    to: 'succeeded',
    by: byWorker,
    set: {
      result,
      error: null,
      error_class: null,
      run_after: null,
      ...(readBack === undefined ? {} : { read_back: readBack }),
    },
    payload: { attempt, max_attempts, idempotency_key, result },
  }
  const drift = handler.isUndo ? decideDrift(handler.produces, emitted) : undefined
  if (!drift || !hasDrift(drift)) return { changes: [done], next: again }
  const told = compensationDrift(effect.compensates_effect_id ?? effect.domain_effect_id, drift)
  return { changes: [done, tell('compensation_drift', byWorker, told.payload)], next: again }
}

/** The wait for a command is a dependency like any other: the end of the awaited command marks and wakes this one. */
function recordPending({ command }: CommandWithEffects, effect: StoredEffect, awaits: Awaits): Step {
  const wait = (read_back: object): Change => ({
    t: 'effect',
    id: effect.domain_effect_id,
    by: byWorker,
    set: { read_back },
  })
  if ('process' in awaits) return { changes: [wait({ outcome: 'waiting', process: awaits.process })], next: again }
  const { commandId, wanted } = awaits
  if (!isUuid(commandId))
    throw new KernelFault('commands.effect.pending', 'an effect waits for something that is no command')
  const waits = wait({ outcome: 'waiting', command_id: commandId, ...(wanted === 'succeeded' ? {} : { wanted }) })
  const blocked = move('blocked', byWorker, { reason: 'child_command', child_command_id: commandId })
  const changes = command.status === 'running' ? [waits, blocked] : [waits]
  return { changes, next: { t: 'follow', commandId } }
}

function awaitProcess(at: Date): Step {
  return rest(new Date(at.getTime() + PROCESS_AGAIN_MS))
}

function afterFailure(
  found: CommandWithEffects,
  seen: Seen,
  effect: StoredEffect,
  handler: EffectHandler,
  told: AttemptFailure,
  emitted: readonly string[],
  at: Date,
  isSettled = false,
): Step {
  // "Not done" is said about this attempt; one before it that was cut may have done it all the same.
  const isDoubtful = !isSettled && readBackOf(effect).outcome === 'unknown'
  const failure = isDoubtful ? { ...told, happened: 'unknown' as const } : told
  const { attempt } = effect
  const next = decideAfterFailure(handler.class, handler.retry, failure, { attempt, random: seen.random })
  switch (next.t) {
    case 'look_up':
      return lookUp(found, seen, effect, handler, { why: 'failed', cause: failure })
    case 'ask_person':
      return askOutcome(found, seen, effect, failure)
    case 'fail':
      return { changes: failEffect(found, effect, failure, emitted), next: afterFailed(found, effect) }
    case 'retry':
      return retryLater(effect, failure, new Date(at.getTime() + next.delayMs))
  }
}

/** The provider does not know the effect. */
function afterMissing(
  found: CommandWithEffects,
  seen: Seen,
  effect: StoredEffect,
  handler: EffectHandler,
  asked: LookUp | undefined,
  at: Date,
): Step {
  if (!asked || asked.why === 'process') return awaitProcess(at)
  const { status } = found.command
  const missing = { ...asked.cause, happened: 'no' as const }
  if (status !== (handler.isUndo ? 'compensating' : 'running'))
    return { changes: failEffect(found, effect, missing, []), next: afterFailed(found, effect) }
  // Its driver died and nothing was done: there is no provider to be patient with.
  if (asked.why === 'cut' && effect.attempt < effect.max_attempts) return beginEffect(found, seen, effect, status)
  return afterFailure(found, seen, effect, handler, missing, [], at, true)
}

/** The provider could not be asked. No answer is no knowledge: it is asked again later, or a person is. */
function afterSilence(
  found: CommandWithEffects,
  seen: Seen,
  effect: StoredEffect,
  handler: EffectHandler,
  { why }: LookUp,
  failure: AttemptFailure,
  at: Date,
): Step {
  if (why === 'process') {
    if (failure.happened === 'unknown') return awaitProcess(at)
    return { changes: failEffect(found, effect, failure, []), next: afterFailed(found, effect) }
  }
  if (effect.attempt >= effect.max_attempts) return askOutcome(found, seen, effect, failure)
  const delayMs = Math.max(LOOK_AGAIN_MS, boundedWait(handler.retry.backoff, failure.retryAfterMs))
  return retryLater(effect, { ...failure, happened: 'unknown' }, new Date(at.getTime() + delayMs))
}

function lookUp(
  found: CommandWithEffects,
  seen: Seen,
  effect: StoredEffect,
  handler: EffectHandler,
  asked: LookUp,
): Step {
  if (!handler.find) return askOutcome(found, seen, effect, asked.cause)
  return { changes: [], next: { t: 'look_up', effectId: effect.domain_effect_id, lookUp: asked } }
}

function unhandled({ effect_type }: StoredEffect): AttemptFailure {
  return { errorClass: 'internal_error', message: `nothing here carries out ${effect_type}`, happened: 'unknown' }
}

function retryLater(effect: StoredEffect, failure: AttemptFailure, until: Date): Step {
  const { message: error, errorClass: error_class, happened } = failure
  const read_back = { outcome: happened === 'no' ? 'not_done' : 'unknown' }
  return rest(
    until,
    {
      t: 'effect',
      id: effect.domain_effect_id,
      by: byWorker,
      set: { error, error_class, run_after: until, read_back },
    },
    tell('retry_scheduled', byWorker, attemptOf(effect, failure, until), aboutEffect(effect)),
  )
}

/** What travels with every failed attempt, and how long the provider asked to wait. */
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

/** The effect is known not to have happened. A failed undo ends the walk back in the same commit. */
export function failEffect(
  found: CommandWithEffects,
  effect: StoredEffect,
  failure: AttemptFailure,
  emitted: readonly string[],
): readonly Change[] {
  const { message: error, errorClass: error_class } = failure
  const failed: Change = {
    t: 'effect',
    id: effect.domain_effect_id,
    to: 'failed',
    by: byWorker,
    set: { error, error_class, run_after: null },
    payload: { ...attemptOf(effect, failure, null), emitted },
  }
  return isHalt(found, effect) ? [failed, ...haltCompensation(found, effect, failure)] : [failed]
}

export function afterFailed(found: CommandWithEffects, effect: StoredEffect): Step['next'] {
  return isHalt(found, effect) ? { t: 'end' } : again
}

function isHalt({ command }: CommandWithEffects, { compensates_effect_id }: StoredEffect): boolean {
  return command.status === 'compensating' && compensates_effect_id !== null
}

/** Nothing further is undone, and the drift event says how far the walk back came. */
function haltCompensation(
  { effects }: CommandWithEffects,
  effect: StoredEffect,
  failure: AttemptFailure,
): readonly Change[] {
  const { steps } = planCompensation(effects)
  const failed = steps.find(({ effect_id }) => effect_id === effect.compensates_effect_id)
  const undone = effects.filter((each) => each.compensates_effect_id !== null && each.status === 'succeeded')
  const completed = undone.map((each) => ({
    effect_id: each.compensates_effect_id ?? '',
    compensation: each.effect_type,
    begun_as: null,
  }))
  const after =
    failed &&
    decideAfterUndoFailure({
      retry: { retry: false, why: effect.attempt >= effect.max_attempts ? 'exhausted' : 'not_retryable' },
      failed,
      completed,
      remaining: steps.filter((step) => step !== failed),
      drift: { drift: [], missing: [] },
    })
  const halted = after?.next === 'halt' ? after.event.payload : {}
  const why = { error: `undoing failed: ${failure.message}`, error_class: failure.errorClass }
  return [set(why), move('failed', byWorker, why, { compensation_drift: halted }), release(null)]
}

/** The effect stays `executing` and a person is asked what became of it; it is never repeated on a guess. */
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
      by: byWorker,
      set: { error, error_class, run_after: null, read_back: { outcome: 'unknown', asked: true } },
    },
    tell('effect_outcome_unknown', byWorker, { effect_type, attempt, error, error_class }, aboutEffect(effect)),
    ...(command.status === 'running' ? [move('blocked', byWorker, { reason: 'outcome_unknown' })] : []),
    release(null),
  ]
  return { changes, next: { t: 'ask', what: 'outcome', requests: [reconcileAsk(command, effect, content, failure)] } }
}
