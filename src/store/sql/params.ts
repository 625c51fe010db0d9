/** Collects the parameters of a statement while its text is built, so that text and values cannot diverge. */
import { statement, type Statement } from '../statement.ts'
import { castOf, encode, type PgType, readAs, statementName } from './names.ts'

export type Params<Call> = {
  /** Registers a value and returns its place in the text, with a cast. */
  add(type: PgType, valueOf: (call: Call) => unknown): string
  /** The same for a column of values, one per row of a batch; each is read with `readAs`. */
  addList(type: PgType, valuesOf: (call: Call) => readonly unknown[]): string
  readonly valuesOf: readonly ((call: Call) => unknown)[]
}

export function collectParams<Call>(): Params<Call> {
  const valuesOf: ((call: Call) => unknown)[] = []
  return {
    valuesOf,
    add(type, valueOf) {
      valuesOf.push((call) => encode(type, valueOf(call)))
      return readAs(type, `$${valuesOf.length}::${castOf(type)}`)
    },
    addList(type, listOf) {
      valuesOf.push((call) => listOf(call).map((value) => encode(type, value)))
      return `$${valuesOf.length}::${castOf(type)}[]`
    },
  }
}

/** A statement together with a function that fills in its values. */
export type Bound<Call, Row> = {
  readonly statement: Statement<Row>
  readonly values: (call: Call) => unknown[]
}

export function bind<Call, Row>(label: string, text: string, params: Params<Call>): Bound<Call, Row> {
  const valuesOf = [...params.valuesOf]
  return {
    statement: statement<Row>(statementName(label, text), text),
    values: (call) => valuesOf.map((valueOf) => valueOf(call)),
  }
}
