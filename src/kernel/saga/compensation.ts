/**
 * Plans a compensation: which effects of a command are compensated, in which order, and what happens when a compensation fails.
 */
import type { RetryDecision } from '../retry.ts'

// The immutable result of a pure core function: what happened, which effects to execute, and what was wrong.

type Facts = Readonly<Record<string, unknown>>

export type CoreEvent = { readonly event_type: string; readonly payload: Facts }

export type CoreEffect = {
  readonly effect_type: string
  readonly payload: Facts
  /** Passed to external systems that accept one; distinct from the key of the command. */
  readonly idempotency_key: string | null
  /** The name of its compensation. */
  readonly declared_compensation: string | null
  /** True when it only undoes an earlier effect and is not new work. */
  readonly counter_effects: boolean
}

export type CoreResult = {
  readonly status: string
  readonly events: readonly CoreEvent[]
  readonly effects: readonly CoreEffect[]
  readonly errors: readonly string[]
  readonly metadata: Facts
}

export function coreEvent(event: CoreEvent): CoreEvent {
  return frozenCopy({ event_type: event.event_type, payload: event.payload })
}

export function coreEffect(effect: Pick<CoreEffect, 'effect_type' | 'payload'> & Partial<CoreEffect>): CoreEffect {
  return frozenCopy({
    effect_type: effect.effect_type,
    payload: effect.payload,
    idempotency_key: effect.idempotency_key ?? null,
    declared_compensation: effect.declared_compensation ?? null,
    counter_effects: effect.counter_effects ?? false,
  })
}

export function coreResult(result: Pick<CoreResult, 'status'> & Partial<CoreResult>): CoreResult {
  return frozenCopy({
    status: result.status,
    events: result.events ?? [],
    effects: result.effects ?? [],
    errors: result.errors ?? [],
    metadata: result.metadata ?? {},
  })
}

/** Copies before freezing, since freezing a caller's objects would change the input. */
export function frozenCopy<T>(value: T): T {
  // The copy has the shape of the original; the compiler cannot infer that.
  return freeze(value) as T
}

function freeze(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return Object.freeze(value.map(freeze))
  if (Object.getPrototypeOf(value) !== Object.prototype && Object.getPrototypeOf(value) !== null) return value
  return Object.freeze(Object.fromEntries(Object.entries(value).map(([key, part]) => [key, freeze(part)])))
}

export type Drift = {
  /** Emitted and not declared, sorted. */
  readonly drift: readonly string[]
  /** Declared and not emitted, sorted. */
  readonly missing: readonly string[]
}

/** Compares the effects that a compensation declared with those it had. */
export function decideDrift(declared: readonly string[], emitted: readonly string[]): Drift {
  return { drift: without(emitted, declared), missing: without(declared, emitted) }
}

export function hasDrift({ drift, missing }: Drift): boolean {
  return drift.length > 0 || missing.length > 0
}

export type CompensationDriftEvent = CoreEvent & {
  readonly event_type: 'compensation_drift'
  readonly purpose: 'audit'
}

/** `more` records how far a halted chain got; `missing` is present only when it is not empty. */
export function compensationDrift(
  effectId: string,
  { drift, missing }: Drift,
  more: CoreEvent['payload'] = {},
): CompensationDriftEvent {
  return {
    event_type: 'compensation_drift',
    purpose: 'audit',
    payload: { effect_id: effectId, drift, ...(missing.length === 0 ? {} : { missing }), ...more },
  }
}

function without(names: readonly string[], others: readonly string[]): readonly string[] {
  const left = new Set(names)
  for (const name of others) left.delete(name)
  return [...left].toSorted()
}

export const effectStatuses = ['planned', 'executing', 'succeeded', 'failed'] as const
export type EffectStatus = (typeof effectStatuses)[number]

/** The columns of `domain_effects` that matter for a compensation. */
export type EffectRecord = {
  readonly domain_effect_id: string
  /** The position in the plan: two effects of one transaction have the same time. */
  readonly declaration_order: number
  readonly status: EffectStatus
  readonly declared_compensation: string | null
  /** Set on the row of a compensation: the effect that it undoes. */
  readonly compensates_effect_id: string | null
}

export type UndoStep = {
  readonly effect_id: string
  readonly compensation: string
  /** The row of a compensation that began and did not end, to be checked before it is repeated; null for a new row. */
  readonly begun_as: string | null
}

export type CompensationPlan = {
  /** Last declared first. */
  readonly steps: readonly UndoStep[]
  /** Effects with an unknown outcome: each is looked up and settled before the plan is made again. */
  readonly unsettled: readonly string[]
}

/**
 * Takes all rows of a command, in any order. Compensates the command's own effects that succeeded and declare a compensation,
 * unless a row records that the compensation succeeded. The same call after a crash therefore plans exactly the rest.
 * Compensation rows are not compensated.
 */
export function planCompensation(effects: readonly EffectRecord[]): CompensationPlan {
  const undos = new Map<string, EffectRecord[]>()
  for (const undo of effects) {
    const of = undo.compensates_effect_id
    if (of !== null) undos.set(of, [...(undos.get(of) ?? []), undo])
  }
  const own = effects
    .filter((effect) => effect.compensates_effect_id === null)
    .toSorted((a, b) => b.declaration_order - a.declaration_order || (a.domain_effect_id < b.domain_effect_id ? 1 : -1))
  const steps = own.flatMap(({ domain_effect_id: id, status, declared_compensation: compensation }) => {
    if (status !== 'succeeded' || compensation === null) return []
    const rows = undos.get(id) ?? []
    if (rows.some((row) => row.status === 'succeeded')) return []
    const begun = rows.find((row) => row.status === 'planned' || row.status === 'executing')
    return [{ effect_id: id, compensation, begun_as: begun?.domain_effect_id ?? null }]
  })
  const unsettled = own.filter(({ status }) => status === 'executing').map((effect) => effect.domain_effect_id)
  return { steps, unsettled }
}

export type UndoFailure = {
  /** The decision of the retry settings of `compensation` about this failure. */
  readonly retry: RetryDecision
  readonly failed: UndoStep
  /** The compensation steps that have succeeded so far, and those that follow the failed one. */
  readonly completed: readonly UndoStep[]
  readonly remaining: readonly UndoStep[]
  /** Compares the failed step's declared effects with the effects it had before it failed. */
  readonly drift: Drift
}

export type AfterUndoFailure =
  | { readonly next: 'retry'; readonly delayMs: number; readonly nextAttempt: number }
  /** Stops: a later compensation could depend on the one that failed. */
  | { readonly next: 'halt'; readonly commandStatus: 'failed'; readonly event: CompensationDriftEvent }

export function decideAfterUndoFailure(failure: UndoFailure): AfterUndoFailure {
  const { retry, failed, completed, remaining, drift } = failure
  if (retry.retry) return { next: 'retry', delayMs: retry.delayMs, nextAttempt: retry.nextAttempt }
  const event = compensationDrift(failed.effect_id, drift, {
    halted: retry.why,
    completed: completed.map((step) => step.effect_id),
    remaining: remaining.map((step) => step.effect_id),
  })
  return { next: 'halt', commandStatus: 'failed', event }
}
