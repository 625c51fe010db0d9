/** Checks everything a start depends on: what is well, what deserves a note and what is broken, with the fix. */
import { constants, existsSync } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Refusal } from '#kernel/refusal'
import { hintOf } from '#refusals'
import { countArchived, findBrokenInvariants, invariantCount, listParked } from '#domains/commands'
import { checkInvariants, describeSelfCheck, isOwned, type Scheduler } from '#domains/scheduler'
import {
  type ConnectionRoom,
  MAKE_ROOM,
  migrationStatus,
  openCheckedDb,
  openDb,
  readConnectionRoom,
  readServerFacts,
  sayCrowded,
} from '#store'
import { adminKeyFile } from './admin-key.ts'
import { type Config, serverAddress } from './config.ts'
import { historyFolderOf } from './history.ts'
import { openLog } from './log.ts'
import { openStore } from './open-store.ts'
import { openJobs } from './scheduler.ts'
import { version } from './version.ts'

export type DoctorFinding = {
  readonly check: string
  readonly state: 'well' | 'note' | 'broken'
  readonly found: string
  readonly next?: string
}

function broken(check: string, refusal: Refusal): DoctorFinding {
  return { check, state: 'broken', found: refusal.reason, next: hintOf(refusal) }
}

const NODE_MIN = [24, 12] as const
/** Limit for reading every record; a larger installation should check a replica. */
const DEEP_MS = 600_000
/** Enough for a fresh database, its log and room to work. */
const FREE_BYTES_MIN = 512 * 1024 * 1024

/** `deep` also asks every invariant of what is on record, which reads all of it. */
export async function examine(config: Config, { deep = false } = {}): Promise<DoctorFinding[]> {
  const machine = [checkNode(process.versions.node), await checkFolder(config.home), await checkDisk(config.home)]
  return [
    ...machine,
    ...(await checkDatabase(config, deep)),
    await checkServerProcess(config),
    await checkAdminKey(config.home),
    checkScheduler(config),
  ]
}

function checkNode(running: string): DoctorFinding {
  const [major = 0, minor = 0] = running.split('.').map(Number)
  const isNew = major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1])
  if (isNew) return { check: 'node', state: 'well', found: `Node ${running}` }
  return {
    check: 'node',
    state: 'broken',
    found: `Node ${running} is too old`,
    next: `Use Node ${NODE_MIN.join('.')} or later, or run through npm.`,
  }
}

async function nearestFolder(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined)
  return found || dirname(path) === path ? path : nearestFolder(dirname(path))
}

async function checkFolder(home: string): Promise<DoctorFinding> {
  const folder = await nearestFolder(home)
  try {
    await access(folder, constants.W_OK | constants.X_OK)
    return { check: 'data folder', state: 'well', found: folder === home ? home : `${home} (will be created)` }
  } catch {
    return {
      check: 'data folder',
      state: 'broken',
      found: `${folder} is not writable`,
      next: 'Set CONCORD_HOME to a folder of your own.',
    }
  }
}

async function checkDisk(home: string): Promise<DoctorFinding> {
  const { bavail, bsize } = await statfs(await nearestFolder(home))
  const freeBytes = bavail * bsize
  const found = `${(freeBytes / 1024 ** 3).toFixed(1)} GiB free`
  if (freeBytes >= FREE_BYTES_MIN) return { check: 'disk', state: 'well', found }
  return {
    check: 'disk',
    state: 'broken',
    found,
    next: 'Free some space, or set CONCORD_HOME to a folder on another disk.',
  }
}

async function checkDatabase(config: Config, deep: boolean): Promise<DoctorFinding[]> {
  const store = await openStore(config, openLog('silent'))
  if (!store.ok) return [broken('database', store)]
  try {
    const db = await openCheckedDb({ url: store.value.url, poolMax: 1 }, { unsafeForTests: config.unsafeTest === '1' })
    if (!db.ok) return [broken('database', db)]
    const facts = await readServerFacts(db.value)
    const room = await readConnectionRoom(db.value)
    await db.value.close()
    const kept = `fsync ${facts.fsync}, full_page_writes ${facts.fullPageWrites}, synchronous_commit ${facts.synchronousCommit}`
    const status = await migrationStatus(store.value.url)
    return [
      { check: 'database', state: 'well', found: store.value.label },
      { check: 'durability', state: facts.fsync === 'on' ? 'well' : 'note', found: kept },
      connectionFinding(room, config.poolMax),
      status.ok ? schemaFinding(status.value) : broken('schema', status),
      ...(await checkStuck(store.value.url)),
      ...(deep && status.ok && status.value.pending.length === 0 ? await checkRecords(store.value.url, config) : []),
    ]
  } finally {
    await store.value.close()
  }
}

function connectionFinding(room: ConnectionRoom, poolMax: number): DoctorFinding {
  const crowded = sayCrowded(room, poolMax)
  if (crowded === undefined)
    return { check: 'connections', state: 'well', found: `${room.used} of ${room.usable} in use` }
  return { check: 'connections', state: 'note', found: crowded, next: MAKE_ROOM }
}

/** Work that took its worker down too often, or failed too often, waits for a person. */
async function checkStuck(url: string): Promise<DoctorFinding[]> {
  const db = openDb({ url, poolMax: 1 })
  try {
    const [row] = await db.query<{ exists: boolean }>(`select to_regclass('runtime.processes') is not null as exists`)
    if (row?.exists !== true) return []
    const [stuck] = await db.query<{ count: number }>(
      `select count(*)::int as count from runtime.processes where state in ('stuck', 'aborted')`,
    )
    const count = (stuck?.count ?? 0) + (await countParked(url))
    if (count === 0) return [{ check: 'work', state: 'well', found: 'nothing is stuck' }]
    return [
      { check: 'work', state: 'broken', found: `${count} stuck`, next: '`concord stuck` lists it with the reasons.' },
    ]
  } finally {
    await db.close()
  }
}

/** Commands that look in vain for their task, in the role that sees all rows. */
async function countParked(url: string): Promise<number> {
  const db = openDb({ url, role: 'concord_engine', poolMax: 1 })
  try {
    return (await listParked(db, 1_000)).length
  } finally {
    await db.close()
  }
}

/** One line for each invariant that does not hold; one line that says so when all of them do. */
async function checkRecords(url: string, config: Config): Promise<DoctorFinding[]> {
  // Rows are hidden from the login itself; it sees all of them in the role of the engine.
  const db = openDb({ url, role: 'concord_engine', poolMax: 1, statementTimeoutMs: DEEP_MS, queryTimeoutMs: DEEP_MS })
  let found: Awaited<ReturnType<typeof findBrokenInvariants>>
  let archived: Awaited<ReturnType<typeof countArchived>>
  try {
    found = await findBrokenInvariants(db, historyFolderOf(config))
    archived = await countArchived(db)
  } finally {
    await db.close()
  }
  const { files, events } = archived
  const told = files === 0 ? '' : `; ${events} events were read from ${files} files of the archive`
  if (found.length === 0) {
    return [{ check: 'records', state: 'well', found: `${invariantCount} invariants hold${told}` }]
  }
  return found.map(({ code, name, meaning, next, count, examples }) => ({
    check: `${code} ${name}`,
    state: 'broken',
    found: `${meaning} ${count} of them: ${examples.join(', ')}${count > examples.length ? ', …' : ''}`,
    next,
  }))
}

function schemaFinding(status: {
  version: number
  pending: readonly string[]
  verdict: { ok: boolean }
}): DoctorFinding {
  const { verdict } = status
  if (!verdict.ok) return broken('schema', verdict as Refusal)
  if (status.pending.length === 0) return { check: 'schema', state: 'well', found: `version ${status.version}` }
  return {
    check: 'schema',
    state: 'note',
    found: `${status.pending.length} migrations are pending`,
    next: '`concord up` applies them.',
  }
}

async function checkServerProcess(config: Config): Promise<DoctorFinding> {
  const address = serverAddress(config)
  try {
    const answer = await fetch(`${address}/health`, { signal: AbortSignal.timeout(3_000) })
    const health = (await answer.json()) as { status?: string; version?: string }
    const found = `${address} answers ${health.status ?? answer.status}, version ${health.version ?? 'unknown'}`
    if (!answer.ok) return { check: 'server', state: 'broken', found, next: `See ${address}/health.` }
    return { check: 'server', state: health.version === version ? 'well' : 'note', found }
  } catch {
    return {
      check: 'server',
      state: 'note',
      found: `nothing answers at ${address}`,
      next: 'Start it with `concord up`.',
    }
  }
}

async function checkAdminKey(home: string): Promise<DoctorFinding> {
  const file = adminKeyFile(home)
  const found = await stat(file).catch(() => undefined)
  if (!found)
    return { check: 'admin key', state: 'note', found: `${file} does not exist yet`, next: '`concord up` writes it.' }
  const mode = found.mode & 0o777
  if ((mode & 0o077) === 0) return { check: 'admin key', state: 'well', found: file }
  return {
    check: 'admin key',
    state: 'broken',
    found: `${file} can be read by others (mode ${mode.toString(8)})`,
    next: `chmod 600 ${file}`,
  }
}

/** The scheduler file that `concord up` would own: whether it is usable, whether it is sound, and who runs it. */
function checkScheduler({ schedulerFile: file }: Pick<Config, 'schedulerFile'>): DoctorFinding {
  if (file === undefined) {
    return {
      check: 'scheduler',
      state: 'well',
      found: 'off; CONCORD_SCHEDULER_FILE=./.concord/jobs.db turns it on in `concord up`',
    }
  }
  if (!existsSync(file))
    return { check: 'scheduler', state: 'note', found: `${file} (will be created)`, next: '`concord up` creates it.' }
  const opened = openJobs({ file, role: 'guest' })
  if (!opened.ok) return broken('scheduler', opened)
  try {
    return judgeScheduler(opened.value)
  } finally {
    opened.value.close()
  }
}

function judgeScheduler(scheduler: Scheduler): DoctorFinding {
  const checked = checkInvariants(scheduler)
  if (!checked.ok) return broken('scheduler', checked)
  const { file } = scheduler.db
  if (checked.value.violations.length > 0) {
    return {
      check: 'scheduler',
      state: 'broken',
      found: `${file}: ${describeSelfCheck(checked.value)}`,
      next: '`concord scheduler check` shows it; the next start repairs what it can.',
    }
  }
  if (isOwned(file)) return { check: 'scheduler', state: 'well', found: `${file} is sound and running` }
  return {
    check: 'scheduler',
    state: 'note',
    found: `${file} is sound; no scheduler runs it`,
    next: 'Start it with `concord up`.',
  }
}
