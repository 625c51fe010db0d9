/**
 * Group commit for one process: writes that arrive during a flush go into the next one, as one statement on one of two
 * connections, and each caller is answered only after its own commit. A failing row fails alone.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { KernelFault } from '#kernel/errors'
import { type Refusal, refuse } from '#kernel/refusal'
import { type Db, isFull } from './db.ts'
import { failpoint } from './failpoints.ts'
import { outcomeOf, sqlStateOf, UnknownOutcome } from './faults.ts'
import { type Sql, sqlOn } from './statement.ts'

/** A queued item; `retried` means that an earlier flush may have committed it. */
export type Submitted<Item> = { readonly item: Item; readonly retried: boolean }

export type LaneConfig<Item, Answer> = {
  readonly name: string
  /** Two keep one flush in Postgres while the next is built; more only add smaller batches. */
  readonly connections?: number
  /** More settings of its connections, after those of every lane. */
  readonly settings?: string
  readonly batchMax?: number
  /** Above this number a caller is refused at once, so that the queue stays bounded. */
  readonly queuedMax?: number
  /** Items with one key are written one after the other, in order of arrival. */
  readonly keyOf?: (item: Item) => string | undefined
  /**
   * Writes all items or none, in one commit; an `Error` in place of an answer rejects that caller. A flush that continues after its
   * commit and may fail first reports the committed items (`tell`): those callers get their answer, and only the others, which that
   * commit did not write, are retried.
   */
  readonly flush: (
    sql: Sql,
    items: readonly Submitted<Item>[],
    tell: (index: number, answer: Answer) => void,
  ) => Promise<readonly (Answer | Error)[]>
  /** `flush` recognises what it has already written, so a flush of unknown outcome may be retried. */
  readonly retrySafe?: boolean
}

export type Lane<Item, Answer> = {
  submit(item: Item): Promise<Answer | Refusal>
  /** Accepts nothing more, writes the rest, and ends its connections. */
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
/** How long to wait before reopening a failed connection while another one works. */
const REST_MS = 1_000

/** Our own code failed, before the statement was sent or after it was answered: the connection is still good. */
function isFault(error: unknown): boolean {
  return error instanceof KernelFault || error instanceof TypeError || error instanceof RangeError
}

/** Data and constraints (classes 22 and 23): the server checked this very row, so it was not written before. */
function isAboutRow(error: unknown): boolean {
  return /^2[23]/.test(sqlStateOf(error) ?? '')
}

export function openLane<Item, Answer>(db: Db, config: LaneConfig<Item, Answer>): Lane<Item, Answer> {
  const settings = config.settings === undefined ? laneSettings : `${laneSettings}; ${config.settings}`
  const { name, connections = 2, batchMax = 256, queuedMax = 10_000, keyOf, retrySafe = false } = config
  type E = Entry<Item, Answer>
  const all = Array.from({ length: connections }, () => laneConnection(db, `concord-lane-${name}`, settings))
  const idle = [...all]
  const queue = keyedQueue<E>()
  let isScheduled = false
  let closing: Promise<void> | undefined
  let drained: (() => void) | undefined

  /** After the current turn, so that everything that arrives in it shares a batch. */
  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    setImmediate(pump)
  }

  function pump(): void {
    isScheduled = false
    while (queue.ready > 0) {
      const connection = idle.pop()
      if (connection === undefined) return
      void work(connection, queue.take(batchMax))
    }
    if (queue.size === 0) drained?.()
  }

  async function work(connection: LaneConnection, batch: readonly E[]): Promise<void> {
    const hasOther = () => all.some((other) => other !== connection && other.isOpen)
    // No caller waits for an unavailable connection while another one works.
    const isReady = await connection.open(...(hasOther() ? [0] : [])).then(
      () => true,
      () => false,
    )
    if (isReady) await write(connection, batch)
    else if (hasOther()) {
      queue.putBack(batch)
      setTimeout(giveBack, REST_MS, connection).unref()
      schedule()
      return
    } else for (let rest = batch; rest.length > 0; rest = queue.take(batchMax)) refuseAll(rest)
    giveBack(connection)
  }

  function giveBack(connection: LaneConnection): void {
    idle.push(connection)
    schedule()
  }

  /** Nothing was sent now; the result of an earlier flush of a retried entry stays unknown. */
  function refuseAll(batch: readonly E[], cause?: unknown): void {
    const refusal = refuse('database_unavailable', 'The database does not answer. Nothing was written.')
    for (const entry of batch) entry.settle(entry.retried ? lost(cause) : refusal)
  }

  const lost = (cause: unknown) => new UnknownOutcome(`a write through the lane ${name}`, cause)

  /** Settles every entry of the batch, whatever happens. */
  async function write(connection: LaneConnection, batch: readonly E[]): Promise<void> {
    let sql: Sql
    try {
      sql = await connection.open()
    } catch (error) {
      refuseAll(batch, error)
      return
    }
    const known = new Map<E, Answer>()
    const tell = (index: number, answer: Answer) => {
      const entry = batch[index]
      if (entry) known.set(entry, answer)
    }
    try {
      await failpoint('lane.batch_taken')
      const answers = await config.flush(sql, batch, tell)
      await failpoint('lane.committed')
      batch.forEach((entry, index) => entry.settle(answers[index] ?? new Error(`The lane ${name} returned no answer.`)))
    } catch (error) {
      for (const [entry, answer] of known) entry.settle(answer)
      await recover(
        connection,
        batch.filter((entry) => !known.has(entry)),
        error,
      )
    }
  }

  async function recover(connection: LaneConnection, batch: readonly E[], error: unknown): Promise<void> {
    const outcome = outcomeOf(error)
    const isTired = batch.some((entry) => entry.retries >= RETRIES_MAX)
    const isBroken = outcome === 'unknown' && !isFault(error)
    if (isBroken) connection.drop()
    if (outcome === 'unknown') for (const entry of batch) entry.retried = true
    if ((isBroken && isTired) || (outcome === 'unknown' && !retrySafe)) {
      for (const entry of batch) entry.settle(lost(error))
    } else if (!isTired && (isBroken || outcome === 'again')) {
      for (const entry of batch) entry.retries += 1
      await write(connection, batch)
    } else if (batch.length === 1) {
      const [entry] = batch
      // "Not done" concerns this attempt. Only an error of ours, or one about the row itself, proves that no earlier attempt wrote it.
      if (entry?.retried && !isFault(error) && !isAboutRow(error)) entry.settle(lost(error))
      else entry?.settle(error instanceof Error ? error : new Error(String(error)))
    } else if (batch.length > 1) {
      // All of it was rolled back, or may be repeated. Finds the failing row by halving the batch; the other rows need few extra commits.
      const half = Math.ceil(batch.length / 2)
      await write(connection, batch.slice(0, half))
      await write(connection, batch.slice(half))
    }
  }

  async function end(): Promise<void> {
    if (queue.size > 0) {
      await new Promise<void>((resolve) => {
        drained = resolve
      })
    }
    await Promise.all(all.map((connection) => connection.close()))
  }

  return {
    submit(item) {
      if (closing) return Promise.resolve(refuse('store.lane.closed', `The lane ${name} is closed.`))
      if (queue.size >= queuedMax) {
        const facts = { retry_after_s: 1 }
        return Promise.resolve(refuse('overloaded', `${queue.size} writes are already waiting.`, { facts }))
      }
      return new Promise((resolve, reject) => {
        const settle = (answer: Answer | Refusal | Error) => {
          queue.leave(entry)
          schedule()
          if (answer instanceof Error) reject(answer)
          else resolve(answer)
        }
        const entry: E = { item, key: keyOf?.(item), retries: 0, retried: false, settle }
        queue.push(entry)
        schedule()
      })
    },
    close() {
      closing ??= end()
      return closing
    },
  }
}

/** A queue that releases entries with the same key one after the other: the next only when the previous one has left. */
type Keyed = { readonly key: string | undefined }

type KeyedQueue<Entry extends Keyed> = {
  push(entry: Entry): void
  /** The next entries, each key at most once. */
  take(max: number): Entry[]
  /** Returns entries that were taken but not begun to the front. */
  putBack(entries: readonly Entry[]): void
  /** Marks the entry as done; the next one of its key becomes available. */
  leave(entry: Entry): void
  /** Entries that may be taken now. */
  readonly ready: number
  /** All entries that have not left: ready, waiting behind a key, and taken. */
  readonly size: number
}

function keyedQueue<Entry extends Keyed>(): KeyedQueue<Entry> {
  const ready: Entry[] = []
  /** Keys that are ready or taken, each with what waits behind it. */
  const behind = new Map<string, Entry[]>()
  let size = 0
  return {
    push(entry) {
      size += 1
      const waiting = entry.key === undefined ? undefined : behind.get(entry.key)
      if (waiting !== undefined) {
        waiting.push(entry)
        return
      }
      if (entry.key !== undefined) behind.set(entry.key, [])
      ready.push(entry)
    },
    take: (max) => ready.splice(0, max),
    putBack: (entries) => void ready.unshift(...entries),
    leave({ key }) {
      size -= 1
      if (key === undefined) return
      const next = behind.get(key)?.shift()
      if (next === undefined) behind.delete(key)
      else ready.push(next)
    },
    get ready() {
      return ready.length
    },
    get size() {
      return size
    },
  }
}

/**
 * A batch of 1 and a batch of 500 share one prepared statement. Its plan must not depend on the size of the table at
 * planning time: a plan made for an empty table later reads the whole table (measured: 10 times slower at 8,000
 * rows).
 */
const laneSettings = 'set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_nestloop = off'

/** A restarting server is back within 0.4 s; after this time waiting callers get an error. */
const CONNECT_WITHIN_MS = 1_000
const CONNECT_PAUSE_MS = 50

type LaneConnection = {
  /** Connects if necessary; rejects when the server cannot be reached in that time, by default a second. */
  open(withinMs?: number): Promise<Sql>
  readonly isOpen: boolean
  /** Forgets the connection: its state is unknown. */
  drop(): void
  close(): Promise<void>
}

export function laneConnection(db: Db, name: string, settings = laneSettings): LaneConnection {
  let current: { readonly client: pg.Client; readonly sql: Sql } | undefined

  async function connect(patienceMs: number | undefined): Promise<{ client: pg.Client; sql: Sql }> {
    const client = await db.connect(name, patienceMs)
    // The server may end an idle connection; the next batch then opens a new one.
    const forget = () => {
      if (current?.client === client) current = undefined
    }
    client.on('error', forget)
    client.on('end', forget)
    await client.query(settings)
    return { client, sql: sqlOn(client) }
  }

  return {
    async open(withinMs = CONNECT_WITHIN_MS) {
      for (let waitedMs = 0; current === undefined; waitedMs += CONNECT_PAUSE_MS) {
        try {
          current = await connect(withinMs === 0 ? 0 : undefined)
        } catch (error) {
          // By then it has waited for a full server as long as every other connection does.
          if (waitedMs >= withinMs || isFull(error)) throw error
          await sleep(CONNECT_PAUSE_MS)
        }
      }
      return current.sql
    },
    get isOpen() {
      return current !== undefined
    },
    drop() {
      current?.client.end().catch(() => {})
      current = undefined
    },
    async close() {
      const client = current?.client
      current = undefined
      await client?.end()
    },
  }
}
