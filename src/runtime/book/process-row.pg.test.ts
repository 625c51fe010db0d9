/** The functions in the database and the row in memory agree for every sequence of moves. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import type { Next } from '#runtime'
import type { Sql } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import {
  applyAbort,
  applyBegin,
  applyEnd,
  applyFailure,
  applyGive,
  applyResume,
  applyReturn,
  applyTakeOver,
  applyWake,
  type Failed,
  type ProcessRow,
} from '#test/reference-runtime/process-row'
import { installBook } from './install.ts'
import { beginTurn, endTurn, failTurn, returnTurn, takeOver, takeTurns, wakeProcess } from './statements.ts'

const HOUR_MS = 3_600_000
const ATTEMPTS_MAX = 2
const FAILURES_MAX = 3

type Move =
  | { readonly move: 'wake'; readonly delayMs: number; readonly queue: string | null; readonly isFiring: boolean }
  | { readonly move: 'begin'; readonly isOld: boolean; readonly ahead: number }
  | { readonly move: 'end'; readonly isOld: boolean; readonly next: 'done' | 'again' | 'wait' | 'until' }
  | { readonly move: 'fail'; readonly isOld: boolean }
  | { readonly move: 'resume' | 'abort' | 'give' | 'return' | 'take over' }

const moves: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      move: fc.constant('wake' as const),
      delayMs: fc.constantFrom(0, HOUR_MS, 2 * HOUR_MS),
      queue: fc.constantFrom(null, 'compensations'),
      isFiring: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ move: fc.constant('begin' as const), isOld: fc.boolean(), ahead: fc.constantFrom(0, 1, 1) }),
  },
  { weight: 4, arbitrary: fc.record({ move: fc.constantFrom('give' as const, 'return' as const) }) },
  { weight: 1, arbitrary: fc.record({ move: fc.constant('take over' as const) }) },
  {
    weight: 5,
    arbitrary: fc.record({
      move: fc.constant('end' as const),
      isOld: fc.boolean(),
      next: fc.constantFrom('done', 'again', 'wait', 'until'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ move: fc.constant('fail' as const), isOld: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ move: fc.constantFrom('resume' as const, 'abort' as const) }) },
)

type Stored = Omit<ProcessRow, 'dueAt' | 'againAt' | 'turn' | 'fence' | 'isGiven'> & {
  readonly due_at: Date
  readonly again_at: Date | null
  readonly turn: string
  readonly fence: string
  readonly is_given: boolean
}

/** Times are multiples of half an hour: the two sides never read the clock in the same millisecond. */
function rounded(time: Date | null, now: Date): number | null {
  return time === null ? null : Math.max(0, Math.round((time.getTime() - now.getTime()) / (HOUR_MS / 2)))
}

/** The pause after a failure is shorter than a busy machine may need for the next move; an extra hour ends it for neither side. */
const LENGTHEN = `update runtime.processes set due_at = due_at + interval '1 hour' where kind = $1 and id = $2`
function lengthened({ outcome, row }: Exclude<Failed, { outcome: 'stale' }>): ProcessRow {
  return outcome === 'queued' ? { ...row, dueAt: new Date(row.dueAt.getTime() + HOUR_MS) } : row
}

describe('the row of a process in the database', () => {
  let opened: TestDb
  let book: string
  let count = 0

  before(async () => {
    opened = await openTestDb()
    book = await installBook(opened.db)
  })
  after(() => opened.close())

  /** Runs the moves on both sides; `results` holds what each side returned. */
  async function run(db: Sql, list: readonly Move[]): Promise<void> {
    const process = { kind: 'job', id: `p:${++count}` }
    const [home, other] = [`queue_${count}`, `other_${count}`]
    const worker = `worker-${count}`
    const key = [process.kind, process.id]
    let row: ProcessRow | null = null
    // The two sides use different numbers; the test compares only which number corresponds to which.
    const turnOf = new Map<number, number>([[0, 0]])
    const fenceOf = new Map<number, number>([[0, 0]])
    let [turns, fences] = [0, 0]
    const newTurn = () => ++turns
    const newFence = () => ++fences
    const plain = { queue: home, priority: 0, partition: null, moves: false, schedule: null }

    for (const step of list) {
      const now = new Date()
      const before: ProcessRow | null = row
      let results: [unknown, unknown] = [undefined, undefined]
      if (step.move === 'wake') {
        const [queue, schedule] = [step.queue === null ? home : other, step.isFiring ? 'nightly' : null]
        const at = new Date(now.getTime() + step.delayMs)
        row = applyWake(row, { ...plain, now, at, queue, moves: step.queue !== null, schedule }, newTurn)
        await db.run(wakeProcess, [...key, step.delayMs, queue, 0, null, step.queue !== null, schedule, null])
      } else if (step.move === 'give') {
        const given = applyGive(row, new Date(now.getTime() + 60_000))
        row = given ?? row
        const taken = await db.run(takeTurns, [row?.queue ?? home, 9, worker, ['job'], null, null, null, null])
        results = [given === null ? 0 : 1, taken.length]
      } else if (step.move === 'return') {
        const turn = row?.turn ?? 0
        // The pause is over at once as far as this test can see.
        const back = applyReturn(row, { turn, dueAt: now, newTurn })
        row = back ?? row
        const [returned] = await db.run(returnTurn, [...key, turnOf.get(turn) ?? -1, true, worker])
        await db.query(`update runtime.processes set due_at = clock_timestamp() where kind = $1 and id = $2 and $3`, [
          ...key,
          back !== null,
        ])
        results = [back === null ? 'stale' : 'returned', returned?.outcome]
      } else if (step.move === 'take over') {
        const left = applyTakeOver(row, now, newTurn)
        row = left ?? row
        results = [left === null ? 0 : 1, (await db.run(takeOver, [worker])).length]
      } else if (step.move === 'begin') {
        const turn = step.isOld ? (row?.turn ?? 0) - 1 : (row?.turn ?? 0)
        const delivery = (row?.delivery ?? 0) + step.ahead
        const begun = applyBegin(row, { turn, delivery, now, attemptsMax: ATTEMPTS_MAX, newFence, newTurn })
        if (begun.outcome !== 'stale') row = begun.row
        const values = [book, ...key, turnOf.get(turn) ?? -1, delivery, worker, ATTEMPTS_MAX]
        const [stored] = await db.run(beginTurn, values)
        results = [begun.outcome, stored?.outcome]
      } else if (step.move === 'end') {
        const fence = step.isOld ? (row?.fence ?? 0) - 1 : (row?.fence ?? 0)
        const until = step.next === 'until' ? new Date(now.getTime() + HOUR_MS) : null
        const next: Next = step.next === 'until' || step.next === 'wait' ? { t: 'wait', until } : { t: step.next }
        const ended = applyEnd(row, fence, next, now, newTurn)
        if (ended.outcome !== 'stale') row = ended.row
        const [stored] = await db.run(endTurn, [...key, fenceOf.get(fence) ?? -1, next.t, until, null, null])
        const outcome = stored?.outcome === 'opened' || stored?.outcome === 'delayed' ? 'queued' : stored?.outcome
        results = [ended.outcome, outcome]
      } else if (step.move === 'fail') {
        const fence = step.isOld ? (row?.fence ?? 0) - 1 : (row?.fence ?? 0)
        const failure = { why: 'failing', detail: 'a bug', failuresMax: FAILURES_MAX } as const
        const failed = applyFailure(row, { ...failure, fence, now, newTurn })
        if (failed.outcome !== 'stale') row = lengthened(failed)
        const [stored] = await db.run(failTurn, [...key, fenceOf.get(fence) ?? -1, 'failing', 'a bug', FAILURES_MAX])
        if (stored?.outcome === 'delayed') await db.query(LENGTHEN, key)
        results = [failed.outcome, stored?.outcome === 'delayed' ? 'queued' : stored?.outcome]
      } else if (step.move === 'resume') {
        const resumed = applyResume(row, now, newTurn)
        row = resumed ?? row
        const rows = await db.query('select * from runtime.resume($1, $2)', key)
        results = [resumed !== null, rows.length === 1]
      } else {
        row = applyAbort(row, { ...plain, now, at: now }, 'stop', newFence)
        await db.query('select runtime.abort($1, $2, $3, $4)', [...key, 'stop', home])
      }
      assert.equal(results[1], results[0], `${JSON.stringify(step)} after ${JSON.stringify(before)}`)
      await compare(db, process, row, now, turnOf, fenceOf)
    }
  }

  async function compare(
    db: Sql,
    process: { kind: string; id: string },
    row: ProcessRow | null,
    now: Date,
    turnOf: Map<number, number>,
    fenceOf: Map<number, number>,
  ): Promise<void> {
    const [stored] = await db.query<Stored>(
      `select state, turn, due_at, again_at, fence, attempt, delivery, given_at is not null as is_given, gives, failures, why, detail, queue,
         priority, partition, schedule
       from runtime.processes where kind = $1 and id = $2`,
      [process.kind, process.id],
    )
    assert.equal(stored === undefined, row === null)
    if (!stored || !row) return
    const { due_at, again_at, turn, fence, is_given, ...same } = stored
    const { dueAt, againAt, turn: rowTurn, fence: rowFence, isGiven, ...expected } = row
    assert.deepEqual({ ...same, isGiven: is_given }, { ...expected, isGiven })
    if (row.state === 'queued') assert.equal(rounded(due_at, now), rounded(dueAt, now))
    assert.equal(rounded(again_at, now), rounded(againAt, now))
    // A number is recorded when it is first seen; from then on it must be the same.
    const known = { turn: turnOf.get(rowTurn) ?? Number(turn), fence: fenceOf.get(rowFence) ?? Number(fence) }
    assert.deepEqual({ turn: Number(turn), fence: Number(fence) }, known)
    turnOf.set(rowTurn, Number(turn))
    fenceOf.set(rowFence, Number(fence))
  }

  test('the same moves lead to the same rows', async () => {
    const lists = fc.array(moves, { minLength: 1, maxLength: 14 })
    await fc.assert(
      fc.asyncProperty(lists, (list) => run(opened.db, list)),
      { numRuns: 400 },
    )
  })
})
