/** What became of a due time: the command that it is, or why there is none; and that an operator gave it turns again. */
import type { By } from '#domains/identity'
import type { Clock, NewId } from '#kernel/clock'
import { decodeId } from '#kernel/ids'
import { scheduleKey } from '#kernel/key-template'
import type { Refusal } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import type { Process } from '#runtime'
import { type Sql, statement, type Tx } from '#store'
import { findScheduleOfFiring, type StoredCommandSchedule } from './command-schedule.ts'
import { parseFiring } from './decide-schedule.ts'
import type { CommandScheduleDeps } from './deps.ts'
import { appendRefusedFiring, appendScheduleEvent } from './events.ts'

export type FiredCommand = {
  readonly command_id: string
  readonly created_at: Date
  readonly completed_at: Date | null
}

/** The command that a due time became, if it did. $1 workspace, $2 key. */
const findFired = statement<FiredCommand>(
  'schedules.find_fired',
  `select c.command_id, c.created_at, c.completed_at
     from concord.commands c
    where c.workspace_id = $1::uuid and c.idempotency_key = $2 and c.ingress = 'scheduled_trigger'`,
)

/** The newest firing, for people to look at; an older one that comes late changes nothing. $1 schedule, $2 due at, $3 command or null, $4 refusal or null. */
const noteFiring = statement(
  'schedules.note_firing',
  `update schedules.command_schedules t
      set last_due_at = $2::timestamptz, last_command_id = $3::uuid, last_refusal = $4::text
    where t.schedule_id = $1::uuid and (t.last_due_at is null or t.last_due_at <= $2::timestamptz)`,
)

export async function findFiredCommand(
  sql: Sql,
  { name, workspace_id }: StoredCommandSchedule,
  dueAt: Date,
): Promise<FiredCommand | undefined> {
  const [row] = await sql.run(findFired, [workspace_id, scheduleKey(name, dueAt)])
  return row
}

export async function noteFiredCommand(
  sql: Sql,
  { schedule_id }: StoredCommandSchedule,
  dueAt: Date,
  commandId: string,
): Promise<void> {
  await sql.run(noteFiring, [schedule_id, dueAt, commandId, null])
}

export async function noteRefusedFiring(
  { commands: { db, now } }: CommandScheduleDeps,
  schedule: StoredCommandSchedule,
  dueAt: Date,
  { code, reason }: Refusal,
  traceId: string,
): Promise<void> {
  const payload = { due_at: dueAt.toISOString(), code, reason }
  const by = { actor: 'system', actorKind: 'system', traceId, at: now() }
  await db.transaction(async (tx) => {
    await appendRefusedFiring(tx, dueAt, { type: 'schedule_firing_refused', schedule, ...by, payload })
    await tx.run(noteFiring, [schedule.schedule_id, dueAt, null, code])
  })
}

const REASON_CHARS_MAX = 500

/** Records that an operator gave a schedule, or one firing of it, turns again; in the operator's transaction. False: there is no such schedule, so there is nobody whose record it would be. */
export async function recordResumedSchedule(
  tx: Tx,
  { newId, now }: { readonly newId: NewId; readonly now: Clock },
  by: By,
  { process, why, reason }: { readonly process: Process; readonly why: string; readonly reason: string },
): Promise<boolean> {
  const firing = parseFiring(process.id)
  const named = decodeId('command_schedule', process.id)
  const scheduleId = firing?.scheduleId ?? (named.ok ? named.value : undefined)
  const schedule = scheduleId === undefined ? undefined : await findScheduleOfFiring(tx, scheduleId)
  if (!schedule) return false
  const payload = {
    why,
    reason: redactText(reason).slice(0, REASON_CHARS_MAX),
    due_at: firing?.dueAt.toISOString() ?? null,
  }
  const said = { type: 'schedule_resumed', schedule, ...by, actorKind: 'operator', at: now(), payload } as const
  await appendScheduleEvent(tx, newId(), said)
  return true
}
