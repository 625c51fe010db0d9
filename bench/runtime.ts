/**
 * Turns on DBOS compared with bare commits and bare DBOS workflows, every commit flushed: the time from a wake to its turn, in
 * this process and in another one, and the cost of a durable command as a turn.
 *
 * node bench/runtime.ts [--rounds 5] [--seconds 1.5]
 */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import type { Next } from '#runtime'
import { createDbosRuntime } from '#test/dbos-runtime'
import { type Db, openDb, statement, type Tx } from '#store'
import { openBareDbos, serveBareDbos } from './harness/bare-dbos.ts'
import { median, runLoop, type Sample } from './harness/closed-loop.ts'
import { type Case, compare, printResults, type Result } from './harness/compare.ts'
import { openBenchServer } from './harness/server.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1.5' },
    worker: { type: 'string' },
    bare: { type: 'string' },
  },
})
const done: Next = { t: 'done' }
const insertFact = statement('bench_insert_fact', 'insert into public.facts (id, step) values ($1, 0)')
const moveFact = statement(
  'bench_move_fact',
  'update public.facts set step = step + 1, seen_at = clock_timestamp() where id = $1',
)

if (options.worker !== undefined) await runWorker(options.worker)
else if (options.bare !== undefined) await serveBareDbos(options.bare)
else await runBench()

type Child = { next(): Promise<string>; say(line: string): void; end(): void }

/** Starts this file as a child process and resolves when it is ready. */
async function openChild(url: string): Promise<Child> {
  const child = spawn(process.execPath, [import.meta.filename, '--worker', url], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async () => {
    const { value } = await lines.next()
    return String(value)
  }
  const first = await next()
  if (first !== 'ready') throw new Error(`The other process printed ${first}.`)
  return { next, say: (line) => void child.stdin.write(`${line}\n`), end: () => void child.stdin.end() }
}

/** The other process: runs every turn and records when it began. */
async function runWorker(url: string): Promise<void> {
  const db = openDb({ url, role: 'concord_engine', poolMax: 8 })
  const runtime = createDbosRuntime({ db, only: ['connector_calls'] })
  runtime.register('far', async (id) => {
    await db.run(moveFact, [id])
    return done
  })
  const opened = await runtime.open()
  console.log(opened.ok ? 'ready' : opened.reason)
  process.stdin.on('end', () => process.exit(0)).resume()
}

async function runBench(): Promise<void> {
  const server = await openBenchServer()
  const login = server.open({ role: 'none', poolMax: 1 })
  await login.query(
    `create table public.facts (id text primary key, step integer not null, at timestamptz not null default clock_timestamp(),
       seen_at timestamptz) with (fillfactor = 70)`,
  )
  await login.query('grant select, insert, update on public.facts to concord_engine')
  const db = server.open({ poolMax: 16 })

  /** Resolves when the drive of this id has begun, or ended. */
  const begun = new Map<string, () => void>()
  const ended = new Map<string, () => void>()
  const call = (waiting: Map<string, () => void>, id: string) => {
    waiting.get(id)?.()
    waiting.delete(id)
  }
  const runtime = createDbosRuntime({ db, poolMax: 16, only: ['concord_default', 'scheduled_maintenance'] })
  runtime.register('start', async (id) => {
    call(begun, id)
    return done
  })
  for (const [kind, effects] of [
    ['one', 1],
    ['four', 4],
  ] as const) {
    runtime.register(kind, async (id) => {
      for (let effect = 0; effect < effects; effect++) await db.run(moveFact, [id])
      call(ended, id)
      return done
    })
  }
  const opened = await runtime.open()
  if (!opened.ok) throw new Error(opened.reason)

  const until = (waiting: Map<string, () => void>, id: string) =>
    new Promise<void>((resolve) => waiting.set(id, resolve))

  /** Writes a fact and its wake in one commit; `tells` is a transaction that reports its commit. */
  async function commit(kind: string, id: string, tells: boolean): Promise<void> {
    const afterCommit: (() => void)[] = []
    await db.transaction(async (tx: Tx) => {
      const joined = tells ? Object.assign(tx, { afterCommit: (work: () => void) => void afterCommit.push(work) }) : tx
      await tx.run(insertFact, [id])
      await runtime.wake({ kind, id }, { tx: joined })
    })
    for (const work of afterCommit) work()
  }

  async function wakeAndWait(kind: string, waiting: Map<string, () => void>, tells: boolean): Promise<void> {
    const id = randomUUID()
    const there = until(waiting, id)
    await commit(kind, id, tells)
    await there
  }

  const loop = (inFlight: number, operation: () => Promise<unknown>) => () =>
    runLoop({ inFlight, forMs: Number(options.seconds) * 1_000, warmUpMs: 300, postmaster: server.pid, operation })
  const bare = () => db.run(insertFact, [randomUUID()])
  const plain = await openBareDbos(import.meta.filename, db.config.url)
  const workflow = (steps: number, inFlight: number) => () =>
    plain.loop({ steps, inFlight, forMs: Number(options.seconds) * 1_000, warmUpMs: 300, postmaster: server.pid })
  const cases: Case[] = [1, 16].flatMap((n) => [
    { name: `bare commit, ${n}`, run: loop(n, bare) },
    {
      name: `begin, fact, commit, ${n}`,
      against: `bare commit, ${n}`,
      run: loop(n, () => db.transaction((tx) => tx.run(insertFact, [randomUUID()]))),
    },
    {
      name: `fact + wake → turn begins, notified of the commit, ${n}`,
      against: `bare commit, ${n}`,
      run: loop(n, () => wakeAndWait('start', begun, true)),
    },
    {
      name: `fact + wake → turn begins, not notified, ${n}`,
      against: `bare commit, ${n}`,
      run: loop(n, () => wakeAndWait('start', begun, false)),
    },
    { name: `bare DBOS workflow, 1 step, ${n}`, run: workflow(1, n) },
    {
      name: `command as a turn, 1 effect, ${n}`,
      against: `bare DBOS workflow, 1 step, ${n}`,
      run: loop(n, () => wakeAndWait('one', ended, true)),
    },
    { name: `bare DBOS workflow, 4 steps, ${n}`, run: workflow(4, n) },
    {
      name: `command as a turn, 4 effects, ${n}`,
      against: `bare DBOS workflow, 4 steps, ${n}`,
      run: loop(n, () => wakeAndWait('four', ended, true)),
    },
  ])
  const results = await compare(cases, Number(options.rounds))
  printResults(results)
  const far = await measureFar(db)
  printGoals(results, far)
  plain.end()
  await runtime.close()
  await Promise.all([db.close(), login.close()])
  await server.stop()

  /** The other process runs the queue `connector_calls`; the times are those of the database. */
  async function measureFar(on: Db): Promise<number> {
    const child = await openChild(on.config.url)
    const ids = Array.from({ length: 200 }, () => randomUUID())
    for (const id of ids) {
      await on.transaction(async (tx) => {
        await tx.run(insertFact, [id])
        await runtime.wake({ kind: 'far', id }, { tx, queue: 'connector_calls' })
      })
      await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 20))
    }
    for (let open = ids.length; open > 0; ) {
      const [row] = await on.query<{ open: string }>(
        'select count(*) as open from public.facts where id = any($1) and seen_at is null',
        [ids],
      )
      open = Number(row?.open)
    }
    const rows = await on.query<{ ms: number }>(
      'select (extract(epoch from seen_at - at) * 1000)::float as ms from public.facts where id = any($1)',
      [ids],
    )
    child.end()
    return median(rows.map(({ ms }) => ms))
  }
}

function printGoals(results: readonly Result[], farMs: number): void {
  const of = (name: string, pick: (sample: Sample) => number) =>
    median((results.find((each) => each.name === name)?.samples ?? []).map(pick))
  const ratio = (name: string) => results.find((each) => each.name === name)?.ratio ?? Number.NaN
  const wakeMs = of('fact + wake → turn begins, notified of the commit, 1', ({ p50Ms }) => p50Ms)
  const bareMs = of('bare commit, 1', ({ p50Ms }) => p50Ms)
  const factMs = of('begin, fact, commit, 1', ({ p50Ms }) => p50Ms)
  const unnotifiedMs = of('fact + wake → turn begins, not notified, 1', ({ p50Ms }) => p50Ms)
  const rows = [
    ['G10 wake → turn ÷ the durable write alone, notified of the commit (≤ 2)', (wakeMs / bareMs).toFixed(2)],
    ['    ÷ the same transaction without the wake', (wakeMs / factMs).toFixed(2)],
    ['    the same, without notification, ÷ the durable write alone', (unnotifiedMs / bareMs).toFixed(2)],
    [
      'wake → turn p50 in this process, notified / not notified (≤ 50 ms)',
      `${wakeMs.toFixed(1)} / ${unnotifiedMs.toFixed(1)} ms`,
    ],
    ['wake → turn p50 in another process (≤ 50 ms)', `${farMs.toFixed(1)} ms`],
    [
      'G4 command as a turn ÷ bare DBOS workflow with 1 step, 16 in flight (≥ 1.3)',
      ratio('command as a turn, 1 effect, 16').toFixed(2),
    ],
    ['   with 4 effects ÷ 4 steps, 16 in flight (≥ 2)', ratio('command as a turn, 4 effects, 16').toFixed(2)],
  ] as const
  console.log()
  for (const [name, value] of rows) console.log(`${value.padStart(14)}  ${name}`)
}
