/** Rebuilds commands whose events are archived: file by file, with what is left in the table; a file that cannot be read is named. */
import { readArchive, type Sql } from '#store'
import { listArchives } from '../history/archive-repository.ts'
import { checkArchive } from '../history/verify-history.ts'
import type { ToldEvent } from './rebuild-case.ts'

export type PlacedEvent = ToldEvent & { readonly seq: number }

/** All events of one command from all of its files; what the table has is not among them. */
export type ArchivedTale = { readonly commandId: string; readonly events: readonly PlacedEvent[] }

export type ArchivedTales = {
  readonly tales: readonly ArchivedTale[]
  /** Files that are gone or damaged: the commands in them cannot be told. */
  readonly unreadable: readonly string[]
}

const COMMANDS_OF = `select id as command_id, not exists (
    select from concord.history_archives as later where later.command_ids @> array[id]
      and (later.archived_at, later.history_archive_id) > (h.archived_at, h.history_archive_id)) as is_last
from concord.history_archives as h cross join lateral unnest(h.command_ids) as id where h.history_archive_id = $1`

/**
 * One file at a time. A command that goes on in a later file is carried until then, which are few: those at the edge of a part, and
 * those that were run again.
 */
export async function* readArchivedTales(sql: Sql, folder: string): AsyncGenerator<ArchivedTales> {
  const carried = new Map<string, PlacedEvent[]>()
  const untold = new Set<string>()
  const archives = [...(await listArchives(sql))].toSorted(
    (a, b) =>
      a.archived_at.getTime() - b.archived_at.getTime() || (a.history_archive_id < b.history_archive_id ? -1 : 1),
  )
  for (const archive of archives) {
    const commands = await sql.query<{ command_id: string; is_last: boolean }>(COMMANDS_OF, [
      archive.history_archive_id,
    ])
    const checked = await checkArchive(folder, archive)
    if (!checked.ok) {
      for (const { command_id } of commands) untold.add(command_id)
      yield { tales: [], unreadable: [`${archive.file} (${checked.code})`] }
      continue
    }
    for await (const { command_id, event_type, payload, seq } of readArchive(folder, archive.file)) {
      if (command_id === null) continue
      const events = carried.get(command_id) ?? []
      events.push({ event_type, payload, seq })
      carried.set(command_id, events)
    }
    const tales: ArchivedTale[] = []
    for (const { command_id: commandId, is_last } of commands) {
      if (!is_last) continue
      if (!untold.has(commandId)) tales.push({ commandId, events: carried.get(commandId) ?? [] })
      carried.delete(commandId)
    }
    yield { tales, unreadable: [] }
  }
}
