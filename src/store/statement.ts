/**
 * A hot statement: named, so that Postgres parses and plans it once per connection (an unnamed one costs 80–110 µs more
 * Postgres CPU per call, an unprepared Drizzle one 2–3 times the client CPU). One statement per file under `sql/`.
 */
export type Statement<Row> = {
  readonly name: string
  readonly text: string
  /** Carries the row type only; never set. */
  readonly row?: Row
}

export function statement<Row>(name: string, text: string): Statement<Row> {
  return { name, text }
}
