/**
 * Group commit for one process: what arrives while a flush is under way goes into the next, as one statement on one of two
 * connections, and each caller is answered only after his own commit. A row that fails, fails alone.
 */
import { type Refusal, refuse } from '#kernel/refusal'
import type { Db, Sql } from './db.ts'
import { outcomeOf, UnknownOutcome } from './faults.ts'
import { laneConnection, type LaneConnection } from './lane-connection.ts'
import { point } from './points.ts'

/** An item on its way; `retried` says that an earlier flush may have committed it. */
export type Submitted<Item> = { readonly item: Item; readonly retried: boolean }

export type LaneConfig<Item, Answer> = {
  readonly name: string
  /** Two keep one flush in Postgres while the next is built; more only add smaller batches. */
  readonly connections?: number
  readonly batchMax?: number
  /** Beyond this a caller is refused at once: a queue that only grows helps nobody. */
  readonly queuedMax?: number
  /** Items with one key are written one after the other, in the order they came. */
  readonly keyOf?: (item: Item) => string | undefined
  /** Writes all items or none, in one commit; an `Error` in the place of an answer rejects that caller. */
  readonly flush: (sql: Sql, items: readonly Submitted<Item>[]) => Promise<readonly (Answer | Error)[]>
  /** `flush` recognises what it has already written, so a flush of unknown outcome may be tried again. */
  readonly retrySafe?: boolean
  /** After each commit, off the path of the callers. */
  readonly onFlushed?: (items: readonly Item[]) => void
}

export type Lane<Item, Answer> = {
  submit(item: Item): Promise<Answer | Refusal>
  /** Queued and in flight. */
  readonly depth: number
  /** Takes nothing more, writes what it has, and ends its connections. */
  close(): Promise<void>
}

type Entry<Item, Answer> = {
  readonly item: Item
  readonly key: string | undefined
  retries: number
  retried: boolean
  settle(answer: Answer | Refusal | Error): void
}

/** Deadlocks and broken connections; a row that the server refuses is tried once. */
const RETRIES_MAX = 4

export function openLane<Item, Answer>(db: Db, config: LaneConfig<Item, Answer>): Lane<Item, Answer> {
  const { name, connections = 2, batchMax = 256, queuedMax = 10_000, keyOf, flush, retrySafe = false, onFlushed } = config
  type E = Entry<Item, Answer>
  const idle: LaneConnection[] = Array.from({ length: connections }, () => laneConnection(db, `concord-lane-${name}`))
  const all = [...idle]
  const queue: E[] = []
  /** Keys that are queued or in flight, each with what waits behind it. */
  const behind = new Map<string, E[]>()
  let depth = 0
  let isScheduled = false
  let isClosed = false
  let drained: (() => void) | undefined

  /** After the current turn, so that everything that arrives in it shares a batch. */
  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(pump)
  }

  function pump(): void {
    isScheduled = false
    while (queue.length > 0) {
      const connection = idle.pop()
      if (connection === undefined) return
      void work(connection, queue.splice(0, batchMax))
    }
    if (depth === 0) drained?.()
  }

  async function work(connection: LaneConnection, batch: readonly E[]): Promise<void> {
    await write(connection, batch)
    idle.push(connection)
    schedule()
  }

  const lost = (cause: unknown) => new UnknownOutcome(`a write through the lane ${name}`, cause)

  /** Settles every entry of the batch, whatever happens. */
  async function write(connection: LaneConnection, batch: readonly E[]): Promise<void> {
    let sql: Sql
    try {
      sql = await connection.open()
    } catch (error) {
      // Nothing was sent now; what an earlier flush did with a retried entry stays unknown.
      const refusal = refuse('database_unavailable', 'the database does not answer; nothing was written')
      for (const entry of batch) entry.settle(entry.retried ? lost(error) : refusal)
      return
    }
    try {
      const taken = point('lane.batch_taken')
      if (taken) await taken
      const answers = await flush(sql, batch)
      const committed = point('lane.committed')
      if (committed) await committed
      batch.forEach((entry, index) => entry.settle(answers[index] ?? new Error(`the lane ${name} gave no answer`)))
    } catch (error) {
      await recover(connection, batch, error)
      return
    }
    onFlushed?.(batch.map((entry) => entry.item))
  }

  async function recover(connection: LaneConnection, batch: readonly E[], error: unknown): Promise<void> {
    const outcome = outcomeOf(error)
    const isTired = (entry: E) => entry.retries >= RETRIES_MAX
    if (outcome === 'unknown') {
      connection.drop()
      const again = batch.filter((entry) => retrySafe && !isTired(entry))
      for (const entry of batch) if (!again.includes(entry)) entry.settle(lost(error))
      for (const entry of again) {
        entry.retries += 1
        entry.retried = true
      }
      if (again.length > 0) await write(connection, again)
    } else if (outcome === 'again' && !batch.some(isTired)) {
      for (const entry of batch) entry.retries += 1
      await write(connection, batch)
    } else if (batch.length === 1) {
      batch[0]?.settle(error instanceof Error ? error : new Error(String(error)))
    } else {
      // The server rolled all of it back. Halving finds the row that fails; the others are written with few commits more.
      const half = Math.ceil(batch.length / 2)
      await write(connection, batch.slice(0, half))
      await write(connection, batch.slice(half))
    }
  }

  function enqueue(entry: E): void {
    const waiting = entry.key === undefined ? undefined : behind.get(entry.key)
    if (waiting !== undefined) {
      waiting.push(entry)
      return
    }
    if (entry.key !== undefined) behind.set(entry.key, [])
    queue.push(entry)
    schedule()
  }

  function leave(entry: E): void {
    depth -= 1
    if (entry.key === undefined) return
    const next = behind.get(entry.key)?.shift()
    if (next === undefined) behind.delete(entry.key)
    else {
      queue.push(next)
      schedule()
    }
  }

  return {
    get depth() {
      return depth
    },
    submit(item) {
      if (isClosed) return Promise.resolve(refuse('store.lane.closed', `the lane ${name} takes nothing more`))
      if (depth >= queuedMax) {
        return Promise.resolve(refuse('overloaded', `${depth} writes are waiting already`, { facts: { retry_after_s: 1 } }))
      }
      depth += 1
      return new Promise((resolve, reject) => {
        const entry: E = {
          item,
          key: keyOf?.(item),
          retries: 0,
          retried: false,
          settle(answer) {
            leave(entry)
            if (answer instanceof Error) reject(answer)
            else resolve(answer)
          },
        }
        enqueue(entry)
      })
    },
    async close() {
      isClosed = true
      if (depth > 0) await new Promise<void>((resolve) => { drained = resolve })
      await Promise.all(all.map((connection) => connection.close()))
    },
  }
}
