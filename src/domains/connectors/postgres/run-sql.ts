/** Runs one reading statement on its own connection, in a read-only transaction that is always rolled back. */
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import pg from 'pg'
import type { JsonValue } from '#kernel/json-value'
import { ConnectorFailure } from '../connector.ts'

/** A statement never writes, so a failure never leaves the outcome unknown. */
function sqlFailure(error: unknown): ConnectorFailure {
  if (error instanceof ConnectorFailure) return error
  const { code, message } = error as { code?: unknown; message?: unknown }
  const state = typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
  if (state === undefined)
    return new ConnectorFailure('temporary_database_error', 'The connection to the database broke.', 'no')
  if (state === '57014') return new ConnectorFailure('timeout', 'The statement took too long.', 'no')
  if (state === '25006' || state === '42501' || state.startsWith('28'))
    return new ConnectorFailure('permission_denied', `The database does not allow this (${state}).`, 'no')
  if (/^(08|40|53|55|57|58)/.test(state))
    return new ConnectorFailure('temporary_database_error', `The database could not answer (${state}).`, 'no')
  // Keeps errors about names and syntax; messages about data would repeat the data.
  const told = state.startsWith('42') && typeof message === 'string' ? `: ${message.slice(0, 200)}` : '.'
  return new ConnectorFailure('validation_error', `The database refused the statement (${state})${told}`, 'no')
}

const asNumber = new Set([21, 23, 26, 700, 701])
const BOOLEAN = 16
const asJson = new Set([114, 3802])

/** Returns what JSON represents exactly as such, and everything else as the text that Postgres prints. */
function readValue(typeOid: number, text: string): JsonValue {
  if (typeOid === BOOLEAN) return text === 't'
  if (asNumber.has(typeOid)) {
    const value = Number(text)
    return Number.isFinite(value) ? value : text
  }
  if (asJson.has(typeOid)) {
    try {
      return JSON.parse(text) as JsonValue
    } catch {
      return text
    }
  }
  return text
}

export type RunSql = {
  readonly url: string
  readonly sql: string
  readonly params: readonly JsonValue[]
  readonly rowsMax: number
  readonly bytesMax: number
  readonly timeoutMs: number
  readonly signal: AbortSignal
  /** Checked once per connector and login: the login must not be able to write. */
  readonly checkLogin: boolean
}

export type SqlRows = {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly JsonValue[])[]
  readonly truncated: boolean
}

/** The wire format may take this much more than the text. */
const WIRE_SLACK_BYTES = 65_536

export async function runSql(run: RunSql): Promise<SqlRows> {
  const client = openClient(run)
  const stop = () => void client.end().catch(() => {})
  run.signal.addEventListener('abort', stop, { once: true })
  try {
    await client.connect()
    await client.query('begin read only')
    if (run.checkLogin) await checkLogin(client)
    return await readRows(client, run)
  } catch (error) {
    throw sqlFailure(error)
  } finally {
    run.signal.removeEventListener('abort', stop)
    await client.end().catch(() => {})
  }
}

/** Postgres enforces the limits for every statement of the session; the socket ends an answer that is too long. */
function openClient({ url, timeoutMs, bytesMax }: RunSql): pg.Client {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: Math.min(timeoutMs, 10_000),
    statement_timeout: timeoutMs,
    query_timeout: timeoutMs + 1_000,
    lock_timeout: timeoutMs,
    idle_in_transaction_session_timeout: timeoutMs + 1_000,
    application_name: 'concord connector',
    options: '-c default_transaction_read_only=on -c idle_session_timeout=60000',
    types: { getTypeParser: (oid: number) => (text: string | Buffer) => readValue(oid, String(text)) },
    stream: () => capped(new Socket(), bytesMax + WIRE_SLACK_BYTES),
  })
  // TLS reads from the handle of the socket and bypasses its listeners: the decrypted bytes are counted.
  client.connection.once('sslconnect', () => void capped(client.connection.stream, bytesMax + WIRE_SLACK_BYTES))
  // Without a listener, a connection that the server closes would crash the process.
  client.on('error', () => {})
  return client
}

function capped<Stream extends Duplex>(stream: Stream, bytesMax: number): Stream {
  let sizeBytes = 0
  stream.on('data', (chunk: Buffer) => {
    sizeBytes += chunk.length
    if (sizeBytes > bytesMax)
      stream.destroy(new ConnectorFailure('validation_error', `The answer has more than ${bytesMax} bytes.`, 'no'))
  })
  return stream
}

/** A cursor accepts only a query, and the extended protocol only a single statement. */
async function readRows(client: pg.Client, { sql, params, rowsMax }: RunSql): Promise<SqlRows> {
  const declare = {
    text: `declare concord_rows no scroll cursor without hold for ${sql}`,
    values: params.map(asParameter),
    queryMode: 'extended',
  }
  await client.query(declare)
  const found = await client.query({ text: `fetch forward ${rowsMax + 1} from concord_rows`, rowMode: 'array' })
  const rows = found.rows as JsonValue[][]
  return {
    columns: found.fields.map(({ name }) => name),
    rows: rows.slice(0, rowsMax),
    truncated: rows.length > rowsMax,
  }
}

function asParameter(value: JsonValue): string | number | boolean | null {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}

type LoginFacts = { readonly is_powerful: boolean; readonly can_write: boolean }

/** Rights on tables, and rights beyond tables: files, programs, other roles. */
const LOGIN_FACTS = `
  select (r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolreplication or r.rolbypassrls
      or exists (select from pg_roles p where p.rolname in ('pg_write_all_data', 'pg_write_server_files', 'pg_read_server_files',
           'pg_execute_server_program', 'pg_signal_backend', 'pg_maintain') and pg_has_role(current_user, p.oid, 'member'))) as is_powerful,
    exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relkind in ('r', 'p', 'v', 'f') and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg_temp%'
        and has_table_privilege(c.oid, 'insert, update, delete, truncate')) as can_write
  from pg_roles r where r.rolname = current_user`

async function checkLogin(client: pg.Client): Promise<void> {
  const [facts] = (await client.query<LoginFacts>(LOGIN_FACTS)).rows
  if (facts && !facts.is_powerful && !facts.can_write) return
  throw new ConnectorFailure(
    'permission_denied',
    'The login of this connector can do more than read. Use a login with select rights only.',
    'no',
  )
}
