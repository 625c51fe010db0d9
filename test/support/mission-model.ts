/** A naive model of missions: how every task and the mission itself end, from the plan alone. */
import type { TriggerRule } from '../../src/kernel/dag/readiness.ts'

export type ModelTask = {
  readonly rule: TriggerRule
  readonly isFailing: boolean
  /** The places of the tasks that it depends on, all before its own. */
  readonly upstream: readonly number[]
}

/** In the order of the plan every upstream is known, because edges lead backwards. */
export function endsOf(plan: readonly ModelTask[]): readonly string[] {
  const ends: string[] = []
  for (const { rule, isFailing, upstream } of plan) {
    const before = upstream.map((at) => ends[at])
    const mayRun =
      rule === 'always' ||
      rule === 'all_done' ||
      (rule === 'all_success' ? before.every((end) => end === 'completed') : !before.includes('failed'))
    ends.push(!mayRun ? 'skipped' : isFailing ? 'failed' : 'completed')
  }
  return ends
}

/** A mission completes when each of its last tasks does. A task that runs always is none of them. */
export function missionEndOf(plan: readonly ModelTask[], ends: readonly string[]): 'completed' | 'failed' {
  const needed = new Set(plan.flatMap(({ rule, upstream }) => (rule === 'always' ? [] : upstream)))
  const isFine = plan.every(({ rule }, at) => rule === 'always' || needed.has(at) || ends[at] === 'completed')
  return isFine ? 'completed' : 'failed'
}
