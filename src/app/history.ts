/** Moves old events into the archive, reads them back and verifies the files. */
import { join } from 'node:path'
import {
  type ArchivedHistory,
  type ArchiveFinding,
  archiveHistory,
  type HistoryDeps,
  readHistory,
  toArchivedView,
  toEventView,
  verifyHistory,
} from '#domains/commands'
import { archiveMissionEvents } from '#domains/missions'
import { textId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Db, migrationStatus, openDb } from '#store'
import type { Config } from './config.ts'
import { type Log, openLog } from './log.ts'
import { openStore } from './open-store.ts'
import { every } from './lifecycle.ts'
import { systemDeps, type SystemDeps } from './system-deps.ts'

/** Events as the API shows them, each with its archive file; null for events in the database. */
export type HistoryView = {
  readonly archived: ReturnType<typeof toArchivedView>
  readonly events: readonly (ReturnType<typeof toEventView> & { readonly file: string | null })[]
}

const DAY_MS = 86_400_000
/** Ages are in days, so a few hours of delay do not matter. */
const SWEEP_MS = 6 * 3_600_000
/** Deleting one part takes well under a second. A database that needs a minute has another problem. */
const STATEMENT_MS = 60_000

export function historyFolderOf({ home, historyFolder }: Pick<Config, 'home' | 'historyFolder'>): string {
  return historyFolder ?? join(home, 'history')
}

type MoveHistory = {
  readonly days?: number | undefined
  readonly isDryRun?: boolean
  readonly signal?: AbortSignal
  readonly onProgress?: (soFar: ArchivedHistory) => void
}

/** `days` overrides the setting. Refuses if neither is given. */
export async function moveHistory(config: Config, move: MoveHistory): Promise<Decision<ArchivedHistory>> {
  const days = move.days ?? config.historyDays
  if (days === undefined) {
    return refuse('history.age.missing', 'No age is set after which events move into the archive.', {
      path: '--before',
      hint: 'Add --before <days>, or set CONCORD_HISTORY_DAYS.',
    })
  }
  const { signal, onProgress, isDryRun = false } = move
  const run = { days, isDryRun, ...(signal && { signal }), ...(onProgress && { onProgress }) }
  return withHistory(config, 'owner', (history, deps) => moveOlder(history, deps, run))
}

/** Events of missions move into a table of their own: they are few, and people read them longer than those of commands. */
async function moveOlder(
  history: HistoryDeps,
  deps: SystemDeps,
  { days, ...run }: MoveHistory & { readonly days: number },
) {
  const endedBefore = new Date(deps.now().getTime() - days * DAY_MS)
  const moved = await archiveHistory(history, {
    ...run,
    endedBefore,
    traceId: textId('trace', deps.randomBytes(16)),
  })
  if (moved.ok && !run.isDryRun) await archiveMissionEvents(history.db, { endedBefore, signal: run.signal })
  return moved
}

export function showHistory(config: Config, commandId: string): Promise<Decision<HistoryView>> {
  return withHistory(config, 'engine', async (history) => {
    const found = await readHistory(history, commandId)
    if (!found.ok) return found
    const { archives, events } = found.value
    return accept({
      archived: toArchivedView(archives),
      events: events.map((event) => ({ ...toEventView(event), file: event.file })),
    })
  })
}

type CheckHistory = {
  readonly signal?: AbortSignal
  readonly onProgress?: (checked: number, total: number) => void
}

export function checkHistory(config: Config, check: CheckHistory): Promise<Decision<readonly ArchiveFinding[]>> {
  return withHistory(config, 'engine', async (history) => accept(await verifyHistory(history, check)))
}

async function withHistory<T>(
  config: Config,
  as: 'owner' | 'engine',
  work: (history: HistoryDeps, deps: SystemDeps) => Promise<Decision<T>>,
): Promise<Decision<T>> {
  const store = await openStore(config, openLog(config.logLevel))
  if (!store.ok) return store
  try {
    const current = await checkSchema(store.value.url)
    if (!current.ok) return current
    const deps = systemDeps()
    const db = openHistoryDb(store.value.url, as)
    try {
      return await work({ db, ...deps, folder: historyFolderOf(config) }, deps)
    } finally {
      await db.close()
    }
  } finally {
    await store.value.close()
  }
}

async function checkSchema(url: string): Promise<Decision<undefined>> {
  const status = await migrationStatus(url)
  if (!status.ok) return status
  if (!status.value.verdict.ok) return status.value.verdict
  if (status.value.pending.length === 0) return accept(undefined)
  return refuse('history.schema.behind', `${status.value.pending.length} migrations are pending.`, {
    hint: '`concord migrate up` applies them.',
  })
}

/** The owner may delete events. The role of the engine reads all rows and cannot change an event. */
function openHistoryDb(url: string, as: 'owner' | 'engine'): Db {
  const limits = { poolMax: 2, statementTimeoutMs: STATEMENT_MS, queryTimeoutMs: STATEMENT_MS + 5_000 }
  const applicationName = 'concord history'
  return openDb({ url, applicationName, ...limits, ...(as === 'engine' ? { role: 'concord_engine' } : {}) })
}

/** Archives repeatedly if an age is set. Returns the function that stops it. */
export function keepHistory(
  config: Config,
  url: string,
  deps: SystemDeps,
  log: Log,
): (() => Promise<void>) | undefined {
  const { historyDays: days } = config
  if (days === undefined) return undefined
  const stop = new AbortController()
  const work = async () => {
    const db = openHistoryDb(url, 'owner')
    try {
      const history = { db, ...deps, folder: historyFolderOf(config) }
      const moved = await moveOlder(history, deps, { days, signal: stop.signal })
      if (!moved.ok) log.warn({ code: moved.code }, `the history could not be archived: ${moved.reason}`)
      else if (moved.value.events > 0) log.info({ events: moved.value.events }, 'old history was archived')
    } finally {
      await db.close()
    }
  }
  const end = every(SWEEP_MS, work, log)
  return () => {
    stop.abort()
    return end()
  }
}
