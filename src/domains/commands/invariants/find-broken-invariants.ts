/** Asks every invariant of one snapshot, and compares every command with what its events tell. What comes back is broken. */
import type { Db, Sql, Tx } from '#store'
import { type ArchivedTale, type PlacedEvent, readArchivedTales } from './archived-cases.ts'
import { commandInvariants, type Invariant } from './invariants.ts'
import { type RebuiltCase, type RebuiltEffect, rebuildCase } from './rebuild-case.ts'

export type BrokenInvariant = Pick<Invariant, 'code' | 'name' | 'meaning' | 'next'> & {
  readonly count: number
  /** The first of them, for looking them up. */
  readonly examples: readonly string[]
}

const EXAMPLES_MAX = 10
/** Commands with all their events in memory at once. */
const PAGE = 200

const rebuilt = {
  code: 'R01',
  name: 'the events tell the row',
  meaning: 'The state that follows from the events of a command is not the one on its rows.',
  next: 'Compare with a backup: rows were changed by something else than Concord, or Concord has a fault worth reporting.',
} as const

const readable = {
  code: 'R02',
  name: 'what was archived can be read',
  meaning:
    'A file of the archive is gone or is not what was written, so its commands cannot be told from their events.',
  next: '`concord history verify` names every such file; restore them from a backup.',
} as const

/** How many invariants are asked. */
export const invariantCount = commandInvariants.length + 2

export type ArchiveAccess = {
  /** Where the files of the archive are; without it, archived commands are not compared with their events. */
  readonly historyFolder?: string | undefined
}

export function findBrokenInvariants(db: Db, access: ArchiveAccess = {}): Promise<readonly BrokenInvariant[]> {
  return db.transaction((tx) => listBroken(tx, access), 'begin isolation level repeatable read read only')
}

/** In the caller's transaction: one snapshot is the caller's business. */
export async function listBroken(tx: Tx, { historyFolder }: ArchiveAccess = {}): Promise<readonly BrokenInvariant[]> {
  const broken: BrokenInvariant[] = []
  for (const { sql, values = [], ...words } of commandInvariants) {
    const rows = await tx.query<{ id: string }>(sql, values)
    if (rows.length === 0) continue
    const ids = rows.map(({ id }) => id)
    broken.push(foundOf(words, ids))
  }
  const archived = historyFolder === undefined ? { untold: [], unreadable: [] } : await lookAtArchive(tx, historyFolder)
  const untold = [...(await listUntold(tx)), ...archived.untold]
  if (untold.length > 0) broken.push(foundOf(rebuilt, untold))
  if (archived.unreadable.length > 0) broken.push(foundOf(readable, archived.unreadable))
  return broken
}

function foundOf(
  { code, name, meaning, next }: Pick<Invariant, 'code' | 'name' | 'meaning' | 'next'>,
  ids: readonly string[],
): BrokenInvariant {
  return { code, name, meaning, next, count: ids.length, examples: ids.slice(0, EXAMPLES_MAX) }
}

type StoredCase = Omit<RebuiltCase, 'torn' | 'effects'> & {
  readonly command_id: string
  readonly effects: readonly (RebuiltEffect & { readonly domain_effect_id: string })[]
  readonly events: readonly PlacedEvent[]
}

const caseColumns = `c.command_id, c.status, c.attempt, c.plan->>'plan_id' as plan_id, c.cancellation_requested,
  c.completed_at is not null as has_ended,
  coalesce((select jsonb_agg(jsonb_build_object('domain_effect_id', e.domain_effect_id, 'effect_type', e.effect_type,
      'idempotency_key', e.idempotency_key, 'declaration_order', e.declaration_order,
      'compensates_effect_id', e.compensates_effect_id, 'status', e.status))
    from concord.domain_effects as e where e.command_id = c.command_id), '[]') as effects,
  coalesce((select jsonb_agg(jsonb_build_object('event_type', v.event_type, 'payload', v.payload, 'seq', v.seq) order by v.seq)
    from concord.domain_events as v where v.command_id = c.command_id), '[]') as events`

const pageOfCases = `select ${caseColumns}, exists (
    select from concord.history_archives as h where h.command_ids @> array[c.command_id]) as is_archived
from concord.commands as c where $1::uuid is null or c.command_id > $1 order by c.command_id limit $2`

const casesOf = `select ${caseColumns} from concord.commands as c where c.command_id = any($1::uuid[])`

/** Commands with events in files: each from its files and the table together. */
async function lookAtArchive(sql: Sql, folder: string) {
  const untold: string[] = []
  const unreadable: string[] = []
  for await (const found of readArchivedTales(sql, folder)) {
    unreadable.push(...found.unreadable)
    for (let at = 0; at < found.tales.length; at += PAGE) {
      untold.push(...(await listUntoldOf(sql, found.tales.slice(at, at + PAGE))))
    }
  }
  return { untold, unreadable }
}

async function listUntoldOf(sql: Sql, tales: readonly ArchivedTale[]): Promise<readonly string[]> {
  const cases = await sql.query<StoredCase>(casesOf, [tales.map(({ commandId }) => commandId)])
  const eventsOf = new Map(tales.map(({ commandId, events }) => [commandId, events]))
  return cases
    .filter(({ events, ...row }) => {
      const all = [...(eventsOf.get(row.command_id) ?? []), ...events].toSorted((a, b) => a.seq - b.seq)
      return !isTold({ ...row, events: all })
    })
    .map(({ command_id }) => command_id)
}

async function listUntold(sql: Sql): Promise<readonly string[]> {
  const untold: string[] = []
  for (let after: string | null = null; ; ) {
    const page: readonly (StoredCase & { readonly is_archived: boolean })[] = await sql.query(pageOfCases, [
      after,
      PAGE,
    ])
    for (const stored of page) if (!stored.is_archived && !isTold(stored)) untold.push(stored.command_id)
    after = page.at(-1)?.command_id ?? null
    if (page.length < PAGE) return untold
  }
}

function isTold({ events, effects, ...row }: StoredCase): boolean {
  const told = rebuildCase(events)
  const isSame =
    told.torn === null &&
    told.status === row.status &&
    told.attempt === row.attempt &&
    told.plan_id === row.plan_id &&
    told.cancellation_requested === row.cancellation_requested &&
    told.has_ended === row.has_ended
  return (
    isSame && effects.length === Object.keys(told.effects).length && effects.every((effect) => isEffect(told, effect))
  )
}

function isEffect(told: RebuiltCase, effect: RebuiltEffect & { readonly domain_effect_id: string }): boolean {
  const tale = told.effects[effect.domain_effect_id]
  return (
    tale !== undefined &&
    tale.effect_type === effect.effect_type &&
    tale.idempotency_key === effect.idempotency_key &&
    tale.declaration_order === effect.declaration_order &&
    tale.compensates_effect_id === effect.compensates_effect_id &&
    tale.status === effect.status
  )
}
