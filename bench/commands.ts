/**
 * Commands compared with bare commits, bare DBOS workflows and a small lease queue: the goals G1 to G5 and G10 in one run, on
 * one Postgres that flushes every commit.
 *
 * node bench/commands.ts [--rounds 5] [--seconds 1.5] [--peers] [--only 'approval|update alone']
 */
import { randomUUID } from 'node:crypto'
import { statement } from '#store'
import { openBareDbos, serveBareDbos } from './harness/bare-dbos.ts'
import { openLeaseQueue } from './harness/lease-queue.ts'
import { openQueuePeers } from './harness/queue-peers.ts'
import { median, runLoop, type Sample } from './harness/closed-loop.ts'
import { openCommandBench } from './harness/command-bench.ts'
import { type Case, compare, printResults, type Result } from './harness/compare.ts'
import { openBenchServer } from './harness/server.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1.5' },
    bare: { type: 'string' },
    peers: { type: 'boolean', default: false },
    /** Runs only the matching rows; a goal without all its rows is left out. */
    only: { type: 'string', default: '' },
    quick: { type: 'boolean', default: false },
  },
})
const WARM_UP_MS = 6_000
if (options.bare !== undefined) await serveBareDbos(options.bare)
else await runBench()

async function runBench(): Promise<void> {
  const server = await openBenchServer()
  const login = server.open({ role: 'none', poolMax: 1 })
  // One row of the size of a command with one index: the measure of "one durable write".
  await login.query('create table public.facts (id uuid primary key, body jsonb not null, state text not null)')
  await login.query('grant select, insert, update on public.facts to concord_engine')
  const bareDb = server.open({ poolMax: 32 })
  const db = server.open({ poolMax: 10 })
  const bench = await openCommandBench(db)
  const queue = await openLeaseQueue(login, server.open({ poolMax: 8 }))
  const dbos = await openBareDbos(import.meta.filename, login.config.url)
  const body = JSON.stringify({ subject: 's', note: 'n'.repeat(150) })
  const insertFact = statement('bench_fact', `insert into public.facts (id, body, state) values ($1, $2, 'new')`)
  const moveFact = statement('bench_move', `update public.facts set state = 'approved' where id = $1`)
  const seconds = options.quick ? 0.5 : Number(options.seconds)
  const peers = options.peers ? await openQueuePeers(login.config.url) : []

  const loop =
    (inFlight: number, operation: () => Promise<unknown>) =>
    (forMs = seconds * 1_000) =>
      runLoop({ inFlight, forMs, warmUpMs: 300, postmaster: server.pid, operation })
  const workflow = (steps: number, inFlight: number) => () =>
    dbos.loop({ steps, inFlight, forMs: seconds * 1_000, warmUpMs: 300, postmaster: server.pid })
  const bare = () => bareDb.run(insertFact, [randomUUID(), body])

  const cases: Case[] = [
    ...[1, 8, 32].map((n) => ({ name: `bare commit, ${n}`, run: loop(n, bare) })),
    ...[1, 8, 32, 64, 256].map((n) => ({
      name: `command done inline, ${n}`,
      against: `bare commit, ${Math.min(n, 32)}`,
      run: loop(n, () => bench.run('inline')),
    })),
    { name: 'bare DBOS workflow, 1 step, 16', run: workflow(1, 16) },
    { name: 'durable command, submit → its effect begins, 16', run: loop(16, bench.start) },
    {
      name: 'durable command, 1 effect, 16',
      against: 'bare DBOS workflow, 1 step, 16',
      run: loop(16, () => bench.run('durable')),
    },
    { name: 'bare DBOS workflow, 4 steps, 16', run: workflow(4, 16) },
    {
      name: 'durable command, 4 effects, 16',
      against: 'bare DBOS workflow, 4 steps, 16',
      run: loop(16, () => bench.run('durable_four')),
    },
    { name: 'lease queue of one table, enqueue → start, 1', run: loop(1, queue.enqueueAndStart) },
    { name: 'durable command, submit → its effect begins, 1', run: loop(1, bench.start) },
    ...peers.flatMap(({ name, enqueueAndStart }) => [
      { name: `${name}, enqueue → start, 1`, run: loop(1, enqueueAndStart) },
      { name: `${name}, enqueue → start, 16`, run: loop(16, enqueueAndStart) },
    ]),
    { name: 'durable update alone, 1', run: () => runPrepared(gateFacts) },
    { name: 'approval → its effect begins, 1', run: () => runPrepared(bench.gate) },
  ]

  /** The approvals are prepared outside the measured time. */
  async function runPrepared(prepare: () => Promise<() => Promise<void>>): Promise<Sample> {
    const ready: (() => Promise<void>)[] = []
    const count = Math.ceil(seconds * 60)
    for (let n = 0; n < count; n++) ready.push(await prepare())
    const times: number[] = []
    for (const operation of ready) {
      const from = performance.now()
      await operation()
      times.push(performance.now() - from)
    }
    times.sort((a, b) => a - b)
    const p50Ms = median(times)
    const p99Ms = times[Math.floor(times.length * 0.99)] ?? Number.NaN
    return { perSecond: 1_000 / p50Ms, p50Ms, p99Ms, nodeUs: Number.NaN, postgresUs: undefined }
  }
  async function gateFacts(): Promise<() => Promise<void>> {
    const id = randomUUID()
    await bareDb.run(insertFact, [id, body])
    return async () => void (await bareDb.run(moveFact, [id]))
  }

  // A process that has just started runs unoptimised code: 400 µs of Node per inline command, and 150 after 20,000.
  if (!options.quick) {
    await loop(32, () => bench.run('inline'))(WARM_UP_MS)
    await loop(16, () => bench.run('durable'))(WARM_UP_MS)
    await loop(32, bare)(WARM_UP_MS)
  }
  const wanted = new RegExp(options.only, 'u')
  const chosen = cases.filter(({ name }) => wanted.test(name))
  const results = await compare(chosen, options.quick ? 1 : Number(options.rounds))
  printResults(results)
  printGoals(results)
  dbos.end()
  for (const peer of peers) await peer.close()
  await bench.close()
  await queue.close()
  await Promise.all([db, bareDb, login].map((each) => each.close()))
  await server.stop()
}

function printGoals(results: readonly Result[]): void {
  const find = (name: string) => results.find((each) => each.name === name)
  const ratio = (name: string) => find(name)?.ratio ?? Number.NaN
  const of = (name: string, pick: (sample: Sample) => number) => median((find(name)?.samples ?? []).map(pick))
  const p50 = (name: string) => of(name, ({ p50Ms }) => p50Ms)
  const cpu = (name: string) => of(name, ({ nodeUs, postgresUs }) => nodeUs + (postgresUs ?? Number.NaN))
  const rows: readonly (readonly [string, number])[] = [
    ['G1 inline commands ÷ half the bare commits, 8 in flight (≥ 0.6)', ratio('command done inline, 8') * 2],
    ['G1 the same, 32 in flight (≥ 0.8)', ratio('command done inline, 32') * 2],
    ['G1 through the lane, 64 in flight ÷ half the bare commits at 32 (≥ 1)', ratio('command done inline, 64') * 2],
    ['G1 through the lane, 256 in flight', ratio('command done inline, 256') * 2],
    ['G2 p50 ÷ two bare commits, 1 in flight (≤ 1.5)', p50('command done inline, 1') / p50('bare commit, 1') / 2],
    ['G3 CPU ÷ two bare commits, 8 in flight (≤ 1.3)', cpu('command done inline, 8') / cpu('bare commit, 8') / 2],
    ['G4 durable command ÷ bare DBOS workflow, 1 step, 16 in flight (≥ 2.5)', ratio('durable command, 1 effect, 16')],
    ['G4 with 4 effects ÷ 4 steps, 16 in flight (≥ 2.5)', ratio('durable command, 4 effects, 16')],
    [
      'G5 submit → effect begins ÷ lease queue of one table (≤ 2.5)',
      p50('durable command, submit → its effect begins, 1') / p50('lease queue of one table, enqueue → start, 1'),
    ],
    [
      'G10 approval → effect begins ÷ the durable update alone (≤ 6)',
      p50('approval → its effect begins, 1') / p50('durable update alone, 1'),
    ],
  ]
  console.log()
  for (const [name, value] of rows.filter((row) => !Number.isNaN(row[1])))
    console.log(`${value.toFixed(2).padStart(8)}  ${name}`)
}
