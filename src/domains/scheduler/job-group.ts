/** Job groups: reads and writes `job_groups`, computes the status, settles a group when a member ends, and builds the views. */
import { z } from 'zod'
import { idView, orNull, timeView } from '#contract'
import { KernelFault } from '#kernel/errors'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { type SqlReader, query, type WriteTx } from './database.ts'
import { JOB_COLUMNS, pageOfJobs, saveJobCancelled, saveStarted } from './job-repository.ts'
import { jobView, toJobView } from './job-views.ts'
import { notify } from './notifications.ts'
import { checkLimit } from './parse-input.ts'
import { closeRun, finishJob, insertRun } from './run-repository.ts'
import type { Scheduler } from './scheduler.ts'
import { defineView, groupFailureRules, groupModes, showTime, type StoredGroup, type StoredJob } from './stored-rows.ts'

const COLUMNS = `group_id, name, mode, on_failure, created_at, halted_at`

type GroupRow = Pick<StoredGroup, 'group_id' | 'name' | 'mode' | 'on_failure'> & { readonly now: number }
type OfGroup = { readonly group_id: string }

const insertRow = query<StoredGroup, GroupRow>(`
   insert into job_groups (group_id, name, mode, on_failure, created_at)
   values ($group_id, $name, $mode, $on_failure, $now) returning ${COLUMNS}`)
const selectRow = query<StoredGroup, OfGroup>(`select ${COLUMNS} from job_groups where group_id = $group_id`)
const selectNewest = query<StoredGroup, { before: string; limit: number }>(
  `select ${COLUMNS} from job_groups where group_id < $before order by group_id desc limit $limit`,
)
const haltRow = query<never, OfGroup & { now: number }>(
  `update job_groups set halted_at = $now where group_id = $group_id and halted_at is null`,
)
const selectLastOrder = query<{ last: number | null }, OfGroup>(
  `select max(group_order) as last from jobs where group_id = $group_id`,
)
/** Members in flight, in the queue or delayed: while there is one, the next member stays held. */
const selectCurrent = query<{ found: number }, OfGroup>(`
   select exists (select 1 from jobs where group_id = $group_id
                     and finished_at is null and cancelled_at is null and hold is not 'group') as found`)
/** Releases the next member into the queue, or holds it until its start time. */
const releaseNext = query<never, OfGroup & { now: number }>(`
   update jobs set hold = case when not_before > $now then 'delay' end
    where status = 'QUEUED' and job_id = (select job_id from jobs where group_id = $group_id and status = 'QUEUED' and hold = 'group'
                                           order by group_order, created_at, job_id limit 1)`)
const selectQueued = query<StoredJob, OfGroup>(
  `select ${JOB_COLUMNS} from jobs where group_id = $group_id and status = 'QUEUED' order by group_order, created_at, job_id`,
)
const selectMembers = query<StoredJob, OfGroup>(
  pageOfJobs(
    `select ${JOB_COLUMNS} from jobs where group_id = $group_id and retry_of is null order by group_order, created_at, job_id`,
  ),
)
const countsView = z.object({
  queued: z.int(),
  in_flight: z.int(),
  completed: z.int(),
  skipped: z.int(),
  /** Failed permanently; a failure with a retry does not count. */
  failed: z.int(),
  retried: z.int(),
  cancelled: z.int(),
})
type GroupCounts = Readonly<z.infer<typeof countsView>>
const countMembers = query<GroupCounts, OfGroup>(`
   select count(*) filter (where j.status = 'QUEUED') as queued,
          count(*) filter (where j.status = 'RUNNING' and j.finished_at is null) as in_flight,
          count(*) filter (where r.status = 'COMPLETED') as completed,
          count(*) filter (where r.status = 'SKIPPED') as skipped,
          count(*) filter (where r.status = 'FAILED' and r.retry_decided is not 'retry') as failed,
          count(*) filter (where r.status = 'FAILED' and r.retry_decided is 'retry') as retried,
          count(*) filter (where j.status = 'CANCELLED') as cancelled
     from jobs j left join job_runs r on r.job_id = j.job_id where j.group_id = $group_id`)

export function insertGroup(tx: WriteTx, row: GroupRow): StoredGroup {
  const saved = tx.one(insertRow, row)
  if (!saved) throw new KernelFault('scheduler.broken', 'An insert without conditions returned no row.')
  return saved
}

export function requireGroup(reader: SqlReader, groupId: string): Decision<StoredGroup> {
  const group = reader.one(selectRow, { group_id: groupId })
  return group
    ? accept(group)
    : refuse('scheduler.group.not_found', `There is no group ${quote(groupId)}.`, { path: 'group_id' })
}

export function nextGroupOrder(reader: SqlReader, groupId: string): number {
  return (reader.one(selectLastOrder, { group_id: groupId })?.last ?? 0) + 1
}

function hasCurrentMember(reader: SqlReader, groupId: string): boolean {
  return reader.one(selectCurrent, { group_id: groupId })?.found === 1
}

/** The status is computed from the members on every read. It is not stored, so it cannot contradict them. */
const groupStatuses = ['queued', 'running', 'completed', 'failed', 'cancelled'] as const
type GroupStatus = (typeof groupStatuses)[number]

export function groupStatusOf(counts: GroupCounts): GroupStatus {
  const { queued, in_flight, completed, skipped, failed, retried, cancelled } = counts
  const hasStarted = in_flight + completed + skipped + failed + retried > 0
  if (in_flight > 0 || (queued > 0 && hasStarted)) return 'running'
  if (queued > 0) return 'queued'
  if (failed > 0) return 'failed'
  return cancelled > 0 ? 'cancelled' : 'completed'
}

/** `isFailure` means failed without a retry. A cancelled or completed member releases the next one. */
export function settleGroup(scheduler: Scheduler, tx: WriteTx, job: StoredJob, isFailure: boolean, now: number): void {
  if (job.group_id === null) return
  const found = requireGroup(tx, job.group_id)
  if (!found.ok) return
  const group = found.value
  if (isFailure && group.on_failure !== 'continue') haltGroup(scheduler, tx, group, now)
  else if (group.mode === 'sequential' && !hasCurrentMember(tx, group.group_id))
    tx.run(releaseNext, { group_id: group.group_id, now })
}

/** `stop` cancels the queued members; `skip` closes each with a SKIPPED run. Members in flight continue in both cases. */
function haltGroup(scheduler: Scheduler, tx: WriteTx, group: StoredGroup, now: number): void {
  const { group_id } = group
  if (tx.run(haltRow, { group_id, now }) === 0) return
  for (const member of tx.all(selectQueued, { group_id })) {
    if (group.on_failure === 'skip') skipMember(scheduler, tx, member, now)
    else if (saveJobCancelled(tx, member.job_id, now)) notifyCancelled(tx, member, 'group_halted', now)
  }
}

const SKIP_REASON = 'Another job of the group failed.'

function skipMember(scheduler: Scheduler, tx: WriteTx, member: StoredJob, now: number): void {
  const started = saveStarted(tx, member.job_id, now)
  if (!started) return
  const run_id = scheduler.deps.newId()
  tx.run(insertRun, { run_id, job_id: started.job_id, template_id: started.template_id, params: started.params, now })
  tx.one(closeRun, {
    run_id,
    status: 'SKIPPED',
    now,
    exit_code: null,
    error: SKIP_REASON,
    error_class: null,
    retry_decided: null,
    artifacts: '[]',
  })
  tx.run(finishJob, { job_id: started.job_id, now })
  notify(
    tx,
    {
      kind: 'run_skipped',
      about: run_id,
      jobId: started.job_id,
      payload: { job_id: started.job_id, run_id, error: SKIP_REASON },
    },
    now,
  )
}

export function notifyCancelled(
  tx: WriteTx,
  job: StoredJob,
  why: 'operator' | 'group_halted' | 'reservation_ended',
  now: number,
): void {
  notify(tx, { kind: 'job_cancelled', about: job.job_id, jobId: job.job_id, payload: { job_id: job.job_id, why } }, now)
}

export function requireOpenGroup(tx: WriteTx, groupId: string): Decision<StoredGroup> {
  const group = requireGroup(tx, groupId)
  if (!group.ok || group.value.halted_at === null) return group
  return refuse('scheduler.group.halted', 'The group was halted by a failure and takes no more jobs.', {
    path: 'group_id',
  })
}

/** Holds a new member of a sequential group while another member is current. */
export function placeInGroup(
  tx: WriteTx,
  group: StoredGroup,
  order: number,
): { readonly group_order: number; readonly isHeld: boolean } {
  return { group_order: order, isHeld: group.mode === 'sequential' && hasCurrentMember(tx, group.group_id) }
}

export type SubmittedGroup = { readonly group: StoredGroup; readonly jobs: readonly StoredJob[] }

/** The members of a group as they are now, without their retries. */
export function groupOf(reader: SqlReader, { group_id }: StoredJob): Decision<SubmittedGroup> {
  const group = requireGroup(reader, group_id ?? '')
  return group.ok
    ? accept({ group: group.value, jobs: reader.all(selectMembers, { group_id: group.value.group_id }) })
    : group
}

export function readGroupOf(scheduler: Scheduler, job: StoredJob): Decision<SubmittedGroup> {
  return scheduler.db.read((reader) => groupOf(reader, job))
}

export type GroupReport = { readonly group: StoredGroup; readonly status: GroupStatus; readonly counts: GroupCounts }

/** Newest first; `before` is the last id of the previous page. */
export function listGroups(
  scheduler: Scheduler,
  page: { readonly limit?: number; readonly before?: string } = {},
): Decision<readonly GroupReport[]> {
  const limit = checkLimit(page.limit)
  if (!limit.ok) return limit
  const { before = '~' } = page
  return scheduler.db.read((reader) =>
    accept(reader.all(selectNewest, { before, limit: limit.value }).map((group) => reportGroup(reader, group))),
  )
}

export function readGroup(scheduler: Scheduler, groupId: string): Decision<GroupReport> {
  return scheduler.db.read((reader) => {
    const group = requireGroup(reader, groupId)
    return group.ok ? accept(reportGroup(reader, group.value)) : group
  })
}

function reportGroup(reader: SqlReader, group: StoredGroup): GroupReport {
  const none = { queued: 0, in_flight: 0, completed: 0, skipped: 0, failed: 0, retried: 0, cancelled: 0 }
  const counts = reader.one(countMembers, { group_id: group.group_id }) ?? none
  return { group, status: groupStatusOf(counts), counts }
}

const groupFields = defineView<StoredGroup>()({
  group_id: [idView('job_group'), (row) => encodeId('job_group', row.group_id)],
  name: [z.string().nullable(), (row) => row.name],
  mode: [z.enum(groupModes), (row) => row.mode],
  on_failure: [z.enum(groupFailureRules), (row) => row.on_failure],
  created_at: [timeView(), (row) => showTime(row.created_at)],
  halted_at: [timeView().nullable(), (row) => orNull(row.halted_at, showTime)],
})

export const groupView = groupFields.schema
  .extend({ status: z.enum(groupStatuses), counts: countsView })
  .meta({ id: 'SchedulerGroup', description: 'Jobs that belong together. The status follows from the members.' })
export function toGroupView({ group, status, counts }: GroupReport): z.infer<typeof groupView> {
  return { ...groupFields.show(group), status, counts }
}

export const submittedGroupView = groupFields.schema
  .extend({ jobs: z.array(jobView) })
  .meta({ id: 'SchedulerSubmittedGroup' })
export function toSubmittedGroupView({ group, jobs }: SubmittedGroup): z.infer<typeof submittedGroupView> {
  return { ...groupFields.show(group), jobs: jobs.map(toJobView) }
}
