/**
 * Sixteen agents spend from one tree of budgets in a process that is killed with -9 at random moments and started again. Then the record of
 * the calls, the entries and the balances are compared.
 */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { amountOf, closeAccount, openAccount } from '#domains/budgets'
import type { Money } from '#kernel/money'
import type { Db } from '#store'
import { aBudgetPlace, assertSound, type BudgetPlace } from '#test/budgets'
import { costsOf, type SpendTask } from '#test/budget-child'
import { type Chance, openChance } from '#test/chance'
import { openTestDb } from '#test/database'
import { accepted } from '#test/tenant'

export type SpendReport = {
  readonly rounds: number
  readonly kills: number
  readonly calls: number
  /** Reservations of dead processes, settled at their worst case. */
  readonly atWorst: number
  /** Calls that found no money: the limit was met. */
  readonly refused: number
  /** Accounts whose calls cost more than the limit. */
  readonly overshoot: readonly string[]
  /** Entries that are neither the cost of the call nor the worst case of a call that died, and sums that differ. */
  readonly inexact: readonly string[]
  /** Calls that began twice. */
  readonly doubled: readonly string[]
}

const AGENTS = 16
/** In every second round the calls are the attempts of missions. They are reserved and settled in batches. */
const TOGETHER = 4
const at = new Date('2026-05-01T10:00:00.000Z')
const child = fileURLToPath(new URL('../support/budget-child.ts', import.meta.url))

type Options = {
  readonly rounds: number
  readonly seed: string
  readonly spends: number
  readonly onRound?: (done: number) => void
}

export async function spendBudgets({ rounds, seed, spends, onRound }: Options): Promise<SpendReport> {
  const chance = openChance(seed)
  const folder = await mkdtemp(join(tmpdir(), 'budgets-'))
  const sum = { kills: 0, calls: 0, atWorst: 0, refused: 0 }
  const found = { overshoot: [] as string[], inexact: [] as string[], doubled: [] as string[] }
  try {
    for (let round = 0; round < rounds; round++) {
      const { kills, judged } = await spendOnce(
        chance,
        spends,
        join(folder, `${round}.txt`),
        round % 2 === 0 ? 1 : TOGETHER,
      )
      sum.kills += kills
      for (const name of ['calls', 'atWorst', 'refused'] as const) sum[name] += judged[name]
      for (const name of ['overshoot', 'inexact', 'doubled'] as const)
        found[name].push(...judged[name].map((text) => `round ${round}: ${text}`))
      onRound?.(round + 1)
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return { rounds, ...sum, ...found }
}

async function spendOnce(
  chance: Chance,
  spends: number,
  ledger: string,
  together: number,
): Promise<{ kills: number; judged: Judged }> {
  const opened = await openTestDb({ poolMax: 2 })
  try {
    // Only clients are killed, so no commit has to reach the disk.
    await opened.db.query(`alter database "${opened.name}" set synchronous_commit = off`)
    const place = await aBudgetPlace(opened.db)
    const tree = await openTree(opened.db, place, spends)
    // Half of the agents share the root, the others share a child in pairs.
    const accounts = Array.from(
      { length: AGENTS },
      (_, n) => (n < AGENTS / 2 ? undefined : tree.children[n % 4]) ?? tree.root,
    )
    const seed = chance.whole(1_000_000)
    const task: SpendTask = {
      url: opened.url,
      workspaceId: place.workspaceId,
      seed,
      spends,
      together,
      accounts,
      ledger,
    }
    let kills = 0
    for (let left = 1 + chance.whole(3); left > 0; left--)
      if (await runChild(task, 20 + chance.whole(Math.max(40, spends / 2)))) kills += 1
    await runChild(task, undefined)
    return { kills, judged: await judge(opened.db, place, { task, ...tree }) }
  } finally {
    await opened.close()
  }
}

type Tree = { readonly root: string; readonly children: readonly string[]; readonly limit: bigint }

/** Enough for about two of three calls. */
async function openTree(db: Db, place: BudgetPlace, spends: number): Promise<Tree> {
  const limit = BigInt(AGENTS * spends) * 170_000n
  const part = limit / 8n
  const [root, ...children] = Array.from({ length: 5 }, () => randomUUID()) as [string, ...string[]]
  accepted(await openAccount(db, { ...place, accountId: root, parentId: null, limit: limit as Money, at }))
  for (const accountId of children)
    accepted(await openAccount(db, { ...place, accountId, parentId: root, limit: part as Money, at }))
  return { root, children, limit }
}

/** Returns true if it was killed. Without a time it runs to its end. */
async function runChild(task: SpendTask, afterMs: number | undefined): Promise<boolean> {
  const running = spawn(process.execPath, [child, JSON.stringify(task)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const gone = new Promise<[number | null, string | null]>((resolve) =>
    running.on('exit', (code, signal) => resolve([code, signal])),
  )
  if (afterMs !== undefined) {
    await Promise.race([new Promise((resolve) => running.stdout.once('data', resolve)), gone])
    await Promise.race([sleep(afterMs), gone])
    running.kill('SIGKILL')
  }
  const [code, signal] = await gone
  if (code !== 0 && signal !== 'SIGKILL') throw new Error(`The process that spends ended with ${code ?? signal}.`)
  return signal === 'SIGKILL'
}

type Judged = Pick<SpendReport, 'calls' | 'atWorst' | 'refused' | 'overshoot' | 'inexact' | 'doubled'>

async function judge(
  db: Db,
  place: BudgetPlace,
  { task, root, children, limit }: Tree & { readonly task: SpendTask },
): Promise<Judged> {
  const inexact: string[] = []
  for (const accountId of children) accepted(await closeAccount(db, { ...place, accountId, at }))
  const whole = accepted(await closeAccount(db, { ...place, accountId: root, at }))
  await assertSound(db, place).catch((error: Error) => inexact.push(error.message))

  const lines = (await readFile(task.ledger, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => line.split(' ') as [string, string, string])
  const called = new Map(lines.map(([account, key, cost]) => [`${account} ${key}`, BigInt(cost)]))
  const doubled = lines.length === called.size ? [] : [`${lines.length - called.size} calls`]
  const settled = await db.query<{ account_id: string; key: string; spent_change: string }>(
    `select e.account_id, e.key, e.spent_change from concord.budget_entries e
       join concord.budget_accounts a on a.account_id = e.account_id and a.workspace_id = e.workspace_id
      where a.command_id = $1 and e.kind = 'settled'`,
    [place.commandId],
  )
  let [total, atWorst] = [0n, 0]
  for (const { account_id, key, spent_change } of settled) {
    const [agent = 0, spend = 0] = key.split(':').map(Number)
    const { worst, actual } = costsOf(task.seed, agent, spend)
    const spent = amountOf(spent_change)
    total += spent
    const cost = called.get(`${account_id} ${key}`)
    called.delete(`${account_id} ${key}`)
    if (spent === worst && (cost === undefined || spent !== actual)) atWorst += 1
    else if (spent !== actual || cost !== actual) inexact.push(`${key}: ${spent}, called for ${cost}`)
  }
  // A call without a settled reservation was not paid for.
  if (called.size > 0) inexact.push(`${called.size} calls without an entry`)
  if (amountOf(whole.spent_units) !== total) inexact.push(`the root has ${whole.spent_units}, the entries ${total}`)
  const paid = lines.reduce((rest, [, , cost]) => rest + BigInt(cost), 0n)
  const overshoot = paid > limit || total > limit ? [`${paid} and ${total} of ${limit}`] : []
  const refused = AGENTS * task.spends - settled.length
  return { calls: lines.length, atWorst, refused, overshoot, inexact, doubled }
}
