/** Holds: what must be kept about a subject even if its erasure is requested. Locks make holds, writers and an erasure of one subject mutually exclusive (M9, M10). */
import { hash } from 'node:crypto'
import type { Actor } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { defineTable, type Sql, statement, type Tx } from '#store'
import type { MemoryDeps } from './deps.ts'
import { memoryLog } from './events.ts'
import type { StoredHold, Subject } from './memory-record.ts'
import type { MemoryStore } from './memory-store.ts'

const holds = defineTable<StoredHold>()({
  name: 'concord.memory_holds',
  noun: 'memory_hold',
  id: 'memory_hold_id',
  tenant: 'workspace_id',
  log: memoryLog,
  links: ['workspace_id'],
})

const lockSubjectSql = statement<never>('memory_lock_subject', `select pg_advisory_xact_lock($1::bigint)`)

const shareSubjectSql = statement<never>('memory_share_subject', `select pg_advisory_xact_lock_shared($1::bigint)`)

function lockKeyOf(workspaceId: string, { subject_type, subject_id }: Subject): string {
  const digest = hash('sha256', JSON.stringify(['memory', workspaceId, subject_type, subject_id]), 'buffer')
  return digest.readBigInt64BE(0).toString()
}

/** Until the transaction ends, no other writes about this subject, places a hold on it or erases it. */
export async function excludeWriters(tx: Tx, workspaceId: string, subject: Subject): Promise<void> {
  await tx.run(lockSubjectSql, [lockKeyOf(workspaceId, subject)])
}

/**
 * For a writer: until the transaction ends, no other erases the subject of the memory, or the subjects of the memories that it is
 * derived from. Writers do not block each other.
 */
export async function shareSubjects(
  tx: Tx,
  store: Pick<MemoryStore, 'get'>,
  workspaceId: string,
  memory: Subject & { readonly derived_from: readonly string[] },
): Promise<void> {
  const sources = await Promise.all(memory.derived_from.map((memoryId) => store.get({ workspaceId, memoryId })))
  const subjects: readonly Subject[] = [memory, ...sources.flatMap((source) => source ?? [])]
  const keys = new Set(subjects.map((subject) => lockKeyOf(workspaceId, subject)))
  // Every writer locks in the same order, so that two never wait for each other.
  for (const key of [...keys].toSorted()) await tx.run(shareSubjectSql, [key])
}

const insertHold = statement<StoredHold>(
  'memory_insert_hold',
  `insert into concord.memory_holds (memory_hold_id, workspace_id, subject_type, subject_id, reason, placed_by, placed_at)
values ($1, $2, $3, $4, $5, $6, $7) returning *`,
)

export type PlaceHold = { readonly workspaceId: string; readonly subject: Subject; readonly reason: string }

export function placeHold(
  { db, now, newId }: Pick<MemoryDeps, 'db' | 'now' | 'newId'>,
  actor: Actor,
  { workspaceId, subject, reason }: PlaceHold,
): Promise<Decision<StoredHold>> {
  return db.transaction(async (tx) => {
    await excludeWriters(tx, workspaceId, subject)
    const at = now()
    const { subject_type, subject_id } = subject
    const [row] = await tx.run(insertHold, [
      newId(),
      workspaceId,
      subject_type,
      subject_id,
      redactText(reason),
      actor.id,
      at,
    ])
    if (!row) return refuseAbsent()
    await holds.append(tx, row, actor, { type: 'memory_hold_placed', at, newId })
    return accept(row)
  })
}

const refuseAbsent = () => refuse('memory.hold.not_found', 'There is no such hold, or it is already released.')

const releaseHoldSql = statement<StoredHold>(
  'memory_release_hold',
  `update concord.memory_holds set released_at = $3, released_by = $4
where memory_hold_id = $1 and workspace_id = $2 and released_at is null returning *`,
)

export function releaseHold(
  { db, now, newId }: Pick<MemoryDeps, 'db' | 'now' | 'newId'>,
  actor: Actor,
  { workspaceId, holdId }: { readonly workspaceId: string; readonly holdId: string },
): Promise<Decision<StoredHold>> {
  return db.transaction(async (tx) => {
    const at = now()
    const [row] = await tx.run(releaseHoldSql, [holdId, workspaceId, at, actor.id])
    if (!row) return refuseAbsent()
    await holds.append(tx, row, actor, { type: 'memory_hold_released', at, newId })
    return accept(row)
  })
}

const listHoldsSql = statement<StoredHold>(
  'memory_list_holds',
  `select * from concord.memory_holds where workspace_id = $1 and subject_type = $2 and subject_id = $3
order by released_at is not null, placed_at desc, memory_hold_id limit 500`,
)

/** Active holds come first, so that no number of released ones hides them; then the newest. */
export function listHolds(sql: Sql, workspaceId: string, subject: Subject): Promise<readonly StoredHold[]> {
  return sql.run(listHoldsSql, [workspaceId, subject.subject_type, subject.subject_id])
}

const listActiveSql = statement<StoredHold>(
  'memory_list_standing_holds',
  `select h.* from concord.memory_holds as h join unnest($2::text[], $3::text[]) as s (subject_type, subject_id)
  on s.subject_type = h.subject_type and s.subject_id = h.subject_id
where h.workspace_id = $1 and h.released_at is null order by h.placed_at desc, h.memory_hold_id limit 500`,
)

export function listActiveHolds(
  sql: Sql,
  workspaceId: string,
  subjects: readonly Subject[],
): Promise<readonly StoredHold[]> {
  const [types, ids] = [subjects.map(({ subject_type }) => subject_type), subjects.map(({ subject_id }) => subject_id)]
  return sql.run(listActiveSql, [workspaceId, types, ids])
}

const listHeldSql = statement<{ command_id: string }>(
  'memory_list_held_commands',
  `select distinct m.command_id from concord.memory_holds as h
join lateral (
  select r.command_id from concord.memory_records as r
  where r.workspace_id = h.workspace_id and r.subject_type = h.subject_type and r.subject_id = h.subject_id
  union all
  select c.command_id from concord.memory_candidates as c
  where c.workspace_id = h.workspace_id and c.subject_type = h.subject_type and c.subject_id = h.subject_id
  union all
  select e.command_id from concord.memory_erasures as e
  where e.workspace_id = h.workspace_id and e.subject_type = h.subject_type and e.subject_id = h.subject_id
) as m on m.command_id = any($2::uuid[])
where h.workspace_id = $1 and h.released_at is null`,
)

/** Returns those of the given commands that proposed, wrote or erased a memory of a subject on hold: their history is not archived. */
export async function listCommandsOfHeldSubjects(
  sql: Sql,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<readonly string[]> {
  const rows = await sql.run(listHeldSql, [workspaceId, commandIds])
  return rows.map(({ command_id }) => command_id)
}
