/** The connection of one lane: opened when first needed, discarded when it breaks, with plans for batches. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Db } from './db.ts'
import { isFull } from './patient-pool.ts'
import { type Sql, sqlOn } from './sql-on.ts'

/**
 * A batch of 1 and a batch of 500 share one prepared statement, and its plan must not depend on how full the table was
 * when it was made: a plan from an empty table reads the whole table later (measured: 10 times slower at 8,000 rows).
 */
export const laneSettings =
  'set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_nestloop = off'

/** A restarting server is back within 0.4 s; after this time waiting callers get an error. */
const CONNECT_WITHIN_MS = 1_000
const CONNECT_PAUSE_MS = 50

export type LaneConnection = {
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
