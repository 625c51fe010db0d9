/**
 * The scheduler on its file, as ratios of one run: a dispatch against one bare insert per commit, 1,000,000 queued jobs
 * against 1,000, and how long a fresh process takes from its start to its first dispatch. `node bench/scheduler.ts [--quick]`
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { claimNext, finishRun, openScheduler, recover, type Scheduler } from '#domains/scheduler'
import type { Decision } from '#kernel/refusal'
import { uuidV7Generator } from '#kernel/uuid'

const isQuick = process.argv.includes('--quick')
const ROUNDS = isQuick ? 3 : 7
const PER_ROUND = isQuick ? 200 : 600
const WARM_UP = isQuick ? 100 : 400
const DEEP = isQuick ? 50_000 : 1_000_000

function must<T>(decision: Decision<T>): T {
  if (!decision.ok) throw new Error(`${decision.code}: ${decision.reason}`)
  return decision.value
}

async function open(file: string, workers = 1): Promise<Scheduler> {
  const now = () => new Date()
  const world = { now, random: Math.random, newId: uuidV7Generator(now, randomBytes) }
  const scheduler = must(openScheduler({ file, world, settings: { workers } }))
  must(await recover(scheduler, { endOrphan: async () => 'gone' }))
  return scheduler
}

/** Straight into the table: a million submits would measure something else. */
function fill(file: string, count: number): void {
  const raw = new DatabaseSync(file)
  raw.exec('pragma synchronous = off; pragma cache_size = -200000')
  raw.exec(`
    insert into jobs (job_id, job_type, params, position, created_at, queued_at)
    with recursive n (i) as (select 1 union all select i + 1 from n where i < ${count})
    select printf('00000000-0000-7000-8000-%012x', i), 'story', '{"text":"${'x'.repeat(180)}"}', i * 100, 1777629600000 + i, 1777629600000 + i from n`)
  raw.exec('pragma wal_checkpoint(truncate)')
  raw.close()
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

/** The time of each call in microseconds; what `after` does is not counted. */
function measure<T>(count: number, call: () => T, after: (result: T) => void = () => {}): number[] {
  return Array.from({ length: count }, () => {
    const start = performance.now()
    const result = call()
    const micros = (performance.now() - start) * 1_000
    after(result)
    return micros
  })
}

const dispatchOne = (scheduler: Scheduler) => () => must(claimNext(scheduler)).runs
const finishAll = (scheduler: Scheduler) => (runs: readonly { readonly runId: string }[]) => {
  for (const { runId } of runs) must(finishRun(scheduler, runId, { outcome: 'completed' }))
}

/** The least that a durable queue does: one row with a key, one commit, with the same settings. */
function openBare(file: string): () => void {
  const raw = new DatabaseSync(file)
  raw.exec(
    'pragma journal_mode = wal; pragma synchronous = full; pragma cache_size = -65536; pragma wal_autocheckpoint = 4000',
  )
  raw.exec('create table bare (id text primary key not null, body text not null)')
  const [begin, insert, commit] = [
    raw.prepare('begin immediate'),
    raw.prepare('insert into bare values (?, ?)'),
    raw.prepare('commit'),
  ]
  const newId = uuidV7Generator(() => new Date(), randomBytes)
  const body = JSON.stringify({ text: 'x'.repeat(180) })
  return () => {
    begin.run()
    insert.run(newId(), body)
    commit.run()
  }
}

async function startUp(file: string): Promise<void> {
  const scheduler = await open(file)
  const openedMs = performance.now()
  must(claimNext(scheduler))
  console.log(
    JSON.stringify({ openedMs, dispatchedMs: performance.now(), rssMiB: process.memoryUsage().rss / 2 ** 20 }),
  )
}

async function run(folder: string): Promise<void> {
  const shallowFile = join(folder, 'shallow.db')
  const deepFile = join(folder, 'deep.db')
  const batchFile = join(folder, 'batch.db')
  for (const file of [shallowFile, deepFile, batchFile]) (await open(file)).close()
  fill(shallowFile, 1_000 + WARM_UP + ROUNDS * PER_ROUND)
  fill(batchFile, 1_000 + WARM_UP + ROUNDS * PER_ROUND)
  fill(deepFile, DEEP)

  const started = [1, 2, 3].map(() => {
    const output = execFileSync(process.execPath, [import.meta.filename, '--start-up', deepFile], { encoding: 'utf8' })
    return JSON.parse(output) as { openedMs: number; dispatchedMs: number; rssMiB: number }
  })

  const shallow = await open(shallowFile)
  const deep = await open(deepFile)
  const batch = await open(batchFile, 10)
  const bare = openBare(join(folder, 'bare.db'))
  const dispatchTen = () => must(claimNext(batch, 10)).runs
  // Once through everything, uncounted: the first calls of a process measure its compiler.
  measure(WARM_UP, bare)
  for (const scheduler of [shallow, deep]) measure(WARM_UP, dispatchOne(scheduler), finishAll(scheduler))
  measure(WARM_UP / 10, dispatchTen, finishAll(batch))
  const rounds = Array.from({ length: ROUNDS }, (_, round) => {
    const samples: Record<string, number[]> = {}
    const parts: [string, () => number[]][] = [
      ['bare insert', () => measure(PER_ROUND, bare)],
      ['dispatch', () => measure(PER_ROUND, dispatchOne(shallow), finishAll(shallow))],
      ['dispatch, deep', () => measure(PER_ROUND, dispatchOne(deep), finishAll(deep))],
      ['dispatch of ten', () => measure(PER_ROUND / 10, dispatchTen, finishAll(batch)).map((micros) => micros / 10)],
    ]
    // Each round begins with another one, so that nobody always runs after the same neighbour.
    for (const [name, part] of [...parts.slice(round % 4), ...parts.slice(0, round % 4)]) samples[name] = part()
    return samples
  })

  const sum = (values: readonly number[] = []) => values.reduce((total, value) => total + value, 0)
  const p50 = (name: string) => median(rounds.map((round) => median(round[name] ?? [])))
  const perSecond = (name: string) =>
    median(rounds.map((round) => ((round[name]?.length ?? 0) * 1e6) / sum(round[name])))
  const ratio = (one: string, other: string, of: (values: readonly number[]) => number) =>
    median(rounds.map((round) => of(round[one] ?? []) / of(round[other] ?? [])))
  const meanOf = (values: readonly number[]) => sum(values) / values.length

  console.log(`\nmedians of ${ROUNDS} rounds of ${PER_ROUND}, synchronous = full`)
  console.log('what'.padEnd(18), 'per second'.padStart(12), 'p50 µs'.padStart(10))
  for (const name of ['bare insert', 'dispatch', 'dispatch, deep', 'dispatch of ten']) {
    console.log(name.padEnd(18), perSecond(name).toFixed(0).padStart(12), p50(name).toFixed(0).padStart(10))
  }
  const report = (name: string, value: number, goal: string) =>
    console.log(name.padEnd(58), value.toFixed(2).padStart(8), `  goal ${goal}`)
  console.log()
  report('dispatches per second ÷ bare inserts per second', ratio('bare insert', 'dispatch', meanOf), '≥ 0.8')
  report('the same by p50', ratio('bare insert', 'dispatch', median), '≥ 0.8')
  report('dispatches of ten ÷ bare inserts', ratio('bare insert', 'dispatch of ten', meanOf), '—')
  report(
    `dispatch p50, ${DEEP.toLocaleString('en')} queued ÷ 1,000 queued`,
    ratio('dispatch, deep', 'dispatch', median),
    '≤ 1.3',
  )
  report(
    'start of the process to first dispatch, s (deep)',
    median(started.map((start) => start.dispatchedMs)) / 1_000,
    '≤ 1',
  )
  report('memory at that moment, MiB', median(started.map((start) => start.rssMiB)), '—')
  for (const scheduler of [shallow, deep, batch]) scheduler.close()
}

const startUpAt = process.argv.indexOf('--start-up')
if (startUpAt > 0) await startUp(process.argv[startUpAt + 1] ?? '')
else {
  const folder = mkdtempSync(join(tmpdir(), 'concord-bench-'))
  try {
    await run(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
