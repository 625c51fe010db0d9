/** The only reader and writer of `job_groups`, and the questions about a group's members. */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Reader, Tx } from './database.ts'
import { JOB_COLUMNS } from './sql/job-columns.ts'
import { statement } from './statement.ts'
import type { StoredGroup, StoredJob } from './stored-rows.ts'

const COLUMNS = `group_id, name, mode, on_failure, created_at, halted_at`

type GroupRow = {
  readonly group_id: string
  readonly name: string | null
  readonly mode: string
  readonly on_failure: string
  readonly now: number
}
type OfGroup = { readonly group_id: string }

const insertRow = statement<StoredGroup, GroupRow>(
  'insert_group',
  `insert into job_groups (group_id, name, mode, on_failure, created_at)
   values ($group_id, $name, $mode, $on_failure, $now) returning ${COLUMNS}`,
)
const selectRow = statement<StoredGroup, OfGroup>(
  'select_group',
  `select ${COLUMNS} from job_groups where group_id = $group_id`,
)
const selectNewest = statement<StoredGroup, { before: string; limit: number }>(
  'select_groups',
  `select ${COLUMNS} from job_groups where group_id < $before order by group_id desc limit $limit`,
)
const haltRow = statement<never, OfGroup & { now: number }>(
  'halt_group',
  `update job_groups set halted_at = $now where group_id = $group_id and halted_at is null`,
)
const selectLastOrder = statement<{ last: number | null }, OfGroup>(
  'select_last_order',
  `select max(group_order) as last from jobs where group_id = $group_id`,
)
/** Members that are in flight, in the queue or waiting for their time: while there is one, no next member may come. */
const selectCurrent = statement<{ found: number }, OfGroup>(
  'select_current_member',
  `select exists (select 1 from jobs where group_id = $group_id
                     and finished_at is null and cancelled_at is null and hold is not 'group') as found`,
)
/** The next member takes its place in the queue, or waits for its own time first. */
const releaseNext = statement<never, OfGroup & { now: number }>(
  'release_next_member',
  `update jobs set hold = case when not_before > $now then 'delay' end
    where status = 'QUEUED' and job_id = (select job_id from jobs where group_id = $group_id and status = 'QUEUED' and hold = 'group'
                                           order by group_order, created_at, job_id limit 1)`,
)
const selectQueued = statement<StoredJob, OfGroup>(
  'select_queued_members',
  `select ${JOB_COLUMNS} from jobs where group_id = $group_id and status = 'QUEUED' order by group_order, created_at, job_id`,
)
export type GroupCounts = {
  readonly queued: number
  readonly in_flight: number
  readonly completed: number
  readonly skipped: number
  /** Failed for good; a failure that was repeated is not one. */
  readonly failed: number
  readonly retried: number
  readonly cancelled: number
}
const countMembers = statement<GroupCounts, OfGroup>(
  'count_members',
  `select count(*) filter (where j.status = 'QUEUED') as queued,
          count(*) filter (where j.status = 'RUNNING' and j.finished_at is null) as in_flight,
          count(*) filter (where r.status = 'COMPLETED') as completed,
          count(*) filter (where r.status = 'SKIPPED') as skipped,
          count(*) filter (where r.status = 'FAILED' and r.retry_decided is not 'retry') as failed,
          count(*) filter (where r.status = 'FAILED' and r.retry_decided is 'retry') as retried,
          count(*) filter (where j.status = 'CANCELLED') as cancelled
     from jobs j left join job_runs r on r.job_id = j.job_id where j.group_id = $group_id`,
)

export function insertGroup(tx: Tx, row: GroupRow): StoredGroup {
  const saved = tx.one(insertRow, row)
  if (!saved) throw new KernelFault('scheduler.broken', 'an insert that nothing can refuse gave no row')
  return saved
}

/** Newest first; ids are made in the order of time. */
export function listStoredGroups(reader: Reader, limit: number, before = '~'): StoredGroup[] {
  return reader.all(selectNewest, { before, limit })
}

export function requireGroup(reader: Reader, groupId: string): Decision<StoredGroup> {
  const group = reader.one(selectRow, { group_id: groupId })
  return group
    ? accept(group)
    : refuse('scheduler.group.not_found', `there is no group ${quote(groupId)}`, { path: 'group_id' })
}

export function saveHalted(tx: Tx, groupId: string, now: number): boolean {
  return tx.run(haltRow, { group_id: groupId, now }) === 1
}

export function nextGroupOrder(reader: Reader, groupId: string): number {
  return (reader.one(selectLastOrder, { group_id: groupId })?.last ?? 0) + 1
}

export function hasCurrentMember(reader: Reader, groupId: string): boolean {
  return reader.one(selectCurrent, { group_id: groupId })?.found === 1
}

export function saveNextMember(tx: Tx, groupId: string, now: number): void {
  tx.run(releaseNext, { group_id: groupId, now })
}

export function listQueuedMembers(reader: Reader, groupId: string): StoredJob[] {
  return reader.all(selectQueued, { group_id: groupId })
}

export function countGroup(reader: Reader, groupId: string): GroupCounts {
  const none = { queued: 0, in_flight: 0, completed: 0, skipped: 0, failed: 0, retried: 0, cancelled: 0 }
  return reader.one(countMembers, { group_id: groupId }) ?? none
}
