/** The functions in the database and the book of turns say the same, whatever happens to a process in whatever order. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import {
  bookAbort,
  bookBegin,
  bookEnd,
  bookFailure,
  bookResume,
  bookWake,
  type Failed,
  type Next,
  type TurnLine,
  turnName,
} from '#runtime'
import type { Sql } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { createDbosRuntime, type DbosRuntime } from './runtime.ts'
import { beginTurn, endTurn, failTurn, wakeProcess } from './statements.ts'

const HOUR_MS = 3_600_000
const ATTEMPTS_MAX = 2
const FAILURES_MAX = 3

type Move =
  | { readonly move: 'wake'; readonly delayMs: number; readonly queue: string | null; readonly isFiring: boolean }
  | { readonly move: 'begin'; readonly isOld: boolean }
  | { readonly move: 'end'; readonly isOld: boolean; readonly next: 'done' | 'again' | 'wait' | 'until' }
  | { readonly move: 'fail'; readonly isOld: boolean }
  | { readonly move: 'resume' | 'abort' }

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
  { weight: 5, arbitrary: fc.record({ move: fc.constant('begin' as const), isOld: fc.boolean() }) },
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

type Stored = Omit<TurnLine, 'dueAt' | 'againAt' | 'turn' | 'fence'> & {
  readonly due_at: Date
  readonly again_at: Date | null
  readonly turn: string
  readonly fence: string
}

/** Times by half an hour: the two sides never look at the clock in the same millisecond. */
function rounded(time: Date | null, now: Date): number | null {
  return time === null ? null : Math.max(0, Math.round((time.getTime() - now.getTime()) / (HOUR_MS / 2)))
}

/** The pause after a failure is shorter than a busy machine may need for the next move; with an hour more it is over for neither side. */
const LENGTHEN = `update runtime.processes set due_at = due_at + interval '1 hour' where kind = $1 and id = $2`
function lengthened({ outcome, line }: Exclude<Failed, { outcome: 'stale' }>): TurnLine | null {
  return outcome === 'queued' && line ? { ...line, dueAt: new Date(line.dueAt.getTime() + HOUR_MS) } : line
}

describe('the book of turns in the database', () => {
  let opened: TestDb
  let runtime: DbosRuntime
  let count = 0

  before(async () => {
    opened = await openTestDb()
    runtime = createDbosRuntime({ db: opened.db, works: false })
    assert.equal((await runtime.open()).ok, true)
  })
  after(async () => {
    await runtime.close()
    await opened.close()
  })

  /** Runs the moves on both sides; `told` is what each move said. */
  async function run(db: Sql, list: readonly Move[]): Promise<void> {
    const process = { kind: 'job', id: `p:${++count}` }
    const key = [process.kind, process.id]
    let line: TurnLine | null = null
    // Numbers of the two sides differ; which one stands for which is all that matters.
    const turnOf = new Map<number, number>([[0, 0]])
    const fenceOf = new Map<number, number>([[0, 0]])
    let [turns, fences] = [0, 0]
    const newTurn = () => ++turns
    const newFence = () => ++fences

    for (const step of list) {
      const now = new Date()
      const before: TurnLine | null = line
      let told: [string | undefined, string | undefined]
      if (step.move === 'wake') {
        const [queue, schedule] = [step.queue ?? 'concord_default', step.isFiring ? 'nightly' : null]
        const at = new Date(now.getTime() + step.delayMs)
        const wish = { now, at, queue, priority: 0, partition: null, moves: step.queue !== null, schedule }
        line = bookWake(line, wish, newTurn).line
        await db.run(wakeProcess, [...key, step.delayMs, queue, 0, null, step.queue !== null, schedule, null, null])
        told = [undefined, undefined]
      } else if (step.move === 'begin') {
        const turn = step.isOld ? (line?.turn ?? 0) - 1 : (line?.turn ?? 0)
        const begun = bookBegin(line, { turn, now, attemptsMax: ATTEMPTS_MAX, newFence, newTurn })
        if (begun.outcome !== 'stale') line = begun.line
        const [row] = await db.run(beginTurn, [...key, turnOf.get(turn) ?? -1, ATTEMPTS_MAX])
        told = [begun.outcome, row?.outcome]
      } else if (step.move === 'end') {
        const fence = step.isOld ? (line?.fence ?? 0) - 1 : (line?.fence ?? 0)
        const until = step.next === 'until' ? new Date(now.getTime() + HOUR_MS) : null
        const next: Next = step.next === 'until' || step.next === 'wait' ? { t: 'wait', until } : { t: step.next }
        const ended = bookEnd(line, fence, next, now, newTurn)
        if (ended.outcome !== 'stale') line = ended.line
        const [row] = await db.run(endTurn, [...key, fenceOf.get(fence) ?? -1, next.t, until, null, null])
        const told2 = row?.outcome === 'opened' || row?.outcome === 'delayed' ? 'queued' : row?.outcome
        told = [ended.outcome, told2]
      } else if (step.move === 'fail') {
        const fence = step.isOld ? (line?.fence ?? 0) - 1 : (line?.fence ?? 0)
        const failure = { why: 'failing', detail: 'a bug', failuresMax: FAILURES_MAX } as const
        const failed = bookFailure(line, { ...failure, fence, now, newTurn })
        if (failed.outcome !== 'stale') line = lengthened(failed)
        const [row] = await db.run(failTurn, [...key, fenceOf.get(fence) ?? -1, 'failing', 'a bug', FAILURES_MAX])
        if (row?.outcome === 'delayed') await db.query(LENGTHEN, key)
        told = [failed.outcome, row?.outcome === 'delayed' ? 'queued' : row?.outcome]
      } else if (step.move === 'resume') {
        const booked = bookResume(line, now, newTurn)
        line = booked ? booked.line : line
        const rows = await db.query('select * from runtime.resume($1, $2)', key)
        told = [String(booked !== null), String(rows.length === 1)]
      } else {
        const wish = {
          now,
          at: now,
          queue: 'concord_default',
          priority: 0,
          partition: null,
          moves: false,
          schedule: null,
        }
        line = bookAbort(line, wish, 'stop', newFence)
        await db.query('select runtime.abort($1, $2, $3)', [...key, 'stop'])
        told = [undefined, undefined]
      }
      assert.equal(told[1], told[0], `${JSON.stringify(step)} after ${JSON.stringify(before)}`)
      await compare(db, process, line, now, turnOf, fenceOf)
    }
  }

  async function compare(
    db: Sql,
    process: { kind: string; id: string },
    line: TurnLine | null,
    now: Date,
    turnOf: Map<number, number>,
    fenceOf: Map<number, number>,
  ): Promise<void> {
    const [row] = await db.query<Stored>(
      `select state, turn, due_at, again_at, fence, attempt, failures, why, detail, queue, priority, partition, schedule
       from runtime.processes where kind = $1 and id = $2`,
      [process.kind, process.id],
    )
    assert.equal(row === undefined, line === null)
    if (!row || !line) return
    const { due_at, again_at, turn, fence, ...same } = row
    const { dueAt, againAt, turn: bookTurn, fence: bookFence, ...expected } = line
    assert.deepEqual(same, expected)
    if (line.state === 'queued') assert.equal(rounded(due_at, now), rounded(dueAt, now))
    assert.equal(rounded(again_at, now), rounded(againAt, now))
    // The first time a number is seen it is learnt; from then on it must be the same one.
    const known = { turn: turnOf.get(bookTurn) ?? Number(turn), fence: fenceOf.get(bookFence) ?? Number(fence) }
    assert.deepEqual({ turn: Number(turn), fence: Number(fence) }, known)
    turnOf.set(bookTurn, Number(turn))
    fenceOf.set(bookFence, Number(fence))
    if (line.state === 'queued') {
      const [given] = await db.query<{ status: string }>(
        'select status from "dbos".workflow_status where workflow_uuid = $1',
        [turnName(process, Number(turn))],
      )
      assert.equal(given?.status, due_at > new Date() ? 'DELAYED' : 'ENQUEUED')
    }
  }

  test('the same moves lead to the same lines, and every queued turn is with the engine', async () => {
    const lists = fc.array(moves, { minLength: 1, maxLength: 14 })
    await fc.assert(
      fc.asyncProperty(lists, (list) => run(opened.db, list)),
      { numRuns: 400 },
    )
  })
})
