/** The reverse walk: which effects of a command are undone, in which order, and what happens when an undo fails. */
import type { RetryDecision } from '../retry.ts'
import { type CompensationDriftEvent, compensationDrift, type Drift } from './drift.ts'

export const effectStatuses = ['planned', 'executing', 'succeeded', 'failed'] as const
export type EffectStatus = (typeof effectStatuses)[number]

/** One row of `domain_effects`, as far as undoing it is concerned. */
export type EffectRecord = {
  readonly domain_effect_id: string
  /** The place in the plan: two effects of one transaction have the same time. */
  readonly declaration_order: number
  readonly status: EffectStatus
  readonly declared_compensation: string | null
  /** Set on the row of an undo: the effect it undoes. */
  readonly compensates_effect_id: string | null
}

export type UndoStep = {
  readonly effect_id: string
  readonly compensation: string
  /** The row of an undo that was begun and not ended, to be looked into before it is repeated; null: a new row. */
  readonly begun_as: string | null
}

export type CompensationPlan = {
  /** Last declared first. */
  readonly steps: readonly UndoStep[]
  /** Effects whose outcome is not known: each is looked up and settled before the plan is made again. */
  readonly unsettled: readonly string[]
}

/**
 * All rows of a command go in, in any order. Undone are its own effects that succeeded and declare a compensation, unless a
 * row says that the undo has succeeded; so the same call after a crash plans exactly what is left. Undo rows are not undone.
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
  /** What the retry settings of `compensation` say about this failure. */
  readonly retry: RetryDecision
  readonly failed: UndoStep
  /** The undo steps that have succeeded so far, and those that were to come after the failed one. */
  readonly completed: readonly UndoStep[]
  readonly remaining: readonly UndoStep[]
  /** What the failed step had declared against what it did before it failed. */
  readonly drift: Drift
}

export type AfterUndoFailure =
  | { readonly next: 'retry'; readonly delayMs: number; readonly nextAttempt: number }
  /** Nothing further is undone: a later undo could rest on the one that failed. */
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
