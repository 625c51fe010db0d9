import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Next } from './port.ts'
import { bookAbort, bookBegin, bookEnd, bookFailure, bookWake, type TurnLine, type Wish } from './turn-book.ts'

const start = new Date('2026-01-01T00:00Z')
const after = (ms: number) => new Date(start.getTime() + ms)

function aWish(delayMs = 0, now = start): Wish {
  const at = new Date(now.getTime() + delayMs)
  return { now, at, queue: 'concord_default', priority: 0, partition: null, moves: false, schedule: null }
}

/** Gives out 1, 2, 3 … */
function numbers(): () => number {
  let last = 0
  return () => ++last
}

function aRunning(failures = 0): TurnLine {
  const { line } = bookWake(null, aWish(), numbers())
  assert.ok(line)
  const begun = bookBegin(
    { ...line, failures },
    { turn: 1, now: start, attemptsMax: 9, newFence: numbers(), newTurn: numbers() },
  )
  assert.equal(begun.outcome, 'begun')
  return begun.outcome === 'begun' ? begun.line : line
}

const nexts: fc.Arbitrary<Next> = fc.oneof(
  fc.constant<Next>({ t: 'done' }),
  fc.constant<Next>({ t: 'again' }),
  fc.constantFrom(null, after(5_000)).map((until): Next => ({ t: 'wait', until })),
)

test('a wake during a turn leads to another turn, whatever the turn says', () => {
  fc.assert(
    fc.property(nexts, fc.array(fc.constantFrom(0, 1_000, 60_000), { minLength: 1 }), (next, delays) => {
      let line: TurnLine | null = aRunning()
      for (const delayMs of delays) line = bookWake(line, aWish(delayMs), numbers()).line
      const ended = bookEnd(line, 1, next, start, () => 2)
      assert.equal(ended.outcome, 'queued')
      if (ended.outcome !== 'queued') return
      const asked = next.t === 'again' ? 0 : next.t === 'wait' && next.until !== null ? 5_000 : Number.POSITIVE_INFINITY
      assert.deepEqual(ended.give, { turn: 2, dueAt: after(Math.min(asked, ...delays)) })
    }),
  )
})

test('what was asked for before a turn began is answered by it; a later time stays', () => {
  const asked = { ...aRunning(), againAt: after(500) }
  const again = (now: Date) => {
    const begun = bookBegin(asked, { turn: 1, now, attemptsMax: 9, newFence: () => 2, newTurn: numbers() })
    return begun.outcome === 'begun' ? begun.line.againAt : undefined
  }
  assert.deepEqual(again(after(499)), after(500))
  assert.equal(again(after(500)), null)
})

test('a pause after a throw doubles, is not cut short by a wake, and ends in stuck', () => {
  let line: TurnLine | null = aRunning()
  const pauses: number[] = []
  for (let failures = 1; failures < 9; failures++) {
    const failure = {
      fence: line.fence,
      why: 'failing',
      detail: 'bug',
      now: start,
      failuresMax: 9,
      newTurn: numbers(),
    } as const
    const failed = bookFailure(line, failure)
    assert.equal(failed.outcome, 'queued')
    if (failed.outcome !== 'queued' || failed.line === null) return
    pauses.push(failed.line.dueAt.getTime() - start.getTime())
    const woken = bookWake(failed.line, aWish(), numbers())
    assert.deepEqual([woken.line, woken.give], [failed.line, null])
    line = { ...failed.line, state: 'running' }
  }
  assert.deepEqual(pauses, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000])
  const last = bookFailure(line, {
    fence: line.fence,
    why: 'failing',
    detail: 'bug',
    now: start,
    failuresMax: 9,
    newTurn: numbers(),
  })
  assert.equal(last.outcome, 'stuck')
})

test('nothing that carries an old fence or an old turn changes anything', () => {
  const line = aRunning()
  assert.equal(bookEnd(line, 0, { t: 'done' }, start, numbers()).outcome, 'stale')
  assert.equal(
    bookBegin(line, { turn: 2, now: start, attemptsMax: 9, newFence: numbers(), newTurn: numbers() }).outcome,
    'stale',
  )
  const failure = { fence: 0, why: 'failing', detail: '', now: start, failuresMax: 9, newTurn: numbers() } as const
  assert.equal(bookFailure(line, failure).outcome, 'stale')
  const aborted = bookAbort(line, aWish(), 'stop', () => 2)
  assert.equal(bookEnd(aborted, 2, { t: 'done' }, start, numbers()).outcome, 'stale')
  assert.deepEqual(bookWake(aborted, aWish(), numbers()), { line: aborted, give: null })
})

test('a wake that names a queue moves a process that is running', () => {
  const moved = bookWake(aRunning(), { ...aWish(), queue: 'compensations', moves: true }, numbers()).line
  const ended = bookEnd(moved, 1, { t: 'done' }, start, numbers())
  assert.equal(ended.outcome === 'queued' ? ended.line?.queue : '', 'compensations')
})
