/** The two logins of the embedded server, and short connections with them. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { findText, type HomePaths, writeDurably } from './home.ts'
import { LOOPBACK } from './port.ts'

/** The role that initdb creates. It owns the cluster; only this room uses it. */
export const SUPERUSER = 'concord'
/**
 * The login of the service. It may create roles and owns its database, which is all that migrations need. It is not a
 * superuser: a stolen session could otherwise read every file of the server.
 */
const SERVICE = 'concord_service'
const DATABASE = 'concord'

export function newPassword(): string {
  return randomBytes(32).toString('base64url')
}

/** In the database `postgres`, from which databases are created. */
export function superuserUrlOf(port: number, password: string): string {
  return urlOf(SUPERUSER, password, port, 'postgres')
}

export function serviceUrlOf(port: number, password: string): string {
  return urlOf(SERVICE, password, port, DATABASE)
}

function urlOf(login: string, password: string, port: number, database: string): string {
  return `postgresql://${login}:${encodeURIComponent(password)}@${LOOPBACK}:${port}/${database}`
}

export async function withLogin<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    query_timeout: 15_000,
    application_name: 'concord-embedded',
  })
  // Without a listener, a server that ends now would end this process.
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** The data directory that the server at this address serves. */
export async function askDataDir(url: string): Promise<string> {
  return withLogin(url, async (client) => {
    const { rows } = await client.query<{ dir: string }>(`select current_setting('data_directory') as dir`)
    return rows[0]?.dir ?? ''
  })
}

/** Creates the login and its database if needed, and returns its password. Callers hold the start lock. */
export async function ensureService(paths: HomePaths, port: number, superuserPassword: string): Promise<string> {
  return withLogin(superuserUrlOf(port, superuserPassword), async (client) => {
    const password = await ensureLogin(client, paths)
    await ensureDatabase(client)
    return password
  })
}

/** Writes the file last: after a crash in between it is missing, and a new password is set. */
async function ensureLogin(client: pg.Client, { servicePasswordFile }: HomePaths): Promise<string> {
  const { rowCount } = await client.query('select from pg_roles where rolname = $1', [SERVICE])
  const before = await findText(servicePasswordFile)
  if (before && rowCount === 1) return before
  const password = before || newPassword()
  // A failing statement would be logged with its password.
  await client.query(`set log_min_error_statement = panic`)
  const verb = rowCount === 1 ? 'alter' : 'create'
  const rights = 'login createrole nosuperuser nocreatedb noreplication nobypassrls'
  await client.query(`${verb} role ${SERVICE} ${rights} password ${client.escapeLiteral(password)}`)
  if (!before) await writeDurably(servicePasswordFile, `${password}\n`)
  return password
}

async function ensureDatabase(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ owner: string }>(
    'select pg_get_userbyid(datdba) as owner from pg_database where datname = $1',
    [DATABASE],
  )
  if (rows.length === 0) await client.query(`create database ${DATABASE} owner ${SERVICE}`)
  else if (rows[0]?.owner !== SERVICE) await client.query(`alter database ${DATABASE} owner to ${SERVICE}`)
}
