/**
 * The book's own connections, with the rights of the login that owns the schemas. Every statement with parameters is
 * named, including the engine's: prepared once per connection, they take about half of the CPU in Postgres.
 */
import { type Db, openDb } from '#store'

type BookPoolOptions = {
  readonly poolMax?: number
  readonly onConnectionError?: (error: Error) => void
  /** Receives every statement as it is sent, for counting. */
  readonly onStatement?: (text: string) => void
}

/** A statement with a parameter list has one text per list length; above this number they stay unnamed. */
const NAMES_MAX = 300
const names = new Map<string, string>()

function nameOf(text: string): string | undefined {
  const known = names.get(text)
  if (known !== undefined || names.size >= NAMES_MAX) return known
  const name = `runtime_${names.size + 1}`
  names.set(text, name)
  return name
}

type Query = (...args: unknown[]) => unknown

/** The call shapes of pool and engine: (text, values), (text, values, callback), and a config object. */
function named(query: Query, onStatement?: (text: string) => void): Query {
  return (first, second, third) => {
    const text = typeof first === 'string' ? first : (first as { text?: string } | undefined)?.text
    if (text !== undefined) onStatement?.(text)
    const hasValues = typeof first === 'string' && Array.isArray(second) && second.length > 0
    const name = hasValues ? nameOf(first) : undefined
    if (name === undefined) return query(first, second, third)
    const config = { name, text: first, values: second as unknown[] }
    return typeof third === 'function' ? query(config, third) : query(config)
  }
}

export function openBookPool(db: Db, { poolMax = 16, onConnectionError, onStatement }: BookPoolOptions = {}): Db {
  const opened = openDb({
    url: db.config.url,
    poolMax,
    applicationName: 'concord-runtime',
    // The engine's migrations build indexes; its idle transactions time out as in its own pool.
    statementTimeoutMs: 60_000,
    queryTimeoutMs: 65_000,
    idleInTransactionTimeoutMs: 60_000,
    ...(onConnectionError ? { onConnectionError } : {}),
  })
  opened.pool.on('connect', (client) => {
    // The driver's overloads are wider than the calls made here.
    const query = client.query.bind(client) as unknown as Query
    Object.assign(client, { query: named(query, onStatement) })
  })
  return opened
}
