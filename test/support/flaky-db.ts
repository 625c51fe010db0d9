/** A database whose dedicated connections break on demand: after a statement was committed, before its answer arrives. */
import type pg from 'pg'
import type { Db } from '../../src/store/db.ts'

export type FlakyDb = {
  readonly db: Db
  /** The next statement whose name starts so is carried out, and its connection lost with the answer. */
  breakAfter(statementPrefix: string): void
  readonly broken: number
}

export function flakyDb(real: Db): FlakyDb {
  let armed: string | undefined
  let broken = 0
  async function connect(applicationName?: string): Promise<pg.Client> {
    const client = await real.connect(applicationName)
    const query = client.query.bind(client) as (...values: unknown[]) => Promise<unknown>
    // The driver's overloads do not matter here: everything is passed on as it came.
    client.query = (async (...values: unknown[]) => {
      const answer = await query(...values)
      const name = (values[0] as { name?: string }).name
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
    get broken() {
      return broken
    },
  }
}
