/** One SQL statement with a name, the shape of its rows and the shape of its parameters; prepared once per connection. */
export type SqlValue = string | number | null
export type SqlParams = Readonly<Record<string, SqlValue>>

export type Statement<Row, Params extends SqlParams> = {
  readonly name: string
  readonly text: string
  /** Carry the types only; never set. */
  readonly row?: Row
  readonly params?: Params
}

export type NoParams = Readonly<Record<string, never>>

export function statement<Row, Params extends SqlParams = NoParams>(
  name: string,
  text: string,
): Statement<Row, Params> {
  return { name, text }
}
