/**
 * Joins an address with what we ask of every connection. The driver lets parameters of the address win over its
 * configuration, so `?options=` would take the role and all limits away: here ours come last and win.
 */
import type pg from 'pg'
import { KernelFault } from '#kernel/errors'

/** They say which server and how to reach it; all others (limits, names, modes of the driver) are ours to set and are left out. */
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
  /** Settings of the session, by name; the address may set others through its own `options`. */
  readonly session: Readonly<Record<string, string | number>>
}

export function clientConfigFor(address: string, { session, ...own }: OwnSettings): pg.ClientConfig {
  const ours = Object.entries(session).map(([name, value]) => `-c ${name}=${value}`)
  const { connectionString, options } = takeOptions(address)
  // Of two values for one setting Postgres takes the last.
  return { ...own, connectionString, options: [...options, ...ours].join(' ') }
}

function takeOptions(address: string): { connectionString: string; options: string[] } {
  // What is no URL the driver refuses by itself.
  if (!URL.canParse(address)) return { connectionString: address, options: [] }
  const url = new URL(address)
  const options = url.searchParams.getAll('options')
  const strange = [...url.searchParams.keys()].filter((name) => !kept.has(name))
  // An address that needs no change is passed on as it was written.
  if (strange.length === 0) return { connectionString: address, options }
  for (const name of strange) url.searchParams.delete(name)
  return { connectionString: url.href, options }
}

/** Some poolers drop the options without a word; the connection would then act as the login, which may do everything. */
export async function checkRole(client: pg.ClientBase, role: string | undefined): Promise<void> {
  // `none` is Postgres's own word for the login itself.
  if (role === undefined || role === 'none') return
  const { rows } = await client.query<{ role: string }>('select current_user as role')
  const found = rows[0]?.role
  if (found === role) return
  throw new KernelFault('store.connection.role', `the connection acts as ${found} where ${role} was asked for`)
}
