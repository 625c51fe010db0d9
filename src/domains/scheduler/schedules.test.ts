/** Schedules: their rows, their next times, and that each due time is decided once. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  aFile,
  aFolder,
  aScheduler,
  codeOf,
  countOf,
  fail,
  must,
  openTest,
  rowsOf,
  START,
  type TestScheduler,
} from '#test/scheduler/fixture'
import { wait } from '#test/scheduler/run-until-idle'
import { until } from '#test/until'
import { claimJobs } from './claim-next.ts'
import { type Database, query } from './database.ts'
import { SchedulerFaultInjected } from './failpoints.ts'
import { finishRun } from './finish-run.ts'
import { fireDueSchedules, fireScheduleAt } from './fire-schedules.ts'
import { changeTemplate, createTemplate } from './job-template.ts'
import { listJobs } from './job-views.ts'
import { repairTimes } from './repair-times.ts'
import { runScheduler } from './run-scheduler.ts'
import { changeSchedule, createSchedule, deleteSchedule, readPlans, readSchedule } from './schedule.ts'

const HOUR = 3_600_000
/** START is 10:00 UTC on 1 May 2026. */
const at = (hours: number) => START + hours * HOUR

type More = Partial<Parameters<typeof createSchedule>[1]>
let serial = 0
function aSchedule(scheduler: TestScheduler, more: More = {}) {
  const template_id = must(
    createTemplate(scheduler, { name: `t${++serial}`, job_type: 'story', params: { a: 1, b: 2 } }),
  ).template_id
  return must(createSchedule(scheduler, { template_id, name: `s${serial}`, cron_expression: '0 * * * *', ...more }))
}
const outcomes = (scheduler: TestScheduler) =>
  must(fireDueSchedules(scheduler)).map(({ outcome, due_at }) => [outcome, due_at])
const find = (scheduler: TestScheduler, id: string) =>
  must(readPlans(scheduler)).schedules.find((row) => row.schedule_id === id)
const firingsOf = (scheduler: TestScheduler, id: string, limit: number) =>
  must(readSchedule(scheduler, id, limit)).firings

/** Behaves like a process that dies right after its next commit. */
function cutAfterCommit(db: Database): Database {
  return new Proxy(db, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      if (name !== 'write') return value.bind(target) as unknown
      return (work: Parameters<Database['write']>[0]) => {
        if (target.write(work).ok) throw new Error('cut after a commit')
      }
    },
  })
}

describe('rows', () => {
  test('[SCH-074] [SCH-054] a schedule is made with its first due time, changed, and deleted', () => {
    const scheduler = aScheduler()
    const made = aSchedule(scheduler, { name: 'hourly', timezone: 'Europe/Berlin' })
    assert.deepEqual(
      [made.next_trigger_at, made.last_triggered_at, made.enabled, made.timezone],
      [at(1), null, 1, 'Europe/Berlin'],
    )
    const changed = must(changeSchedule(scheduler, made.schedule_id, { cron_expression: '30 15 * * *', name: 'daily' }))
    assert.deepEqual([changed.next_trigger_at, changed.name], [at(3.5), 'daily'])
    assert.equal(must(changeSchedule(scheduler, made.schedule_id, { timezone: 'UTC' })).next_trigger_at, at(5.5))
    must(deleteSchedule(scheduler, made.schedule_id))
    assert.deepEqual(must(readPlans(scheduler)).schedules, [])
    assert.equal(codeOf(deleteSchedule(scheduler, made.schedule_id)), 'scheduler.schedule.not_found')
    assert.equal(countOf(scheduler, 'schedules'), 1)
  })

  test('[SCH-049] [SCH-050] [SCH-047] [SCH-052] a schedule that could never fire is refused', () => {
    const scheduler = aScheduler()
    const template_id = must(
      createTemplate(scheduler, {
        name: 't',
        job_type: 'story',
        params_schema: { type: 'object', properties: { a: { type: 'string' } } },
      }),
    ).template_id
    const body = { template_id, name: 'x', cron_expression: '0 3 * * *' }
    for (const [more, code] of [
      [{ cron_expression: '0 3 * *' }, 'cron_fields'],
      [{ cron_expression: '0 0 30 2 *' }, 'cron_never'],
      [{ cron_expression: 'MON#6 * * * *' }, 'cron_value'],
      [{ timezone: 'Mars/Base' }, 'timezone_unknown'],
      [{ template_id: '00000000-0000-7000-8000-00000000dead' }, 'scheduler.template.not_found'],
      [{ param_overrides: { a: 1 } }, 'scheduler.params.invalid'],
      [{ misfire_policy: 'some' }, 'api.field.value'],
      [{ overlap_policy: 'kill' }, 'api.field.value'],
      [{ cron: '0 3 * * *' }, 'unknown_field'],
    ] as const) {
      assert.equal(codeOf(createSchedule(scheduler, { ...body, ...more } as never)), code)
    }
    assert.equal(countOf(scheduler, 'schedules'), 0)
    must(createSchedule(scheduler, body))
    assert.equal(codeOf(createSchedule(scheduler, body)), 'scheduler.schedule.name_taken')
  })

  test('[SCH-054] a new name keeps a due time that is not decided yet', () => {
    const scheduler = aScheduler()
    const { schedule_id } = aSchedule(scheduler)
    scheduler.clock.ms = at(1.001)
    assert.equal(must(changeSchedule(scheduler, schedule_id, { name: 'other' })).next_trigger_at, at(1))
    assert.equal(
      must(changeSchedule(scheduler, schedule_id, { cron_expression: '30 * * * *' })).next_trigger_at,
      at(1.5),
    )
  })
})

describe('firing', () => {
  test('[M2] [SCH-053] a clock that was ahead and is set back: the schedule fires by the right clock, and no due time twice', () => {
    const scheduler = aScheduler()
    const { schedule_id } = aSchedule(scheduler)
    const monthly = aSchedule(scheduler, { cron_expression: '0 3 1 6 *' })
    scheduler.clock.ms = at(3)
    assert.deepEqual(outcomes(scheduler).at(-1), ['fired', at(3)])
    scheduler.clock.ms = at(0.5)
    // The schedule, and the notification of the hours that it took for missed.
    assert.equal(must(repairTimes(scheduler)), 2)
    assert.equal(find(scheduler, schedule_id)?.next_trigger_at, at(1))
    assert.equal(find(scheduler, monthly.schedule_id)?.next_trigger_at, monthly.next_trigger_at)
    assert.equal(must(repairTimes(scheduler)), 0)
    const known = new Set(firingsOf(scheduler, schedule_id, 20).map(({ due_at }) => due_at))
    for (const hour of [1, 2, 3, 4]) {
      scheduler.clock.ms = at(hour) + 5
      const isKnown = known.has(at(hour))
      assert.deepEqual(outcomes(scheduler), isKnown ? [] : [['fired', at(hour)]])
      assert.equal(find(scheduler, schedule_id)?.next_trigger_at, at(hour + 1))
    }
    must(changeSchedule(scheduler, schedule_id, { cron_expression: '30 * * * *' }))
    assert.equal(find(scheduler, schedule_id)?.next_trigger_at, at(4.5))
    const [notice] = rowsOf(scheduler, 'notifications').filter(({ kind }) => kind === 'clock_moved_back')
    assert.match(String(notice?.['payload']), new RegExp(schedule_id))
  })

  test('[M2] the running loop notices that the clock was set back', async () => {
    const scheduler = aScheduler()
    const { schedule_id } = aSchedule(scheduler)
    const stop = new AbortController()
    const running = runScheduler(scheduler, { wait, stop: stop.signal, pollMs: 5, runFolder: aFolder() })
    const next = () => find(scheduler, schedule_id)?.next_trigger_at
    scheduler.clock.ms = at(3) + 5
    await until(() => next() === at(4), 'the firing ahead of its time')
    scheduler.clock.ms = at(0.5)
    await until(() => next() === at(1), 'the right due time')
    stop.abort()
    must(await running)
  })

  test('[SCH-053] [SCH-075] [SCH-074] one job, with last_triggered_at and next_trigger_at, and the due time is decided', () => {
    const scheduler = aScheduler()
    const { schedule_id, template_id } = aSchedule(scheduler, { priority: 9 })
    scheduler.clock.ms = at(1) + 5
    assert.deepEqual(outcomes(scheduler), [['fired', at(1)]])
    const [job] = must(listJobs(scheduler))
    assert.deepEqual(
      [job?.schedule_id, job?.template_id, job?.priority, job?.params],
      [schedule_id, template_id, 9, '{"a":1,"b":2}'],
    )
    const row = find(scheduler, schedule_id)
    assert.deepEqual([row?.last_triggered_at, row?.last_due_at, row?.next_trigger_at], [at(1) + 5, at(1), at(2)])
    assert.deepEqual(outcomes(scheduler), [])
    assert.equal(firingsOf(scheduler, schedule_id, 9)[0]?.job_id, job?.job_id)
  })

  test('[SCH-052] the overrides of the schedule replace params of the template', () => {
    const scheduler = aScheduler()
    aSchedule(scheduler, { param_overrides: { b: 3, c: 4 } })
    scheduler.clock.ms = at(1)
    outcomes(scheduler)
    assert.deepEqual(JSON.parse(must(listJobs(scheduler))[0]?.params ?? ''), { a: 1, b: 3, c: 4 })
  })

  test('[SCH-051] a disabled schedule never fires, and starts from now when it is enabled', () => {
    const scheduler = aScheduler()
    const { schedule_id } = aSchedule(scheduler)
    assert.equal(must(changeSchedule(scheduler, schedule_id, { enabled: false })).next_trigger_at, null)
    scheduler.clock.ms = at(5.5)
    assert.deepEqual(outcomes(scheduler), [])
    assert.equal(codeOf(fireScheduleAt(scheduler, schedule_id, new Date(at(1)))), 'scheduler.schedule.not_due')
    assert.equal(must(changeSchedule(scheduler, schedule_id, { enabled: true })).next_trigger_at, at(6))
    assert.equal(countOf(scheduler, 'jobs'), 0)
  })

  test('[SCH-075] firing the same due time twice creates one job', () => {
    const scheduler = aScheduler()
    const { schedule_id } = aSchedule(scheduler)
    scheduler.clock.ms = at(1)
    const first = must(fireScheduleAt(scheduler, schedule_id, new Date(at(1))))
    assert.deepEqual(must(fireScheduleAt(scheduler, schedule_id, new Date(at(1)))), first)
    assert.equal(countOf(scheduler, 'jobs'), 1)
    for (const due of [at(2), at(0.5), at(0)])
      assert.equal(codeOf(fireScheduleAt(scheduler, schedule_id, new Date(due))), 'scheduler.schedule.not_due')
    assert.equal(codeOf(fireScheduleAt(scheduler, 'nobody', new Date(at(1)))), 'scheduler.schedule.not_found')
  })

  test('[SCH-075] a clock that is set back fires nothing again', () => {
    const scheduler = aScheduler()
    aSchedule(scheduler)
    scheduler.clock.ms = at(1)
    outcomes(scheduler)
    scheduler.clock.ms = at(0.5)
    outcomes(scheduler)
    scheduler.clock.ms = at(1)
    outcomes(scheduler)
    assert.equal(countOf(scheduler, 'jobs'), 1)
  })

  for (const point of ['schedule.before_insert', 'schedule.after_insert'] as const) {
    test(`[SCH-075] cut at ${point}: no job, and the time is still due; the next tick creates one`, () => {
      const file = aFile()
      const cut = aScheduler({ file, points: { faults: [{ point, hit: 1, act: 'throw' }] } })
      const { schedule_id } = aSchedule(cut)
      cut.clock.ms = at(1)
      assert.throws(() => fireDueSchedules(cut), SchedulerFaultInjected)
      assert.deepEqual(
        [countOf(cut, 'jobs'), countOf(cut, 'schedule_firings'), find(cut, schedule_id)?.next_trigger_at],
        [0, 0, at(1)],
      )
      cut.close()
      const again = aScheduler({ file, clock: cut.clock })
      assert.deepEqual(outcomes(again), [['fired', at(1)]])
      assert.equal(countOf(again, 'jobs'), 1)
      again.close()
    })
  }

  for (const [name, fire] of [
    ['a tick', (scheduler: TestScheduler) => fireDueSchedules(scheduler)],
    [
      'a due time that is asked for',
      (scheduler: TestScheduler, id: string) => fireScheduleAt(scheduler, id, new Date(at(1))),
    ],
  ] as const) {
    test(`[SCH-075] ${name}, cut after its first commit: the job exists and the schedule has advanced; nothing needs repair`, () => {
      const file = aFile()
      const cut = aScheduler({ file })
      const { schedule_id } = aSchedule(cut)
      cut.clock.ms = at(1)
      assert.throws(() => fire({ ...cut, db: cutAfterCommit(cut.db) }, schedule_id), /cut after a commit/)
      cut.close()
      const again = aScheduler({ file, clock: cut.clock })
      const row = find(again, schedule_id)
      assert.deepEqual(
        [countOf(again, 'jobs'), row?.last_triggered_at, row?.last_due_at, row?.next_trigger_at],
        [1, at(1), at(1), at(2)],
      )
      assert.deepEqual(outcomes(again), [])
      again.clock.ms = at(2)
      assert.deepEqual(outcomes(again), [['fired', at(2)]])
      assert.equal(countOf(again, 'jobs'), 2)
      again.close()
    })
  }

  test('several schedules of one time fire in the order of their ids, each once', () => {
    const scheduler = aScheduler()
    const ids = [aSchedule(scheduler), aSchedule(scheduler), aSchedule(scheduler)].map((row) => row.schedule_id)
    scheduler.clock.ms = at(1)
    assert.deepEqual(
      must(fireDueSchedules(scheduler)).map((firing) => firing.schedule_id),
      ids.toSorted(),
    )
  })

  test('[SCH-117] nothing fires before recovery has ended', () => {
    assert.equal(codeOf(fireDueSchedules(must(openTest()))), 'scheduler.not_recovered')
  })
})

describe('due times that were missed', () => {
  const absent = (more: More, hours: number) => {
    const scheduler = aScheduler()
    const { schedule_id } = aSchedule(scheduler, more)
    scheduler.clock.ms = at(hours)
    return { scheduler, schedule_id, decided: outcomes(scheduler) }
  }

  test('[SCH-076] last (the default): one catch-up for the latest, and one record for the missed ones', () => {
    const { decided, scheduler, schedule_id } = absent({}, 4.5)
    assert.deepEqual(decided, [
      ['missed', at(3)],
      ['fired', at(4)],
    ])
    assert.equal(firingsOf(scheduler, schedule_id, 9)[1]?.missed_since, at(1))
    assert.equal(rowsOf(scheduler, 'notifications')[0]?.['kind'], 'schedule_missed')
    assert.equal(find(scheduler, schedule_id)?.next_trigger_at, at(5))
  })

  test('[SCH-076] skip: none, and the next one is on time', () => {
    const { decided, scheduler, schedule_id } = absent({ misfire_policy: 'skip' }, 4.5)
    assert.deepEqual(decided, [['missed', at(4)]])
    assert.deepEqual([countOf(scheduler, 'jobs'), find(scheduler, schedule_id)?.last_triggered_at], [0, null])
    scheduler.clock.ms = at(5)
    assert.deepEqual(outcomes(scheduler), [['fired', at(5)]])
  })

  test('[SCH-076] all: each of them, in order', () => {
    const { decided } = absent({ misfire_policy: 'all' }, 4.5)
    assert.deepEqual(
      decided,
      [1, 2, 3, 4].map((hour) => ['fired', at(hour)]),
    )
  })

  test('[SCH-076] all, after two years of every minute: the newest 96, and the rest is one row', () => {
    const { decided, scheduler, schedule_id } = absent(
      { misfire_policy: 'all', cron_expression: '* * * * *' },
      2 * 365 * 24,
    )
    // 96 that were late, two that were on time, and one row for all the others.
    assert.deepEqual([decided.length, decided[0]?.[0]], [99, 'missed'])
    const missed = firingsOf(scheduler, schedule_id, 500).at(-1)
    assert.deepEqual(
      [missed?.missed_since, find(scheduler, schedule_id)?.last_due_at],
      [START + 60_000, at(2 * 365 * 24)],
    )
    assert.equal(countOf(scheduler, 'jobs'), 98)
  })
})

describe('overlap', () => {
  test('skip: a firing during the previous job is recorded and creates no job', () => {
    const scheduler = aScheduler()
    aSchedule(scheduler, { overlap_policy: 'skip' })
    scheduler.clock.ms = at(1)
    outcomes(scheduler)
    const [run] = must(claimJobs(scheduler)).runs
    scheduler.clock.ms = at(2)
    assert.deepEqual(outcomes(scheduler), [['overlapped', at(2)]])
    const { retry } = fail(scheduler, run?.runId ?? '')
    scheduler.clock.ms = at(3)
    assert.deepEqual(outcomes(scheduler), [['overlapped', at(3)]])
    const [again] = must(claimJobs(scheduler)).runs
    assert.equal(again?.job.job_id, retry?.job_id)
    must(finishRun(scheduler, again?.runId ?? '', { outcome: 'completed' }))
    scheduler.clock.ms = at(4)
    assert.deepEqual(outcomes(scheduler), [['fired', at(4)]])
  })

  test('queue: it waits behind the previous job', () => {
    const scheduler = aScheduler()
    aSchedule(scheduler)
    for (const hour of [1, 2, 3]) {
      scheduler.clock.ms = at(hour)
      assert.deepEqual(outcomes(scheduler), [['fired', at(hour)]])
    }
    assert.equal(must(listJobs(scheduler, { status: 'queued' })).length, 3)
  })
})

describe('damaged rows', () => {
  test('a template that refuses the overrides: the due time is missed with a notification, and the schedule continues', () => {
    const scheduler = aScheduler()
    const { template_id } = aSchedule(scheduler, { param_overrides: { b: 3 } })
    must(
      changeTemplate(scheduler, template_id, {
        params_schema: { type: 'object', properties: { a: { type: 'number' } }, additionalProperties: false },
      }),
    )
    scheduler.clock.ms = at(1)
    assert.deepEqual(outcomes(scheduler), [['missed', at(1)]])
    assert.match(String(rowsOf(scheduler, 'notifications')[0]?.['payload']), /do not match/)
    scheduler.clock.ms = at(2)
    assert.deepEqual(outcomes(scheduler), [['missed', at(2)]])
  })

  test('a schedule with an unreadable cron text is stopped with a notification; the others continue', () => {
    const scheduler = aScheduler()
    const [bad, good] = [aSchedule(scheduler), aSchedule(scheduler)]
    const plant = query<never, { id: string }>(`update schedules set cron_expression = 'x' where schedule_id = $id`)
    scheduler.db.write((tx) => ({ ok: true, value: tx.run(plant, { id: bad.schedule_id }) }))
    scheduler.clock.ms = at(1)
    assert.deepEqual(
      must(fireDueSchedules(scheduler)).map((firing) => firing.schedule_id),
      [good.schedule_id],
    )
    assert.equal(find(scheduler, bad.schedule_id)?.next_trigger_at, null)
    assert.equal(rowsOf(scheduler, 'notifications')[0]?.['kind'], 'schedule_ended')
  })
})
