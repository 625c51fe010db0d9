/** Groups, job types and the self-check as callers see them. */
import { z } from 'zod'
import { idView, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import type { SelfCheck } from './check-invariants.ts'
import { objectView, readObject, showTime, showTimeOrNull } from './column-view.ts'
import { groupStatuses } from './group-status.ts'
import { jobView, toJobView } from './job-views.ts'
import { groupFailureRules, groupModes, type StoredGroup, type StoredJobType } from './stored-rows.ts'
import type { GroupReport, SubmittedGroup } from './submit-group.ts'

const groupFields = {
  group_id: idView('job_group'),
  name: z.string().nullable(),
  mode: z.enum(groupModes),
  on_failure: z.enum(groupFailureRules),
  created_at: timeView(),
  halted_at: timeView().nullable(),
}

export const groupView = z
  .object({
    ...groupFields,
    status: z.enum(groupStatuses),
    counts: z.object({
      queued: z.int(),
      in_flight: z.int(),
      completed: z.int(),
      skipped: z.int(),
      failed: z.int(),
      retried: z.int(),
      cancelled: z.int(),
    }),
  })
  .meta({ id: 'SchedulerGroup', description: 'Jobs that belong together; the status follows from its members.' })
export const submittedGroupView = z
  .object({ ...groupFields, jobs: z.array(jobView) })
  .meta({ id: 'SchedulerSubmittedGroup' })

function showGroup(group: StoredGroup) {
  const { name, mode, on_failure } = group
  return {
    group_id: encodeId('job_group', group.group_id),
    name,
    mode,
    on_failure,
    created_at: showTime(group.created_at),
    halted_at: showTimeOrNull(group.halted_at),
  }
}

export function toGroupView({ group, status, counts }: GroupReport): z.infer<typeof groupView> {
  return { ...showGroup(group), status, counts: { ...counts } }
}

export function toSubmittedGroupView({ group, jobs }: SubmittedGroup): z.infer<typeof submittedGroupView> {
  return { ...showGroup(group), jobs: jobs.map(toJobView) }
}

export const jobTypeView = z
  .object({
    job_type: z.string(),
    retry_policy: objectView,
    concurrency_limit: z.int().nullable(),
    has_command: z.boolean().meta({ description: 'Whether it brings a command, or each job names its own.' }),
  })
  .meta({ id: 'SchedulerJobType', description: 'A registered kind of work.' })
/** Without the runner's settings: they name folders and variables of the machine. */
export function toJobTypeView(row: StoredJobType): z.infer<typeof jobTypeView> {
  const { job_type, concurrency_limit } = row
  return {
    job_type,
    retry_policy: readObject(row.retry_policy),
    concurrency_limit,
    has_command: row.runner !== null,
  }
}

export const selfCheckView = z
  .object({
    checked: z.array(z.string()).meta({ example: ['S01', 'S02'] }),
    not_checked: z.array(z.string()).meta({ description: 'Those that need the log which the jobs write themselves.' }),
    violations: z.array(
      z.object({ invariant: z.string(), says: z.string(), about: z.array(z.string()), count: z.int() }),
    ),
  })
  .meta({ id: 'SchedulerSelfCheck', description: 'Every rule that must hold, and what breaks it.' })
export function toSelfCheckView({ checked, notChecked, violations }: SelfCheck): z.infer<typeof selfCheckView> {
  return {
    checked: [...checked],
    not_checked: [...notChecked],
    violations: violations.map((each) => ({ ...each, about: [...each.about] })),
  }
}
