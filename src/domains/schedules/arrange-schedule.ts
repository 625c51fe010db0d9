/** Holds the runtime to what the row says: due times are kept for a schedule that is on, and for no other. Repeatable. */
import type { Decision } from '#kernel/refusal'
import { accept } from '#kernel/refusal'
import { runtimeNameOf, runtimeSpecOf, type StoredSchedule } from './stored-schedule.ts'
import type { ScheduleDeps } from './deps.ts'

export async function arrangeSchedule(
  { runtime }: Pick<ScheduleDeps, 'runtime'>,
  schedule: StoredSchedule,
): Promise<Decision<void>> {
  if (!schedule.enabled || schedule.removed_at !== null) {
    await runtime.unschedule(runtimeNameOf(schedule))
    return accept(undefined)
  }
  const spec = runtimeSpecOf(schedule)
  const known = await runtime.describeSchedule(spec.name)
  // Other times begin now: what the new ones would have had in the past was never missed.
  if (known && (known.spec.cron !== spec.cron || (known.spec.zone ?? 'UTC') !== spec.zone))
    await runtime.unschedule(spec.name)
  const arranged = await runtime.schedule(spec)
  return arranged.ok ? accept(undefined) : arranged
}
