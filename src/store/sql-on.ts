/** Runs statements on a pool or one connection: named and prepared for hot paths, plain for cold ones. */
import type pg from 'pg'
import type { Statement } from './statement.ts'

export interface Sql {
  /** Runs a named prepared statement and returns its rows. */
  run<Row>(statement: Statement<Row>, values?: readonly unknown[]): Promise<Row[]>
  /** Runs plain SQL, unprepared: for cold paths and tests. */
  query<Row extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
}

type Queryable = pg.Pool | pg.PoolClient | pg.Client

export function sqlOn(queryable: Queryable): Sql {
  return {
    async run<Row>(statement: Statement<Row>, values: readonly unknown[] = []) {
      const result = await queryable.query({ name: statement.name, text: statement.text, values: [...values] })
      return result.rows as Row[]
    },
    async query<Row extends object>(text: string, values: readonly unknown[] = []) {
      const result = await queryable.query(text, [...values])
      return result.rows as Row[]
    },
  }
}
