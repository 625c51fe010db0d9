/**
 * The money of a mission. Its hard limit is an account. What an attempt may cost is reserved there before the attempt starts, and settled with what it did cost.
 * An attempt that does not fit does not start: the mission is `budget_exceeded` until a person raises the limit.
 */
import { amountOf, closeAccount, openAccount, reserveCosts, settleCosts } from '#domains/budgets'
import type { JsonValue } from '#kernel/json-value'
import { formatMoney, type Money } from '#kernel/money'
import { accept, type Decision } from '#kernel/refusal'
import { type Db, statement, type Tx } from '#store'
import { listEndedAuxiliaries, settleAuxiliaryRows } from './auxiliary-rows.ts'
import { Batch } from './batch.ts'
import { COST_MAX, type MissionConfig } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { listHeldAttempts } from './mission-task.ts'
import { lockMission, setAccount, type StoredMission } from './mission.ts'
import { systemOf } from './plan-rows.ts'
import { type Found, write } from './turn.ts'
import { amountIn, type Aside, type Usage, usageIn, usageOf } from './usage.ts'

type Budgeted = Pick<MissionConfig, 'budget'>
type Settled = NonNullable<Awaited<ReturnType<typeof settleCosts>>>
type When = { readonly at: Date; readonly traceId: string }

/** $1 command. The account of the agent that asked for it, and whether it may cost nothing, something, or as much as it does (null). */
const findPayer = statement<{ readonly account_id: string | null; readonly may_spend: boolean | null }>(
  'missions.find_payer',
  `select r.budget_account_id as account_id, (c.context->'metadata'->>'max_cost')::numeric > 0 as may_spend
from concord.commands as c left join concord.agent_runs as r on r.agent_run_id = c.agent_run_id where c.command_id = $1::uuid`,
)

/**
 * In the transaction that inserts the mission. A mission that an agent asks for is carved out of the account of its run. One that is an attempt of another
 * mission may cost at most what that attempt may, like every account of a command.
 */
export async function openBudget(tx: Tx, run: StoredMission, { budget }: Budgeted): Promise<Decision<StoredMission>> {
  const [payer] = await tx.run(findPayer, [run.command_id])
  // What its commands may cost follows from that of its own command also without an account: nothing.
  if (budget?.hard_limit === undefined && payer?.may_spend !== true) return accept(run)
  const opened = await openAccount(tx, {
    accountId: run.id,
    workspaceId: run.workspace_id,
    commandId: run.command_id,
    parentId: payer?.account_id ?? null,
    limit: budget?.hard_limit === undefined ? COST_MAX : amountIn(budget.hard_limit),
    at: run.created_at,
  })
  return opened.ok ? accept(await setAccount(tx, run)) : opened
}

export const attemptCostKey = (taskId: string, attempt: number) => `${taskId}:${attempt}`

/**
 * Before commands are submitted: returns the keys that are paid for, in their order. All of a mission without a limit are. Where one does not fit, money that ended
 * tasks still hold is set free first.
 */
export async function reserveInMission(
  deps: MissionDeps,
  { run, origin, config }: Found,
  amounts: readonly { readonly key: string; readonly amount: Money }[],
): Promise<ReadonlySet<string>> {
  const { account_id: accountId, workspace_id: workspaceId } = run
  if (accountId === null) return new Set(amounts.map(({ key }) => key))
  const { db, now } = deps.commands
  const take = () => db.transaction((tx) => reserveCosts(tx, { accountId, workspaceId, amounts, at: now() }))
  const held = await take()
  if (held.size === amounts.length) return held
  await write(deps, run, (batch, at, tx) => settleHeld(tx, batch, config, { at, traceId: origin.context.trace_id }))
  return take()
}

/**
 * In the transaction that settles attempts, before their moves: the rows, the sums of the mission and the account. The mission stops if its cost is above its
 * limit: an attempt may report more than was reserved for it.
 */
export async function settleUsage(
  tx: Tx,
  batch: Batch,
  { budget }: Budgeted,
  usage: readonly (Usage | Aside)[],
  when: When,
): Promise<void> {
  const before = amountIn(batch.run.total_cost)
  for (const each of usage) batch.spend(each)
  const { id: run_id, total_cost, total_tokens, account_id: accountId, workspace_id: workspaceId } = batch.run
  const after = amountIn(total_cost)
  const noting = { by: systemOf(when.traceId), at: when.at }
  if (after > before) {
    const spent = usage.flatMap((each) =>
      'task' in each && each.cost > 0n ? [[each.task.id, batch.taskOf(each.task).cost]] : [],
    )
    const snapshot = { run_id, total_cost, total_tokens, by_task: Object.fromEntries(spent) }
    batch.note('cost_snapshot', { ...noting, payloads: { cost_snapshot: snapshot } })
  }
  const soft = budget?.soft_limit === undefined ? undefined : amountIn(budget.soft_limit)
  if (soft !== undefined && before <= soft && after > soft) {
    const percent_used = Number((after * 10_000n) / soft) / 100
    const warning = { current_cost: total_cost, soft_limit: formatMoney(soft), percent_used }
    batch.note('run_budget_warning', { ...noting, payloads: { run_budget_warning: warning } })
  }
  if (accountId === null) return
  const amounts = usage.map((each) => ({
    key: 'task' in each ? attemptCostKey(each.task.id, each.attempt) : each.key,
    amount: each.cost,
  }))
  const settled = await settleCosts(tx, systemOf(when.traceId), { accountId, workspaceId, amounts, at: when.at })
  if (settled && isOverdrawn(settled)) exceedBudget(batch, when)
}

/** The cost is above the limit. What is reserved for attempts that run may still be returned. */
const isOverdrawn = ({ spent_units, excess_units, limit_units }: Settled) =>
  amountOf(spent_units) + amountOf(excess_units) > amountOf(limit_units)

/** Nothing new starts. What runs may end, and is settled. */
export function exceedBudget(batch: Batch, when: When): void {
  const { state, total_cost: current_cost, budget } = batch.run
  if (state !== 'running' || !budget) return
  const exceeded = { current_cost, hard_limit: formatMoney(amountOf(budget.limit)) }
  batch.mission('budget_exceeded', {
    by: systemOf(when.traceId),
    at: when.at,
    payloads: { run_budget_exceeded: exceeded },
  })
}

/** Tasks that ended while their command ran: their reservations are free as soon as the command has ended. */
async function settleHeld(tx: Tx, batch: Batch, config: Budgeted, when: When): Promise<void> {
  const { account_id: accountId } = batch.run
  const held = accountId === null ? [] : await listHeldAttempts(tx, accountId)
  // Nobody reports the cost of a worker whose task was taken away. It counts as reserved.
  const usage = held.map(({ task, attempt, held: amount, spent }): Usage => {
    const isStarted = attempt === task.attempt_number && task.last_heartbeat_at !== null
    const isLost = task.spec.run.worker !== undefined && task.submission === null && isStarted
    return isLost ? { task, attempt, cost: amountOf(amount), tokens: 0 } : { ...usageOf(task, spent, null), attempt }
  })
  if (usage.length > 0) await settleUsage(tx, batch, config, usage, when)
}

/** Commands beside the attempts that one transaction settles. */
const BATCH = 256

/** In a transaction under the lock of the mission: planners, hooks and verifiers that have ended are counted, once. */
export async function countAuxiliaries(tx: Tx, batch: Batch, config: Budgeted, when: When): Promise<void> {
  const ended = await listEndedAuxiliaries(tx, batch.run.id, BATCH)
  if (ended.length === 0) return
  const usage = ended.map(({ key, spent, result }) => ({ key, ...usageIn(spent, (result ?? null) as JsonValue) }))
  await settleUsage(tx, batch, config, usage, when)
  await settleAuxiliaryRows(tx, usage, when.at)
}

/** After the last command of a mission: all is counted, and what is left returns to the account that it was carved out of. */
export async function closeBudget(db: Db, run: StoredMission, when: When): Promise<StoredMission> {
  const { account_id: accountId, workspace_id: workspaceId } = run
  return db.transaction(async (tx) => {
    const batch = new Batch((await lockMission(tx, run.id)) ?? run)
    await countAuxiliaries(tx, batch, {}, when)
    await settleHeld(tx, batch, {}, when)
    await batch.commit(tx)
    if (accountId !== null) await closeAccount(tx, { accountId, workspaceId, at: when.at })
    return batch.run
  })
}
