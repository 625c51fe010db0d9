/**
 * The commands of a mission beside its attempts: its planner, hooks and verifiers. Each has a row, from its to-do or its submit until its cost is counted. What one
 * may cost is reserved in the account of the mission before it is submitted.
 */
import { formatMoney, type Money, zeroMoney } from '#kernel/money'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type AuxiliaryKind, putAuxiliaries } from './auxiliary-rows.ts'
import type { MissionDeps } from './deps.ts'
import type { StoredTask } from './mission.ts'
import { countAuxiliaries, reserveInMission } from './spending.ts'
import { actAsRequester, type FollowedCommand, type Found, oneDeeper, submitFollowed, write } from './turn.ts'
import { maxCostOf } from './usage.ts'

export function settleAuxiliaries(deps: MissionDeps, { run, origin, config }: Found): Promise<undefined> {
  const traceId = origin.context.trace_id
  return write(deps, run, (batch, at, tx) => countAuxiliaries(tx, batch, config, { at, traceId }))
}

/** What the account of the mission does not pay for. A person can raise the limit. */
export const isUnpaid = (asked: Decision<unknown>) => !asked.ok && asked.code === 'budgets.account.exhausted'

type Auxiliary = Omit<FollowedCommand, 'idempotencyKey'> & {
  readonly key: string
  readonly kind: AuxiliaryKind
  readonly task: Pick<StoredTask, 'id'> | null
  readonly attempt: number | null
  /** Under a hard limit a command without one may cost nothing. */
  readonly maxCost: string | undefined
}

/** Reserves what the command may cost, and submits it. A turn that is given again gets the same command. */
export async function submitAuxiliary(
  deps: MissionDeps,
  found: Found,
  { key, kind, task, attempt, maxCost, metadata, ...asked }: Auxiliary,
): Promise<Decision<string>> {
  const { run, origin, config } = found
  const by = await actAsRequester(deps.commands, run, origin)
  if (!by.ok) return by
  const amount: Money = maxCost === undefined ? zeroMoney : maxCostOf(maxCost, config)
  if (!(await reserveInMission(deps, found, [{ key, amount }])).has(key))
    return refuse('budgets.account.exhausted', `${formatMoney(amount)} does not fit into the hard limit.`)
  const row = { key, run_id: run.id, workspace_id: run.workspace_id, kind, task_id: task?.id ?? null, attempt }
  return submitFollowed(deps, by.value, found, {
    ...asked,
    idempotencyKey: key,
    metadata: {
      ...oneDeeper(origin),
      ...metadata,
      ...(run.account_id !== null && { max_cost: formatMoney(amount) }),
    },
    alongside: async (tx, { command_id }) => {
      await putAuxiliaries(tx, [{ ...row, command_id }])
      return accept(null)
    },
  })
}
