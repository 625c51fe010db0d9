/** Checks every invariant on one snapshot, and compares every command with the state that its events rebuild. Returns the violations. */
import { isDeepStrictEqual } from 'node:util'
import { type Db, readArchive, type Sql, type Tx } from '#store'
import { checkArchive, listArchives } from '../history/history-archive.ts'
import { commandInvariants, type Invariant, RESTORE } from './invariants.ts'
import { type CommandEvent, type RebuiltCommand, rebuildCommand } from './rebuild-command.ts'

type Description = Pick<Invariant, 'code' | 'name' | 'meaning' | 'next'>

export type BrokenInvariant = Description & {
  readonly count: number
  /** The first ids, for looking them up. */
  readonly examples: readonly string[]
}

const EXAMPLES_MAX = 10
/** Commands with all their events in memory at once. */
const PAGE = 200

const rebuildable: Description = {
  code: 'R01',
  name: 'the events rebuild the row',
  meaning: 'The state that follows from the events of a command is not the state on its rows.',
  next: RESTORE,
}

const readable: Description = {
  code: 'R02',
  name: 'the archive is readable',
  meaning: 'A file of the archive is missing or damaged, so its commands cannot be rebuilt from their events.',
  next: '`concord history verify` lists every such file; restore them from a backup.',
}

export const invariantCount = commandInvariants.length + 2

/** `more` are those of other rooms. Without the folder of the archive, archived commands are not compared with their events. */
export function findBrokenInvariants(
  db: Db,
  historyFolder?: string,
  more: readonly Invariant[] = [],
): Promise<readonly BrokenInvariant[]> {
  return db.transaction((tx) => listBroken(tx, historyFolder, more), 'begin isolation level repeatable read read only')
}

/** The transaction of the caller has to be one snapshot. */
export async function listBroken(
  tx: Tx,
  historyFolder?: string,
  more: readonly Invariant[] = [],
): Promise<readonly BrokenInvariant[]> {
  const found: (readonly [Description, readonly string[]])[] = []
  for (const { sql, values = [], ...description } of [...commandInvariants, ...more]) {
    const rows = await tx.query<{ id: string }>(sql, values)
    found.push([description, rows.map(({ id }) => id)])
  }
  const archived =
    historyFolder === undefined ? { differing: [], unreadable: [] } : await checkArchivedCommands(tx, historyFolder)
  found.push([rebuildable, [...(await listDiffering(tx)), ...archived.differing]], [readable, archived.unreadable])
  return found
    .filter(([, ids]) => ids.length > 0)
    .map(([description, ids]) => ({ ...description, count: ids.length, examples: ids.slice(0, EXAMPLES_MAX) }))
}

type OrderedEvent = CommandEvent & { readonly seq: number }
type StoredState = RebuiltCommand & { readonly command_id: string; readonly events: readonly OrderedEvent[] }

const stateColumns = `c.command_id, c.status, c.attempt, c.plan->>'plan_id' as plan_id, c.cancellation_requested,
  c.completed_at is not null as has_ended,
  coalesce((select jsonb_object_agg(e.domain_effect_id, jsonb_build_object('effect_type', e.effect_type,
      'idempotency_key', e.idempotency_key, 'declaration_order', e.declaration_order,
      'compensates_effect_id', e.compensates_effect_id, 'status', e.status))
    from concord.domain_effects as e where e.command_id = c.command_id), '{}') as effects,
  coalesce((select jsonb_agg(jsonb_build_object('event_type', v.event_type, 'payload', v.payload, 'seq', v.seq) order by v.seq)
    from concord.domain_events as v where v.command_id = c.command_id), '[]') as events`

const pageOfStates = `select ${stateColumns} from concord.commands as c
where ($1::uuid is null or c.command_id > $1)
  and not exists (select from concord.history_archives as h where h.command_ids @> array[c.command_id])
order by c.command_id limit $2`

const statesOf = `select ${stateColumns} from concord.commands as c where c.command_id = any($1::uuid[])`

/** The commands with all their events in the table. */
async function listDiffering(sql: Sql): Promise<readonly string[]> {
  const differing: string[] = []
  for (let after: string | null = null; ; ) {
    const page: readonly StoredState[] = await sql.query(pageOfStates, [after, PAGE])
    differing.push(...page.filter((row) => !isRebuilt(row)).map(({ command_id }) => command_id))
    after = page.at(-1)?.command_id ?? null
    if (page.length < PAGE) return differing
  }
}

const commandsOfArchive = `select id as command_id, not exists (
    select from concord.history_archives as later where later.command_ids @> array[id]
      and (later.archived_at, later.history_archive_id) > (h.archived_at, h.history_archive_id)) as is_last
from concord.history_archives as h cross join lateral unnest(h.command_ids) as id where h.history_archive_id = $1`

/**
 * The commands with events in files: compares each with its files and the table together, one file at a time. Few commands continue in
 * a later file and are carried until then: those at the edge of a part, and those that ran again.
 */
async function checkArchivedCommands(sql: Sql, folder: string) {
  const differing: string[] = []
  const unreadable: string[] = []
  const carried = new Map<string, OrderedEvent[]>()
  const incomplete = new Set<string>()
  for (const archive of await listArchives(sql)) {
    const commands = await sql.query<{ command_id: string; is_last: boolean }>(commandsOfArchive, [
      archive.history_archive_id,
    ])
    const checked = await checkArchive(folder, archive)
    if (!checked.ok) {
      for (const { command_id } of commands) incomplete.add(command_id)
      unreadable.push(`${archive.file} (${checked.code})`)
      continue
    }
    for await (const { command_id, event_type, payload, seq } of readArchive(folder, archive.file)) {
      if (command_id === null) continue
      const events = carried.get(command_id) ?? []
      events.push({ event_type, payload, seq })
      carried.set(command_id, events)
    }
    const complete = commands.filter(({ is_last }) => is_last).map(({ command_id }) => command_id)
    for (let at = 0; at < complete.length; at += PAGE) {
      const ids = complete.slice(at, at + PAGE).filter((id) => !incomplete.has(id))
      const rows = await sql.query<StoredState>(statesOf, [ids])
      const different = rows.filter((row) => !isRebuilt(row, carried.get(row.command_id)))
      differing.push(...different.map(({ command_id }) => command_id))
    }
    for (const id of complete) carried.delete(id)
  }
  return { differing, unreadable }
}

function isRebuilt(row: StoredState, archived: readonly OrderedEvent[] = []): boolean {
  const rebuilt = rebuildCommand([...archived, ...row.events].toSorted((a, b) => a.seq - b.seq))
  return rebuilt !== undefined && isDeepStrictEqual({ ...row, ...rebuilt }, row)
}
