/**
 * Dispatch: in one write transaction the reservation is looked for, the first jobs of the queue go from QUEUED to RUNNING,
 * and each gets its run. Killed anywhere before the commit, the job is still QUEUED and has no run.
 */
import { parseGuardedObject } from '#kernel/json-guard'
import { accept, type Decision } from '#kernel/refusal'
import { attemptOfHops, countHops } from '#kernel/retry-chain'
import { statement, type Tx } from './database.ts'
import { closeFailed } from './finish-run.ts'
import { findRetryOf, JOB_COLUMNS, QUEUE_ORDER, saveDelayOver } from './job-repository.ts'
import { expireStale } from './reservations.ts'
import { insertRun } from './run-repository.ts'
import type { ClaimedRun } from './runner-settings.ts'
import { nowMs, requireRecovered, type Scheduler } from './scheduler.ts'
import type { StoredJob } from './stored-rows.ts'

export const claimNextJob = statement<StoredJob, { now: number }>(
  'claim_next_job',
  `update jobs set status = 'RUNNING', started_at = $now
    where rowid = (select rowid from jobs where status = 'QUEUED' and hold is null order by ${QUEUE_ORDER} limit 1)
      and status = 'QUEUED'
   returning ${JOB_COLUMNS}`,
)

/**
 * The same while some job types are at their limit: the first job of each type that is not, and of these the first. With
 * `jobs_type_queue_ix` (there while any type has a limit) each type costs one look, whatever stands before its first job.
 */
const claimNextAllowedJob = statement<StoredJob, { now: number; saturated: string }>(
  'claim_next_allowed_job',
  `update jobs set status = 'RUNNING', started_at = $now
    where rowid = (
      select head.rowid
        from job_types allowed
        join jobs head on head.rowid = (
          select rowid from jobs
           where status = 'QUEUED' and hold is null and job_type = allowed.job_type order by ${QUEUE_ORDER} limit 1)
       where allowed.job_type not in (select value from json_each($saturated))
       order by head.priority desc, head.position, head.created_at, head.job_id limit 1)
      and status = 'QUEUED'
   returning ${JOB_COLUMNS}`,
)

/** Types with a limit that is reached; asked only when more than one worker may run. */
const listSaturatedTypes = statement<{ job_type: string }>(
  'list_saturated_types',
  `select job_type from job_types
    where concurrency_limit is not null
      and concurrency_limit <= (select count(*) from jobs
            where status = 'RUNNING' and finished_at is null and hold is not 'direct' and jobs.job_type = job_types.job_type)`,
)

/** Everything a claim must know first, in one look: the reservation, what is in flight, and whether a delayed job is due. */
export type BeforeClaim = {
  /** Of the active reservation; null: there is none. */
  readonly reserved_until: number | null
  /** Jobs of the queue that hold a worker; a direct execution holds the reservation instead. */
  readonly in_flight: number
  readonly delayed_until: number | null
}

/** By its index, named: left to choose, SQLite reads every held job, and a long sequential group holds thousands. */
export const lookBeforeClaim = statement<BeforeClaim>(
  'look_before_claim',
  `select (select max(expires_at) from direct_reservations where status = 'ACTIVE') as reserved_until,
          (select count(*) from jobs where status = 'RUNNING' and finished_at is null and hold is not 'direct') as in_flight,
          (select min(not_before) from jobs indexed by jobs_delayed_ix where status = 'QUEUED' and hold = 'delay') as delayed_until`,
)

/** Why nothing more was claimed: a reservation is active, all workers are busy, or no job may start now. */
export type Waiting = {
  readonly reason: 'reserved' | 'busy' | 'empty'
  /** When it is worth looking again, if time alone can change it. */
  readonly until: Date | null
}

export type Claimed = { readonly runs: readonly ClaimedRun[]; readonly waiting: Waiting | null }

/** Up to `max` jobs, as many as there are free workers; several share one commit. */
export function claimNext(scheduler: Scheduler, max = 1): Decision<Claimed> {
  const ready = requireRecovered(scheduler)
  if (!ready.ok) return ready
  scheduler.pass('dispatch.before_claim')
  const claimed = scheduler.db.write((tx): Decision<Claimed> => {
    const now = nowMs(scheduler)
    let look = tx.one(lookBeforeClaim) ?? { reserved_until: null, in_flight: 0, delayed_until: null }
    if (look.reserved_until !== null) {
      if (look.reserved_until > now) return accept(wait('reserved', look.reserved_until))
      expireStale(scheduler, tx, now)
      look = { ...look, reserved_until: null }
    }
    if (look.delayed_until !== null && look.delayed_until <= now) saveDelayOver(tx, now)
    const free = Math.min(max, scheduler.settings.workers - look.in_flight)
    if (free <= 0) return accept(wait('busy', null))
    const runs = claimRuns(scheduler, tx, free, now)
    const isUpcoming = look.delayed_until !== null && look.delayed_until > now
    if (runs.length > 0) scheduler.pass('dispatch.before_commit')
    return accept({
      runs,
      waiting: runs.length === free ? null : wait('empty', isUpcoming ? look.delayed_until : null).waiting,
    })
  })
  if (claimed.ok && claimed.value.runs.length > 0) scheduler.pass('dispatch.committed')
  return claimed
}

function claimRuns(scheduler: Scheduler, tx: Tx, free: number, now: number): ClaimedRun[] {
  const runs: ClaimedRun[] = []
  while (runs.length < free) {
    const job = claimJob(scheduler, tx, now)
    if (!job) break
    scheduler.pass('dispatch.claimed')
    const run = startRun(scheduler, tx, job, now)
    scheduler.pass('dispatch.run_inserted')
    if (run) runs.push(run)
  }
  return runs
}

/** With one worker no type can be at its limit, so the types are not looked at. */
function claimJob(scheduler: Scheduler, tx: Tx, now: number): StoredJob | undefined {
  const saturated = scheduler.settings.workers === 1 ? [] : tx.all(listSaturatedTypes).map((row) => row.job_type)
  return saturated.length === 0
    ? tx.one(claimNextJob, { now })
    : tx.one(claimNextAllowedJob, { now, saturated: JSON.stringify(saturated) })
}

/** Undefined when the row cannot be worked on: it is closed as FAILED in this transaction, and the queue goes on. */
export function startRun(scheduler: Scheduler, tx: Tx, job: StoredJob, now: number): ClaimedRun | undefined {
  const runId = scheduler.deps.newId()
  tx.run(insertRun, { run_id: runId, job_id: job.job_id, template_id: job.template_id, params: job.params, now })
  const params = parseGuardedObject(job.params)
  if (!params.ok) {
    const error = `the params cannot be read: ${params.reason}`
    closeFailed(scheduler, tx, job, { runId, error, errorClass: 'malformed_payload', now })
    return undefined
  }
  const hops = job.retry_of === null ? accept(0) : countHops(job.job_id, (id) => findRetryOf(tx, id))
  return { runId, job, params: params.value, attempt: attemptOfHops(hops.ok ? hops.value : 0) }
}

function wait(reason: Waiting['reason'], untilMs: number | null): Claimed {
  return { runs: [], waiting: { reason, until: untilMs === null ? null : new Date(untilMs) } }
}
