/**
 * The account that pays for a run. A run with a limit has its own, with the id of the run, carved out of that of its parent or swarm. A run without
 * one shares the account of its parent or swarm. A run that stands alone has its own in any case.
 */
import { closeAccount, openAccount, releaseCost, settleOpenCosts } from '#domains/budgets'
import { bySystem } from '#kernel/actor'
import { maxMoney, moneyFromNumber } from '#kernel/money'
import { accept, type Decision } from '#kernel/refusal'
import type { Sql } from '#store'
import type { StoredAgentRun } from './agent-run.ts'
import { lastTurnKey, modelKeyOf } from './models/ask-model.ts'

type NewAccount = {
  readonly runId: string
  readonly workspaceId: string
  readonly commandId: string
  /** The account of its parent or swarm. */
  readonly parentId: string | null
  readonly maxCostUnits: number | null
  readonly at: Date
}

/** In the transaction that inserts the run, or the swarm. Returns the id of the account; a parent that cannot pay for the limit refuses. */
export async function openRunAccount(
  tx: Sql,
  { runId: accountId, workspaceId, commandId, parentId, maxCostUnits, at }: NewAccount,
): Promise<Decision<string>> {
  if (maxCostUnits === null && parentId !== null) return accept(parentId)
  const limit = maxCostUnits === null ? accept(maxMoney) : moneyFromNumber(maxCostUnits)
  if (!limit.ok) return limit
  const opened = await openAccount(tx, { accountId, workspaceId, commandId, parentId, limit: limit.value, at })
  return opened.ok ? accept(accountId) : opened
}

/**
 * In the transaction that ends the run. What was set aside is free again; calls that the run lost count as they were reserved. While the account of a child is open,
 * its own stays open too.
 */
export async function closeRunAccount(tx: Sql, run: StoredAgentRun, traceId: string, at: Date): Promise<void> {
  const { agent_run_id, workspace_id: workspaceId, budget_account_id: accountId } = run
  if (accountId === null) return
  await releaseCost(tx, bySystem(traceId), { accountId, workspaceId, key: lastTurnKey(run), at })
  if (accountId === agent_run_id) await closeAccount(tx, { accountId, workspaceId, at })
  await settleOpenCosts(tx, { accountId, workspaceId, prefix: modelKeyOf(run), at })
}
