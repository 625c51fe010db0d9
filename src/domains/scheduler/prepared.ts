/**
 * A statement that is prepared once and run often: values are bound by place and rows come as arrays, named here. By name and
 * as objects, node:sqlite takes 3 µs more for each of the two statements of a dispatch.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import type { SqlParams, SqlValue } from './statement.ts'

type Row = Record<string, unknown>

export class Prepared {
  readonly #statement: StatementSync
  /** In the order of their numbers: a name that stands twice is one number. */
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
    // Arrays, since the constructor asked for them; the types of node:sqlite know objects only.
    const values = this.#statement.get(...this.#valuesOf(params)) as unknown as readonly unknown[] | undefined
    return values && this.#rowOf(values)
  }

  all(params: SqlParams | undefined): Row[] {
    // As in `get`.
    const rows = this.#statement.all(...this.#valuesOf(params)) as unknown as readonly (readonly unknown[])[]
    return rows.map((values) => this.#rowOf(values))
  }

  /** How many rows changed. */
  run(params: SqlParams | undefined): number {
    return Number(this.#statement.run(...this.#valuesOf(params)).changes)
  }

  #valuesOf(params: SqlParams | undefined): SqlValue[] {
    // A name that is missing gives undefined, which SQLite refuses to bind.
    return params === undefined ? [] : this.#names.map((name) => params[name] as SqlValue)
  }

  #rowOf(values: readonly unknown[]): Row {
    const row: Row = {}
    for (let index = 0; index < this.#columns.length; index++) row[this.#columns[index] as string] = values[index]
    return row
  }
}

/** `$name` becomes `?1`; a dollar inside a text of SQL stays what it is. */
export function numberParams(text: string): { readonly numbered: string; readonly names: readonly string[] } {
  const names: string[] = []
  const numbered = text.replaceAll(/'[^']*'|\$(\w+)/g, (found, name?: string) => {
    if (name === undefined) return found
    if (!names.includes(name)) names.push(name)
    return `?${names.indexOf(name) + 1}`
  })
  return { numbered, names }
}
