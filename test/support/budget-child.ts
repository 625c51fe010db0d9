/** A process with agents that spend from shared accounts, until it is killed or all are done. Argument: a JSON object. */
import { appendFileSync } from 'node:fs'
import { bySystem } from '#kernel/actor'
import type { Money } from '#kernel/money'
import { reserveCost, reserveCosts, settleCost, settleCosts } from '../../src/domains/budgets/index.ts'
import { openDb } from '../../src/store/db.ts'

export type SpendTask = {
  readonly url: string
  readonly workspaceId: string
  readonly seed: number
  readonly spends: number
  /** Calls that are reserved and settled together, as a mission does. 1: each on its own. */
  readonly together: number
  /** The account of each agent. */
  readonly accounts: readonly string[]
  /** What a provider would have been asked: one line per call. */
  readonly ledger: string
}

/** The worst case of a call and what it costs, in millionths: the same in every process. */
export function costsOf(seed: number, agent: number, spend: number): { worst: bigint; actual: bigint } {
  let x = (seed * 1_000_003 + agent * 7_919 + spend * 104_729 + 1) >>> 0
  const next = () => {
    x = (Math.imul(x ^ (x >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    return x
  }
  const worst = BigInt(1 + (next() % 1_000_000))
  return { worst, actual: BigInt(next()) % (worst + 1n) }
}

type Keyed = { readonly key: string; readonly amount: Money }

const TRACE = 'trace_00000000000000000000000000000001'

async function spend({ url, workspaceId, seed, spends, together, accounts, ledger }: SpendTask): Promise<void> {
  const db = openDb({ url, role: 'concord_engine', poolMax: accounts.length })
  const at = new Date('2026-05-01T10:00:00.000Z')
  await Promise.all(
    accounts.map(async (accountId, agent) => {
      const of = (spend: number, amount: bigint) => ({
        workspaceId,
        accountId,
        at,
        key: `${agent}:${spend}`,
        amount: amount as Money,
      })
      const known = await db.query<{ spend: number; is_open: boolean }>(
        `select split_part(r.key, ':', 2)::int as spend, s.key is null as is_open
           from concord.budget_entries r left join concord.budget_entries s
             on s.account_id = r.account_id and s.workspace_id = r.workspace_id and s.key = r.key and s.kind = 'settled'
          where r.account_id = $1 and r.workspace_id = $2 and r.kind = 'reserved' and split_part(r.key, ':', 1) = $3`,
        [accountId, workspaceId, String(agent)],
      )
      // Nobody knows whether the call of a dead process began: it counts at its worst case.
      for (const { spend } of known.filter(({ is_open }) => is_open))
        await settleCost(db, bySystem(TRACE), of(spend, costsOf(seed, agent, spend).worst))
      if (agent === 0) process.stdout.write('spending\n')
      const account = { workspaceId, accountId, at }
      const reserve = async (calls: readonly Keyed[]) => {
        if (together > 1) return db.transaction((tx) => reserveCosts(tx, { ...account, amounts: calls }))
        const [call] = calls
        const reserved = call && (await reserveCost(db, { ...account, ...call }))
        return new Set(call && reserved?.ok ? [call.key] : [])
      }
      const settle = async (calls: readonly Keyed[]) => {
        if (together > 1) return settleCosts(db, bySystem(TRACE), { ...account, amounts: calls })
        for (const call of calls) await settleCost(db, bySystem(TRACE), { ...account, ...call })
        return undefined
      }
      for (let n = 1 + Math.max(-1, ...known.map(({ spend }) => spend)); n < spends; n += together) {
        const calls = Array.from({ length: Math.min(together, spends - n) }, (_, more) => n + more)
        const paid = await reserve(calls.map((call) => of(call, costsOf(seed, agent, call).worst)))
        const actual = calls
          .map((call) => of(call, costsOf(seed, agent, call).actual))
          .filter(({ key }) => paid.has(key))
        for (const { key, amount } of actual) appendFileSync(ledger, `${accountId} ${key} ${amount}\n`)
        await settle(actual)
      }
    }),
  )
  await db.close()
}

if (process.argv[2]?.startsWith('{')) {
  await spend(JSON.parse(process.argv[2]) as SpendTask)
}
