/** Plans the reverse walk: which effects of a command are compensated, in which order, and what happens when a compensation fails. */
import type { RetryDecision } from '../retry.ts'
import { type CompensationDriftEvent, compensationDrift, type Drift } from './drift.ts'

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
 * Takes all rows of a command, in any order. Compensates the command's own effects that succeeded and declare a compensation, unless a
 * row records that the compensation succeeded. The same call after a crash therefore plans exactly the rest. Compensation rows are not
 * compensated.
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
  /** The failed step's declared effects against the effects it had before it failed. */
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
