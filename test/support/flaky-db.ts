/**
 * A database whose dedicated connections fail on demand: they break after a statement was committed and before its answer
 * arrives, or the server refuses a statement before it does anything.
 */
import type pg from 'pg'
import type { Db } from '../../src/store/db.ts'

export type FlakyDb = {
  readonly db: Db
  /** The next statement whose name starts so is carried out, and its connection lost with the answer. */
  breakAfter(statementPrefix: string): void
  /** The next statement whose name starts so is answered by the server with this SQLSTATE, as often as told. */
  refuse(statementPrefix: string, sqlState: string, times?: number): void
  readonly broken: number
  readonly refused: number
}

export function flakyDb(real: Db): FlakyDb {
  let armed: string | undefined
  let broken = 0
  let refusing = { prefix: '', sqlState: '', times: 0 }
  let refused = 0
  async function connect(applicationName?: string): Promise<pg.Client> {
    const client = await real.connect(applicationName)
    const query = client.query.bind(client) as (...values: unknown[]) => Promise<unknown>
    // The driver's overloads do not matter here: everything is passed on as it came.
    client.query = (async (...values: unknown[]) => {
      const name = (values[0] as { name?: string }).name
      if (refusing.times > 0 && name?.startsWith(refusing.prefix) === true) {
        refusing.times -= 1
        refused += 1
        return query(`do $$ begin raise sqlstate '${refusing.sqlState}'; end $$`)
      }
      const answer = await query(...values)
      if (armed === undefined || name?.startsWith(armed) !== true) return answer
      armed = undefined
      broken += 1
      await client.end()
      throw new Error('Connection terminated unexpectedly')
    }) as typeof client.query
    return client
  }
  return {
    db: Object.assign(Object.create(real) as Db, { connect }),
    breakAfter(statementPrefix) {
      armed = statementPrefix
    },
    refuse(prefix, sqlState, times = 1) {
      refusing = { prefix, sqlState, times }
    },
    get refused() {
      return refused
    },
    get broken() {
      return broken
    },
  }
}
