/** A person raises the hard limit of a mission. One that stands above its budget goes on. */
import { amountOf, raiseLimit } from '#domains/budgets'
import { formatMoney, type Money, parseMoney } from '#kernel/money'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Acting, actOn, type MissionPerson, type OfMission } from './act-on-mission.ts'
import { COST_MAX } from './config.ts'
import { toMissionView } from './contract.ts'
import type { MissionDeps } from './deps.ts'
import { findMission, setHardLimit, type StoredMission } from './mission.ts'

/** The new limit, its place in the settings, the event and the move are one transaction. The next turn continues where the mission stopped. */
export async function raiseMissionBudget(
  deps: MissionDeps,
  person: MissionPerson,
  { hardLimit, ...asked }: OfMission & { readonly hardLimit: string },
): Promise<Decision<StoredMission>> {
  const limit = parseMoney(hardLimit)
  if (!limit.ok || limit.value > COST_MAX)
    return refuse('missions.budget.invalid', 'The limit is no amount from 0 to 9999.999999.', { path: 'hard_limit' })
  const raised = await actOn(deps, person, asked, (acting) => raise(acting, person, limit.value))
  if (!raised.ok) return raised
  return accept((await findMission(deps.commands.db, asked.workspaceId, asked.missionId)) ?? raised.value)
}

const RAISED_IN: readonly StoredMission['state'][] = ['running', 'paused', 'budget_exceeded']

async function raise(
  { batch, at, by, tx }: Acting,
  person: MissionPerson,
  limit: Money,
): Promise<Decision<StoredMission>> {
  const { run } = batch
  const { account_id: accountId, workspace_id: workspaceId, budget, id } = run
  const facts = { mission: toMissionView(run) }
  if (accountId === null || !budget || !RAISED_IN.includes(run.state)) {
    const why = budget ? `The mission is ${run.state}.` : 'The mission has no hard limit.'
    return refuse('missions.budget.fixed', why, { facts })
  }
  const [old, cost] = [amountOf(budget.limit), amountOf(budget.spent)]
  if (limit <= cost || limit <= old) {
    const [noun, bound] = limit <= cost ? ['cost', cost] : ['limit', old]
    const why = `The new limit is at or below the current ${noun} of ${formatMoney(bound)}.`
    return refuse('missions.budget.too_low', why, { path: 'hard_limit', facts })
  }
  // A limit only rises, so each raise has its own key.
  const key = `mission:${formatMoney(limit)}`
  const more = { workspaceId, accountId, key, amount: (limit - old) as Money, at }
  const raised = await raiseLimit(tx, person, more)
  if (!raised.ok) return raised
  await setHardLimit(tx, id, formatMoney(limit))
  const increased = { old_limit: formatMoney(old), new_limit: formatMoney(limit), increased_by: by.id }
  const moving = { by, at, payloads: { run_budget_increased: increased } }
  if (run.state === 'budget_exceeded') batch.mission('running', moving)
  else batch.note('run_budget_increased', moving)
  return accept(batch.run)
}
