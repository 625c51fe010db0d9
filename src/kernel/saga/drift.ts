/** What an undo declared against what it did: both sides of the difference, as sets, and the audit row that tells of them. */
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

/** `more` says how far a chain came that halted; `missing` is there only when something is. */
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
