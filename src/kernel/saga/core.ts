/** The immutable result of a pure core function: what happened, which effects to execute, and what was wrong. */

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
