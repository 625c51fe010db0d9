/** Statements over a pool or one connection: named and prepared for what is hot, plain for what is not, and the query builder. */
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import type pg from 'pg'
import type { Statement } from './statement.ts'

export interface Sql {
  /** Runs a named prepared statement and returns its rows. */
  run<Row>(statement: Statement<Row>, values?: readonly unknown[]): Promise<Row[]>
  /** Runs plain SQL, unprepared: for cold paths and tests. */
  query<Row extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
  /** The query builder on the same connection. */
  readonly drizzle: NodePgDatabase
}

type Queryable = pg.Pool | pg.PoolClient | pg.Client

/** Sends statements over a pool or one connection; the query builder is made when somebody asks for it. */
export function sqlOn(queryable: Queryable): Sql {
  let builder: NodePgDatabase | undefined
  return {
    get drizzle() {
      builder ??= drizzle({ client: queryable })
      return builder
    },
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
