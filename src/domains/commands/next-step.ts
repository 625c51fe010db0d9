/** Which effect of a running command comes next, read from its plan and its rows alone. Pure. */
import type { CommandCase, StoredEffect } from './command-row.ts'
import type { ExecutionPlan } from './plan.ts'

export type NextStep =
  | { readonly t: 'begin'; readonly effect: StoredEffect }
  | { readonly t: 'again'; readonly effect: StoredEffect }
  | { readonly t: 'wait'; readonly effect: StoredEffect; readonly until: Date }
  | { readonly t: 'in_doubt'; readonly effect: StoredEffect }
  | { readonly t: 'failed'; readonly effect: StoredEffect }
  | { readonly t: 'finished'; readonly results: readonly unknown[] }

/** The effects of the plan in the order of its steps. */
export function plannedEffects(plan: ExecutionPlan, effects: readonly StoredEffect[]): readonly StoredEffect[] {
  const byId = new Map(effects.map((effect) => [effect.domain_effect_id, effect]))
  return plan.steps.flatMap(({ metadata }) => byId.get(String(metadata['domain_effect_id'])) ?? [])
}

export function nextStep({ command, effects }: CommandCase, now: Date): NextStep {
  const planned = command.plan ? plannedEffects(command.plan, effects) : []
  const stopped = planned.find(({ status }) => status === 'failed')
  if (stopped) return { t: 'failed', effect: stopped }
  const open = orderOf(command.plan, planned).find(({ status }) => status !== 'succeeded')
  if (!open) return { t: 'finished', results: planned.map(({ result }) => result) }
  return judgeOpen(open, now)
}

export function judgeOpen(effect: StoredEffect, now: Date): Exclude<NextStep, { t: 'failed' | 'finished' }> {
  if (effect.status === 'planned') return { t: 'begin', effect }
  if (effect.run_after === null) return { t: 'in_doubt', effect }
  return effect.run_after > now ? { t: 'wait', effect, until: effect.run_after } : { t: 'again', effect }
}

/** One that is under way goes before one that is not; otherwise the first whose predecessors have succeeded. */
function orderOf(plan: ExecutionPlan | null, planned: readonly StoredEffect[]): readonly StoredEffect[] {
  const done = new Set(planned.filter(({ status }) => status === 'succeeded').map((effect) => effect.domain_effect_id))
  const idOfStep = new Map((plan?.steps ?? []).map((step) => [step.step_id, step.metadata['domain_effect_id']]))
  const isReady = (effect: StoredEffect) => {
    const step = plan?.steps.find(({ metadata }) => metadata['domain_effect_id'] === effect.domain_effect_id)
    return (step?.depends_on ?? []).every((id) => idOfStep.get(id) === undefined || done.has(String(idOfStep.get(id))))
  }
  const executing = planned.filter(({ status }) => status === 'executing')
  return [
    ...executing,
    ...planned.filter((effect) => effect.status !== 'executing' && (effect.status === 'succeeded' || isReady(effect))),
  ]
}
