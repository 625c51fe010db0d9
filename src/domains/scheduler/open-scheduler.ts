/** Opens a scheduler file, makes it if it is not there, and refuses every file that would not be safe to run on. */
import { existsSync } from 'node:fs'
import { z } from 'zod'
import { MAX_DURATION_MS, MAX_TIMER_MS } from '#kernel/duration'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Database, IN_MEMORY, openDatabase } from './database.ts'
import { parseInput } from './parse-input.ts'
import { checkPlace, createFile } from './file-place.ts'
import { defaultJobTypes, type JobTypeBody, saveJobType } from './job-types.ts'
import { examineFile, isCurrent, migrate } from './migrate.ts'
import { type OwnerLock, takeOwnerLock } from './owner-lock.ts'
import { openFailpoints, type PointPlan } from './failpoints.ts'
import type { Scheduler, SchedulerRole, SchedulerSettings, SchedulerDeps } from './scheduler.ts'
import { explainSqliteFault } from './sqlite-fault.ts'
import { statement } from './statement.ts'

export type OpenScheduler = {
  /** A path on a local disk, or `:memory:` for a scheduler that forgets everything. */
  readonly file: string
  readonly deps: SchedulerDeps
  readonly role?: SchedulerRole
  readonly settings?: Partial<SchedulerSettings>
  /** Registered on opening, for an owner; without a list `story` and `research`. */
  readonly jobTypes?: readonly JobTypeBody[]
  /** How long a write waits for other processes. */
  readonly busyTimeoutMs?: number
  /** Faults for tests, see `points.ts`. */
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
const selectOwner = statement<OwnerRow>('select_owner', `select pid, started_at from scheduler_owner`)
const upsertOwner = statement<never, { pid: number; now: number }>(
  'upsert_owner',
  `insert into scheduler_owner (one_row, pid, started_at) values (1, $pid, $now)
       on conflict (one_row) do update set pid = excluded.pid, started_at = excluded.started_at`,
)

export function openScheduler(options: OpenScheduler): Decision<Scheduler> {
  const settings = parseInput(settingsShape, options.settings ?? {})
  if (!settings.ok) return { ...settings, code: 'scheduler.setting.invalid' }
  const busyTimeoutMs = options.busyTimeoutMs ?? BUSY_TIMEOUT_MS
  if (!Number.isInteger(busyTimeoutMs) || busyTimeoutMs < 0 || busyTimeoutMs > MAX_TIMER_MS) {
    return refuse('scheduler.setting.invalid', 'busyTimeoutMs is a whole number of milliseconds', {
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

/** A file that is there and up to date needs no lock; otherwise the guest must be alone for a moment. */
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
    pass: openFailpoints(points),
    recovery: { isDone: false },
    close: () => close(db, lock),
  }
}

/** The file first, then the lock: the next owner must find everything written. */
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
      return refuse('scheduler.file.older', `${db.file} is being used by an older Concord`, {
        hint: 'Stop it and start the new one first.',
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
    return refuse('scheduler.file.locked', `${file} belongs to ${who}; a scheduler file has one owner`, {
      hint: 'Stop the other scheduler, open the file as a guest, or name another file.',
      facts: { file, ...(owner && { pid: owner.pid, since: new Date(owner.started_at).toISOString() }) },
    })
  } catch {
    // The other one may be making the file at this moment; that it is there is all that matters.
    return refuse('scheduler.file.locked', `${file} belongs to another process; a scheduler file has one owner`)
  } finally {
    db.close()
  }
}
