/** Holds: what must be kept about a subject, whoever asks to forget it. A hold and an erasure of one subject take turns (M9). */
import { hash } from 'node:crypto'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Sql, statement, type Tx } from '#store'
import { type Act, tellMemory } from './events.ts'
import type { StoredHold, Subject } from './memory-row.ts'
import type { MemoryWorld } from './world.ts'

const lockSubjectSql = statement<never>('memory_lock_subject', `select pg_advisory_xact_lock($1::bigint)`)

/** Until the transaction ends, nobody else places a hold on this subject or erases it. */
export async function lockSubject(tx: Tx, workspaceId: string, { subject_type, subject_id }: Subject): Promise<void> {
  const digest = hash('sha256', JSON.stringify(['memory', workspaceId, subject_type, subject_id]), 'buffer')
  await tx.run(lockSubjectSql, [digest.readBigInt64BE(0).toString()])
}

const insertHold = statement<StoredHold>(
  'memory_insert_hold',
  `insert into concord.memory_holds (memory_hold_id, workspace_id, subject_type, subject_id, reason, placed_by, placed_at)
values ($1, $2, $3, $4, $5, $6, $7) returning *`,
)

export function placeHold(
  world: Pick<MemoryWorld, 'db' | 'newId'>,
  act: Act,
  {
    workspaceId,
    subject,
    reason,
  }: { readonly workspaceId: string; readonly subject: Subject; readonly reason: string },
): Promise<Decision<StoredHold>> {
  return world.db.transaction(async (tx) => {
    await lockSubject(tx, workspaceId, subject)
    const id = world.newId()
    const values = [id, workspaceId, subject.subject_type, subject.subject_id, reason, act.actor, act.at]
    const [row] = await tx.run(insertHold, values)
    await tellMemory(tx, world.newId, act, [
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
  world: Pick<MemoryWorld, 'db' | 'newId'>,
  act: Act,
  { workspaceId, holdId }: { readonly workspaceId: string; readonly holdId: string },
): Promise<Decision<StoredHold>> {
  return world.db.transaction(async (tx) => {
    const [row] = await tx.run(releaseHoldSql, [holdId, workspaceId, act.at, act.actor])
    if (!row) return refuseAbsent()
    await tellMemory(tx, world.newId, act, [
      { type: 'memory_hold_released', workspaceId, target: 'memory_hold', targetId: holdId },
    ])
    return accept(row)
  })
}

const listHoldsSql = statement<StoredHold>(
  'memory_list_holds',
  `select * from concord.memory_holds where workspace_id = $1 and subject_type = $2 and subject_id = $3
order by placed_at desc, memory_hold_id limit 500`,
)

/** Standing and released ones, newest first. */
export function listHolds(sql: Sql, workspaceId: string, subject: Subject): Promise<readonly StoredHold[]> {
  return sql.run(listHoldsSql, [workspaceId, subject.subject_type, subject.subject_id])
}
