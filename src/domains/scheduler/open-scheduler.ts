/** Opens a scheduler file or creates it, takes the owner lock, and refuses every file that is not safe to run on. */
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  realpathSync,
  statfsSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { z } from 'zod'
import { MAX_DURATION_MS, MAX_TIMER_MS } from '#kernel/duration'
import { networkMountName } from '#kernel/network-mount'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Database, explainSqliteFault, IN_MEMORY, isBusy, malformedFile, openDatabase, query } from './database.ts'
import { openSchedulerPoints, type PointPlan } from './failpoints.ts'
import { parseInput } from './parse-input.ts'
import { defaultJobTypes, type JobTypeBody, saveJobType } from './job-types.ts'
import { examineFile, isCurrent, migrate } from './migrate.ts'
import type { Scheduler, SchedulerDeps, SchedulerRole, SchedulerSettings } from './scheduler.ts'

/** The smallest page size of SQLite; a shorter file that is not empty was truncated. */
const SMALLEST_BYTES = 512

/**
 * Resolves links, so that every process finds the same lock and the same log. `mountTypeOf` is for tests, because not every
 * machine has a network mount.
 */
export function checkPlace(named: string, mountTypeOf = (folder: string) => statfsSync(folder).type): Decision<string> {
  let file = named
  let folder = dirname(named)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    file = existsSync(named) ? realpathSync(named) : join(realpathSync(folder), basename(named))
    folder = dirname(file)
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK)
    if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    return refuse('scheduler.file.read_only', `${file} is not writable (${code}).`, {
      hint: 'Make the file and its folder writable for the account that runs the scheduler, on a disk that is not read-only.',
      facts: { file, code },
    })
  }
  const mount = networkMountName(mountTypeOf(folder))
  if (mount !== undefined) {
    return refuse(
      'scheduler.file.network_mount',
      `${folder} is on a network mount (${mount}), where jobs would be lost.`,
      {
        hint: 'Put the scheduler file on a local disk.',
        facts: { file, mount },
      },
    )
  }
  // `stat` only: opening and closing a file that this process has open as a database would release its locks.
  const stat = statSync(file, { throwIfNoEntry: false })
  if (stat && !stat.isFile()) return refuse('scheduler.file.read_only', `${file} is not a file.`, { facts: { file } })
  const isCut = stat !== undefined && stat.size > 0 && stat.size < SMALLEST_BYTES
  return isCut ? malformedFile(file, `it has ${stat.size} bytes`) : accept(file)
}

/** Readable by the owner only, because params may hold secrets; SQLite gives its log the same mode. */
function createFile(file: string): void {
  if (!existsSync(file)) closeSync(openSync(file, 'a', 0o600))
}

/**
 * One owner per scheduler file: an operating system lock on an empty file next to it, taken through SQLite, whose file locks
 * work alike on Linux, macOS and Windows. The lock ends with its process, however that ends, and needs no process id, which
 * the system may have given to another process.
 */
type OwnerLock = { release(): void }

/** Keeps a reference to each lock: the garbage collector would close an unreferenced one and release it. */
const held = new Set<DatabaseSync>()

function ownerLockPath(file: string): string {
  return `${file}.owner`
}

/** A guest that creates or migrates a file holds the lock for a moment. */
const WAIT_MS = 250

/** Returns whether a process owns the file. Takes the lock for a moment; an owner that starts meanwhile waits for it. */
export function isOwned(file: string): boolean {
  if (!existsSync(ownerLockPath(file))) return false
  const lock = takeOwnerLock(file)
  lock?.release()
  return lock === undefined
}

/** Returns undefined while another connection, of this or another process, holds the lock. */
function takeOwnerLock(file: string): OwnerLock | undefined {
  const path = ownerLockPath(file)
  // Private from the start. Created only once: closing any descriptor of a file releases all locks that this process has on
  // it, including those of its other connections.
  if (!existsSync(path)) closeSync(openSync(path, 'a', 0o600))
  const lock = new DatabaseSync(path, { timeout: WAIT_MS })
  try {
    // In rollback mode an exclusive transaction locks out every other connection. Nothing is ever written.
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    if (isBusy(error)) return undefined
    throw error
  }
  held.add(lock)
  return {
    release() {
      if (held.delete(lock)) lock.close()
    },
  }
}

export type OpenScheduler = {
  /** A path on a local disk, or `:memory:` for a scheduler without persistence. */
  readonly file: string
  readonly deps: SchedulerDeps
  readonly role?: SchedulerRole
  readonly settings?: Partial<SchedulerSettings>
  /** Registered when an owner opens the file; `story` and `research` by default. */
  readonly jobTypes?: readonly JobTypeBody[]
  /** How long a write waits for other processes. */
  readonly busyTimeoutMs?: number
  /** Faults for tests; see `failpoints.ts`. */
  readonly points?: PointPlan
}

const settingsShape = z.strictObject({
  workers: z.int().min(1).max(1_000).default(1),
  reservationMs: z.int().min(1_000).max(86_400_000).default(300_000),
  keepMs: z
    .int()
    .min(1_000)
    .max(MAX_DURATION_MS)
    .default(30 * 86_400_000),
  logBytesMax: z
    .int()
    .min(0)
    .max(2 ** 50)
    .default(2 ** 30),
})
const BUSY_TIMEOUT_MS = 5_000

type OwnerRow = { readonly pid: number; readonly started_at: number }
const selectOwner = query<OwnerRow>(`select pid, started_at from scheduler_owner`)
const upsertOwner = query<never, { pid: number; now: number }>(`
   insert into scheduler_owner (one_row, pid, started_at) values (1, $pid, $now)
       on conflict (one_row) do update set pid = excluded.pid, started_at = excluded.started_at`)

export function openScheduler(options: OpenScheduler): Decision<Scheduler> {
  const settings = parseInput(settingsShape, options.settings ?? {})
  if (!settings.ok) return { ...settings, code: 'scheduler.setting.invalid' }
  const busyTimeoutMs = options.busyTimeoutMs ?? BUSY_TIMEOUT_MS
  if (!Number.isInteger(busyTimeoutMs) || busyTimeoutMs < 0 || busyTimeoutMs > MAX_TIMER_MS) {
    return refuse('scheduler.setting.invalid', '`busyTimeoutMs` must be a whole number of milliseconds.', {
      path: 'busyTimeoutMs',
    })
  }
  const { role = 'owner' } = options
  const place = options.file === IN_MEMORY ? accept(IN_MEMORY) : checkPlace(options.file)
  if (!place.ok) return place
  const file = place.value
  let lock: OwnerLock | undefined
  let db: Database | undefined
  try {
    if (role === 'guest') db = openAsGuest(file, busyTimeoutMs)
    if (!db) {
      lock = file === IN_MEMORY ? { release() {} } : takeOwnerLock(file)
      if (!lock && role === 'owner') return refuseSecondOwner(file, busyTimeoutMs)
      if (lock && file !== IN_MEMORY) createFile(file)
      db = openDatabase({ file, busyTimeoutMs })
      const ready = prepareFile(db, options, lock !== undefined)
      if (role === 'guest') lock?.release()
      if (!ready.ok) {
        close(db, lock)
        return ready
      }
    }
    return accept(asScheduler(db, role === 'guest' ? undefined : lock, settings.value, options))
  } catch (error) {
    close(db, lock)
    const refusal = explainSqliteFault(error, file)
    if (refusal) return refusal
    throw error
  }
}

/** An existing, current file needs no lock; otherwise the guest must hold the owner lock for a moment. */
function openAsGuest(file: string, busyTimeoutMs: number): Database | undefined {
  if (file === IN_MEMORY || !existsSync(file)) return undefined
  const db = openDatabase({ file, busyTimeoutMs })
  const applied = examineFile(db)
  if (applied.ok && isCurrent(applied.value)) return db
  db.close()
  return undefined
}

function asScheduler(
  db: Database,
  lock: OwnerLock | undefined,
  settings: SchedulerSettings,
  { deps, role = 'owner', points }: OpenScheduler,
): Scheduler {
  return {
    db,
    deps,
    settings,
    role,
    pass: openSchedulerPoints(points),
    recovery: { isDone: false },
    close: () => close(db, lock),
  }
}

/** Closes the file before the lock, so that the next owner finds everything written. */
function close(db: Database | undefined, lock: OwnerLock | undefined): void {
  db?.close()
  lock?.release()
}

function prepareFile(db: Database, options: OpenScheduler, isAlone: boolean): Decision<unknown> {
  const applied = examineFile(db)
  if (!applied.ok) return applied
  db.useWal()
  const now = options.deps.now().getTime()
  if (!isCurrent(applied.value)) {
    if (!isAlone) {
      return refuse('scheduler.file.older', `${db.file} is in use by an older version of Concord.`, {
        hint: 'Stop the older version and start the newer one first.',
      })
    }
    const migrated = migrate(db, { at: now })
    if (!migrated.ok) return migrated
  }
  if (options.role === 'guest' && !(isAlone && applied.value === 0)) return accept(undefined)
  return db.write((tx) => {
    for (const type of options.jobTypes ?? defaultJobTypes) {
      const saved = saveJobType(db, tx, type, now)
      if (!saved.ok) return saved
    }
    if (options.role !== 'guest') tx.run(upsertOwner, { pid: process.pid, now })
    return accept(undefined)
  })
}

function refuseSecondOwner(file: string, busyTimeoutMs: number): Decision<never> {
  const db = openDatabase({ file, busyTimeoutMs, isReadOnly: true })
  try {
    const owner = db.one(selectOwner)
    const who = owner ? `process ${owner.pid}` : 'another process'
    return refuse('scheduler.file.locked', `${file} belongs to ${who}. A scheduler file has one owner.`, {
      hint: 'Stop the other scheduler, open the file as a guest, or choose another file.',
      facts: { file, ...(owner && { pid: owner.pid, since: new Date(owner.started_at).toISOString() }) },
    })
  } catch {
    // The owner may be creating the file at this moment, so its row may not be readable yet.
    return refuse('scheduler.file.locked', `${file} belongs to another process. A scheduler file has one owner.`)
  } finally {
    db.close()
  }
}
