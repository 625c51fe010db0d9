/**
 * Dispatch: one write transaction checks for a reservation, moves the first jobs of the queue from QUEUED to RUNNING and
 * inserts a run for each. A process killed before the commit leaves the job QUEUED and without a run.
 */
import { parseGuardedObject } from '#kernel/json-guard'
import { accept, type Decision } from '#kernel/refusal'
import { attemptOfHops, countHops } from '#kernel/retry'
import { query, type WriteTx } from './database.ts'
import { closeFailed } from './finish-run.ts'
import { findRetryOf, JOB_COLUMNS, QUEUE_ORDER, saveDelayOver } from './job-repository.ts'
import { expireStale } from './reservations.ts'
import { insertRun } from './run-repository.ts'
import type { ClaimedRun } from './runner-settings.ts'
import { nowMs, requireRecovered, type Scheduler } from './scheduler.ts'
import type { StoredJob } from './stored-rows.ts'

export const claimNextJob = query<StoredJob, { now: number }>(`
   update jobs set status = 'RUNNING', started_at = $now
    where rowid = (select rowid from jobs where status = 'QUEUED' and hold is null order by ${QUEUE_ORDER} limit 1)
      and status = 'QUEUED'
   returning ${JOB_COLUMNS}`)

/**
 * The same while some job types are at their limit: takes the first job of each other type, and the first of those. With
 * `jobs_type_queue_ix` (present while any type has a limit) each type costs one lookup, however many jobs precede its first.
 */
const claimNextAllowedJob = query<StoredJob, { now: number; saturated: string }>(`
   update jobs set status = 'RUNNING', started_at = $now
    where rowid = (
      select head.rowid
        from job_types allowed
        join jobs head on head.rowid = (
          select rowid from jobs
           where status = 'QUEUED' and hold is null and job_type = allowed.job_type order by ${QUEUE_ORDER} limit 1)
       where allowed.job_type not in (select value from json_each($saturated))
       order by head.priority desc, head.position, head.created_at, head.job_id limit 1)
      and status = 'QUEUED'
   returning ${JOB_COLUMNS}`)

/** Types that have reached their limit; queried only with more than one worker. */
const listSaturatedTypes = query<{ job_type: string }>(`
   select job_type from job_types
    where concurrency_limit is not null
      and concurrency_limit <= (select count(*) from jobs
            where status = 'RUNNING' and finished_at is null and hold is not 'direct' and jobs.job_type = job_types.job_type)`)

/** All that a claim reads first, in one query: the reservation, the jobs in flight, and the next delayed job. */
export type BeforeClaim = {
  /** The end of the active reservation; null without one. */
  readonly reserved_until: number | null
  /** Queued jobs that occupy a worker; a direct execution occupies the reservation instead. */
  readonly in_flight: number
  readonly delayed_until: number | null
}

/** Names the index: otherwise SQLite reads every held job, and a long sequential group holds thousands. */
export const lookBeforeClaim = query<BeforeClaim>(`
   select (select max(expires_at) from direct_reservations where status = 'ACTIVE') as reserved_until,
          (select count(*) from jobs where status = 'RUNNING' and finished_at is null and hold is not 'direct') as in_flight,
          (select min(not_before) from jobs indexed by jobs_delayed_ix where status = 'QUEUED' and hold = 'delay') as delayed_until`)

/** Why no further job was claimed: a reservation is active, all workers are busy, or no job may start now. */
type Waiting = {
  readonly reason: 'reserved' | 'busy' | 'empty'
  /** When to look again, if the answer changes with time alone. */
  readonly until: Date | null
}

export type Claimed = { readonly runs: readonly ClaimedRun[]; readonly waiting: Waiting | null }

/** Claims up to `max` jobs, limited by the free workers, in one commit. */
export function claimJobs(scheduler: Scheduler, max = 1): Decision<Claimed> {
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

function claimRuns(scheduler: Scheduler, tx: WriteTx, free: number, now: number): ClaimedRun[] {
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

/** With one worker no type can be at its limit, so the types are not queried. */
function claimJob(scheduler: Scheduler, tx: WriteTx, now: number): StoredJob | undefined {
  const saturated = scheduler.settings.workers === 1 ? [] : tx.all(listSaturatedTypes).map((row) => row.job_type)
  return saturated.length === 0
    ? tx.one(claimNextJob, { now })
    : tx.one(claimNextAllowedJob, { now, saturated: JSON.stringify(saturated) })
}

/** Returns undefined for a row with unreadable params, which is closed as FAILED here so that the queue continues. */
export function startRun(scheduler: Scheduler, tx: WriteTx, job: StoredJob, now: number): ClaimedRun | undefined {
  const runId = scheduler.deps.newId()
  tx.run(insertRun, { run_id: runId, job_id: job.job_id, template_id: job.template_id, params: job.params, now })
  const params = parseGuardedObject(job.params)
  if (!params.ok) {
    const error = `The params cannot be read: ${params.reason}`
    closeFailed(scheduler, tx, job, { runId, error, errorClass: 'malformed_payload', now })
    return undefined
  }
  const hops = job.retry_of === null ? accept(0) : countHops(job.job_id, (id) => findRetryOf(tx, id))
  return { runId, job, params: params.value, attempt: attemptOfHops(hops.ok ? hops.value : 0) }
}

function wait(reason: Waiting['reason'], untilMs: number | null): Claimed {
  return { runs: [], waiting: { reason, until: untilMs === null ? null : new Date(untilMs) } }
}
