/** Direct executions requested while a scheduler runs. Both sides use the file alone, and either may die. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { aFile, aFolder, aRun, aScheduler, codeOf, must, rowsOf } from '#test/scheduler/fixture'
import { openRaw } from '#test/scheduler/raw-file'
import { aRealScheduler, aShellType, wait } from '#test/scheduler/run-until-idle'
import { until } from '#test/until'
import { checkInvariants } from './check-invariants.ts'
import { claimJobs } from './claim-next.ts'
import { askForDirect, followDirect, startAskedDirect } from './direct-job.ts'
import { finishRun } from './finish-run.ts'
import { readJob } from './job-views.ts'
import { isOwned, openScheduler } from './open-scheduler.ts'
import { releaseReservation, reserve, tickReservations } from './reservations.ts'
import { runScheduler } from './run-scheduler.ts'
import type { Scheduler } from './scheduler.ts'
import { submitJob } from './submit-job.ts'

const soon = { reservedBy: 'a test', timeoutMs: 0, wait }
const ask = (scheduler: Scheduler, body = {}) => askForDirect(scheduler, { job_type: 'story', ...body }, soon)

function aGuest(owner: Scheduler): Scheduler {
  return must(openScheduler({ file: owner.db.file, deps: owner.deps, role: 'guest' }))
}

describe('with a running scheduler', () => {
  test('[SCH-101] [SCH-098] a direct execution waits for the job in flight, runs before queued jobs, and leaves a job and a run', async () => {
    const folder = aFolder()
    const ran = join(folder, 'ran')
    const script = `cat > /dev/null; echo $JOB_ID >> ${ran}; while [ ! -e ${folder}/$JOB_ID ]; do sleep 0.02; done`
    const owner = aRealScheduler([aShellType(script)])
    const stop = new AbortController()
    const first = must(submitJob(owner, { job_type: 'story' }))
    const second = must(submitJob(owner, { job_type: 'story' }))
    const running = runScheduler(owner, {
      wait,
      stop: stop.signal,
      environment: { PATH: process.env['PATH'] },
      pollMs: 10,
    })
    const lines = () => (existsSync(ran) ? readFileSync(ran, 'utf8').trim().split('\n') : [])
    await until(() => lines().length === 1)
    const guest = aGuest(owner)
    const asked = must(await ask(guest))
    const report = followDirect(guest, asked, { wait, startByMs: Infinity, isOwned: () => isOwned(guest.db.file) })
    assert.equal(must(readJob(guest, asked.job.job_id)).job.status, 'QUEUED')
    for (const id of [first.job_id, asked.job.job_id, second.job_id]) {
      await until(() => lines().includes(id))
      writeFileSync(join(folder, id), '')
    }
    const { job, run } = must(await report)
    assert.deepEqual([job.hold, run?.status, run?.exit_code], ['direct', 'COMPLETED', 0])
    await until(() => must(readJob(owner, second.job_id)).run?.status === 'COMPLETED')
    assert.deepEqual(lines(), [first.job_id, asked.job.job_id, second.job_id])
    stop.abort()
    must(await running)
    assert.deepEqual(must(checkInvariants(owner)).violations, [])
    assert.deepEqual(
      rowsOf(owner, 'direct_reservations').map((row) => row['status']),
      ['RELEASED'],
    )
    guest.close()
    owner.close()
  })

  test('the caller can end it while it runs', async () => {
    const owner = aRealScheduler([aShellType('exec sleep 600')])
    const stop = new AbortController()
    const running = runScheduler(owner, {
      wait,
      stop: stop.signal,
      environment: { PATH: process.env['PATH'] },
      pollMs: 10,
    })
    await until(() => owner.recovery.isDone)
    const guest = aGuest(owner)
    const cancel = new AbortController()
    const asked = must(await ask(guest))
    const report = followDirect(guest, asked, { wait, startByMs: Infinity, cancel: cancel.signal })
    await until(() => must(readJob(guest, asked.job.job_id)).run?.process_pid != null)
    cancel.abort()
    const { run } = must(await report)
    assert.deepEqual([run?.status, run?.error, run?.retry_decided], ['FAILED', 'cancelled', 'stopped'])
    stop.abort()
    must(await running)
    guest.close()
    owner.close()
  })
})

describe('a requested job that has not started', () => {
  test('[SCH-079] expires with its reservation and sends a notification', async () => {
    const scheduler = aScheduler()
    const { job } = must(await ask(scheduler))
    scheduler.clock.by(scheduler.settings.reservationMs)
    must(tickReservations(scheduler))
    assert.equal(must(readJob(scheduler, job.job_id)).job.status, 'CANCELLED')
    const told = rowsOf(scheduler, 'notifications').map((row) => row['notification_id'])
    assert.ok(told.includes(`job_cancelled:${job.job_id}`))
    assert.equal(must(startAskedDirect(scheduler)), undefined)
  })

  test('[SCH-078] is cancelled by the release of its reservation', async () => {
    const scheduler = aScheduler()
    const { job, reservationId } = must(await ask(scheduler))
    must(releaseReservation(scheduler, reservationId))
    assert.equal(must(readJob(scheduler, job.job_id)).job.status, 'CANCELLED')
  })

  test('is withdrawn when the slot does not become free in time, and when no process owns the file', async () => {
    const scheduler = aScheduler()
    const { runId } = aRun(scheduler)
    const asked = must(await ask(scheduler))
    assert.equal(must(startAskedDirect(scheduler)), undefined, 'a job of the queue is in flight')
    const late = await followDirect(scheduler, asked, { wait, startByMs: scheduler.clock.ms })
    assert.equal(codeOf(late), 'scheduler.reservation.slot_taken')
    assert.equal(must(readJob(scheduler, asked.job.job_id)).job.status, 'CANCELLED')
    must(finishRun(scheduler, runId, { outcome: 'completed' }))
    const again = must(await ask(scheduler))
    const passing = (ms: number) => Promise.resolve(scheduler.clock.by(ms))
    const alone = await followDirect(scheduler, again, { wait: passing, startByMs: Infinity, isOwned: () => false })
    assert.equal(codeOf(alone), 'scheduler.not_running')
    assert.deepEqual(must(claimJobs(scheduler)).waiting?.reason, 'empty', 'the queue is free again')
  })

  test('[SCH-103] is kept alive by its caller, even beyond the first lifetime of the reservation', async () => {
    const scheduler = aScheduler()
    const asked = must(await ask(scheduler))
    const passing = (ms: number) => Promise.resolve(scheduler.clock.by(ms * 1_000))
    const until = scheduler.clock.ms + 3 * scheduler.settings.reservationMs
    await followDirect(scheduler, asked, { wait: passing, startByMs: until })
    assert.deepEqual(
      rowsOf(scheduler, 'direct_reservations').map((row) => row['status']),
      ['RELEASED'],
      'released by who asked, not run out',
    )
  })
})

test('[SCH-102] one at a time: a second one is refused, and invalid work leaves nothing behind', async () => {
  const scheduler = aScheduler()
  assert.equal(codeOf(await ask(scheduler, { job_type: 'poem' })), 'scheduler.job_type.unknown')
  must(await ask(scheduler))
  assert.equal(codeOf(await ask(scheduler)), 'scheduler.reservation.busy')
  assert.equal(codeOf(reserve(scheduler, { reserved_by: 'another' })), 'scheduler.reservation.busy')
})

test('[SCH-101] only an owner that has recovered starts it, once', async () => {
  const scheduler = aScheduler({ file: aFile() })
  const guest = aGuest(scheduler)
  must(await ask(guest))
  assert.equal(codeOf(startAskedDirect(guest)), 'scheduler.not_owner')
  scheduler.recovery.isDone = false
  assert.equal(codeOf(startAskedDirect(scheduler)), 'scheduler.not_recovered')
  scheduler.recovery.isDone = true
  assert.equal(must(startAskedDirect(scheduler))?.job.hold, 'direct')
  assert.equal(must(startAskedDirect(scheduler)), undefined)
  guest.close()
  scheduler.close()
})

test('isOwned does not disturb the owner', () => {
  const scheduler = aScheduler({ file: aFile() })
  assert.equal(isOwned(scheduler.db.file), true)
  scheduler.close()
  assert.equal(isOwned(scheduler.db.file), false)
})

test('a row with unreadable params is closed as FAILED, and the loop continues', async () => {
  const scheduler = aScheduler({ file: aFile() })
  const { job } = must(await ask(scheduler))
  const deep = `${'{"a":'.repeat(40)}1${'}'.repeat(40)}`
  const raw = openRaw(scheduler.db.file)
  raw.prepare('update jobs set params = ? where job_id = ?').run(deep, job.job_id)
  raw.close()
  assert.equal(must(startAskedDirect(scheduler)), undefined)
  assert.equal(must(readJob(scheduler, job.job_id)).run?.status, 'FAILED')
  scheduler.close()
})
