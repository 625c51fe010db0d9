/** Run as a thread by `races.test.ts`: has its own connections to one file and runs in step with the other threads. */
import { parentPort, workerData } from 'node:worker_threads'
import { randomBytes } from 'node:crypto'
import { uuidV7Generator } from '#kernel/ids'
import { claimJobs } from '../../../src/domains/scheduler/claim-next.ts'
import { finishRun } from '../../../src/domains/scheduler/finish-run.ts'
import { listQueue } from '../../../src/domains/scheduler/job-views.ts'
import { openScheduler } from '../../../src/domains/scheduler/open-scheduler.ts'
import { releaseReservation, reserve } from '../../../src/domains/scheduler/reservations.ts'
import { must } from './fixture.ts'
import type { Scheduler } from '../../../src/domains/scheduler/scheduler.ts'
import { query } from '../../../src/domains/scheduler/database.ts'
import { submitJob } from '../../../src/domains/scheduler/submit-job.ts'

/** The result of one round in one thread. */
export type ReserveRound = {
  readonly won: number
  readonly active: number
  readonly started: number
  readonly waits: string
  readonly queue: string
}

export type RaceTask = {
  readonly file: string
  readonly kind: 'reserve' | 'submit' | 'dispatch' | 'watch' | 'finish'
  readonly threads: number
  readonly connections: number
  readonly rounds: number
  readonly barrier: SharedArrayBuffer
  readonly runIds?: readonly string[]
}

const task = workerData as RaceTask
const cells = new Int32Array(task.barrier)

/** All threads wait here for the last one. */
function meet(): void {
  const gate = Atomics.load(cells, 1)
  if (Atomics.add(cells, 0, 1) === task.threads - 1) {
    Atomics.store(cells, 0, 0)
    Atomics.add(cells, 1, 1)
    Atomics.notify(cells, 1)
  } else while (Atomics.load(cells, 1) === gate) Atomics.wait(cells, 1, gate, 1_000)
}

function connect(): Scheduler {
  const now = () => new Date()
  const world = { now, random: Math.random, newId: uuidV7Generator(now, randomBytes) }
  const opened = must(
    openScheduler({ file: task.file, role: 'guest', deps: world, busyTimeoutMs: 60_000, settings: { workers: 1_000 } }),
  )
  return { ...opened, role: 'owner', recovery: { isDone: true } }
}

const countRuns = query<{ n: number }>('select count(*) as n from job_runs')
const countActive = query<{ n: number }>(`select count(*) as n from direct_reservations where status = 'ACTIVE'`)

/** All reservers try at once in every round. Reports the winner, the number of ACTIVE rows, and what a dispatcher got. */
function raceReserve(schedulers: readonly Scheduler[]): unknown {
  const rounds: ReserveRound[] = []
  for (let round = 0; round < task.rounds; round++) {
    meet()
    const won = schedulers.flatMap((scheduler) => {
      const reserved = reserve(scheduler, { reserved_by: 'race' })
      return reserved.ok ? [reserved.value.reservation_id] : []
    })
    meet()
    const [first] = schedulers as [Scheduler]
    const { runs, waiting } = must(claimJobs(first))
    const queue = must(listQueue(first, { limit: 100 })).jobs.map((job) => job.job_id)
    const active = first.db.one(countActive)?.n ?? -1
    rounds.push({ won: won.length, active, started: runs.length, waits: waiting?.reason ?? 'no', queue: queue.join() })
    meet()
    for (const id of won) must(releaseReservation(schedulers[0] as Scheduler, id))
  }
  return rounds
}

/** Holds the slot and checks that nothing starts. */
function watch(scheduler: Scheduler): unknown {
  let startedBeside = 0
  let held = 0
  for (let round = 0; round < task.rounds; round++) {
    const reserved = reserve(scheduler, { reserved_by: 'watch' })
    if (!reserved.ok) continue
    held += 1
    const before = scheduler.db.one(countRuns)?.n ?? 0
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4)
    startedBeside += (scheduler.db.one(countRuns)?.n ?? 0) - before
    must(releaseReservation(scheduler, reserved.value.reservation_id))
    // Pauses, because SQLite's locks are not fair.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2)
  }
  return { held, startedBeside }
}

function dispatch(scheduler: Scheduler): unknown {
  const got: string[] = []
  for (let round = 0; round < task.rounds; round++) {
    for (const run of must(claimJobs(scheduler)).runs) {
      got.push(run.job.job_id)
      must(finishRun(scheduler, run.runId, { outcome: 'completed' }))
    }
  }
  return got
}

function report(value: unknown): void {
  parentPort?.postMessage(value, [])
}

const schedulers = Array.from({ length: task.connections }, connect)
const [first] = schedulers
if (!first) throw new Error('The thread has no connection.')
meet()
switch (task.kind) {
  case 'reserve':
    report(raceReserve(schedulers))
    break
  case 'submit':
    report(Array.from({ length: task.rounds }, () => must(submitJob(first, { job_type: 'story' })).position))
    break
  case 'watch':
    report(watch(first))
    break
  case 'dispatch':
    report(dispatch(first))
    break
  case 'finish':
    report((task.runIds ?? []).map((runId) => finishRun(first, runId, { outcome: 'failed', error: 'race' }).ok))
    break
}
for (const scheduler of schedulers) scheduler.close()
