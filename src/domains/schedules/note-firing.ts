/** What became of a due time: the command that it is, or why there is none. */
import type { CommandDeps } from '#domains/commands'
import { scheduleKey } from '#kernel/key-template'
import type { Refusal } from '#kernel/refusal'
import type { Sql } from '#store'
import { appendRefusedFiring } from './events.ts'
import { findFired, type FiredRow } from './sql/find-fired.ts'
import { noteFiring } from './sql/note-firing.ts'
import type { StoredSchedule } from './stored-schedule.ts'

export async function findFiredCommand(
  sql: Sql,
  { name, workspace_id }: StoredSchedule,
  dueAt: Date,
): Promise<FiredRow | undefined> {
  const [row] = await sql.run(findFired, [workspace_id, scheduleKey(name, dueAt)])
  return row
}

export async function noteFiredCommand(
  sql: Sql,
  { schedule_id }: StoredSchedule,
  dueAt: Date,
  commandId: string,
): Promise<void> {
  await sql.run(noteFiring, [schedule_id, dueAt, commandId, null])
}

export async function noteRefusedFiring(
  { db, now }: Pick<CommandDeps, 'db' | 'now'>,
  schedule: StoredSchedule,
  dueAt: Date,
  refusal: Refusal,
  traceId: string,
): Promise<void> {
  const payload = { due_at: dueAt.toISOString(), code: refusal.code, reason: refusal.reason }
  const fact = {
    type: 'schedule_firing_refused',
    schedule,
    actor: 'system',
    actorKind: 'system',
    traceId,
    at: now(),
    payload,
  } as const
  await db.transaction(async (tx) => {
    await appendRefusedFiring(tx, dueAt, fact)
    await tx.run(noteFiring, [schedule.schedule_id, dueAt, null, refusal.code])
  })
}
