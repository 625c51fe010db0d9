/**
 * A budget account: its row, its statements and its services. Each service decides in one conditional statement, which also writes the entry
 * of the change. Every service takes the transaction of its caller first, so that it joins another commit.
 *
 * Locks go from a child to its parent. Of two callers that use one key at the same instant, the database refuses one with an error; its retry is a repeat.
 */
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { formatMoney, maxMoney, type Money, parseMoney, zeroMoney } from '#kernel/money'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { defineTable, type Sql, statement } from '#store'
import type { Rows } from '#store/rows'
import { budgetLog } from './events.ts'
import { isQuarantined, quarantineModel } from './quarantine.ts'

export type StoredAccount = Rows['concord.budget_accounts']

/** The account of a run has the id of the run. */
export type AccountRef = { readonly workspaceId: string; readonly accountId: string }
export type Dated = { readonly at: Date }
/** A repeat with the same key changes nothing. */
type Keyed = AccountRef & Dated & { readonly key: string }

export const ACCOUNTS = 'concord.budget_accounts'
export const ENTRIES = 'concord.budget_entries'

export const accounts = defineTable<StoredAccount>()({
  name: ACCOUNTS,
  noun: 'budget',
  id: 'account_id',
  tenant: 'workspace_id',
  log: budgetLog,
  links: ['workspace_id', 'command_id'],
})

/** What can still be reserved, of an alias. The excess is gone too. */
export const free = (a: string) =>
  `${a}.limit_units - ${a}.reserved_units - ${a}.spent_units - ${a}.carved_units - ${a}.excess_units`
const unused = (kind: string, key: string) =>
  `not exists (select from ${ENTRIES} e where e.account_id = $1 and e.workspace_id = $2 and e.kind = '${kind}' and e.key = ${key})`
export const entry = (changes: string) =>
  `insert into ${ENTRIES} (account_id, workspace_id, kind, key, created_at, ${changes})`

/** $1 account, $2 workspace, $3 command, $4 limit, $5 at, $6 parent or null. A command may name what it may cost at most. */
const open = statement<StoredAccount>(
  'budgets.open',
  `with terms as (
     select least($4::numeric, (c.context->'metadata'->>'max_cost')::numeric) as most from concord.commands c
      where c.command_id = $3 and c.workspace_id = $2),
   parent as (
     update ${ACCOUNTS} p set carved_units = p.carved_units + t.most
       from terms t where p.account_id = $6::uuid and p.workspace_id = $2 and p.closed_at is null and ${free('p')} >= t.most and t.most > 0
        and not exists (select from ${ACCOUNTS} a where a.account_id = $1 and a.workspace_id = $2)
     returning p.account_id),
   opened as (
     insert into ${ACCOUNTS} (account_id, workspace_id, command_id, limit_units, created_at, parent_account_id)
     select $1, $2, $3, t.most, $5, $6::uuid from terms t where exists (select from parent)
         or ($6::uuid is null and t.most > 0 and not exists (select from ${ACCOUNTS} a where a.account_id = $1 and a.workspace_id = $2))
     returning *),
   entries as (${entry('limit_change, carved_change')}
     select account_id, workspace_id, 'opened', account_id::text, $5, limit_units, 0 from opened
     union all select parent_account_id, workspace_id, 'carved', account_id::text, $5, 0, limit_units from opened where parent_account_id is not null)
   select * from opened`,
)

/** $1 account, $2 workspace, $3 key, $4 amount, $5 at, $6 model. */
const take = statement<StoredAccount>(
  'budgets.reserve',
  `with taken as (
     update ${ACCOUNTS} a set reserved_units = a.reserved_units + $4
      where a.account_id = $1 and a.workspace_id = $2 and a.closed_at is null and ${free('a')} >= $4 and ${unused('reserved', '$3')}
        and not ${isQuarantined('$2', '$6::text')}
     returning *),
   entry as (${entry('reserved_change')} select $1, $2, 'reserved', $3, $5, $4 from taken)
   select * from taken`,
)

/** $1 account, $2 workspace, $3 key, $4 the actual cost, $5 at. */
const end = statement<StoredAccount & { readonly over: string }>(
  'budgets.settle',
  `with reservation as (
     select least(r.reserved_change, $4::numeric) as used, greatest($4::numeric - r.reserved_change, 0) as over, r.reserved_change as held
       from ${ENTRIES} r where r.account_id = $1 and r.workspace_id = $2 and r.kind = 'reserved' and r.key = $3),
   settled as (
     update ${ACCOUNTS} a set reserved_units = a.reserved_units - r.held, spent_units = a.spent_units + r.used,
            excess_units = a.excess_units + r.over
       from reservation r where a.account_id = $1 and a.workspace_id = $2 and ${unused('settled', '$3')}
     returning a.*, r.used, r.over, r.held),
   entry as (${entry('reserved_change, spent_change, excess_change')}
     select $1, $2, 'settled', $3, $5, -held, used, over from settled)
   select * from settled`,
)

/** What a statement without a row found. $1 account, $2 workspace, $3 key, $4 model. */
const explain = statement<{
  readonly held: string | null
  readonly is_settled: boolean
  readonly is_raised: boolean
  readonly is_quarantined: boolean
}>(
  'budgets.explain',
  `select (select r.reserved_change from ${ENTRIES} r
            where r.account_id = $1 and r.workspace_id = $2 and r.kind = 'reserved' and r.key = $3) as held,
          not ${unused('settled', '$3')} as is_settled, not ${unused('raised', '$3')} as is_raised,
          ${isQuarantined('$2', '$4::text')} as is_quarantined`,
)

/** The account $1 of the workspace $2 and all that it is carved out of, with the highest limit of each: what its command may cost. */
const CHAIN = `recursive chain as (
     select a.account_id, a.parent_account_id, a.command_id, 0 as level from ${ACCOUNTS} a where a.account_id = $1 and a.workspace_id = $2
     union all
     select p.account_id, p.parent_account_id, p.command_id, c.level + 1 from chain c
       join ${ACCOUNTS} p on p.account_id = c.parent_account_id and p.workspace_id = $2),
   capped as (
     select c.account_id, c.level, (o.context->'metadata'->>'max_cost')::numeric as most from chain c
       join concord.commands o on o.command_id = c.command_id and o.workspace_id = $2)`

/** $1 account, $2 workspace, $3 key, $4 amount, $5 at, $6 the highest limit. A limit that is carved out of another raises that one too. */
const lift = statement<StoredAccount>(
  'budgets.raise',
  `with ${CHAIN},
   locked as (
     select a.account_id, a.closed_at, a.limit_units, c.level, least(c.most, $6::numeric) as most from capped c
       join ${ACCOUNTS} a on a.account_id = c.account_id and a.workspace_id = $2 order by c.level for update of a),
   raised as (
     update ${ACCOUNTS} a set limit_units = a.limit_units + $4,
            carved_units = a.carved_units + case when l.level = 0 then 0 else $4::numeric end
       from locked l where a.account_id = l.account_id and a.workspace_id = $2 and ${unused('raised', '$3')}
        and (select every(o.closed_at is null and o.limit_units + $4 <= o.most) from locked o)
     returning a.*, l.level),
   entries as (${entry('limit_change, carved_change')}
     select account_id, workspace_id, 'raised', $3, $5, $4, case when level = 0 then 0 else $4::numeric end from raised)
   select * from raised where level = 0`,
)

/** The account of the chain whose command leaves the least room for a raise. $1 account, $2 workspace. No row: no command of the chain has a cap. */
const findCap = statement<{ readonly limit_units: string; readonly most: string }>(
  'budgets.find_cap',
  `with ${CHAIN}
   select a.limit_units, c.most from capped c join ${ACCOUNTS} a on a.account_id = c.account_id and a.workspace_id = $2
    where c.most is not null order by c.most - a.limit_units limit 1`,
)

export const lock = statement<StoredAccount>(
  'budgets.lock',
  `select * from ${ACCOUNTS} where account_id = $1 and workspace_id = $2 for update`,
)

/**
 * $1 account, $2 workspace, $3 prefix of the keys. `offset 0`: one look into the index for each reservation. As a join without statistics it compared
 * 16,000 reservations with each other, for longer than a minute.
 */
const listHeld = statement<{ readonly key: string; readonly held: string }>(
  'budgets.list_held',
  `select r.key, r.reserved_change as held from ${ENTRIES} r
    where r.account_id = $1 and r.workspace_id = $2 and r.kind = 'reserved' and starts_with(r.key, $3)
      and not exists (select from ${ENTRIES} s where s.account_id = $1 and s.workspace_id = $2 and s.kind = 'settled' and s.key = r.key
                       offset 0)`,
)

/** $1 account, $2 workspace, $3 at. Under `lock`, with every reservation settled. */
const shut = statement<StoredAccount>(
  'budgets.close',
  `with closed as (
     update ${ACCOUNTS} a set closed_at = $3
      where a.account_id = $1 and a.workspace_id = $2 and a.closed_at is null and a.carved_units = 0 and a.reserved_units = 0
     returning *),
   parent as (
     update ${ACCOUNTS} p set carved_units = p.carved_units - c.limit_units, spent_units = p.spent_units + c.spent_units,
            excess_units = p.excess_units + c.excess_units
       from closed c where p.account_id = c.parent_account_id and p.workspace_id = $2
     returning p.account_id, c.limit_units, c.spent_units, c.excess_units),
   entries as (${entry('spent_change, carved_change, excess_change')}
     select $1, $2, 'closed', $1::text, $3, 0, 0, 0 from closed
     union all select account_id, $2, 'returned', $1::text, $3, spent_units, -limit_units, excess_units from parent)
   select * from closed`,
)

/** Tries have the numbers 1, 2, …: each is one look into the index. $1 account, $2 workspace, $3 prefix. */
const lastTry = statement<{ readonly number: number; readonly held: string | null; readonly is_settled: boolean }>(
  'budgets.find_last_try',
  `with recursive tries as (
     select 0 as number, null::numeric as held
     union all
     select t.number + 1, r.reserved_change::numeric from tries t
       join ${ENTRIES} r on r.account_id = $1 and r.workspace_id = $2 and r.kind = 'reserved' and r.key = $3 || (t.number + 1)::text)
   select t.number, t.held, not ${unused('settled', '$3 || t.number::text')} as is_settled
     from tries t order by t.number desc limit 1`,
)

/** $1 parent, $2 workspace. */
const children = statement<StoredAccount>(
  'budgets.list_children',
  `select * from ${ACCOUNTS} where parent_account_id = $1 and workspace_id = $2 order by created_at, account_id limit 200`,
)

/** An account of another workspace is reported as missing. */
export function readAccount(sql: Sql, workspaceId: string, accountId: string): Promise<Decision<StoredAccount>> {
  return accounts.get(sql, workspaceId, accountId)
}

export function listChildren(sql: Sql, { account_id, workspace_id }: StoredAccount): Promise<readonly StoredAccount[]> {
  return sql.run(children, [account_id, workspace_id])
}

export type OpenAccount = AccountRef &
  Dated & { readonly commandId: string; readonly parentId: string | null; readonly limit: Money }

/** The limit of a child is carved out of what its parent has left. No account of a command has more than the command may cost. */
export async function openAccount(tx: Sql, input: OpenAccount): Promise<Decision<StoredAccount>> {
  const { accountId, workspaceId, commandId, parentId, at } = input
  const limit = formatMoney(input.limit)
  const [opened] = await tx.run(open, [accountId, workspaceId, commandId, limit, at, parentId])
  if (opened) return accept(opened)
  const known = await accounts.find(tx, workspaceId, accountId)
  if (known) return known.parent_account_id === parentId ? accept(known) : refuseReuse()
  if (parentId === null) return refuse('budgets.account.exhausted', 'The work may cost nothing.')
  const parent = await accounts.get(tx, workspaceId, parentId)
  return parent.ok ? refuseAmount(parent.value, input.limit) : parent
}

/** `model`: what is called. A model in quarantine is not called. */
export type Reserve = Keyed & { readonly amount: Money; readonly model?: string | undefined }

/** Before a call, with its worst case. A repeat is accepted until the reservation is settled. */
export async function reserveCost(tx: Sql, input: Reserve): Promise<Decision<StoredAccount>> {
  const { accountId, workspaceId, key, amount, at, model = null } = input
  const [taken] = await tx.run(take, [accountId, workspaceId, key, formatMoney(amount), at, model])
  if (taken) return accept(taken)
  const account = await accounts.get(tx, workspaceId, accountId)
  if (!account.ok) return account
  const [found] = await tx.run(explain, [accountId, workspaceId, key, model])
  if (found?.is_quarantined)
    return refuse('budgets.model.quarantined', `The model ${quote(model ?? '')} is in quarantine.`)
  if (!found || found.held === null || account.value.closed_at) return refuseAmount(account.value, amount)
  return found.is_settled || amountOf(found.held) !== amount ? refuseReuse() : account
}

/** The first settlement counts. A call that cost more than it reserved shows that the terms of its model are wrong: it is in quarantine from then on. */
export async function settleCost(tx: Sql, actor: Actor<string>, input: Reserve): Promise<Decision<StoredAccount>> {
  const { accountId, workspaceId, key, amount, at, model } = input
  const [settled] = await tx.run(end, [accountId, workspaceId, key, formatMoney(amount), at])
  if (!settled) {
    const account = await accounts.get(tx, workspaceId, accountId)
    const [found] = await tx.run(explain, [accountId, workspaceId, key, null])
    if (!account.ok || found?.is_settled) return account
    return refuse('budgets.reservation.not_found', 'There is no reservation with this key.')
  }
  const excess = amountOf(settled.over)
  if (excess > 0n) {
    const payload = { key, excess_units: formatMoney(excess) }
    await accounts.append(tx, settled, actor, { type: 'budget_breached', at, payload, round: key })
    if (model !== undefined) await quarantineModel(tx, actor, { ...settled, ...payload, model, created_at: at })
  }
  return accept(settled)
}

/** For a call that did not begin: nothing was spent. */
export function releaseCost(tx: Sql, actor: Actor<string>, input: Keyed): Promise<Decision<StoredAccount>> {
  return settleCost(tx, actor, { ...input, amount: zeroMoney })
}

/** How much the limit can be raised: up to what the command may cost, and those of the accounts above it. */
export async function readRoom(sql: Sql, { account_id, workspace_id, limit_units }: StoredAccount): Promise<Money> {
  const [cap] = await sql.run(findCap, [account_id, workspace_id])
  const [most, limit] = cap ? [cap.most, cap.limit_units] : [formatMoney(maxMoney), limit_units]
  const room = amountOf(most) - amountOf(limit)
  return room > 0n ? (room as Money) : zeroMoney
}

/** Adds to the limit, and to the limits of all accounts that it is carved out of. None gets more than its command may cost. */
export async function raiseLimit(tx: Sql, actor: Actor<string>, input: Reserve): Promise<Decision<StoredAccount>> {
  const { accountId, workspaceId, key, amount, at } = input
  const values = [accountId, workspaceId, key, formatMoney(amount), at, formatMoney(maxMoney)]
  const [raised] = await tx.run(lift, values)
  if (raised) {
    const payload = { key, amount_units: formatMoney(amount) }
    await accounts.append(tx, raised, actor, { type: 'budget_raised', at, payload, round: key })
    return accept(raised)
  }
  const account = await accounts.get(tx, workspaceId, accountId)
  if (!account.ok) return account
  if (account.value.closed_at) return refuseAmount(account.value, amount)
  const [found] = await tx.run(explain, [accountId, workspaceId, key, null])
  if (found?.is_raised) return account
  const [cap] = await tx.run(findCap, [accountId, workspaceId])
  if (cap && amount > amountOf(cap.most) - amountOf(cap.limit_units)) {
    const [most, limit] = [cap.most, cap.limit_units].map((text) => formatMoney(amountOf(text)))
    return refuse('budgets.account.capped', `The work may cost ${most} units at most, and its limit is ${limit}.`)
  }
  // The limit of an account above it is at least as high.
  return refuse('money.range', 'The limit would be above the highest amount.')
}

/** What is left returns to the parent. Open reservations count as spent, because nobody knows what their calls cost. */
export async function closeAccount(tx: Sql, input: AccountRef & Dated): Promise<Decision<StoredAccount>> {
  const { accountId, workspaceId, at } = input
  const [account] = await tx.run(lock, [accountId, workspaceId])
  if (!account) return accounts.missing()
  if (account.closed_at) return accept(account)
  if (amountOf(account.carved_units) > 0n)
    return refuse('budgets.account.has_children', 'An account that was carved out of this one is open.')
  await settleHeld(tx, { ...input, prefix: '' })
  const [closed] = await tx.run(shut, [accountId, workspaceId, at])
  if (!closed) throw new KernelFault('budgets.account.sums', 'The entries of an account differ from its balances.')
  return accept(closed)
}

type Prefixed = AccountRef & Dated & { readonly prefix: string }

/** What was reserved for calls that nobody hears of again is spent. The account stays open. */
export async function settleOpenCosts(tx: Sql, input: Prefixed): Promise<void> {
  await tx.run(lock, [input.accountId, input.workspaceId])
  await settleHeld(tx, input)
}

async function settleHeld(tx: Sql, { accountId, workspaceId, prefix, at }: Prefixed): Promise<void> {
  for (const { key, held } of await tx.run(listHeld, [accountId, workspaceId, prefix]))
    await tx.run(end, [accountId, workspaceId, key, held, at])
}

/** The last of the reservations with the keys `{prefix}1`, `{prefix}2`, … Its number is 0 if there is none; `open` is what it still holds. */
export async function findLastTry(sql: Sql, { accountId, workspaceId, prefix }: Omit<Prefixed, 'at'>) {
  const [last] = await sql.run(lastTry, [accountId, workspaceId, prefix])
  const { number = 0, held = null, is_settled = false } = last ?? {}
  return { number, open: held === null || is_settled ? undefined : amountOf(held) }
}

/** What can still be reserved. */
export function freeOf(account: StoredAccount): Money {
  const { limit_units, reserved_units, spent_units, carved_units, excess_units } = account
  const gone = [reserved_units, spent_units, carved_units, excess_units].map(amountOf)
  const left = gone.reduce((rest, amount) => rest - amount, BigInt(amountOf(limit_units)))
  return left > 0n ? (left as Money) : zeroMoney
}

/** An amount of a row. The excess has no bound in the database; here it ends at the highest amount. */
export function amountOf(text: string): Money {
  const amount = parseMoney(text)
  return amount.ok ? amount.value : maxMoney
}

function refuseAmount(account: StoredAccount, amount: Money): Refusal {
  if (account.closed_at) return refuse('budgets.account.closed', 'This account is closed.')
  const [asked, left] = [formatMoney(amount), formatMoney(freeOf(account))]
  return refuse('budgets.account.exhausted', `${asked} units are needed and ${left} are left.`, {
    facts: { needed_units: asked, free_units: left, limit_units: formatMoney(amountOf(account.limit_units)) },
  })
}

function refuseReuse(): Refusal {
  return refuse('budgets.key.reused', 'This key was used for something else, or its call is settled.')
}
