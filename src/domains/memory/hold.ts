/** Holds: what must be kept about a subject, whoever asks to forget it. Holds, writers and an erasure of one subject take turns (M9, M10). */
import { hash } from 'node:crypto'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import type { MemoryDeps } from './deps.ts'
import { type Act, tellMemory } from './events.ts'
import type { Lineage } from './forgettable.ts'
import type { StoredHold, Subject } from './memory-repository.ts'
import type { MemoryStore } from './memory-store.ts'

const lockSubjectSql = statement<never>('memory_lock_subject', `select pg_advisory_xact_lock($1::bigint)`)

const shareSubjectSql = statement<never>('memory_share_subject', `select pg_advisory_xact_lock_shared($1::bigint)`)

function lockKeyOf(workspaceId: string, { subject_type, subject_id }: Subject): string {
  const digest = hash('sha256', JSON.stringify(['memory', workspaceId, subject_type, subject_id]), 'buffer')
  return digest.readBigInt64BE(0).toString()
}

/** Until the transaction ends, nobody else writes about this subject, places a hold on it or erases it. */
export async function lockSubject(tx: Tx, workspaceId: string, subject: Subject): Promise<void> {
  await tx.run(lockSubjectSql, [lockKeyOf(workspaceId, subject)])
}

/** For writers, of which there may be many at once: until the transaction ends nobody erases these subjects, or it was done before. */
export async function shareSubjects(tx: Tx, workspaceId: string, subjects: readonly Subject[]): Promise<void> {
  const keys = new Set(subjects.map((subject) => lockKeyOf(workspaceId, subject)))
  // All in one order: two writers never wait for each other in a ring.
  for (const key of [...keys].toSorted()) await tx.run(shareSubjectSql, [key])
}

/** Whom the memories are about from which something is made. */
export async function subjectsOf(
  store: Pick<MemoryStore, 'get'>,
  workspaceId: string,
  { derived_from }: { readonly derived_from: readonly string[] },
): Promise<readonly Subject[]> {
  const sources = await Promise.all(derived_from.map((memoryId) => store.get({ workspaceId, memoryId })))
  return sources.flatMap((source) => source ?? [])
}

const insertHold = statement<StoredHold>(
  'memory_insert_hold',
  `insert into concord.memory_holds (memory_hold_id, workspace_id, subject_type, subject_id, reason, placed_by, placed_at)
values ($1, $2, $3, $4, $5, $6, $7) returning *`,
)

export function placeHold(
  deps: Pick<MemoryDeps, 'db' | 'newId'>,
  act: Act,
  {
    workspaceId,
    subject,
    reason,
  }: { readonly workspaceId: string; readonly subject: Subject; readonly reason: string },
): Promise<Decision<StoredHold>> {
  return deps.db.transaction(async (tx) => {
    await lockSubject(tx, workspaceId, subject)
    const id = deps.newId()
    const values = [id, workspaceId, subject.subject_type, subject.subject_id, reason, act.actor, act.at]
    const [row] = await tx.run(insertHold, values)
    await tellMemory(tx, deps.newId, act, [
      { type: 'memory_hold_placed', workspaceId, target: 'memory_hold', targetId: id },
    ])
    return row ? accept(row) : refuseAbsent()
  })
}

const refuseAbsent = () => refuse('memory.hold.not_found', 'There is no such hold, or it was released before.')

const releaseHoldSql = statement<StoredHold>(
  'memory_release_hold',
  `update concord.memory_holds set released_at = $3, released_by = $4
where memory_hold_id = $1 and workspace_id = $2 and released_at is null returning *`,
)

export function releaseHold(
  deps: Pick<MemoryDeps, 'db' | 'newId'>,
  act: Act,
  { workspaceId, holdId }: { readonly workspaceId: string; readonly holdId: string },
): Promise<Decision<StoredHold>> {
  return deps.db.transaction(async (tx) => {
    const [row] = await tx.run(releaseHoldSql, [holdId, workspaceId, act.at, act.actor])
    if (!row) return refuseAbsent()
    await tellMemory(tx, deps.newId, act, [
      { type: 'memory_hold_released', workspaceId, target: 'memory_hold', targetId: holdId },
    ])
    return accept(row)
  })
}

const listHoldsSql = statement<StoredHold>(
  'memory_list_holds',
  `select * from concord.memory_holds where workspace_id = $1 and subject_type = $2 and subject_id = $3
order by released_at is not null, placed_at desc, memory_hold_id limit 500`,
)

/** Standing ones first: no number of released ones hides them. Then newest first. */
export function listHolds(sql: Sql, workspaceId: string, subject: Subject): Promise<readonly StoredHold[]> {
  return sql.run(listHoldsSql, [workspaceId, subject.subject_type, subject.subject_id])
}

const listStandingSql = statement<StoredHold>(
  'memory_list_standing_holds',
  `select h.* from concord.memory_holds as h join unnest($2::text[], $3::text[]) as s (subject_type, subject_id)
  on s.subject_type = h.subject_type and s.subject_id = h.subject_id
where h.workspace_id = $1 and h.released_at is null order by h.placed_at desc, h.memory_hold_id limit 500`,
)

/** What stands on any of them. */
export function listStandingHolds(
  sql: Sql,
  { workspaceId, subjects }: Pick<Lineage, 'workspaceId' | 'subjects'>,
): Promise<readonly StoredHold[]> {
  const [types, ids] = [subjects.map(({ subject_type }) => subject_type), subjects.map(({ subject_id }) => subject_id)]
  return sql.run(listStandingSql, [workspaceId, types, ids])
}

/** Commands that proposed, wrote or erased a memory of somebody on whom a hold stands: their history stays where it is. */
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

/** Those of the given commands that a standing hold names through their memories. */
export async function listCommandsOfHeldSubjects(
  sql: Sql,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<readonly string[]> {
  const rows = await sql.run(listHeldSql, [workspaceId, commandIds])
  return rows.map(({ command_id }) => command_id)
}
