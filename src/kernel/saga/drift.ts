/** Compares the effects that a compensation declared with those it had: both differences, as sets, and the audit row that records them. */
import type { CoreEvent } from './core.ts'

export type Drift = {
  /** Emitted and not declared, sorted. */
  readonly drift: readonly string[]
  /** Declared and not emitted, sorted. */
  readonly missing: readonly string[]
}

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

/** `more` records how far a halted chain came; `missing` is present only when it is not empty. */
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
