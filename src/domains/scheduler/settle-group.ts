/** What the end of one member means for the rest of its group, in the transaction that wrote the end. */
import { type Decision, refuse } from '#kernel/refusal'
import type { Tx } from './database.ts'
import { hasCurrentMember, listQueuedMembers, requireGroup, saveHalted, saveNextMember } from './group-repository.ts'
import { saveCancelled, saveStarted } from './job-repository.ts'
import { tell } from './notifications.ts'
import type { Scheduler } from './scheduler.ts'
import { closeRun, finishJob, insertRun } from './sql/write-run.ts'
import type { StoredGroup, StoredJob } from './stored-rows.ts'

/** `isFailure`: failed, and nothing repeats it. A cancelled or completed member lets the next one come. */
export function settleGroup(scheduler: Scheduler, tx: Tx, job: StoredJob, isFailure: boolean, now: number): void {
  if (job.group_id === null) return
  const found = requireGroup(tx, job.group_id)
  if (!found.ok) return
  const group = found.value
  if (isFailure && group.on_failure !== 'continue') haltGroup(scheduler, tx, group, now)
  else if (group.mode === 'sequential' && !hasCurrentMember(tx, group.group_id)) saveNextMember(tx, group.group_id, now)
}

/** `stop` cancels what still waits; `skip` gives each a run that says SKIPPED. What is in flight goes on in both. */
function haltGroup(scheduler: Scheduler, tx: Tx, group: StoredGroup, now: number): void {
  if (!saveHalted(tx, group.group_id, now)) return
  for (const member of listQueuedMembers(tx, group.group_id)) {
    if (group.on_failure === 'skip') skipMember(scheduler, tx, member, now)
    else if (saveCancelled(tx, member.job_id, now)) tellCancelled(tx, member, 'group_halted', now)
  }
}

const SKIP_REASON = 'a job of the same group failed'

function skipMember(scheduler: Scheduler, tx: Tx, member: StoredJob, now: number): void {
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
  tell(
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

export function tellCancelled(
  tx: Tx,
  job: StoredJob,
  why: 'operator' | 'group_halted' | 'reservation_ended',
  now: number,
): void {
  tell(tx, { kind: 'job_cancelled', about: job.job_id, jobId: job.job_id, payload: { job_id: job.job_id, why } }, now)
}

export function requireOpenGroup(tx: Tx, groupId: string): Decision<StoredGroup> {
  const group = requireGroup(tx, groupId)
  if (!group.ok || group.value.halted_at === null) return group
  return refuse('scheduler.group.halted', 'the group was halted by a failure and takes no more jobs', {
    path: 'group_id',
  })
}

/** Undefined outside a group. In a sequential group a new member waits while another one is current. */
export function placeInGroup(
  tx: Tx,
  group: StoredGroup,
  order: number,
): { readonly group_order: number; readonly isHeld: boolean } {
  return { group_order: order, isHeld: group.mode === 'sequential' && hasCurrentMember(tx, group.group_id) }
}
