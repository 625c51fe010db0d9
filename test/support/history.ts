/** A history to archive: a room of commands, a folder, the owner's connections, and the events of table and files together. */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { archiveHistory, type ArchivedHistory, type ArchiveHistory } from '../../src/domains/commands/index.ts'
import type { HistoryDeps } from '../../src/domains/commands/index.ts'
import type { Decision } from '../../src/kernel/refusal.ts'
import { uuidV7Generator } from '../../src/kernel/ids.ts'
import { type Db, openDb } from '../../src/store/db.ts'
import { readArchiveLines } from '../../src/store/archive.ts'
import { openTestRoom, type TestRoom } from './commands.ts'
import { faultEnv, type PlannedFault } from './fault-plan.ts'
import { TRACE } from './tenant.ts'
import { until } from './until.ts'

const DAY_MS = 86_400_000
const child = fileURLToPath(new URL('./history-child.ts', import.meta.url))

export type HistoryTask = { readonly url: string; readonly folder: string; readonly limits: ArchiveHistory['limits'] }

export type HistoryRoom = {
  readonly room: TestRoom
  readonly owner: Db
  readonly folder: string
  readonly world: HistoryDeps
  archive(more?: Partial<ArchiveHistory>): Promise<Decision<ArchivedHistory>>
  /** Waits until followers can read every event, so that all can be archived. */
  visible(): Promise<void>
  /** Archives in a child process that ends at the points of the plan. Returns the signal that ended it, or null. */
  archiveAside(faults: readonly PlannedFault[], limits?: ArchiveHistory['limits']): Promise<string | null>
  /** Every event of the table, in the format of the archive. */
  inTable(): Promise<ReadonlyMap<string, string>>
  /** Every event of the files that the archive rows name. */
  inArchive(): Promise<ReadonlyMap<string, string>>
  close(): Promise<void>
}

/** The day after tomorrow with an age of one day: every ended command is old. */
export function oldWorld(db: Db, folder: string): HistoryDeps & { readonly endedBefore: Date } {
  const now = () => new Date(Date.now() + 2 * DAY_MS)
  return { db, folder, now, newId: uuidV7Generator(now, randomBytes), endedBefore: new Date(Date.now() + DAY_MS) }
}

export async function openHistoryRoom(): Promise<HistoryRoom> {
  const room = await openTestRoom()
  const folder = await mkdtemp(join(tmpdir(), 'concord-history-'))
  const owner = openDb({ url: room.db.config.url, poolMax: 2 })
  const { endedBefore, ...world } = oldWorld(owner, folder)
  const linesIn = async (files: readonly string[]) => {
    const lines = new Map<string, string>()
    for (const file of files) {
      for await (const line of readArchiveLines(folder, file)) {
        const text = line.toString()
        lines.set((JSON.parse(text) as { event_id: string }).event_id, text)
      }
    }
    return lines
  }
  return {
    room,
    owner,
    folder,
    world,
    archive: (more) => archiveHistory(world, { endedBefore, traceId: TRACE, ...more }),
    visible: () => untilVisible(owner),
    archiveAside(faults, limits) {
      const task: HistoryTask = { url: room.db.config.url, folder, limits }
      const env = { ...process.env, ...faultEnv(faults) }
      const running = spawn(process.execPath, [child, JSON.stringify(task)], {
        env,
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      return new Promise((resolve) => running.on('exit', (_code, signal) => resolve(signal)))
    },
    async inTable() {
      const rows = await owner.query<{ event_id: string; line: string }>(
        'select e.event_id, to_jsonb(e)::text as line from concord.domain_events as e',
      )
      return new Map(rows.map(({ event_id, line }) => [event_id, line]))
    },
    async inArchive() {
      const rows = await owner.query<{ file: string }>('select file from concord.history_archives')
      return linesIn(rows.map(({ file }) => file))
    },
    async close() {
      await owner.close()
      await room.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Waits until the feed shows every commit; other databases of the server delay it, too. */
export function untilVisible(db: Db): Promise<void> {
  const hidden = 'select 1 from concord.domain_events where xid >= pg_snapshot_xmin(pg_current_snapshot()) limit 1'
  return until(async () => (await db.query(hidden)).length === 0, 'the end of older transactions')
}

/** Lists events that are missing, changed, or both in the table and in a file. */
export async function compareHistory(history: HistoryRoom, written: ReadonlyMap<string, string>) {
  const [archive, table] = [await history.inArchive(), await history.inTable()]
  const isKnown = (id: string, line: string) => (archive.get(id) ?? table.get(id)) === line
  return {
    lost: [...written].filter(([id, line]) => !isKnown(id, line)).map(([id]) => id),
    twice: [...archive.keys()].filter((id) => table.has(id)),
  }
}
