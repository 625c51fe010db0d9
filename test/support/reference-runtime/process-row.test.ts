import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Next } from '#runtime'
import {
  applyAbort,
  applyBegin,
  applyEnd,
  applyFailure,
  applyGive,
  applyReturn,
  applyTakeOver,
  applyWake,
  type Begin,
  type ProcessRow,
  type WakeRequest,
} from './process-row.ts'

const start = new Date('2026-01-01T00:00Z')
const after = (ms: number) => new Date(start.getTime() + ms)

function aRequest(delayMs = 0, now = start): WakeRequest {
  const at = new Date(now.getTime() + delayMs)
  return { now, at, queue: 'concord_default', priority: 0, partition: null, moves: false, schedule: null }
}

/** Returns 1, 2, 3 … */
function numbers(): () => number {
  let last = 0
  return () => ++last
}

function aBegin(more: Partial<Begin> = {}): Begin {
  return { turn: 1, delivery: 1, now: start, attemptsMax: 9, newFence: numbers(), newTurn: numbers(), ...more }
}

function aRunning(failures = 0): ProcessRow {
  const row = { ...applyWake(null, aRequest(), numbers()), failures }
  const begun = applyBegin(row, aBegin())
  assert.ok(begun.outcome === 'begun')
  return begun.row
}

const nexts: fc.Arbitrary<Next> = fc.oneof(
  fc.constant<Next>({ t: 'done' }),
  fc.constant<Next>({ t: 'again' }),
  fc.constantFrom(null, after(5_000)).map((until): Next => ({ t: 'wait', until })),
)

test('a wake during a turn leads to another turn, whatever the turn says', () => {
  fc.assert(
    fc.property(nexts, fc.array(fc.constantFrom(0, 1_000, 60_000), { minLength: 1 }), (next, delays) => {
      let row = aRunning()
      for (const delayMs of delays) row = applyWake(row, aRequest(delayMs), numbers())
      const ended = applyEnd(row, 1, next, start, () => 2)
      assert.equal(ended.outcome, 'queued')
      if (ended.outcome !== 'queued') return
      const asked = next.t === 'again' ? 0 : next.t === 'wait' && next.until !== null ? 5_000 : Number.POSITIVE_INFINITY
      assert.deepEqual([ended.row?.turn, ended.row?.dueAt], [2, after(Math.min(asked, ...delays))])
    }),
  )
})

test('what was asked for before a turn began is answered by it; a later time stays', () => {
  const asked = { ...aRunning(), againAt: after(500) }
  const again = (now: Date) => {
    const begun = applyBegin(asked, aBegin({ delivery: 2, now, newFence: () => 2 }))
    return begun.outcome === 'begun' ? begun.row.againAt : undefined
  }
  assert.deepEqual(again(after(499)), after(500))
  assert.equal(again(after(500)), null)
})

test('a pause after a throw doubles, is not cut short by a wake, and ends in stuck', () => {
  let row = aRunning()
  const pauses: number[] = []
  for (let failures = 1; failures < 9; failures++) {
    const failure = {
      fence: row.fence,
      why: 'failing',
      detail: 'bug',
      now: start,
      failuresMax: 9,
      newTurn: numbers(),
    } as const
    const failed = applyFailure(row, failure)
    assert.ok(failed.outcome === 'queued')
    pauses.push(failed.row.dueAt.getTime() - start.getTime())
    assert.deepEqual(applyWake(failed.row, aRequest(), numbers()), failed.row)
    row = { ...failed.row, state: 'running' }
  }
  assert.deepEqual(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000])
  const last = applyFailure(row, {
    fence: row.fence,
    why: 'failing',
    detail: 'bug',
    now: start,
    failuresMax: 9,
    newTurn: numbers(),
  })
  assert.equal(last.outcome, 'stuck')
})

test('nothing that carries an old fence, an old turn or an old delivery changes anything', () => {
  const row = aRunning()
  assert.equal(applyEnd(row, 0, { t: 'done' }, start, numbers()).outcome, 'stale')
  assert.equal(applyBegin(row, aBegin({ turn: 2, delivery: 2 })).outcome, 'stale')
  assert.equal(applyBegin(row, aBegin({ delivery: 1 })).outcome, 'stale')
  assert.equal(applyBegin(row, aBegin({ delivery: 2 })).outcome, 'begun')
  const failure = { fence: 0, why: 'failing', detail: '', now: start, failuresMax: 9, newTurn: numbers() } as const
  assert.equal(applyFailure(row, failure).outcome, 'stale')
  const aborted = applyAbort(row, aRequest(), 'stop', () => 2)
  assert.equal(applyEnd(aborted, 2, { t: 'done' }, start, numbers()).outcome, 'stale')
  assert.deepEqual(applyWake(aborted, aRequest(), numbers()), aborted)
})

test('a turn is handed over once, when it is due, and again only under a new number', () => {
  const waiting = applyWake(null, aRequest(1_000), numbers())
  assert.equal(applyGive(waiting, start), null)
  const given = applyGive(waiting, after(1_000))
  assert.ok(given)
  assert.equal(applyGive(given, after(1_000)), null)
  const back = applyReturn(given, { turn: 1, dueAt: after(2_000), newTurn: () => 2 })
  assert.deepEqual([back?.turn, back?.isGiven, back?.gives], [2, false, 1])
  assert.equal(applyReturn(given, { turn: 7, dueAt: start, newTurn: numbers() }), null)
  assert.equal(applyBegin(back, aBegin({ now: after(3_000) })).outcome, 'stale')
})

test('what a dead worker ran goes back with its attempts, under a new number', () => {
  const left = applyTakeOver(aRunning(), after(10), () => 2)
  assert.deepEqual([left?.state, left?.turn, left?.attempt, left?.dueAt], ['queued', 2, 1, after(10)])
  assert.equal(applyTakeOver(left, after(10), numbers()), null)
})

test('a wake that names a queue moves a process that is running', () => {
  const moved = applyWake(aRunning(), { ...aRequest(), queue: 'compensations', moves: true }, numbers())
  const ended = applyEnd(moved, 1, { t: 'done' }, start, numbers())
  assert.equal(ended.outcome === 'queued' ? ended.row?.queue : '', 'compensations')
})
