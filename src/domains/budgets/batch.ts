/** Many reservations or settlements of one account, in one statement each. */
import type { Actor } from '#kernel/actor'
import { formatMoney, type Money } from '#kernel/money'
import { type Sql, statement, type Tx } from '#store'
import {
  type AccountRef,
  ACCOUNTS,
  accounts,
  amountOf,
  type Dated,
  ENTRIES,
  entry,
  free,
  lock,
  type StoredAccount,
} from './account.ts'

type Amounts = readonly { readonly key: string; readonly amount: Money }[]

/** $1 account, $2 workspace, $3 keys, $4 amounts, $5 at. In their order, as many as fit. */
const takeMany = statement<{ readonly key: string }>(
  'budgets.reserve_many',
  `with held as (
     select e.key from ${ENTRIES} e where e.account_id = $1 and e.workspace_id = $2 and e.kind = 'reserved' and e.key = any ($3::text[])),
   asked as (
     select k.key, k.amount, sum(k.amount) over (order by k.position) as needed
       from unnest($3::text[], $4::numeric[]) with ordinality as k (key, amount, position)
      where not exists (select from held h where h.key = k.key)),
   fitting as (
     select q.key, q.amount from asked q join ${ACCOUNTS} a
         on a.account_id = $1 and a.workspace_id = $2 and a.closed_at is null and q.needed <= ${free('a')}),
   taken as (
     update ${ACCOUNTS} a set reserved_units = a.reserved_units + f.amount
       from (select sum(amount) as amount from fitting having count(*) > 0) f where a.account_id = $1 and a.workspace_id = $2
     returning a.account_id),
   entries as (${entry('reserved_change')}
     select $1, $2, 'reserved', f.key, $5, f.amount from fitting f where exists (select from taken))
   select key from held union all select f.key from fitting f where exists (select from taken)`,
)

/** $1 account, $2 workspace, $3 keys, $4 actual costs, $5 at. Keys without a reservation, and those that are settled, are left out. */
const endMany = statement<StoredAccount & { readonly key: string; readonly over: string }>(
  'budgets.settle_many',
  `with reservation as (
     select k.key, least(r.reserved_change, k.amount) as used, greatest(k.amount - r.reserved_change, 0) as over, r.reserved_change as held
       from unnest($3::text[], $4::numeric[]) as k (key, amount)
       join ${ENTRIES} r on r.account_id = $1 and r.workspace_id = $2 and r.kind = 'reserved' and r.key = k.key
      where not exists (select from ${ENTRIES} s where s.account_id = $1 and s.workspace_id = $2 and s.kind = 'settled' and s.key = k.key)),
   settled as (
     update ${ACCOUNTS} a set reserved_units = a.reserved_units - r.held, spent_units = a.spent_units + r.used,
            excess_units = a.excess_units + r.over
       from (select sum(held) as held, sum(used) as used, sum(over) as over from reservation having count(*) > 0) r
      where a.account_id = $1 and a.workspace_id = $2
     returning a.*),
   entries as (${entry('reserved_change, spent_change, excess_change')}
     select $1, $2, 'settled', r.key, $5, -r.held, r.used, r.over from reservation r where exists (select from settled))
   select s.*, r.key, r.over from settled s cross join reservation r`,
)

type Batch = AccountRef & Dated & { readonly amounts: Amounts }

const valuesOf = ({ accountId, workspaceId, amounts, at }: Batch) => [
  accountId,
  workspaceId,
  amounts.map(({ key }) => key),
  amounts.map(({ amount }) => formatMoney(amount)),
  at,
]

/**
 * Returns the keys that have their reservation, new or from before. What does not fit into the account, and all that follows it, has none. The lock is a
 * statement of its own: one that waits for a row reads the others as they were before, and so would take money that another caller took meanwhile.
 */
export async function reserveCosts(tx: Tx, batch: Batch): Promise<ReadonlySet<string>> {
  if (batch.amounts.length === 0) return new Set()
  await tx.run(lock, [batch.accountId, batch.workspaceId])
  const rows = await tx.run(takeMany, valuesOf(batch))
  return new Set(rows.map(({ key }) => key))
}

/** The first settlement of a key counts. Returns the account as it is now. Undefined: there was nothing to settle. */
export async function settleCosts(tx: Sql, actor: Actor<string>, batch: Batch): Promise<StoredAccount | undefined> {
  const rows = batch.amounts.length === 0 ? [] : await tx.run(endMany, valuesOf(batch))
  const [account] = rows
  if (!account) return undefined
  const breached = rows.filter(({ over }) => amountOf(over) > 0n)
  for (const { key, over } of breached) {
    const payload = { key, excess_units: formatMoney(amountOf(over)) }
    await accounts.append(tx, account, actor, { type: 'budget_breached', at: batch.at, payload, round: key })
  }
  return account
}
