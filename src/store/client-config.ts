/**
 * Joins a URL with the settings of every connection. In the driver, parameters of the URL override its
 * configuration, so `?options=` would remove the role and all limits: here our settings come last and win.
 */
import type pg from 'pg'
import { KernelFault } from '#kernel/errors'

/** The parameters that select the server and how to reach it; all others (limits, names, driver modes) are ours and are dropped. */
const kept = new Set([
  'host',
  'port',
  'user',
  'password',
  'ssl',
  'sslmode',
  'sslcert',
  'sslkey',
  'sslrootcert',
  'sslnegotiation',
  'uselibpqcompat',
])

export type OwnSettings = Omit<pg.ClientConfig, 'connectionString' | 'options'> & {
  /** Session settings by name; the URL may set others through its own `options`. */
  readonly session: Readonly<Record<string, string | number>>
}

export function clientConfigFor(address: string, { session, ...own }: OwnSettings): pg.ClientConfig {
  const ours = Object.entries(session).map(([name, value]) => `-c ${name}=${value}`)
  const { connectionString, options } = takeOptions(address)
  // Of two values for one setting Postgres uses the last.
  return { ...own, connectionString, options: [...options, ...ours].join(' ') }
}

function takeOptions(address: string): { connectionString: string; options: string[] } {
  // The driver itself refuses a text that is not a URL.
  if (!URL.canParse(address)) return { connectionString: address, options: [] }
  const url = new URL(address)
  const options = url.searchParams.getAll('options')
  const strange = [...url.searchParams.keys()].filter((name) => !kept.has(name))
  // A URL that needs no change is passed on unchanged.
  if (strange.length === 0) return { connectionString: address, options }
  for (const name of strange) url.searchParams.delete(name)
  return { connectionString: url.href, options }
}

/** Some poolers silently drop the options; the connection would then act as the login, which has all rights. */
export async function checkRole(client: pg.ClientBase, role: string | undefined): Promise<void> {
  // `none` is Postgres's word for the login itself.
  if (role === undefined || role === 'none') return
  const { rows } = await client.query<{ role: string }>('select current_user as role')
  const found = rows[0]?.role
  if (found === role) return
  throw new KernelFault('store.connection.role', `the connection acts as ${found} where ${role} was asked for`)
}
