/**
 * The only file that touches node:sqlite: one connection, prepared statements, write transactions that begin IMMEDIATE.
 * A refusal inside a transaction undoes it; a fault of the file or the disk comes back as a refusal.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision } from '#kernel/refusal'
import { Prepared } from './prepared.ts'
import { explainSqliteFault } from './sqlite-fault.ts'
import type { NoParams, SqlParams, Statement } from './statement.ts'

export const IN_MEMORY = ':memory:'

/** What a statement may be run on; a service that must be inside a transaction takes a `Tx`. */
export type Reader = {
  one<Row, Params extends SqlParams>(statement: Statement<Row, Params>, ...params: ParamsOf<Params>): Row | undefined
  all<Row, Params extends SqlParams>(statement: Statement<Row, Params>, ...params: ParamsOf<Params>): Row[]
}
type ParamsOf<Params> = Params extends NoParams ? [] : [params: Params]

declare const txBrand: unique symbol
export type Tx = Reader & {
  /** How many rows changed. */
  run<Params extends SqlParams>(statement: Statement<unknown, Params>, ...params: ParamsOf<Params>): number
  readonly [txBrand]: true
}

export type Database = Reader & {
  readonly file: string
  /** All or nothing; waits for other processes up to the busy timeout. */
  write<T>(work: (tx: Tx) => Decision<T>): Decision<T>
  /** Several reads that see one state. */
  read<T>(work: (reader: Reader) => T): Decision<T>
  /** Text that changes with every committed write, of this process or of another one. */
  version(): string
  /** Changes the file for good, so only once it is known to be ours. */
  useWal(): void
  /** For migrations alone: several statements at once, inside `write`. */
  exec(sql: string): void
  close(): void
}

export type DatabaseOptions = { readonly file: string; readonly busyTimeoutMs: number; readonly isReadOnly?: boolean }

/** FULL: in WAL mode NORMAL lost 5 % of the acknowledged jobs when the power was cut. 64 MiB of cache, 16 MiB of log. */
const PRAGMAS = `
  pragma synchronous = full;
  pragma foreign_keys = on;
  pragma recursive_triggers = on;
  pragma trusted_schema = off;
  pragma cell_size_check = on;
  pragma cache_size = -65536;
  pragma wal_autocheckpoint = 4000;
  pragma temp_store = memory;`

/** Throws what SQLite throws; `open-scheduler` explains it. */
export function openDatabase({ file, busyTimeoutMs, isReadOnly = false }: DatabaseOptions): Database {
  const connection = new DatabaseSync(file, { timeout: busyTimeoutMs, readOnly: isReadOnly, defensive: true })
  try {
    connection.exec(PRAGMAS)
  } catch (error) {
    connection.close()
    throw error
  }
  return new Connection(connection, file)
}

class Connection implements Database, Tx {
  declare readonly [txBrand]: true
  readonly file: string
  readonly #connection: DatabaseSync
  readonly #prepared = new Map<string, Prepared>()
  readonly #begin: StatementSync
  readonly #commit: StatementSync

  constructor(connection: DatabaseSync, file: string) {
    this.file = file
    this.#connection = connection
    this.#begin = connection.prepare('begin immediate')
    this.#commit = connection.prepare('commit')
  }

  one<Row, Params extends SqlParams>(
    statement: Statement<Row, Params>,
    ...[params]: ParamsOf<Params>
  ): Row | undefined {
    // The statement says what its rows look like.
    return this.#prepare(statement.text).get(params) as Row | undefined
  }

  all<Row, Params extends SqlParams>(statement: Statement<Row, Params>, ...[params]: ParamsOf<Params>): Row[] {
    // As in `one`.
    return this.#prepare(statement.text).all(params) as Row[]
  }

  run<Params extends SqlParams>(statement: Statement<unknown, Params>, ...[params]: ParamsOf<Params>): number {
    return this.#prepare(statement.text).run(params)
  }

  write<T>(work: (tx: Tx) => Decision<T>): Decision<T> {
    if (this.#connection.isTransaction) throw new KernelFault('scheduler.nested_write', 'a write began inside a write')
    try {
      this.#begin.run()
      const decision = work(this)
      if (!decision.ok) {
        this.#connection.exec('rollback')
        return decision
      }
      this.#commit.run()
      return decision
    } catch (error) {
      return this.#undo(error)
    }
  }

  read<T>(work: (reader: Reader) => T): Decision<T> {
    try {
      this.#connection.exec('begin')
      const value = work(this)
      this.#connection.exec('commit')
      return accept(value)
    } catch (error) {
      return this.#undo(error)
    }
  }

  version(): string {
    // The first counts the commits of others, the second the rows that this connection has changed.
    const { data_version } = this.#prepare('pragma data_version').get(undefined) as { data_version: number }
    const { changes } = this.#prepare('select total_changes() as changes').get(undefined) as { changes: number }
    return `${data_version}.${changes}`
  }

  useWal(): void {
    this.#connection.exec('pragma journal_mode = wal')
  }

  exec(sql: string): void {
    this.#connection.exec(sql)
  }

  close(): void {
    if (this.#connection.isOpen) this.#connection.close()
  }

  #undo(error: unknown): Decision<never> {
    // A full disk or a failed read may have ended the transaction already.
    if (this.#connection.isOpen && this.#connection.isTransaction) this.#connection.exec('rollback')
    const refusal = explainSqliteFault(error, this.file)
    if (refusal) return refusal
    throw error
  }

  #prepare(text: string): Prepared {
    const known = this.#prepared.get(text)
    if (known) return known
    const prepared = new Prepared(this.#connection, text)
    this.#prepared.set(text, prepared)
    return prepared
  }
}
