/**
 * The scheduler on its file, as ratios of one run: a dispatch compared with one bare insert per commit, 1,000,000 queued jobs
 * with 1,000, the time from a new process to its first dispatch, and memory over many dispatches.
 * `npm run bench -- scheduler [--quick] [--peers]`
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { claimJobs, finishRun, openScheduler, recover, type Scheduler } from '#domains/scheduler'
import type { Decision } from '#kernel/refusal'
import { uuidV7Generator } from '#kernel/ids'
import { readFlags } from '../scripts/read-flags.ts'
import { openSqlitePeers } from './harness/sqlite-peers.ts'
import { BARE_TABLE, BODY, mean, median, runSlices, SAME_SETTINGS, type SliceCase, warmUp } from './harness/slices.ts'

const { values: options } = readFlags({
  options: {
    quick: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
    'start-up': { type: 'string' },
  },
})
const isQuick = options.quick
const PER_CASE = isQuick ? 600 : 4_000
const DEEP = isQuick ? 50_000 : 1_000_000
/** The page cache of SQLite is full after 60,000; the memory of the process is flat from then on. */
const MEMORY_DISPATCHES = isQuick ? 4_000 : 160_000
/** Each fills the log of 4,000 pages once: 2 pages a bare insert, about 13 a dispatch with its end. */
const WARM_UP = { bare: 2_200, dispatch: 500 }
const SHALLOW = 1_000 + WARM_UP.dispatch + PER_CASE

function must<T>(decision: Decision<T>): T {
  if (!decision.ok) throw new Error(`${decision.code}: ${decision.reason}`)
  return decision.value
}

async function open(file: string, workers = 1): Promise<Scheduler> {
  const now = () => new Date()
  const world = { now, random: Math.random, newId: uuidV7Generator(now, randomBytes) }
  const scheduler = must(openScheduler({ file, deps: world, settings: { workers } }))
  must(await recover(scheduler, { endOrphan: async () => 'gone' }))
  return scheduler
}

/** Inserts directly into the table: a million submits would measure something else. */
async function aFilledFile(file: string, count: number): Promise<string> {
  const scheduler = await open(file)
  scheduler.close()
  const raw = new DatabaseSync(file)
  raw.exec('pragma synchronous = off; pragma cache_size = -200000')
  raw.exec(`
    insert into jobs (job_id, job_type, params, position, created_at, queued_at)
    with recursive n (i) as (select 1 union all select i + 1 from n where i < ${count})
    select printf('00000000-0000-7000-8000-%012x', i), 'story', '${BODY}', i * 100, 1777629600000 + i, 1777629600000 + i from n`)
  raw.exec('pragma wal_checkpoint(truncate)')
  raw.close()
  return file
}

type Runs = readonly { readonly runId: string }[]

function aDispatch(name: string, scheduler: Scheduler, max: number): SliceCase {
  return {
    name,
    one: () => must(claimJobs(scheduler, max)).runs,
    after: (runs) => {
      for (const { runId } of runs as Runs) must(finishRun(scheduler, runId, { outcome: 'completed' }))
    },
    close: () => scheduler.close(),
  }
}

/** The least that a durable queue does: one row with a key and one commit, with the same settings. */
function aBareInsert(file: string): SliceCase {
  const raw = new DatabaseSync(file)
  raw.exec(`${SAME_SETTINGS}; ${BARE_TABLE}`)
  const [begin, insert, commit] = ['begin immediate', 'insert into bare values (?, ?)', 'commit'].map((sql) =>
    raw.prepare(sql),
  )
  const newId = uuidV7Generator(() => new Date(), randomBytes)
  return {
    name: 'bare insert',
    one() {
      begin?.run()
      insert?.run(newId(), BODY)
      commit?.run()
    },
    close: () => raw.close(),
  }
}

async function startUp(file: string): Promise<void> {
  const scheduler = await open(file)
  must(claimJobs(scheduler))
  console.log(JSON.stringify({ dispatchedMs: performance.now(), rssMiB: process.memoryUsage().rss / 2 ** 20 }))
}

/** The disk does not matter for memory, so no case waits for it. */
async function measureMemory(file: string): Promise<number[]> {
  const scheduler = await open(file)
  scheduler.db.exec('pragma synchronous = off')
  const dispatch = aDispatch('memory', scheduler, 1)
  const quarters = Array.from({ length: 4 }, () => {
    warmUp(dispatch, MEMORY_DISPATCHES / 4)
    return process.memoryUsage().rss / 2 ** 20
  })
  dispatch.close()
  return quarters
}

async function run(folder: string): Promise<void> {
  const deepFile = await aFilledFile(join(folder, 'deep.db'), DEEP)
  const started = [1, 2, 3].map(() => {
    const output = execFileSync(process.execPath, [import.meta.filename, '--start-up', deepFile], { encoding: 'utf8' })
    return JSON.parse(output) as { dispatchedMs: number; rssMiB: number }
  })
  const bare = aBareInsert(join(folder, 'bare.db'))
  const shallow = aDispatch('dispatch', await open(await aFilledFile(join(folder, 'shallow.db'), SHALLOW)), 1)
  const deep = aDispatch('dispatch, deep', await open(deepFile), 1)
  const tens = await aFilledFile(join(folder, 'ten.db'), SHALLOW * 10)
  const ten = aDispatch('dispatch of ten', await open(tens, 10), 10)
  const peers = options.peers ? await openSqlitePeers(folder, SHALLOW) : []
  warmUp(bare, WARM_UP.bare)
  for (const each of [shallow, deep, ...peers]) warmUp(each, WARM_UP.dispatch)
  warmUp(ten, WARM_UP.dispatch / 10)
  const cases = [bare, shallow, deep, ...peers]
  const measured = new Map([...runSlices(cases, PER_CASE), ...runSlices([ten], PER_CASE / 10)])
  for (const each of [...cases, ten]) each.close()

  console.log(`\n${PER_CASE} calls each, in turns of 20, synchronous = full, the write-ahead log reused`)
  console.log('what'.padEnd(32), ...['per second', 'p50 µs', 'mean µs', 'CPU µs'].map((head) => head.padStart(11)))
  for (const [name, { wallUs, cpuUs }] of measured) {
    const cells = [1e6 / mean(wallUs), median(wallUs), mean(wallUs), mean(cpuUs)]
    console.log(name.padEnd(32), ...cells.map((value) => value.toFixed(0).padStart(11)))
  }
  const of = (name: string) => measured.get(name) ?? { wallUs: [], cpuUs: [] }
  const [one, claim] = [of('bare insert').wallUs, of('dispatch').wallUs]
  const report = (name: string, value: number, goal: string) =>
    console.log(name.padEnd(58), value.toFixed(2).padStart(8), `  goal ${goal}`)
  console.log()
  report('dispatches per second ÷ bare inserts per second', mean(one) / mean(claim), '≥ 0.8')
  report('the same by p50', median(one) / median(claim), '≥ 0.8')
  report(
    'jobs per second in dispatches of ten ÷ bare inserts',
    (mean(one) * 10) / mean(of('dispatch of ten').wallUs),
    '—',
  )
  const depth = median(of('dispatch, deep').wallUs) / median(claim)
  report(`dispatch p50, ${DEEP.toLocaleString('en')} queued ÷ 1,000 queued`, depth, '≤ 1.3')
  const firstMs = median(started.map(({ dispatchedMs }) => dispatchedMs))
  report('start of the process to first dispatch, s (deep)', firstMs / 1_000, '≤ 1')
  report('memory at that moment, MiB', median(started.map(({ rssMiB }) => rssMiB)), '—')
  const memory = await measureMemory(await aFilledFile(join(folder, 'memory.db'), MEMORY_DISPATCHES + 1))
  const quarters = memory.map((mib) => mib.toFixed(0)).join(', ')
  report(
    `memory after ${MEMORY_DISPATCHES} dispatches ÷ after half (MiB ${quarters})`,
    (memory[3] ?? 0) / (memory[1] ?? 1),
    '≤ 1.1',
  )
}

if (options['start-up'] !== undefined) await startUp(options['start-up'])
else {
  const folder = mkdtempSync(join(tmpdir(), 'concord-bench-'))
  try {
    await run(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
