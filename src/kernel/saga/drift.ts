/** What an undo declared against what it did: both sides of the difference, as sets. */
import type { CompensationDriftEvent } from './compensation.ts'
import type { Facts } from './core.ts'

export type Drift = {
  /** Emitted and not declared, sorted. */
  readonly drift: readonly string[]
  /** Declared and not emitted, sorted. */
  readonly missing: readonly string[]
}

export function decideDrift(declared: readonly string[], emitted: readonly string[]): Drift {
  const [expected, actual] = [new Set(declared), new Set(emitted)]
  return {
    drift: [...actual.difference(expected)].toSorted(),
    missing: [...expected.difference(actual)].toSorted(),
  }
}

export function hasDrift({ drift, missing }: Drift): boolean {
  return drift.length > 0 || missing.length > 0
}

/** The audit row of a drift; `more` says how far a chain came that halted. */
export function compensationDrift(
  effectId: string,
  { drift, missing }: Drift,
  more: Facts = {},
): CompensationDriftEvent {
  return {
    event_type: 'compensation_drift',
    purpose: 'audit',
    payload: { effect_id: effectId, drift, ...(missing.length === 0 ? {} : { missing }), ...more },
  }
}
