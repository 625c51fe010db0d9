/** An operator's word that a schedule, or one firing of it, gets turns again, as an event in the operator's transaction. */
import type { By } from '#domains/identity'
import type { Clock, NewId } from '#kernel/clock'
import { decodeId } from '#kernel/ids'
import { redactText } from '#kernel/secret-shapes'
import type { Process } from '#runtime'
import type { Tx } from '#store'
import { appendScheduleEvent } from './events.ts'
import { findScheduleOfFiring } from './schedule-repository.ts'
import { parseFiring } from './stored-schedule.ts'

const REASON_CHARS_MAX = 500

/** False: there is no such schedule, so there is nobody whose record it would be. */
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
