/** Reservations for direct executions: one at a time, with an expiry, and the queue waits unchanged. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { aRun, aScheduler, codeOf, countOf, fail, must, rowsOf, START } from '#test/scheduler/fixture'
import { claimJobs } from './claim-next.ts'
import { startDirectJob } from './direct-job.ts'
import { SchedulerFaultInjected } from './failpoints.ts'
import { finishRun } from './finish-run.ts'
import { listQueue, readJob } from './job-views.ts'
import { releaseReservation, renewReservation, reserve, tickReservations, waitForReservation } from './reservations.ts'
import { submitJob } from './submit-job.ts'

const MINUTE = 60_000

describe('the life of a reservation', () => {
  test('[SCH-077] [SCH-061] it begins ACTIVE and expires after five minutes by default', () => {
    const scheduler = aScheduler()
    const { status, reserved_at, reserved_by, expires_at, ended_at } = must(
      reserve(scheduler, { reserved_by: 'api:7' }),
    )
    assert.deepEqual(
      [status, reserved_at, reserved_by, expires_at, ended_at],
      ['ACTIVE', START, 'api:7', START + 5 * MINUTE, null],
    )
    const longer = aScheduler({ settings: { reservationMs: 10 * MINUTE } })
    assert.equal(must(reserve(longer, { reserved_by: 'x' })).expires_at, START + 10 * MINUTE)
    assert.equal(must(reserve(aScheduler(), { reserved_by: 'x', expires_in: '30s' })).expires_at, START + 30_000)
    assert.equal(codeOf(reserve(scheduler, { reserved_by: 'x', expires_in: '5 minutes' })), 'duration')
  })

  test('[SCH-078] a release ends it, once', () => {
    const scheduler = aScheduler()
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    scheduler.clock.by(10)
    const released = must(releaseReservation(scheduler, reservation_id))
    assert.deepEqual([released.status, released.ended_at], ['RELEASED', START + 10])
    assert.equal(codeOf(releaseReservation(scheduler, reservation_id)), 'scheduler.reservation.ended')
    assert.equal(codeOf(renewReservation(scheduler, reservation_id)), 'scheduler.reservation.ended')
    assert.equal(codeOf(releaseReservation(scheduler, 'nobody')), 'scheduler.reservation.not_found')
  })

  test('[SCH-079] the tick of the dispatcher expires it when its time has passed, not a millisecond before', () => {
    const scheduler = aScheduler()
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    must(submitJob(scheduler, { job_type: 'story' }))
    scheduler.clock.by(5 * MINUTE - 1)
    assert.equal(must(claimJobs(scheduler)).waiting?.reason, 'reserved')
    assert.deepEqual(must(tickReservations(scheduler)), [])
    scheduler.clock.by(1)
    assert.equal(must(claimJobs(scheduler)).runs.length, 1)
    assert.equal(rowsOf(scheduler, 'direct_reservations')[0]?.['status'], 'EXPIRED')
    assert.deepEqual(
      rowsOf(scheduler, 'notifications').map((row) => row['notification_id']),
      [`reservation_expired:${reservation_id}`],
    )
  })

  test('[SCH-079] a tick without anything to dispatch expires it as well', () => {
    const scheduler = aScheduler()
    must(reserve(scheduler, { reserved_by: 'x' }))
    scheduler.clock.by(5 * MINUTE)
    assert.deepEqual(
      must(tickReservations(scheduler)).map((row) => row.status),
      ['EXPIRED'],
    )
  })

  test('[SCH-103] a renewal only extends it, also an overdue one that is still ACTIVE', () => {
    const scheduler = aScheduler()
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    scheduler.clock.by(MINUTE)
    assert.equal(must(renewReservation(scheduler, reservation_id)).expires_at, START + 6 * MINUTE)
    assert.equal(must(renewReservation(scheduler, reservation_id, 1_000)).expires_at, START + 6 * MINUTE)
    scheduler.clock.by(30 * MINUTE)
    assert.equal(must(renewReservation(scheduler, reservation_id)).expires_at, START + 36 * MINUTE)
    must(submitJob(scheduler, { job_type: 'story' }))
    assert.equal(must(claimJobs(scheduler)).waiting?.reason, 'reserved')
  })

  test('[SCH-103] without a renewal the queue starts during the direct execution', () => {
    const scheduler = aScheduler()
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    const direct = must(startDirectJob(scheduler, reservation_id, { job_type: 'research' }))
    must(submitJob(scheduler, { job_type: 'story' }))
    scheduler.clock.by(5 * MINUTE)
    assert.equal(must(claimJobs(scheduler)).runs[0]?.job.job_type, 'story')
    assert.equal(must(finishRun(scheduler, direct.runId, { outcome: 'completed' })).run.status, 'COMPLETED')
  })

  test('a clock that is set back expires nothing early, and sends one notification', () => {
    const scheduler = aScheduler()
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    scheduler.clock.by(-5 * 60 * MINUTE)
    for (let count = 0; count < 3; count++) assert.deepEqual(must(tickReservations(scheduler)), [])
    assert.deepEqual(
      rowsOf(scheduler, 'notifications').map((row) => row['notification_id']),
      [`clock_moved_back:${reservation_id}`],
    )
    assert.equal(must(renewReservation(scheduler, reservation_id)).expires_at, START + 5 * MINUTE)
  })
})

describe('one at a time', () => {
  test('[SCH-102] [SCH-123] a second one is refused immediately, with the holder and the time left', () => {
    const scheduler = aScheduler()
    must(reserve(scheduler, { reserved_by: 'first' }))
    const refused = reserve(scheduler, { reserved_by: 'second' })
    assert.equal(codeOf(refused), 'scheduler.reservation.busy')
    assert.match(refused.ok ? '' : refused.reason, /first/)
    assert.equal(refused.ok ? 0 : refused.facts?.['waitMs'], 5 * MINUTE)
    assert.equal(countOf(scheduler, 'direct_reservations'), 1)
  })

  test('[SCH-102] a waiting caller gets the slot when the first is released', async () => {
    const scheduler = aScheduler()
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'first' }))
    let waits = 0
    const reserved = await waitForReservation(
      scheduler,
      { reserved_by: 'second' },
      {
        timeoutMs: 10_000,
        wait: async (ms) => {
          scheduler.clock.by(ms)
          waits += 1
          if (waits === 3) must(releaseReservation(scheduler, reservation_id))
        },
      },
    )
    assert.deepEqual([must(reserved).reserved_by, waits], ['second', 3])
  })

  test('[SCH-102] a waiting caller gives up exactly at its timeout', async () => {
    const scheduler = aScheduler()
    must(reserve(scheduler, { reserved_by: 'first' }))
    const waited: number[] = []
    const wait = async (ms: number) => {
      waited.push(ms)
      scheduler.clock.by(ms)
    }
    const reserved = await waitForReservation(scheduler, { reserved_by: 'second' }, { timeoutMs: 120, wait })
    assert.equal(codeOf(reserved), 'scheduler.reservation.busy')
    assert.deepEqual(waited, [50, 50, 20])
  })

  test('an overdue reservation does not block a new one', () => {
    const scheduler = aScheduler()
    must(reserve(scheduler, { reserved_by: 'first' }))
    scheduler.clock.by(5 * MINUTE)
    assert.equal(must(reserve(scheduler, { reserved_by: 'second' })).status, 'ACTIVE')
    assert.deepEqual(
      rowsOf(scheduler, 'direct_reservations').map((row) => row['status']),
      ['EXPIRED', 'ACTIVE'],
    )
  })
})

describe('direct executions', () => {
  test('[SCH-101] a direct job has a job and a run, outside the order of the queue', () => {
    const scheduler = aScheduler()
    for (let count = 0; count < 3; count++) must(submitJob(scheduler, { job_type: 'story' }))
    const before = must(listQueue(scheduler)).jobs
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    const direct = must(startDirectJob(scheduler, reservation_id, { job_type: 'research', params: { now: true } }))
    const { job, run } = must(readJob(scheduler, direct.job.job_id))
    assert.deepEqual(
      [job.status, job.reservation_id, job.hold, run?.status],
      ['RUNNING', reservation_id, 'direct', null],
    )
    assert.deepEqual(must(listQueue(scheduler)).jobs, before)
    assert.equal(codeOf(releaseReservation(scheduler, reservation_id)), 'scheduler.reservation.job_in_flight')
    must(finishRun(scheduler, direct.runId, { outcome: 'completed' }))
    must(releaseReservation(scheduler, reservation_id))
    assert.equal(must(claimJobs(scheduler)).runs[0]?.job.job_id, before[0]?.job_id)
  })

  test('[SCH-101] it starts only when no job is in flight, and nothing starts before it', () => {
    const scheduler = aScheduler()
    const running = aRun(scheduler)
    must(submitJob(scheduler, { job_type: 'story' }))
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    assert.equal(
      codeOf(startDirectJob(scheduler, reservation_id, { job_type: 'story' })),
      'scheduler.reservation.slot_taken',
    )
    must(finishRun(scheduler, running.runId, { outcome: 'completed' }))
    assert.equal(must(claimJobs(scheduler)).waiting?.reason, 'reserved')
    assert.ok(startDirectJob(scheduler, reservation_id, { job_type: 'story' }).ok)
    assert.equal(
      codeOf(startDirectJob(scheduler, reservation_id, { job_type: 'story' })),
      'scheduler.reservation.slot_taken',
    )
  })

  test('the scheduler does not retry it', () => {
    const scheduler = aScheduler()
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    const direct = must(startDirectJob(scheduler, reservation_id, { job_type: 'story' }))
    assert.equal(fail(scheduler, direct.runId).run.retry_decided, 'direct')
    assert.equal(countOf(scheduler, 'jobs'), 1)
  })

  test('it needs an ACTIVE reservation', () => {
    const scheduler = aScheduler()
    assert.equal(codeOf(startDirectJob(scheduler, 'nobody', { job_type: 'story' })), 'scheduler.reservation.not_found')
    const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
    scheduler.clock.by(5 * MINUTE)
    assert.equal(
      codeOf(startDirectJob(scheduler, reservation_id, { job_type: 'story' })),
      'scheduler.reservation.ended',
    )
    assert.equal(countOf(scheduler, 'jobs'), 0)
  })
})

describe('a reservation that is cut', () => {
  for (const [point, act] of [
    ['reservation.reserve', (s: ReturnType<typeof aScheduler>) => reserve(s, { reserved_by: 'y' })],
    ['reservation.renew', (s: ReturnType<typeof aScheduler>, id: string) => renewReservation(s, id)],
    ['reservation.release', (s: ReturnType<typeof aScheduler>, id: string) => releaseReservation(s, id)],
    ['reservation.expire', (s: ReturnType<typeof aScheduler>) => tickReservations(s)],
  ] as const) {
    test(`[SCH-004] at ${point}: nothing is written`, () => {
      const isReserve = point === 'reservation.reserve'
      const scheduler = aScheduler({ points: { faults: [{ point, hit: isReserve ? 2 : 1, act: 'throw' }] } })
      const { reservation_id } = must(reserve(scheduler, { reserved_by: 'x' }))
      if (isReserve) must(releaseReservation(scheduler, reservation_id))
      scheduler.clock.by(point === 'reservation.expire' ? 5 * MINUTE : 0)
      const before = rowsOf(scheduler, 'direct_reservations')
      assert.throws(() => act(scheduler, reservation_id), SchedulerFaultInjected)
      assert.deepEqual(rowsOf(scheduler, 'direct_reservations'), before)
      assert.ok(act(scheduler, reservation_id).ok)
    })
  }
})

test('[SCH-098] reservations never change the order of jobs', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('reserve', 'release', 'renew', 'pass', 'claim'), { maxLength: 30 }),
      (acts) => {
        const scheduler = aScheduler()
        const jobs = Array.from(
          { length: 6 },
          (_, index) => must(submitJob(scheduler, { job_type: 'story', priority: index % 2 })).job_id,
        )
        const expected = must(listQueue(scheduler)).jobs.map((job) => job.job_id)
        const got: string[] = []
        let held: string | undefined
        const claim = () => {
          for (const run of must(claimJobs(scheduler)).runs) {
            got.push(run.job.job_id)
            must(finishRun(scheduler, run.runId, { outcome: 'completed' }))
          }
        }
        for (const act of acts) {
          if (act === 'reserve')
            held = reserve(scheduler, { reserved_by: 'p' }).ok
              ? String(rowsOf(scheduler, 'direct_reservations').at(-1)?.['reservation_id'])
              : held
          if (act === 'release' && held) releaseReservation(scheduler, held)
          if (act === 'renew' && held) renewReservation(scheduler, held)
          if (act === 'pass') scheduler.clock.by(2 * MINUTE)
          if (act === 'claim') claim()
        }
        scheduler.clock.by(24 * 60 * MINUTE)
        for (let count = 0; count < 7; count++) claim()
        assert.deepEqual(got, expected)
        assert.equal(jobs.length, got.length)
      },
    ),
    { numRuns: 60 },
  )
})
