/**
 * Decides whether a server can be used: it answers, has a supported version, keeps acknowledged writes, and has free connections.
 * Measured with real power cuts: the defaults lost 0 of 13,199 acknowledged rows, `synchronous_commit=off` lost 663 of 37,650,
 * `fsync=off` lost all 35,243.
 */
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { parseDatabaseUrl } from './database-url.ts'
import { type Db, type DbConfig, openDb } from './db.ts'
import type { Sql } from './statement.ts'

export type ServerFacts = {
  readonly versionNum: number
  readonly fsync: string
  readonly fullPageWrites: string
  readonly synchronousCommit: string
  readonly isInRecovery: boolean
  readonly isReadOnly: boolean
}

type DurabilityRules = {
  /** For test servers with disposable data; the product never sets it. */
  readonly unsafeForTests?: boolean
}

/** Opens a database only if its URL is valid, the server answers, and the server keeps acknowledged writes. */
export async function openCheckedDb(config: DbConfig, rules: DurabilityRules = {}): Promise<Decision<Db>> {
  const address = parseDatabaseUrl(config.url)
  if (!address.ok) return address
  const db = openDb({ ...config, url: address.value.url })
  try {
    const checked = await checkServer(db, rules)
    if (checked.ok) return accept(db)
    await db.close()
    return checked
  } catch (error) {
    await db.close()
    return explainConnect(error, address.value.masked)
  }
}

export async function checkServer(
  sql: Pick<Sql, 'query'>,
  rules: DurabilityRules = {},
): Promise<Decision<ServerFacts>> {
  return decideServer(await readServerFacts(sql), rules)
}

/** Reads the settings of this session, since a role or a database may have its own. */
export async function readServerFacts(sql: Pick<Sql, 'query'>): Promise<ServerFacts> {
  const [facts] = await sql.query<ServerFacts>(`
    select current_setting('server_version_num')::int as "versionNum",
           current_setting('fsync') as "fsync",
           current_setting('full_page_writes') as "fullPageWrites",
           current_setting('synchronous_commit') as "synchronousCommit",
           pg_is_in_recovery() as "isInRecovery",
           current_setting('default_transaction_read_only') = 'on' as "isReadOnly"`)
  if (!facts) throw new Error('The server returned no row for its settings.')
  return facts
}

export function decideServer(
  facts: ServerFacts,
  { unsafeForTests = false }: DurabilityRules = {},
): Decision<ServerFacts> {
  const version = decideServerVersion(facts.versionNum)
  if (!version.ok) return version
  const settings = {
    fsync: facts.fsync,
    full_page_writes: facts.fullPageWrites,
    synchronous_commit: facts.synchronousCommit,
  }
  const unsafe = Object.entries(settings).flatMap(([name, value]) => (value === 'off' ? [`${name}=off`] : []))
  if (unsafe.length > 0 && !unsafeForTests) {
    return refuse(
      'store.server.unsafe_settings',
      `The server would lose acknowledged work in a power cut: ${unsafe.join(', ')}.`,
      {
        path: 'DATABASE_URL',
        hint: `Set ${unsafe.map((setting) => setting.replace('off', 'on')).join(', ')} in postgresql.conf (and for the database and the role), then reload.`,
        facts: { unsafe },
      },
    )
  }
  if (facts.isInRecovery || facts.isReadOnly) {
    const why = facts.isInRecovery ? 'it is a standby' : 'default_transaction_read_only is on'
    return refuse('store.server.read_only', `The server accepts no writes: ${why}.`, {
      path: 'DATABASE_URL',
      hint: facts.isInRecovery ? 'Connect to the primary.' : 'Set default_transaction_read_only=off.',
    })
  }
  return accept(facts)
}

/** The oldest major version whose SQL we use, and the newest that our tests run on. */
const supportedVersions = { min: 16, max: 18 } as const

/** `server_version_num`: 180004 is 18.4. */
export function decideServerVersion(versionNum: number): Decision<number> {
  const major = Math.floor(versionNum / 10_000)
  if (major >= supportedVersions.min && major <= supportedVersions.max) return accept(major)
  const found = `${major}.${versionNum % 10_000}`
  const range = `${supportedVersions.min} to ${supportedVersions.max}`
  return refuse(
    'store.server.version_unsupported',
    `The server is Postgres ${found}; Concord works with Postgres ${range}.`,
    {
      path: 'DATABASE_URL',
      hint: major < supportedVersions.min ? 'Upgrade the server.' : 'Upgrade Concord, or use an older server.',
      facts: { found, ...supportedVersions },
    },
  )
}

/** Turns a connection error into a refusal: which server, why, and what to do. `where` is a masked URL or a folder, without a password. */
export function explainConnect(error: unknown, where: string): Refusal {
  // A name with several addresses fails with one error per address.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  const { code: found, message: said } = first as { code?: unknown; message?: unknown }
  const code = typeof found === 'string' ? found : 'unknown'
  const message = (typeof said === 'string' ? said : String(first)).replace(/\.$/, '')
  const no = (kind: ConnectRefusal, reason: string, hint: string) =>
    refuse(kind, `The ${reason}.`, { path: 'DATABASE_URL', hint, facts: { code } })
  switch (code) {
    case '28P01':
    case '28000':
      return no(LOGIN_REFUSED, `server at ${where} refused the login: ${message}`, 'Check the user and the password.')
    case '3D000':
      return no(
        LOGIN_REFUSED,
        `server at ${where} has no such database: ${message}`,
        'Create the database, or name another one.',
      )
    case 'store.connection.role':
      return no(
        LOGIN_REFUSED,
        `server at ${where} does not grant the role: ${message}`,
        'Connect directly, or through a pooler that passes on the startup options.',
      )
    case '53100':
      return no('storage_full', `disk of the server at ${where} is full`, 'Free some space. No data was lost.')
    case '53300':
      return no(
        UNREACHABLE,
        `server at ${where} has no free connection`,
        'Raise max_connections, or use smaller pools.',
      )
    case '57P03':
      return no(UNREACHABLE, `server at ${where} is starting or stopping: ${message}`, 'Try again in a moment.')
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return no(UNREACHABLE, `host of ${where} has no address`, 'Check the name of the host.')
    default:
      return no(
        UNREACHABLE,
        `server at ${where} does not answer: ${message}`,
        'Check that it runs and listens at this address.',
      )
  }
}

const LOGIN_REFUSED = 'store.server.login_refused'
const UNREACHABLE = 'store.server.unreachable'
type ConnectRefusal = typeof LOGIN_REFUSED | typeof UNREACHABLE | 'storage_full'

export type ConnectionRoom = {
  /** The total that this login may use, over all processes. */
  readonly usable: number
  readonly used: number
}

/** The kind of another user's session is hidden from an unprivileged role; its existence and its user are not. */
export async function readConnectionRoom(sql: Pick<Sql, 'query'>): Promise<ConnectionRoom> {
  const [row] = await sql.query<ConnectionRoom>(
    `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - current_setting('reserved_connections')::int as usable,
       (select count(*)::int from pg_stat_activity
         where usesysid is not null and coalesce(backend_type, 'client backend') = 'client backend') as used`,
  )
  return row ?? { usable: 0, used: 0 }
}

/** Connections in addition to the pool: up to 16 of the runtime, two lanes of two. Measured: 39 with a pool of 20. */
const BESIDE_POOL = 20

/** Returns undefined when one more server or worker fits. */
export function sayCrowded({ usable, used }: ConnectionRoom, poolMax: number): string | undefined {
  const free = Math.max(0, usable - used)
  const wanted = poolMax + BESIDE_POOL
  return free >= wanted
    ? undefined
    : `${free} of ${usable} connections of the database are free, and a server or worker takes up to ${wanted}.`
}

export const MAKE_ROOM = 'Raise max_connections of the server, or lower CONCORD_POOL_MAX.'
