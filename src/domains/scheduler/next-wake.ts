/** When time alone gives the scheduler something to do: the loop may sleep until then, unless something happens before. */
import type { Decision } from '#kernel/refusal'
import type { Scheduler } from './scheduler.ts'
import { statement } from './statement.ts'

type WakeRow = {
  readonly schedule: number | null
  readonly delayed: number | null
  readonly reservation: number | null
  readonly notification: number | null
}

const selectWake = statement<WakeRow>(
  'select_wake',
  `select (select min(next_trigger_at) from schedules where enabled = 1) as schedule,
          (select min(not_before) from jobs indexed by jobs_delayed_ix where status = 'QUEUED' and hold = 'delay') as delayed,
          (select max(expires_at) from direct_reservations where status = 'ACTIVE') as reservation,
          (select min(next_attempt_at) from notifications where status = 'PENDING') as notification`,
)

export type Wake = { readonly at: Date | null; readonly reasons: readonly (keyof WakeRow)[] }

/** The earliest of a schedule, a delayed job, the end of a reservation and a notification; null: nothing waits for time. */
export function nextWake(scheduler: Scheduler): Decision<Wake> {
  return scheduler.db.read((reader) => {
    const row: Partial<WakeRow> = reader.one(selectWake) ?? {}
    const times = Object.entries(row).filter((entry): entry is [keyof WakeRow, number] => entry[1] !== null)
    if (times.length === 0) return { at: null, reasons: [] }
    const earliest = Math.min(...times.map(([, at]) => at))
    return { at: new Date(earliest), reasons: times.filter(([, at]) => at === earliest).map(([reason]) => reason) }
  })
}
