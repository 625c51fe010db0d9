/** kill -9 at every failpoint during real work on a real file; after a restart nothing is lost or done twice. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { checkInvariants } from './check-invariants.ts'
import { claimJobs } from './claim-next.ts'
import type { CrashPlan } from '#test/scheduler/crash'
import { listQueue } from './job-views.ts'
import { schedulerPoints, type SchedulerFault } from './failpoints.ts'
import { recover } from './recover.ts'
import { aClock, aFolder, must, openTest, rowsOf, START } from '#test/scheduler/fixture'

const program = new URL('../../../test/support/scheduler/crash.ts', import.meta.url).pathname

async function live(plan: CrashPlan): Promise<'killed' | 'ended'> {
  const child = spawn(process.execPath, [program, JSON.stringify(plan)], { stdio: 'inherit' })
  const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
  if (signal === 'SIGKILL') return 'killed'
  assert.equal(code, 0)
  return 'ended'
}

const linesOf = (file: string) => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [])

/** Restarts until every kill has fired, then checks the file. */
async function endure(kills: readonly SchedulerFault[]): Promise<{ killed: number; covered: Set<string> }> {
  const folder = aFolder()
  const paths = {
    file: join(folder, 'jobs.db'),
    coverFile: join(folder, 'cover'),
    execLog: join(folder, 'exec'),
    ackLog: join(folder, 'ack'),
  }
  let killed = 0
  for (const [life, fault] of kills.entries()) {
    // Each restart is an hour later, after every earlier reservation.
    if ((await live({ ...paths, faults: [fault], startMs: START + life * 8 * 3_600_000 })) === 'killed') killed += 1
  }
  const clock = aClock(START + kills.length * 8 * 3_600_000)
  const scheduler = must(openTest({ file: paths.file, clock }))
  const queued = must(listQueue(scheduler, { limit: 500 })).jobs.map((job) => job.job_id)
  must(await recover(scheduler, { endOrphan: async () => 'gone' }))
  const executions = linesOf(paths.execLog).map((line) => JSON.parse(line) as { jobId: string; runId: string })
  assert.deepEqual(must(checkInvariants(scheduler, executions)).violations, [])
  const jobs = new Set(rowsOf(scheduler, 'jobs').map((row) => row['job_id']))
  for (const acknowledged of linesOf(paths.ackLog))
    assert.ok(jobs.has(acknowledged), `${acknowledged} was acknowledged and is gone`)
  const after = must(listQueue(scheduler, { limit: 500 })).jobs.map((job) => job.job_id)
  assert.deepEqual(
    after.filter((job) => queued.includes(job)),
    queued,
  )
  assert.equal(must(claimJobs(scheduler)).runs[0]?.job.job_id, after[0])
  scheduler.close()
  return { killed, covered: new Set(linesOf(paths.coverFile)) }
}

describe('kill -9', { concurrency: 4 }, () => {
  for (const point of schedulerPoints) {
    const rows = '[SCH-002] [SCH-003] [SCH-004] [SCH-014] [SCH-121]'
    // Step 3 has work only in a file that another program wrote; `recover.test.ts` cuts it there.
    if (point === 'recovery.step_3') continue
    // In the running loop alone, with children and a receiver: `test/chaos/kill-scheduler.ts`.
    if (point.startsWith('run.') || point.startsWith('notification.')) continue
    test(`${rows} at ${point}, and once more in the life after`, async () => {
      // A recovery has something to do only after a death with a run in flight.
      const before = point.startsWith('recovery.') ? 'finish.outcome' : point
      const { killed, covered } = await endure([before, point].map((each) => ({ point: each, hit: 1, act: 'kill' })))
      assert.equal(killed, 2)
      assert.ok(covered.has(point), `${point} was not reached`)
    })
  }
})
