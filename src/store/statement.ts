/**
 * A hot statement: named, so that Postgres parses and plans it once per connection. An unnamed one costs 80–110 µs more
 * Postgres CPU per call.
 */
import { KernelFault } from '#kernel/errors'

export type Statement<Row> = {
  readonly name: string
  readonly text: string
  /** Carries the row type only; never set. */
  readonly row?: Row
}

const known = new Map<string, string>()

/** Throws on a name that already has another text: a connection would refuse the second one at its first use. */
export function statement<Row>(name: string, text: string): Statement<Row> {
  if ((known.get(name) ?? text) !== text)
    throw new KernelFault('store.statement.name_taken', `two statements are called ${name}`)
  known.set(name, text)
  return { name, text }
}

/** Returns every statement declared so far, for the test that prepares them all. */
export function listStatements(): readonly Statement<unknown>[] {
  return [...known].map(([name, text]) => ({ name, text }))
}
