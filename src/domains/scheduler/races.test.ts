/** Concurrent access to the same rows: threads with their own connections to one file. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { proofSize } from '#test/proof-size'
import { checkInvariants } from './check-invariants.ts'
import { claimJobs } from './claim-next.ts'
import { listQueue } from './job-views.ts'
import type { RaceTask, ReserveRound } from '#test/scheduler/race'
import { aFile, aScheduler, countOf, must, rowsOf } from '#test/scheduler/fixture'
import { submitJob } from './submit-job.ts'

type Part = Pick<RaceTask, 'kind' | 'rounds'> & Partial<Pick<RaceTask, 'connections' | 'runIds'>>

/** Starts one thread per part and returns their reports. */
async function race<T>(file: string, parts: readonly Part[]): Promise<T[]> {
  const barrier = new SharedArrayBuffer(8)
  return Promise.all(
    parts.map((part) => {
      const workerData: RaceTask = { file, threads: parts.length, connections: 1, barrier, ...part }
      const worker = new Worker(new URL('../../../test/support/scheduler/race.ts', import.meta.url), { workerData })
      return new Promise<T>((resolve, reject) => {
        worker.once('message', resolve)
        worker.once('error', reject)
      })
    }),
  )
}

const ROUNDS = proofSize(100, 500)

test(`[SCH-062] [SCH-099] [SCH-123] 64 reservers, ${ROUNDS} rounds: one winner each time, never two ACTIVE, the dispatcher waits, the order stays`, async () => {
  const file = aFile()
  const scheduler = aScheduler({ file })
  for (let count = 0; count < 20; count++) must(submitJob(scheduler, { job_type: 'story', priority: count % 3 }))
  const queue = must(listQueue(scheduler, { limit: 100 })).jobs.map((job) => job.job_id)
  const parts = Array.from({ length: 8 }, () => ({ kind: 'reserve', rounds: ROUNDS, connections: 8 }) as const)
  const reports = await race<ReserveRound[]>(file, parts)
  for (let round = 0; round < ROUNDS; round++) {
    assert.equal(
      reports.reduce((sum, report) => sum + (report[round]?.won ?? 0), 0),
      1,
    )
    for (const report of reports) {
      const { won: _, ...seen } = report[round] ?? { won: 0 }
      assert.deepEqual(seen, { active: 1, started: 0, waits: 'reserved', queue: queue.join() })
    }
  }
  assert.deepEqual(must(checkInvariants(scheduler)).violations, [])
  scheduler.close()
})

test('[SCH-092] parallel inserts get distinct positions', async () => {
  const file = aFile()
  const scheduler = aScheduler({ file })
  const reports = await race<number[]>(
    file,
    Array.from({ length: 4 }, () => ({ kind: 'submit', rounds: 50 }) as const),
  )
  assert.deepEqual(
    reports.flat().toSorted((a, b) => a - b),
    Array.from({ length: 200 }, (_, index) => (index + 1) * 100),
  )
  assert.deepEqual(must(checkInvariants(scheduler)).violations, [])
  scheduler.close()
})

test('[SCH-100] [SCH-121] [SCH-099] two dispatchers and a reserver: each job runs once, and none during a reservation', async () => {
  const file = aFile()
  const scheduler = aScheduler({ file })
  const jobs = Array.from({ length: 300 }, () => must(submitJob(scheduler, { job_type: 'story' })).job_id)
  const [one, two, watched] = (await race<unknown>(file, [
    { kind: 'dispatch', rounds: 4_000 },
    { kind: 'dispatch', rounds: 4_000 },
    { kind: 'watch', rounds: 25 },
  ])) as [string[], string[], { held: number; startedBeside: number }]
  const got = [...one, ...two]
  assert.equal(new Set(got).size, got.length)
  assert.equal(watched.startedBeside, 0)
  assert.ok(watched.held > 0 && got.length > 0)
  assert.equal(countOf(scheduler, 'job_runs'), got.length)
  assert.ok(got.every((job) => jobs.includes(job)))
  assert.deepEqual(must(checkInvariants(scheduler)).violations, [])
  scheduler.close()
})

test('[SCH-086] [SCH-033] two callers finish the same runs: one outcome and one retry each', async () => {
  const file = aFile()
  const scheduler = aScheduler({ file, settings: { workers: 50 } })
  for (let count = 0; count < 30; count++) must(submitJob(scheduler, { job_type: 'story' }))
  const runIds = must(claimJobs(scheduler, 30)).runs.map((run) => run.runId)
  const [one = [], two = []] = await race<boolean[]>(file, [
    { kind: 'finish', rounds: 1, runIds },
    { kind: 'finish', rounds: 1, runIds },
  ])
  for (const [index] of runIds.entries()) assert.equal(Number(one[index]) + Number(two[index]), 1)
  const retries = rowsOf(scheduler, 'jobs')
    .map((row) => row['retry_of'])
    .filter(Boolean)
  assert.equal(new Set(retries).size, 30)
  assert.equal(retries.length, 30)
  scheduler.close()
})
