/** The whole history of one command: what is in the archive, then what is in the table, in the order in which it happened. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type ArchivedEvent, readArchive, refuseArchiveFile, type Sql } from '#store'
import { listArchivesWith, type StoredArchive } from './archive-repository.ts'
import type { HistoryDeps } from './deps.ts'

type ToldHistoryEvent = Pick<
  ArchivedEvent,
  'event_id' | 'command_id' | 'event_type' | 'purpose' | 'payload' | 'actor' | 'trace_id' | 'seq'
> & {
  readonly created_at: Date
  /** Null: it is in the table. */
  readonly file: string | null
}

export type CommandHistory = {
  readonly workspaceId: string
  readonly archives: readonly StoredArchive[]
  readonly events: readonly ToldHistoryEvent[]
}

type Row = Omit<ToldHistoryEvent, 'file' | 'seq'> & { readonly seq: string }

const EVENTS_OF = `select e.event_id, e.command_id, e.event_type, e.purpose, e.payload, e.actor, e.trace_id, e.created_at, e.seq::text as seq
from concord.domain_events as e where e.workspace_id = $1 and e.command_id = $2 order by e.seq`

/** In the role that sees all rows: the operator asks, and names no workspace. */
export async function readHistory(
  { db, folder }: Pick<HistoryDeps, 'db' | 'folder'>,
  commandId: string,
): Promise<Decision<CommandHistory>> {
  const [command] = await db.query<{ workspace_id: string }>(
    'select workspace_id from concord.commands where command_id = $1',
    [commandId],
  )
  if (!command) return refuse('commands.command.not_found', 'There is no such command.')
  const { workspace_id: workspaceId } = command
  const rows = await db.query<Row>(EVENTS_OF, [workspaceId, commandId])
  const archived = await readArchivedOf(db, folder, workspaceId, commandId)
  if (!archived.ok) return archived
  const { archives, events } = archived.value
  const told = [...events, ...rows.map((row) => ({ ...row, seq: Number(row.seq), file: null }))]
  // A run that ended between the two looks has moved some of them: the file and the table both have them.
  const once = new Map(told.map((event) => [event.event_id, event]))
  const inOrder = [...once.values()].toSorted((a, b) => a.seq - b.seq)
  return accept({ workspaceId, archives, events: inOrder })
}

type Archived = {
  readonly archives: readonly StoredArchive[]
  readonly events: readonly ToldHistoryEvent[]
}

/** Only what the files tell of one command. */
async function readArchivedOf(
  sql: Sql,
  folder: string,
  workspaceId: string,
  commandId: string,
): Promise<Decision<Archived>> {
  const archives = await listArchivesWith(sql, workspaceId, commandId)
  const events: ToldHistoryEvent[] = []
  for (const { file } of archives) {
    try {
      for await (const event of readArchive(folder, file)) {
        if (event.command_id === commandId) events.push({ ...event, created_at: new Date(event.created_at), file })
      }
    } catch (error) {
      return refuseArchiveFile(error, folder, file)
    }
  }
  return accept({ archives, events })
}
