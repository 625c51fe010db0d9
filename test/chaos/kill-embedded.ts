/**
 * Kills programs with Concord inside: each writes an order and submits its payment in one transaction, and dies by -9 before the
 * commit, during it, right after it, or while the payment begins. At the end a program without a plan finishes what is left.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Sql } from '#store'
import { openChance } from '#test/chance'
import { openTestDb } from '#test/database'

const MOMENTS = ['before the commit', 'during the commit', 'after the commit', 'later'] as const
export type Moment = (typeof MOMENTS)[number]

export type EmbeddedReport = {
  readonly kills: number
  readonly moments: Readonly<Record<Moment, number>>
  readonly committed: number
  /** Programs that ended in another way than by the kill. */
  readonly survived: readonly string[]
  /** An order without its command, or a command without its order. */
  readonly parted: readonly string[]
  /** Written although the program died before the commit, or missing although it died after it. */
  readonly wrong: readonly string[]
  /** Commands that have not succeeded in the end. */
  readonly unfinished: readonly string[]
  /** Orders that were not paid under exactly one key. */
  readonly unpaid: readonly string[]
}

const AT_ONCE = 4
/** Generous: a run that takes longer is a finding, not a slow machine. */
const REST_MS = 120_000

export async function killEmbedded({
  kills,
  seed,
  onRound,
}: {
  readonly kills: number
  readonly seed: string
  readonly onRound?: (done: number) => void
}): Promise<EmbeddedReport> {
  const chance = openChance(seed)
  const database = await openTestDb()
  const { db } = database
  const home = await mkdtemp(join(tmpdir(), 'concord-embedded-'))
  const start = (...words: string[]) => {
    const program = fileURLToPath(new URL('./embedded-program.ts', import.meta.url))
    return spawn(process.execPath, [program, database.url, home, ...words], { stdio: ['pipe', 'ignore', 'inherit'] })
  }
  try {
    await db.query('create table orders (id text primary key)')
    await db.query('create table payments (key text not null, order_id text not null)')
    const plan = Array.from({ length: kills }, (_, n) => ({
      order: `${seed}-${n}`,
      // Most programs die where a wake could be lost.
      moment: chance.pick([...MOMENTS, 'during the commit', 'after the commit', 'after the commit'] as const),
      ms: chance.whole(40),
    }))
    const survived: string[] = []
    const left = plan.values()
    let done = 0
    const killAll = async () => {
      for (const { order, moment, ms } of left) {
        const [code, signal] = (await once(start(order, moment, String(moment === 'later' ? ms : ms % 2)), 'exit')) as [
          number | null,
          string | null,
        ]
        if (signal !== 'SIGKILL') survived.push(`${order}, ${moment}: ${code ?? signal}`)
        onRound?.(++done)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, killAll))
    const last = start()
    const ended = once(last, 'exit')
    await waitForRest(db)
    last.stdin.end()
    await ended
    return { kills, survived, ...(await judge(db, plan)) }
  } finally {
    await database.close()
    await rm(home, { recursive: true, force: true })
  }
}

async function waitForRest(db: Sql): Promise<void> {
  const until = performance.now() + REST_MS
  const open = `select from concord.commands where command_type = 'pay' and status not in ('succeeded', 'failed') limit 1`
  while ((await db.query(open)).length > 0 && performance.now() < until) await sleep(100)
}

async function judge(db: Sql, plan: readonly { readonly order: string; readonly moment: Moment }[]) {
  const rows = await db.query<{ id: string; has_order: boolean; statuses: string[]; keys: number }>(`
    select id, o.id is not null as has_order, coalesce(c.statuses, '{}') as statuses,
      (select count(distinct key)::int from payments where order_id = id) as keys
    from orders o full join (
      select payload->>'order_id' as id, array_agg(status::text) as statuses
        from concord.commands where command_type = 'pay' group by 1
    ) c using (id)`)
  const written = new Set(rows.map(({ id }) => id))
  const ids = (of: typeof rows) => of.map(({ id, statuses, keys }) => `${id} ${statuses.join('+')} ${keys}`)
  const moments = MOMENTS.map((name) => [name, plan.filter(({ moment }) => moment === name).length] as const)
  return {
    moments: Object.fromEntries(moments) as Record<Moment, number>,
    committed: rows.length,
    parted: ids(rows.filter(({ has_order, statuses }) => !has_order || statuses.length !== 1)),
    wrong: plan.flatMap(({ order, moment }) => {
      const mayBe = moment === 'during the commit' || written.has(order) === (moment !== 'before the commit')
      return mayBe ? [] : [`${order}, ${moment}`]
    }),
    unfinished: ids(rows.filter(({ statuses }) => statuses.some((status) => status !== 'succeeded'))),
    unpaid: ids(rows.filter(({ keys }) => keys !== 1)),
  }
}
