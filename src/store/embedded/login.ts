/** One short connection to the embedded server, and the addresses of its two logins. */
import pg from 'pg'
import { SUPERUSER } from './cluster.ts'
import { LOOPBACK } from './port.ts'

/** Made for the service, see `service-login.ts`. */
export const SERVICE = 'concord_service'
export const DATABASE = 'concord'

/** In the database `postgres`, from which databases are made. */
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
