/** Checks everything a start depends on. Each finding is ok, a note or broken, and says what to do. */
import { constants, existsSync } from 'node:fs'
import { access, stat, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Refusal } from '#kernel/refusal'
import { hintOf } from '#refusals'
import { listBlocked } from '#domains/approvals'
import { encodeId } from '#kernel/ids'
import { runInvariants } from '#domains/agents'
import { flowInvariants } from '#domains/flow'
import { missionInvariants } from '#domains/missions'
import { countArchived, findBrokenInvariants, invariantCount, listParked } from '#domains/commands'
import { checkInvariants, describeSelfCheck, isOwned, type Scheduler } from '#domains/scheduler'
import {
  type ConnectionRoom,
  type Db,
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
import { listAhead, sayLastRepair } from './watch-clock.ts'

export type DoctorFinding = {
  readonly check: string
  readonly status: 'well' | 'note' | 'broken'
  readonly found: string
  readonly next?: string
}

const well = (check: string, found: string): DoctorFinding => ({ check, status: 'well', found })
const note = (check: string, found: string, next: string): DoctorFinding => ({ check, status: 'note', found, next })
const broken = (check: string, found: string, next: string): DoctorFinding => ({ check, status: 'broken', found, next })
const refused = (check: string, refusal: Refusal) => broken(check, refusal.reason, hintOf(refusal))

const NODE_MIN = [24, 12] as const
/** Limit for reading every record; a larger installation should check a replica. */
const DEEP_MS = 600_000
/** Enough for a fresh database, its log and temporary files. */
const FREE_BYTES_MIN = 512 * 1024 * 1024

/** `deep` also checks every invariant of the records, which reads all of them. */
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
  if (isNew) return well('node', `Node ${running}`)
  return broken('node', `Node ${running} is too old`, `Use Node ${NODE_MIN.join('.')} or later, or run through npm.`)
}

async function nearestFolder(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined)
  return found || dirname(path) === path ? path : nearestFolder(dirname(path))
}

async function checkFolder(home: string): Promise<DoctorFinding> {
  const folder = await nearestFolder(home)
  try {
    await access(folder, constants.W_OK | constants.X_OK)
    return well('data folder', folder === home ? home : `${home} (will be created)`)
  } catch {
    return broken('data folder', `${folder} is not writable`, 'Set CONCORD_HOME to a folder that you can write.')
  }
}

async function checkDisk(home: string): Promise<DoctorFinding> {
  const { bavail, bsize } = await statfs(await nearestFolder(home))
  const freeBytes = bavail * bsize
  const found = `${(freeBytes / 1024 ** 3).toFixed(1)} GiB free`
  if (freeBytes >= FREE_BYTES_MIN) return well('disk', found)
  return broken('disk', found, 'Free some space, or set CONCORD_HOME to a folder on another disk.')
}

async function checkDatabase(config: Config, deep: boolean): Promise<DoctorFinding[]> {
  const store = await openStore(config, openLog('silent'))
  if (!store.ok) return [refused('database', store)]
  try {
    const db = await openCheckedDb({ url: store.value.url, poolMax: 1 }, { unsafeForTests: config.unsafeTest === '1' })
    if (!db.ok) return [refused('database', db)]
    const facts = await readServerFacts(db.value)
    const room = await readConnectionRoom(db.value)
    await db.value.close()
    const kept = `fsync ${facts.fsync}, full_page_writes ${facts.fullPageWrites}, synchronous_commit ${facts.synchronousCommit}`
    const status = await migrationStatus(store.value.url)
    return [
      well('database', store.value.label),
      { check: 'durability', status: facts.fsync === 'on' ? 'well' : 'note', found: kept },
      connectionFinding(room, config.poolMax),
      status.ok ? schemaFinding(status.value) : refused('schema', status),
      ...(await checkStuck(store.value.url)),
      ...(deep && status.ok && status.value.pending.length === 0 ? await checkRecords(store.value.url, config) : []),
    ]
  } finally {
    await store.value.close()
  }
}

function connectionFinding(room: ConnectionRoom, poolMax: number): DoctorFinding {
  const crowded = sayCrowded(room, poolMax)
  if (crowded === undefined) return well('connections', `${room.used} of ${room.usable} in use`)
  return note('connections', crowded, MAKE_ROOM)
}

/** Work that crashed its worker or failed too often waits for an operator. */
async function checkStuck(url: string): Promise<DoctorFinding[]> {
  const db = openDb({ url, poolMax: 1 })
  try {
    const [row] = await db.query<{ exists: boolean }>(`select to_regclass('runtime.processes') is not null as exists`)
    if (row?.exists !== true) return []
    const [stuck] = await db.query<{ count: number }>(
      `select count(*)::int as count from runtime.processes where state in ('stuck', 'aborted')`,
    )
    // The role of the engine sees all rows.
    const engine = openDb({ url, role: 'concord_engine', poolMax: 1 })
    try {
      // Commands whose task is not in the catalog.
      const parked = await listParked(engine, 1_000)
      const count = (stuck?.count ?? 0) + parked.length
      const work =
        count === 0
          ? well('work', 'nothing is stuck')
          : broken('work', `${count} stuck`, '`concord stuck` lists it with the reasons.')
      return [work, await clockFinding(db), approvalFinding(await listBlocked(engine))]
    } finally {
      await engine.close()
    }
  } finally {
    await db.close()
  }
}

function approvalFinding(blocked: Awaited<ReturnType<typeof listBlocked>>): DoctorFinding {
  const [first] = blocked
  if (!first) return well('approvals', 'somebody can decide each of them')
  const found = `${blocked.length} cannot be decided, such as ${encodeId('approval', first.approvalId)}: ${first.reason}`
  return note('approvals', found, first.hint)
}

/** A running server corrects times that lie ahead of the clock; without one they wait for the next start. */
async function clockFinding(db: Db): Promise<DoctorFinding> {
  const ahead = await listAhead(db)
  if (ahead.length > 0)
    return note('clock', `${ahead.join(', ')} lie ahead of it: it was set back`, '`concord up` corrects this.')
  const repaired = await sayLastRepair(db)
  if (repaired === undefined) return well('clock', 'no recorded time lies ahead of it')
  return note('clock', repaired, 'Check the time synchronisation (NTP) of the server and of its database.')
}

/** Returns one finding per broken invariant, or one finding if all hold. */
async function checkRecords(url: string, config: Config): Promise<DoctorFinding[]> {
  // The login itself sees no rows. The role of the engine sees all of them.
  const db = openDb({ url, role: 'concord_engine', poolMax: 1, statementTimeoutMs: DEEP_MS, queryTimeoutMs: DEEP_MS })
  try {
    const ofRooms = [...runInvariants, ...missionInvariants, ...flowInvariants]
    const found = await findBrokenInvariants(db, historyFolderOf(config), ofRooms)
    const { files, events } = await countArchived(db)
    const archive = files === 0 ? '' : `; ${events} events were read from ${files} files of the archive`
    if (found.length === 0) return [well('records', `${invariantCount + ofRooms.length} invariants hold${archive}`)]
    return found.map(({ code, name, meaning, next, count, examples }) =>
      broken(
        `${code} ${name}`,
        `${meaning} ${count} of them: ${examples.join(', ')}${count > examples.length ? ', …' : ''}`,
        next,
      ),
    )
  } finally {
    await db.close()
  }
}

function schemaFinding(status: {
  version: number
  pending: readonly string[]
  verdict: { ok: boolean }
}): DoctorFinding {
  const { verdict } = status
  if (!verdict.ok) return refused('schema', verdict as Refusal)
  if (status.pending.length === 0) return well('schema', `version ${status.version}`)
  return note('schema', `${status.pending.length} migrations are pending`, '`concord up` applies them.')
}

async function checkServerProcess(config: Config): Promise<DoctorFinding> {
  const address = serverAddress(config)
  try {
    const answer = await fetch(`${address}/health`, { signal: AbortSignal.timeout(3_000) })
    const health = (await answer.json()) as { status?: string; version?: string }
    const found = `${address} answers ${health.status ?? answer.status}, version ${health.version ?? 'unknown'}`
    if (!answer.ok) return broken('server', found, `See ${address}/health.`)
    return { check: 'server', status: health.version === version ? 'well' : 'note', found }
  } catch {
    return note('server', `nothing answers at ${address}`, 'Start it with `concord up`.')
  }
}

async function checkAdminKey(home: string): Promise<DoctorFinding> {
  const file = adminKeyFile(home)
  const found = await stat(file).catch(() => undefined)
  if (!found) return note('admin key', `${file} does not exist yet`, '`concord up` writes it.')
  const mode = found.mode & 0o777
  if ((mode & 0o077) === 0) return well('admin key', file)
  return broken('admin key', `${file} can be read by others (mode ${mode.toString(8)})`, `chmod 600 ${file}`)
}

/** Checks the scheduler file of `concord up`: whether it can be opened, whether its invariants hold, and whether a scheduler runs it. */
function checkScheduler({ schedulerFile: file }: Pick<Config, 'schedulerFile'>): DoctorFinding {
  if (file === undefined)
    return well('scheduler', 'off; CONCORD_SCHEDULER_FILE=./.concord/jobs.db turns it on in `concord up`')
  if (!existsSync(file)) return note('scheduler', `${file} (will be created)`, '`concord up` creates it.')
  const opened = openJobs({ file, role: 'guest' })
  if (!opened.ok) return refused('scheduler', opened)
  try {
    return judgeScheduler(opened.value)
  } finally {
    opened.value.close()
  }
}

function judgeScheduler(scheduler: Scheduler): DoctorFinding {
  const checked = checkInvariants(scheduler)
  if (!checked.ok) return refused('scheduler', checked)
  const { file } = scheduler.db
  if (checked.value.violations.length > 0) {
    const next = '`concord scheduler check` shows it; the next start repairs what it can.'
    return broken('scheduler', `${file}: ${describeSelfCheck(checked.value)}`, next)
  }
  if (isOwned(file)) return well('scheduler', `${file} is sound and running`)
  return note('scheduler', `${file} is sound; no scheduler runs it`, 'Start it with `concord up`.')
}
