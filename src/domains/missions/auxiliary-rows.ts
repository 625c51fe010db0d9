/** The rows of the commands of a mission beside its attempts: its planner, hooks and verifiers. */
import { formatMoney } from '#kernel/money'
import { type Sql, statement, type Tx } from '#store'
import type { StoredTask } from './mission.ts'
import type { Aside } from './usage.ts'

const AUXILIARIES = 'missions.orchestration_auxiliaries'
const TASKS = 'missions.orchestration_tasks'

export type AuxiliaryKind = 'planner' | 'before_run' | 'after_run' | 'verifier'
const HOOKS = `('before_run', 'after_run')`

type Auxiliary = {
  readonly key: string
  readonly run_id: string
  readonly workspace_id: string
  readonly kind: AuxiliaryKind
  readonly task_id: string | null
  readonly attempt: number | null
  readonly command_id: string | null
}

/** $1 the rows as JSON. One that was a to-do gets its command. */
const putRows = statement<never>(
  'missions.put_auxiliaries',
  `insert into ${AUXILIARIES} as x (key, run_id, workspace_id, kind, task_id, attempt, command_id)
select r.key, r.run_id, r.workspace_id, r.kind, r.task_id, r.attempt, r.command_id from jsonb_populate_recordset(null::${AUXILIARIES}, $1::jsonb) as r
on conflict (key) do update set command_id = excluded.command_id where x.command_id is null and excluded.command_id is not null`,
)

export const putAuxiliaries = (tx: Tx, rows: readonly Auxiliary[]) => tx.run(putRows, [JSON.stringify(rows)])

export const hookKey = (taskId: string, attempt: number, name: string) => `mission:${taskId}:${attempt}:${name}`

/** In the transaction that ends attempts: their hooks are to be asked for. */
export async function noteAfter(tx: Tx, ended: readonly StoredTask[]): Promise<void> {
  const todos = ended.map(({ id, run_id, workspace_id, attempt_number: attempt }): Auxiliary => {
    const kind = 'after_run'
    return { key: hookKey(id, attempt, kind), run_id, workspace_id, kind, task_id: id, attempt, command_id: null }
  })
  if (todos.length > 0) await putAuxiliaries(tx, todos)
}

/** $1 mission, $2 limit. */
const listUnasked = statement<StoredTask & { readonly attempt: number }>(
  'missions.list_unasked',
  `select t.*, x.attempt from ${AUXILIARIES} as x cross join lateral (select t.* from ${TASKS} as t where t.id = x.task_id offset 0) as t
where x.run_id = $1::uuid and x.kind = 'after_run' and x.settled_at is null and x.command_id is null order by t.sequence_number, x.attempt limit $2`,
)
export const listUnaskedHooks = (sql: Sql, runId: string, limit: number) => sql.run(listUnasked, [runId, limit])

/** $1 mission. */
const findOpenHook = statement<{ readonly is_open: boolean }>(
  'missions.find_open_hook',
  `select exists (select from ${AUXILIARIES} as x where x.run_id = $1::uuid and x.kind in ${HOOKS} and x.settled_at is null) as is_open`,
)
/** A hook has yet to be asked for, has not ended, or is not counted. */
export async function isHookOpen(sql: Sql, runId: string): Promise<boolean> {
  const [row] = await sql.run(findOpenHook, [runId])
  return row?.is_open ?? false
}

/** The hooks `c` of the mission that have begun and not ended: their end wakes it. */
export const livingHooks = (
  run: string,
) => `${AUXILIARIES} as x join concord.commands as c on c.command_id = x.command_id
where x.run_id = ${run} and x.settled_at is null and x.kind in ${HOOKS} and c.completed_at is null`
/** All commands `c` of this kind that have not ended, or that have ended and are not counted. */
export const livingAuxiliaries = (
  run: string,
  ended: 'null' | 'not null',
) => `${AUXILIARIES} as x join concord.commands as c on c.command_id = x.command_id
where x.run_id = ${run} and x.settled_at is null and c.completed_at is ${ended}`

export type BrokenHook = {
  readonly title: string
  readonly attempt: number
  readonly name: string
  readonly status: string
  readonly error: string | null
}
/** $1 mission. */
const listBroken = statement<BrokenHook>(
  'missions.list_broken_hooks',
  `select t.title, x.attempt, x.kind as name, coalesce(c.status, 'refused') as status, coalesce(x.error, c.error) as error
from ${AUXILIARIES} as x join ${TASKS} as t on t.id = x.task_id left join concord.commands as c on c.command_id = x.command_id
where x.run_id = $1::uuid and x.kind in ${HOOKS} and (x.error is not null or c.completed_at is not null and c.status <> 'succeeded')
order by t.sequence_number, x.attempt, x.kind limit 1000`,
)
/** For the report. */
export const listBrokenHooks = (sql: Sql, runId: string) => sql.run(listBroken, [runId])

type EndedAuxiliary = { readonly key: string; readonly result: unknown; readonly spent: string | null }
/** $1 mission, $2 limit. With what the agents of each have spent; null: it had none. */
const listEnded = statement<EndedAuxiliary>(
  'missions.list_ended_auxiliaries',
  `select x.key, c.result, (select sum(a.spent_units + a.excess_units) from concord.budget_accounts as a
  where a.command_id = c.command_id and a.workspace_id = x.workspace_id and (a.parent_account_id is null or a.closed_at is null)) as spent
from ${livingAuxiliaries('$1::uuid', 'not null')} order by x.key limit $2`,
)
export const listEndedAuxiliaries = (tx: Tx, runId: string, limit: number) => tx.run(listEnded, [runId, limit])

/** $1 keys, $2 costs, $3 tokens, $4 at, $5 why the commands could not be submitted, or null. */
const settleRows = statement<never>(
  'missions.settle_auxiliaries',
  `update ${AUXILIARIES} as x set cost = least(k.cost, 9999.999999), tokens = k.tokens, settled_at = $4, error = $5
from unnest($1::text[], $2::numeric[], $3::int[]) as k (key, cost, tokens) where x.key = k.key and x.settled_at is null`,
)
export const settleAuxiliaryRows = (tx: Tx, usage: readonly Aside[], at: Date) =>
  tx.run(settleRows, [
    usage.map(({ key }) => key),
    usage.map(({ cost }) => formatMoney(cost)),
    usage.map(({ tokens }) => tokens),
    at,
    null,
  ])
/** A hook that cannot be submitted has failed. */
export const dropAuxiliary = (sql: Sql, key: string, at: Date, reason: string) =>
  sql.run(settleRows, [[key], ['0'], [0], at, reason])
