/**
 * Wraps node:sqlite: one connection, prepared statements, write transactions that begin IMMEDIATE. A refusal rolls its
 * transaction back; a fault of the file or the disk is returned as a refusal.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import { KernelFault } from '#kernel/errors'
import { PAGE_BYTES_MAX } from '#kernel/page-limit'
import { type Decision, type Refusal, refuse } from '#kernel/refusal'

export type SqlValue = string | number | null
export type SqlParams = Readonly<Record<string, SqlValue>>

export type Query<Row, Params extends SqlParams> = {
  readonly text: string
  /** `row` and `params` carry types only and are never set. */
  readonly row?: Row
  readonly params?: Params
}

export type NoParams = Readonly<Record<string, never>>

export function query<Row, Params extends SqlParams = NoParams>(text: string): Query<Row, Params> {
  return { text }
}

/** A row of a page: 1 when the list has a row after it. */
export type PagedRow<Row> = Row & { readonly has_next: number }

/** Ends a page at its size too: `bytes` is the size of the texts of a row. The first row is returned whatever its size. */
export const pageOf = (rows: string, bytes: string) => `
   select * from (
     select *, row_number() over listing as page_row, lead(1, 1, 0) over listing as has_next, sum(${bytes}) over listing as page_bytes
       from (${rows}) window listing as (rows unbounded preceding))
    where page_row = 1 or page_bytes <= ${PAGE_BYTES_MAX} order by page_row`

/** Primary result codes; the extended ones carry them in their lowest byte. */
const BUSY = 5
const LOCKED = 6
const READONLY = 8
const IOERR = 10
const CORRUPT = 11
const FULL = 13
const CANTOPEN = 14
const NOTADB = 26

/** Maps errors of the operating system, met while creating a file, to the matching SQLite codes. */
const sqliteCodeOfErrno: Readonly<Record<string, number>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EIO: IOERR,
  EMFILE: CANTOPEN,
  ENFILE: CANTOPEN,
  EACCES: CANTOPEN,
  EPERM: CANTOPEN,
  EROFS: READONLY,
}

/** Returns undefined for errors of neither SQLite nor the disk. */
function sqliteCode(error: unknown): number | undefined {
  const { code, errcode } = error as { code?: unknown; errcode?: unknown }
  if (code === 'ERR_SQLITE_ERROR' && typeof errcode === 'number') return errcode & 0xff
  return typeof code === 'string' ? sqliteCodeOfErrno[code] : undefined
}

export function isBusy(error: unknown): boolean {
  return sqliteCode(error) === BUSY
}

/** Returns the refusal for a fault of the file or the disk; undefined for an internal error, such as a violated constraint. */
export function explainSqliteFault(error: unknown, file: string): Refusal | undefined {
  const detail = error instanceof Error ? error.message : String(error)
  const facts = { file, detail }
  switch (sqliteCode(error)) {
    case BUSY:
    case LOCKED:
      return refuse('database_busy', 'Another process kept the scheduler file locked for too long.', {
        hint: 'Try again.',
        facts,
      })
    case FULL:
      return refuse('storage_full', `No space is left on the disk of ${file}.`, {
        hint: 'Free some space and try again. No data was lost.',
        facts,
      })
    case READONLY:
    case CANTOPEN:
      return refuse('scheduler.file.read_only', `${file} is not writable.`, {
        hint: 'Make the file and its folder writable for the account that runs the scheduler, on a disk that is not read-only.',
        facts,
      })
    case IOERR:
      return refuse('scheduler.file.io', `The disk failed while reading or writing ${file}.`, {
        hint: 'The last change may or may not be stored. Check before you repeat it.',
        facts,
      })
    case CORRUPT:
    case NOTADB:
      return malformedFile(file, detail)
    default:
      return undefined
  }
}

export function malformedFile(file: string, detail: string): Refusal {
  return refuse('scheduler.file.malformed', `${file} is damaged or is not a SQLite file.`, {
    hint: 'Keep the file and its -wal file, and start from your last backup copy. "sqlite3 <file> .recover" reads what is left.',
    facts: { file, detail },
  })
}

/**
 * A prepared statement. Binds values by position and reads rows as arrays, then adds the names. Binding by name and reading
 * objects costs 3 µs more for each of the two statements of a dispatch.
 */
type Row = Record<string, unknown>

export class Prepared {
  readonly #statement: StatementSync
  /** In the order of their numbers; a name used twice has one number. */
  readonly #names: readonly string[]
  readonly #columns: readonly string[]

  constructor(connection: DatabaseSync, text: string) {
    const { numbered, names } = numberParams(text)
    this.#statement = connection.prepare(numbered)
    this.#statement.setReturnArrays(true)
    this.#names = names
    this.#columns = this.#statement.columns().map(({ name }) => name)
  }

  get(params: SqlParams | undefined): Row | undefined {
    // The constructor asked for arrays; the types of node:sqlite only know objects.
    const values = this.#statement.get(...this.#valuesOf(params)) as unknown as readonly unknown[] | undefined
    return values && this.#rowOf(values)
  }

  all(params: SqlParams | undefined): Row[] {
    // As in `get`.
    const rows = this.#statement.all(...this.#valuesOf(params)) as unknown as readonly (readonly unknown[])[]
    return rows.map((values) => this.#rowOf(values))
  }

  /** Returns the number of changed rows. */
  run(params: SqlParams | undefined): number {
    return Number(this.#statement.run(...this.#valuesOf(params)).changes)
  }

  #valuesOf(params: SqlParams | undefined): SqlValue[] {
    // A missing name gives undefined, which SQLite refuses to bind.
    return params === undefined ? [] : this.#names.map((name) => params[name] as SqlValue)
  }

  #rowOf(values: readonly unknown[]): Row {
    const row: Row = {}
    for (let index = 0; index < this.#columns.length; index++) row[this.#columns[index] as string] = values[index]
    return row
  }
}

/** Replaces `$name` with `?1`. A dollar sign inside an SQL string literal stays. */
export function numberParams(text: string): { readonly numbered: string; readonly names: readonly string[] } {
  const names: string[] = []
  const numbered = text.replaceAll(/'[^']*'|\$(\w+)/g, (found, name?: string) => {
    if (name === undefined) return found
    if (!names.includes(name)) names.push(name)
    return `?${names.indexOf(name) + 1}`
  })
  return { numbered, names }
}

export const IN_MEMORY = ':memory:'

/** Runs queries. A service that needs a transaction takes a `WriteTx`. */
export type SqlReader = {
  one<Row, Params extends SqlParams>(query: Query<Row, Params>, ...params: ParamsOf<Params>): Row | undefined
  all<Row, Params extends SqlParams>(query: Query<Row, Params>, ...params: ParamsOf<Params>): Row[]
}
type ParamsOf<Params> = Params extends NoParams ? [] : [params: Params]

declare const txBrand: unique symbol
export type WriteTx = SqlReader & {
  /** Returns the number of changed rows. */
  run<Params extends SqlParams>(query: Query<unknown, Params>, ...params: ParamsOf<Params>): number
  readonly [txBrand]: true
}

export type Database = SqlReader & {
  readonly file: string
  /** Commits everything or nothing. Waits for other processes up to the busy timeout. */
  write<T>(work: (tx: WriteTx) => Decision<T>): Decision<T>
  /** Runs several queries on one snapshot. */
  read<T>(work: (reader: SqlReader) => Decision<T>): Decision<T>
  /** Returns a text that changes with every committed write of any process. */
  version(): string
  /** Changes the file permanently, so call it only after the file is known to be a scheduler file. */
  useWal(): void
  /** Runs several statements at once, inside `write`; for migrations and the type index. */
  exec(sql: string): void
  close(): void
}

export type DatabaseOptions = { readonly file: string; readonly busyTimeoutMs: number; readonly isReadOnly?: boolean }

/** FULL, because in WAL mode NORMAL lost 5 % of the acknowledged jobs in power cuts. 64 MiB of cache, 16 MiB of log. */
const PRAGMAS = `
  pragma synchronous = full;
  pragma foreign_keys = on;
  pragma recursive_triggers = on;
  pragma trusted_schema = off;
  pragma cell_size_check = on;
  pragma cache_size = -65536;
  pragma wal_autocheckpoint = 4000;
  pragma temp_store = memory;`

/** Throws SQLite's own errors; `openScheduler` turns them into refusals. */
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

class Connection implements Database, WriteTx {
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

  one<Row, Params extends SqlParams>(query: Query<Row, Params>, ...[params]: ParamsOf<Params>): Row | undefined {
    // The query declares the type of its rows.
    return this.#prepare(query.text).get(params) as Row | undefined
  }

  all<Row, Params extends SqlParams>(query: Query<Row, Params>, ...[params]: ParamsOf<Params>): Row[] {
    // As in `one`.
    return this.#prepare(query.text).all(params) as Row[]
  }

  run<Params extends SqlParams>(query: Query<unknown, Params>, ...[params]: ParamsOf<Params>): number {
    return this.#prepare(query.text).run(params)
  }

  write<T>(work: (tx: WriteTx) => Decision<T>): Decision<T> {
    if (this.#connection.isTransaction)
      throw new KernelFault('scheduler.nested_write', 'A write transaction began inside another.')
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

  read<T>(work: (reader: SqlReader) => Decision<T>): Decision<T> {
    try {
      this.#connection.exec('begin')
      const decision = work(this)
      this.#connection.exec('commit')
      return decision
    } catch (error) {
      return this.#undo(error)
    }
  }

  version(): string {
    // `data_version` counts the commits of other connections, `total_changes` the rows changed by this one.
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
    // A full disk or a failed read may already have ended the transaction.
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
