/** Which effect of a running command comes next, read from its plan and its rows alone. Pure. */
import type { CommandWithEffects, StoredEffect } from './command-table.ts'
import type { ExecutionPlan } from './plan.ts'

export type NextEffect =
  | { readonly t: 'begin'; readonly effect: StoredEffect }
  | { readonly t: 'again'; readonly effect: StoredEffect }
  | { readonly t: 'wait'; readonly effect: StoredEffect; readonly until: Date }
  | { readonly t: 'in_doubt'; readonly effect: StoredEffect }
  | { readonly t: 'failed'; readonly effect: StoredEffect }
  | { readonly t: 'finished'; readonly results: readonly unknown[] }
  /** Steps of the plan that have no effect on record, or none that can ever be reached: never an end. */
  | { readonly t: 'torn'; readonly steps: readonly string[] }

/** The effects of the plan in the order of its steps. */
function plannedEffects(plan: ExecutionPlan, effects: readonly StoredEffect[]): readonly StoredEffect[] {
  const byId = new Map(effects.map((effect) => [effect.domain_effect_id, effect]))
  return plan.steps.flatMap(({ metadata }) => byId.get(String(metadata['domain_effect_id'])) ?? [])
}

export function nextEffect({ command, effects }: CommandWithEffects, now: Date): NextEffect {
  if (!command.plan) return { t: 'torn', steps: ['the plan itself'] }
  const planned = plannedEffects(command.plan, effects)
  const stopped = planned.find(({ status }) => status === 'failed')
  if (stopped) return { t: 'failed', effect: stopped }
  const open = orderOf(command.plan, planned).find(({ status }) => status !== 'succeeded')
  if (open) return judgeOpen(open, now)
  const steps = unsettledSteps(command.plan, effects)
  return steps.length > 0 ? { t: 'torn', steps } : { t: 'finished', results: planned.map(({ result }) => result) }
}

/** The steps whose effect has not succeeded, or is not there at all. */
function unsettledSteps(plan: ExecutionPlan, effects: readonly StoredEffect[]): readonly string[] {
  const done = new Set(effects.filter(({ status }) => status === 'succeeded').map((effect) => effect.domain_effect_id))
  const withEffect = plan.steps.filter(({ metadata }) => metadata['domain_effect_id'] !== undefined)
  return withEffect
    .filter(({ metadata }) => !done.has(String(metadata['domain_effect_id'])))
    .map(({ step_id }) => step_id)
}

export function judgeOpen(effect: StoredEffect, now: Date): Exclude<NextEffect, { t: 'failed' | 'finished' | 'torn' }> {
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
