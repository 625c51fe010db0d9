/**
 * The data directory and its two logins. Recognises our data directory, refuses others, or creates one with initdb and moves it into place
 * with one rename.
 */
import { randomBytes } from 'node:crypto'
import { chown, mkdir, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { accept, type Decision, refuse } from '#kernel/refusal'
import {
  findText,
  type HomePaths,
  isStorageFull,
  storageFull,
  syncFolder,
  UNFINISHED_PREFIX,
  writeDurably,
} from './home.ts'
import { LOOPBACK } from './port.ts'
import { execProgram, explainDenied, type Parts } from './programs.ts'

/** The installed major version; a data directory belongs to exactly one. */
const MAJOR = 18

/** Returns the superuser's password of our data directory; undefined when there is none yet. */
export async function inspectCluster(paths: HomePaths): Promise<Decision<string | undefined>> {
  const { dataDir, passwordFile } = paths
  const entries = await readdir(dataDir).catch((error: NodeJS.ErrnoException) => error)
  if (entries instanceof Error) {
    if (entries.code === 'ENOENT') return accept(undefined)
    if (entries.code === 'ENOTDIR') return notOurs(dataDir, 'it is not a folder')
    if (entries.code === 'EACCES') return notOurs(dataDir, 'it is not readable')
    throw entries
  }
  if (entries.length === 0) return accept(undefined)
  const version = await findText(path.join(dataDir, 'PG_VERSION'))
  if (version === undefined) return notOurs(dataDir, 'it has no PG_VERSION, so it is not a data directory of Postgres')
  if (version !== String(MAJOR)) {
    const reason = `The folder ${dataDir} was made by Postgres ${version}, and this is Postgres ${MAJOR}.`
    return refuse('store.home.wrong_version', reason, {
      path: 'CONCORD_HOME',
      hint: `Convert it with pg_upgrade or with a dump made by Postgres ${version}, or set CONCORD_HOME to a new folder.`,
      facts: { found: version, needed: MAJOR },
    })
  }
  const password = await findText(passwordFile)
  if (!password) return notOurs(dataDir, `there is no password for it in ${passwordFile}`)
  return accept(password)
}

function notOurs(dataDir: string, why: string): Decision<never> {
  return refuse('store.home.not_ours', `Concord did not make the folder ${dataDir}: ${why}.`, {
    path: 'CONCORD_HOME',
    hint: 'Set CONCORD_HOME to another folder, restore the missing file, or start that server yourself and set DATABASE_URL.',
  })
}

export async function makeCluster({ paths, binaries, runAs }: Parts): Promise<Decision<string>> {
  const { account } = runAs
  const known = await findText(paths.passwordFile)
  const password = known || newPassword()
  // The password exists before the cluster, so no crash leaves a cluster without a known password.
  if (!known) await writeDurably(paths.passwordFile, `${password}\n`)
  const making = path.join(paths.home, `${UNFINISHED_PREFIX}${randomBytes(6).toString('hex')}`)
  const passwordCopy = `${making}.password`
  await mkdir(making, { mode: 0o700 })
  // initdb runs as another account, which may not read the password file of the owner.
  await writeFile(passwordCopy, `${password}\n`, { mode: 0o600 })
  if (account) for (const entry of [making, passwordCopy]) await chown(entry, account.uid, account.gid)
  const made = await execProgram(binaries.initdb, initdbFlags(making, passwordCopy), runAs)
  await rm(passwordCopy, { force: true })
  if (made.code !== 0) {
    await rm(making, { recursive: true, force: true })
    return initdbFault({ paths, binaries, runAs }, made.output)
  }
  // Removes an empty folder; a mounted volume stays.
  await rmdir(paths.dataDir).catch(() => {})
  try {
    await rename(making, paths.dataDir)
  } catch (error) {
    await rm(making, { recursive: true, force: true })
    return refuse(
      'store.home.not_writable',
      `The folder ${paths.dataDir} cannot be created: ${(error as Error).message}.`,
      {
        path: 'CONCORD_HOME',
        hint: `Mount the volume at ${paths.home}, not at the data directory inside.`,
      },
    )
  }
  await syncFolder(paths.home)
  return accept(password)
}

function initdbFlags(dataDir: string, passwordFile: string): string[] {
  return [
    `--pgdata=${dataDir}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // The built-in locale sorts the same on every machine and after every system upgrade.
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--data-checksums',
    ...asFlags('--set', birthSettings(totalmem())),
  ]
}

async function initdbFault({ paths, binaries, runAs }: Parts, output: string[]): Promise<Decision<never>> {
  const text = output.join('\n')
  if (isStorageFull(text)) return storageFull(paths.home)
  const denied = await explainDenied(text, [binaries.initdb, paths.home], runAs)
  if (denied) return denied
  const hint = text.includes('could not look up effective user ID')
    ? 'Add an entry for the current user to /etc/passwd, or run as a user that has one.'
    : text.includes('error while loading shared libraries')
      ? 'The libraries were not linked at installation: run npm rebuild.'
      : 'See the output of initdb in the error.'
  return refuse('store.initdb.failed', `The program initdb created no database: ${output.slice(-3).join(' | ')}`, {
    hint,
  })
}

type Settings = Readonly<Record<string, string>>

const MB = 1024 * 1024

/** An eighth of the memory, between 128 and 512 MB: Concord shares the machine with its jobs. */
export function sharedBuffersMb(memoryBytes: number): number {
  return Math.min(512, Math.max(128, Math.floor(memoryBytes / MB / 8)))
}

/** initdb writes these into postgresql.conf, where the owner of the home may edit them. */
function birthSettings(memoryBytes: number): Settings {
  return {
    shared_buffers: `${sharedBuffersMb(memoryBytes)}MB`,
    // A process uses up to 35: a server and several workers must fit.
    max_connections: '300',
    wal_compression: 'pglz',
    max_wal_size: '1GB',
    // An idle open transaction delays vacuum and every event feed; each pool sets a shorter limit.
    idle_in_transaction_session_timeout: '60s',
    password_encryption: 'scram-sha-256',
    timezone: 'UTC',
    log_timezone: 'UTC',
    log_line_prefix: '%m [%p] %a ',
    log_checkpoints: 'off',
    log_min_duration_statement: '1s',
    // Statements may contain secrets; the error alone is enough to find the cause.
    log_min_error_statement: 'panic',
    log_parameter_max_length: '0',
  }
}

/** Command line settings, which win over every file: where the server listens, and that commits are durable. */
export function startSettings(port: number, unsafeForTests: boolean): Settings {
  const safe = unsafeForTests ? 'off' : 'on'
  return {
    listen_addresses: LOOPBACK,
    port: String(port),
    unix_socket_directories: '',
    logging_collector: 'off',
    log_destination: 'stderr',
    fsync: safe,
    full_page_writes: safe,
    synchronous_commit: safe,
    ...(unsafeForTests ? { max_connections: '300' } : {}),
  }
}

export function asFlags(flag: string, settings: Settings): string[] {
  return Object.entries(settings).flatMap(([name, value]) => [flag, `${name}=${value}`])
}

/** The role that initdb creates. It owns the cluster; only this room uses it. */
const SUPERUSER = 'concord'
/**
 * The login of the service. It may create roles and owns its database, which is all that migrations need. It is not a
 * superuser: a stolen session could otherwise read every file of the server.
 */
const SERVICE = 'concord_service'
const DATABASE = 'concord'

function newPassword(): string {
  return randomBytes(32).toString('base64url')
}

/** Connects to the database `postgres`, because `create database` needs another database. */
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
