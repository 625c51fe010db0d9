/** The row types of the scheduler file, and how views show their values. Times are milliseconds since 1970; JSON is text. */
import { z } from 'zod'
import { orNull } from '#contract'
import type { FailureClass } from '#kernel/error-classes'
import { encodeId, type IdKind } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { schedulerJobMachine } from '#kernel/machines/scheduler'
import type { MisfirePolicy } from '#kernel/schedule'

type JobStatus = keyof typeof schedulerJobMachine.states
/** Why a QUEUED job is held: too early, not its turn in its group, or reserved for a direct execution. */
type JobHold = 'delay' | 'group' | 'direct'

export type StoredJob = {
  readonly job_id: string
  readonly template_id: string | null
  readonly schedule_id: string | null
  readonly group_id: string | null
  readonly job_type: string
  readonly params: string
  readonly status: JobStatus
  readonly priority: number
  readonly position: number
  readonly retry_of: string | null
  readonly created_at: number
  readonly queued_at: number
  readonly started_at: number | null
  readonly finished_at: number | null
  readonly worker_id: string | null
  readonly group_order: number | null
  readonly reservation_id: string | null
  readonly hold: JobHold | null
  readonly not_before: number | null
  readonly cancelled_at: number | null
  /** Who asked for it over HTTP, such as `user_0197…`; null for a local program. */
  readonly requested_by: string | null
}

export const runOutcomes = ['COMPLETED', 'FAILED', 'SKIPPED'] as const
export type RunOutcome = (typeof runOutcomes)[number]

/** The retry verdicts for a failed run; only `retry` creates another job. */
export const retryVerdicts = [
  'retry',
  'exhausted',
  'not_retryable',
  'not_listed',
  'stopped',
  'direct',
  'group_halted',
  'orphan_alive',
  'chain_broken',
] as const
export type RetryVerdict = (typeof retryVerdicts)[number]

export type StoredRun = {
  readonly run_id: string
  readonly job_id: string
  readonly template_id: string | null
  readonly params_snapshot: string
  /** NULL while the run is open. */
  readonly status: RunOutcome | null
  readonly started_at: number
  readonly finished_at: number | null
  readonly exit_code: number | null
  readonly error: string | null
  readonly artifacts: string
  readonly log_path: string | null
  readonly error_class: FailureClass | null
  readonly retry_decided: RetryVerdict | null
  readonly process_pid: number | null
  readonly process_started_at: string | null
  readonly process_boot_id: string | null
}

export type StoredReservation = {
  readonly reservation_id: string
  readonly reserved_at: number
  readonly reserved_by: string
  readonly status: 'ACTIVE' | 'RELEASED' | 'EXPIRED'
  readonly expires_at: number
  readonly renewed_at: number | null
  readonly ended_at: number | null
}

export type StoredJobType = {
  readonly job_type: string
  readonly retry_policy: string
  readonly concurrency_limit: number | null
  readonly runner: string | null
  readonly created_at: number
  readonly updated_at: number
}

export type StoredTemplate = {
  readonly template_id: string
  readonly name: string
  readonly job_type: string
  readonly params: string
  readonly params_schema: string | null
  readonly priority: number
  readonly created_at: number
  readonly updated_at: number
  readonly archived_at: number | null
}

export const groupModes = ['parallel', 'sequential'] as const
export const groupFailureRules = ['stop', 'continue', 'skip'] as const

export type StoredGroup = {
  readonly group_id: string
  readonly name: string | null
  readonly mode: (typeof groupModes)[number]
  readonly on_failure: (typeof groupFailureRules)[number]
  readonly created_at: number
  readonly halted_at: number | null
}

export const scheduleOverlapPolicies = ['skip', 'queue'] as const

export type StoredSchedule = {
  readonly schedule_id: string
  readonly template_id: string
  readonly name: string
  readonly cron_expression: string
  readonly timezone: string
  readonly enabled: 0 | 1
  readonly param_overrides: string | null
  readonly last_triggered_at: number | null
  readonly next_trigger_at: number | null
  readonly created_at: number
  readonly priority: number | null
  readonly misfire_policy: MisfirePolicy
  readonly overlap_policy: (typeof scheduleOverlapPolicies)[number]
  readonly last_due_at: number | null
  readonly updated_at: number
  readonly deleted_at: number | null
  readonly requested_by: string | null
}

export type StoredFiring = {
  readonly schedule_id: string
  readonly due_at: number
  readonly outcome: 'fired' | 'overlapped' | 'missed'
  readonly job_id: string | null
  readonly missed_since: number | null
  readonly decided_at: number
}

export const notificationKinds = [
  'run_completed',
  'run_skipped',
  'run_failed',
  'job_failed',
  'job_cancelled',
  'reservation_expired',
  'schedule_missed',
  'schedule_ended',
  'clock_moved_back',
] as const
export type NotificationKind = (typeof notificationKinds)[number]

export type StoredJobNotification = {
  readonly seq: number
  readonly notification_id: string
  readonly kind: NotificationKind
  readonly job_id: string | null
  readonly payload: string
  readonly status: 'PENDING' | 'DELIVERED' | 'DEAD'
  readonly attempts: number
  readonly next_attempt_at: number
  readonly last_error: string | null
  readonly created_at: number
  readonly ended_at: number | null
}

export const objectView = z.record(z.string(), z.unknown())

type ViewField<Row, Schema extends z.ZodType> = readonly [schema: Schema, read: (row: Row) => z.output<Schema>]

/** Declares what callers see of a row: each field once, with its schema and its value. */
export function defineView<Row>() {
  return <Shape extends Record<string, z.ZodType>>(
    fields: {
      readonly [Name in keyof Shape]: ViewField<Row, Shape[Name]>
    },
  ) => {
    const entries: [string, ViewField<Row, z.ZodType>][] = Object.entries(fields)
    // `fields` has exactly the keys of `Shape`, with these schemas and values.
    const schema = z.object(Object.fromEntries(entries.map(([name, [type]]) => [name, type])) as Shape)
    const show = (row: Row) =>
      Object.fromEntries(entries.map(([name, [, read]]) => [name, read(row)])) as z.output<typeof schema>
    return { schema, show }
  }
}

export function showTime(ms: number): string {
  return formatInstant(new Date(ms))
}

export function showIdOrNull(kind: IdKind, id: string | null): string | null {
  return orNull(id, (uuid) => encodeId(kind, uuid))
}

/** Parses JSON of the scheduler's own columns, which was validated before it was stored. */
export function readObject(text: string): Record<string, unknown> {
  return JSON.parse(text) as Record<string, unknown>
}
