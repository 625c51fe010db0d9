/** Random plans of missions for the kills, and what their requests say. Some tasks pay, some are done by outside workers, some are checked, and the rest fails. */
import { triggerRules } from '#kernel/dag/readiness'
import type { Chance } from '#test/chance'
import type { ModelTask } from '#test/mission-model'

const WORKER_QUEUE = 'chaos'
const WORK = 'work'
const WORK_TWICE = 'work twice'
const PAY_FOR_REVIEW = 'pay for review'

const payments = ['Pay steadily', 'Pay', 'Pay after a break', 'Pay in vain'] as const
type Kind = (typeof payments)[number] | typeof WORK | typeof WORK_TWICE | typeof PAY_FOR_REVIEW

export type KillPlan = readonly (ModelTask & { readonly kind: Kind })[]

const kinds: readonly Kind[] = [
  'Pay steadily',
  'Pay steadily',
  'Pay',
  'Pay after a break',
  'Pay in vain',
  WORK,
  WORK_TWICE,
  PAY_FOR_REVIEW,
]

/** Nothing of it fails, and its last task leaves nothing that stands: a fork from there names nothing. */
const peaceful: readonly Kind[] = ['Pay steadily', 'Pay', 'Pay after a break', WORK]

export function aKillPlan(chance: Chance, tasksMax: number, isPeaceful: boolean): KillPlan {
  const count = 1 + chance.whole(tasksMax)
  return Array.from({ length: isPeaceful ? count + 1 : count }, (_, n) => {
    const isLast = isPeaceful && n === count
    const kind = isLast ? WORK : chance.pick(isPeaceful ? peaceful : kinds)
    const before = Array.from({ length: Math.min(n, chance.whole(4)) }, () => Math.max(0, n - 1 - chance.whole(12)))
    return {
      kind,
      isFailing: kind === 'Pay in vain',
      rule: isPeaceful
        ? ('all_success' as const)
        : chance.pick([...triggerRules, 'all_success' as const, 'all_done' as const]),
      upstream: [...new Set(isLast ? [n - 1] : before)],
    }
  })
}

/** The first output of a worker is refused, so that there is a second attempt for its quality. */
const SECOND = { schema: { properties: { attempt: { minimum: 2 } } } }
/** No payment has it. What was paid stands, so a person is asked instead of another attempt. */
const UNMET = { schema: { required: ['receipt'] } }

function runOf(kind: Kind, name: string) {
  const pay = (task: string) => ({ run: { task, payload: { note: name } } })
  if (kind === PAY_FOR_REVIEW) return { ...pay('Pay steadily'), verify: [UNMET] }
  if (kind !== WORK && kind !== WORK_TWICE) return pay(kind)
  return { run: { worker: WORKER_QUEUE, payload: {} }, ...(kind === WORK_TWICE && { verify: [SECOND] }) }
}

export const planBody = (tasks: KillPlan) => ({
  version: 1,
  strategy: 'mixed',
  estimated_cost: '0',
  tasks: tasks.map(({ kind, rule, upstream }, at) => ({
    temp_id: `t${at}`,
    title: `t${at}`,
    task_type: 'other',
    depends_on: upstream.map((to) => `t${to}`),
    trigger_rule: rule,
    max_cost: '0.01',
    ...runOf(kind, `t${at}`),
  })),
})

const hook = (note: string) => ({ task: 'Pay steadily', payload: { note } })

/** Every second mission has a limit, and every third one hooks that pay. */
export const configOf = (nth: number) => ({
  autonomy: 'full_auto',
  // A lost worker costs an attempt, and a story loses many.
  retry: { max_retries: 50, base_seconds: 0.1, cap_seconds: 1 },
  timeouts: { task_assign_seconds: 5, task_stall_seconds: 5, run_resolve_seconds: 2 },
  ...(nth % 2 === 0 && { budget: { hard_limit: '9000' } }),
  ...(nth % 3 === 0 && { hooks: { before_run: hook('before'), after_run: hook('after') } }),
})
