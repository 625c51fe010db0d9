/** One short connection to the embedded server: to see that it is ours, and to make the database. */
import pg from 'pg'
import { LOGIN } from './cluster.ts'
import { LOOPBACK } from './port.ts'

export const DATABASE = 'concord'

export function urlOf(port: number, password: string, database: string): string {
  return `postgresql://${LOGIN}:${encodeURIComponent(password)}@${LOOPBACK}:${port}/${database}`
}

export async function withLogin<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    query_timeout: 15_000,
    application_name: 'concord-embedded',
  })
  // Without a listener a server that goes away in this moment takes the process with it.
  client.on('error', () => {})
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** The data directory that the server behind this address really serves. */
export async function askDataDir(url: string): Promise<string> {
  return withLogin(url, async (client) => {
    const { rows } = await client.query<{ dir: string }>(`select current_setting('data_directory') as dir`)
    return rows[0]?.dir ?? ''
  })
}

export async function ensureDatabase(maintenanceUrl: string): Promise<void> {
  await withLogin(maintenanceUrl, async (client) => {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [DATABASE])
    if (rowCount === 0) await client.query(`create database ${DATABASE}`)
  })
}
