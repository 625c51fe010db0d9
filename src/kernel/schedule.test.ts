import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { decideOverlap, type DueSchedule, misfirePolicies, pickJitterMs, planFirings } from './schedule.ts'

const at = (time: string) => new Date(`2026-05-01T${time}Z`)
const hourly = ['06:00:00', '07:00:00', '08:00:00', '09:00:00', '10:00:00', '11:00:00'].map(at)

function plan(changes: Partial<DueSchedule>) {
  const { fire, missed } = planFirings({
    name: 'n',
    dueTimes: hourly,
    now: at('10:30:00'),
    misfire: 'last',
    ...changes,
  })
  const hours = (list: typeof fire) => list.map(({ dueAt }) => dueAt.getUTCHours())
  return { fire: hours(fire), missed: hours(missed) }
}

describe('schedule: due times', () => {
  for (const [story, changes, fire, missed] of [
    ['skip leaves out what is late', { misfire: 'skip' }, [], [6, 7, 8, 9, 10]],
    ['last catches up once, for the latest', { misfire: 'last' }, [10], [6, 7, 8, 9]],
    ['all catches up on everything', { misfire: 'all' }, [6, 7, 8, 9, 10], []],
    ['all within a limit keeps the newest', { misfire: 'all', catchUpsMax: 2 }, [9, 10], [6, 7, 8]],
    ['what is on time fires under skip', { misfire: 'skip', now: at('10:00:30') }, [10], [6, 7, 8, 9]],
    ['what is on time is the catch-up under last', { misfire: 'last', now: at('10:00:30') }, [10], [6, 7, 8, 9]],
    ['exactly at the end of the grace is on time', { misfire: 'skip', now: at('10:01:00') }, [10], [6, 7, 8, 9]],
    ['one millisecond later is late', { misfire: 'skip', now: at('10:01:00.001') }, [], [6, 7, 8, 9, 10]],
    ['what was decided is not decided again', { lastDueAt: at('08:00:00') }, [10], [9]],
    ['nothing new, nothing to do', { lastDueAt: at('10:00:00') }, [], []],
    ['a clock that moved back fires nothing', { lastDueAt: at('10:00:00'), now: at('05:00:00') }, [], []],
    ['jitter holds a firing back', { now: at('10:00:30'), lastDueAt: at('09:00:00'), jitterMs: 40_000 }, [], []],
    [
      'jitter counts from its own start',
      { misfire: 'skip', now: at('10:01:30'), lastDueAt: at('09:00:00'), jitterMs: 40_000 },
      [10],
      [],
    ],
    [
      'order and repetition of the list do not matter',
      { dueTimes: [...hourly.toReversed(), ...hourly] },
      [10],
      [6, 7, 8, 9],
    ],
  ] as const) {
    test(story, () => assert.deepEqual(plan(changes), { fire, missed }))
  }

  test('the key names the due time, the start is moved by the jitter', () => {
    const { fire } = planFirings({
      name: 'report',
      dueTimes: [at('10:00:00')],
      now: at('10:00:20'),
      misfire: 'last',
      jitterMs: 5_000,
    })
    assert.deepEqual(fire, [
      { dueAt: at('10:00:00'), startAt: at('10:00:05'), key: 'schedule:report:2026-05-01T10:00:00.000Z' },
    ])
  })

  test('over any row of ticks, with the clock moving both ways, every due time is decided exactly once', () => {
    const minuteMs = 60_000
    const ticks = fc.array(fc.integer({ min: -30, max: 90 }), { minLength: 1, maxLength: 25 })
    fc.assert(
      fc.property(
        ticks,
        fc.constantFrom(...misfirePolicies),
        fc.integer({ min: 1, max: 5 }),
        (jumps, misfire, everyMinutes) => {
          let nowMs = at('00:00:00').getTime()
          const startMs = nowMs
          let latestMs = nowMs
          let lastDueAt: Date | undefined
          const decided: string[] = []
          for (const jump of jumps) {
            nowMs = Math.max(startMs, nowMs + jump * minuteMs)
            latestMs = Math.max(latestMs, nowMs)
            const dueTimes: Date[] = []
            for (let ms = startMs; ms <= nowMs; ms += everyMinutes * minuteMs) dueTimes.push(new Date(ms))
            const { fire, missed } = planFirings({
              name: 'n',
              dueTimes,
              now: new Date(nowMs),
              misfire,
              ...(lastDueAt && { lastDueAt }),
            })
            const all = [...missed, ...fire]
            decided.push(...all.map(({ key }) => key))
            lastDueAt = all.at(-1)?.dueAt ?? lastDueAt
            if (misfire === 'all') assert.ok(missed.length === 0 || fire.length >= 96)
            if (misfire === 'last' && all.length > 0) assert.ok(fire.length >= 1)
          }
          assert.equal(new Set(decided).size, decided.length)
          assert.equal(decided.length, Math.floor((latestMs - startMs) / (everyMinutes * minuteMs)) + 1)
        },
      ),
    )
  })

  test('jitter is a whole number from 0 to its limit', () => {
    assert.equal(
      pickJitterMs(10, () => 0),
      0,
    )
    assert.equal(
      pickJitterMs(10, () => 0.999999),
      10,
    )
    assert.equal(
      pickJitterMs(0, () => 0.999999),
      0,
    )
  })
})

describe('schedule: overlap', () => {
  for (const [policy, running, queued, decision] of [
    ['skip', 0, 0, 'start'],
    ['skip', 1, 0, 'skip'],
    ['queue', 0, 0, 'start'],
    ['queue', 1, 0, 'queue'],
    ['queue', 1, 1, 'skip'],
    ['queue', 0, 1, 'skip'],
    ['allow', 0, 0, 'start'],
    ['allow', 7, 3, 'start'],
  ] as const) {
    test(`${policy} with ${running} running and ${queued} waiting: ${decision}`, () => {
      assert.equal(decideOverlap(policy, running, queued), decision)
    })
  }
  test('a longer queue is a setting', () => assert.equal(decideOverlap('queue', 1, 2, 3), 'queue'))
})
