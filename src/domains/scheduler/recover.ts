/**
 * Recovery after a crash. Ends the children of the dead process and reads how their commands ended, then repairs in three steps: jobs in flight, reservations,
 * failures without a verdict. Each row has its own transaction and is found by its inconsistency, so an interrupted recovery
 * simply runs again.
 */
import { accept, type Decision } from '#kernel/refusal'
import type { WriteTx } from './database.ts'
import { applyRetry, closeEnded, closeFailed, planRetry, notifyEnd, type RunEnd } from './finish-run.ts'
import { settleGroup } from './job-group.ts'
import { findJob, findRetry, listInFlight } from './job-repository.ts'
import { type LiveProcess, openProcessTable, type ProcessTable } from './process-table.ts'
import { expireStale, findActiveReservation } from './reservations.ts'
import { isStopRequested, readRunEnd, removeRunRequests, runFolderOf } from './run-files.ts'
import { runEndPath } from './run-outcome.ts'
import {
  findRun,
  findRunOfJob,
  finishJob,
  identityOf,
  insertRun,
  listUndecided,
  saveVerdict,
} from './run-repository.ts'
import type { OrphanEnd, ProcessIdentity, RunnerPort } from './runner-settings.ts'
import { nowMs, requireOwner, type Scheduler, type Wait } from './scheduler.ts'
import type { StoredJob, StoredRun } from './stored-rows.ts'

export type EndOrphans = {
  readonly wait: Wait
  readonly table?: ProcessTable
  /** How long a process may take to end after SIGTERM. */
  readonly termMs?: number
  /** Sends a signal; replaced by tests. */
  readonly signal?: (pid: number, signal: 'SIGTERM' | 'SIGKILL') => void
}

const TERM_MS = 2_000
/** A process that survives SIGKILL is blocked in the kernel, for example on a dead disk. */
const KILLED_MS = 5_000
const LOOK_MS = 20

export function openOrphanEnder({
  wait,
  table = openProcessTable(),
  termMs = TERM_MS,
  signal = send,
}: EndOrphans): RunnerPort {
  async function endAll(identity: ProcessIdentity, name: 'SIGTERM' | 'SIGKILL', withinMs: number): Promise<boolean> {
    for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
      const left = findOrphans(table, identity)
      if (left.length === 0) return true
      if (waitedMs >= withinMs) return false
      // SIGKILL is repeated: a process that forks while it is killed leaves a child without the signal.
      if (waitedMs === 0 || name === 'SIGKILL') for (const { pid } of left) signal(pid, name)
      await wait(LOOK_MS)
    }
  }
  return {
    async endOrphan(identity) {
      try {
        if (findOrphans(table, identity).length === 0) return 'gone'
        if (await endAll(identity, 'SIGTERM', termMs)) return 'ended'
        return (await endAll(identity, 'SIGKILL', KILLED_MS)) ? 'ended' : 'alive'
      } catch {
        // It may still be alive; a retry next to a live child would be worse than no retry.
        return 'alive'
      }
    },
  }
}

function findOrphans(table: ProcessTable, identity: ProcessIdentity): readonly LiveProcess[] {
  // No process survives a reboot.
  if (identity.bootId !== null && table.bootId !== null && identity.bootId !== table.bootId) return []
  const all = table.list(identity.runId)
  const leader = all.find(({ pid, startedAt }) => pid === identity.pid && startedAt === identity.startedAt)
  const found = all.filter(
    ({ pid, group, isOfRun }) => isOfRun || (leader && (pid === leader.pid || group === leader.pid)),
  )
  // The leader of the group stores the outcome: it must know of the signal before the command ends by it.
  return found.toSorted((one, other) => Number(other.pid === other.group) - Number(one.pid === one.group))
}

function send(pid: number, signal: 'SIGTERM' | 'SIGKILL'): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended meanwhile, or this process may not signal it; the next check tells the two apart.
  }
}

export const CRASH_ERROR = 'Scheduler crash recovery'

/** One action per examined row; the caller logs it. */
export type RecoveryAction = {
  readonly step: 1 | 2 | 3
  readonly about: string
  readonly did:
    | 'finished_at_set'
    | 'run_ended'
    | 'run_failed'
    | 'run_created'
    | 'reservation_expired'
    | 'reservation_kept'
    | 'retried'
    | 'permanent'
}

/** Runs once after opening. Nothing is dispatched before it has succeeded. */
export async function recover(
  scheduler: Scheduler,
  runner: RunnerPort,
  runFolder = runFolderOf(scheduler.db.file),
): Promise<Decision<readonly RecoveryAction[]>> {
  const owner = requireOwner(scheduler)
  if (!owner.ok) return owner
  const inFlight = scheduler.db.read((reader) =>
    accept(listInFlight(reader).map((job) => ({ job, identity: identityOf(reader, job) }))),
  )
  if (!inFlight.ok) return inFlight
  const actions: RecoveryAction[] = []
  for (const { job, identity } of inFlight.value) {
    const left = identity ? await endRun(runner, identity, runFolder) : { end: 'gone' as const, outcome: undefined }
    const done = recoverJob(scheduler, job.job_id, left)
    if (!done.ok) return done
    if (identity && runFolder !== undefined) removeRunRequests(runFolder, identity.runId)
    actions.push(done.value)
  }
  for (const step of [recoverReservations, recoverVerdicts]) {
    const done = step(scheduler)
    if (!done.ok) return done
    actions.push(...done.value)
  }
  scheduler.recovery.isDone = true
  return accept(actions)
}

/** What is left of a run: whether its processes have ended, and how its command ended, if that is known. */
type LeftRun = { readonly end: OrphanEnd; readonly outcome: RunEnd | undefined }

/** Ends the child before its run is closed, so before a retry can start. A command that ended by itself has its own outcome. */
async function endRun(runner: RunnerPort, identity: ProcessIdentity, folder: string | undefined): Promise<LeftRun> {
  const { runId } = identity
  const end = await runner.endOrphan(identity)
  if (folder === undefined) return { end, outcome: undefined }
  const stored = readRunEnd(runEndPath(folder, runId))
  // A command that ended after a signal was interrupted, whatever its exit code: many programs exit with 0 when they are asked to end.
  const own = stored?.isSignalled === false ? stored.end : undefined
  if (own?.outcome !== 'completed' && isStopRequested(folder, runId)) return { end, outcome: { outcome: 'stopped' } }
  return { end, outcome: own }
}

/** Step 1, by the matrix: a closed run only sets `finished_at`, an open one gets the stored outcome or fails, a missing one is inserted and fails. */
function recoverJob(scheduler: Scheduler, jobId: string, { end, outcome }: LeftRun): Decision<RecoveryAction> {
  return scheduler.db.write((tx) => {
    const job = findJob(tx, jobId)
    if (job?.finished_at !== null) return accept({ step: 1, about: jobId, did: 'finished_at_set' })
    const now = nowMs(scheduler)
    const run = findRunOfJob(tx, jobId)
    const ruledOut = end === 'alive' ? 'orphan_alive' : undefined
    const did =
      run === undefined ? 'run_created' : run.status !== null ? 'finished_at_set' : outcome ? 'run_ended' : 'run_failed'
    if (run?.status) closeFinished(scheduler, tx, job, run, now)
    else if (run && outcome) closeEnded(scheduler, tx, job, { runId: run.run_id, end: outcome, ruledOut })
    else failInterrupted(scheduler, tx, job, run, ruledOut, now)
    scheduler.pass('recovery.step_1')
    return accept({ step: 1, about: jobId, did })
  })
}

/** Keeps the outcome; step 3 decides a failure without a verdict. */
function closeFinished(scheduler: Scheduler, tx: WriteTx, job: StoredJob, run: StoredRun, now: number): void {
  tx.run(finishJob, { job_id: job.job_id, now: run.finished_at ?? now })
  if (run.status === 'FAILED' && run.retry_decided === null) return
  settleGroup(scheduler, tx, job, run.status === 'FAILED' && run.retry_decided !== 'retry', now)
}

/** A run is never resumed. A child that could not be ended rules out the retry: two copies at once would be worse than no retry. */
function failInterrupted(
  scheduler: Scheduler,
  tx: WriteTx,
  job: StoredJob,
  run: StoredRun | undefined,
  ruledOut: 'orphan_alive' | undefined,
  now: number,
): void {
  const runId = run?.run_id ?? scheduler.deps.newId()
  if (!run) {
    const { job_id, template_id, params } = job
    tx.run(insertRun, { run_id: runId, job_id, template_id, params, now: job.started_at ?? now })
  }
  closeFailed(scheduler, tx, job, { runId, error: CRASH_ERROR, errorClass: 'infrastructure', ruledOut, now })
}

/** Step 2: expires overdue reservations. Others stay and pause the queue until they end. */
function recoverReservations(scheduler: Scheduler): Decision<readonly RecoveryAction[]> {
  return scheduler.db.write((tx): Decision<readonly RecoveryAction[]> => {
    const expired = expireStale(scheduler, tx, nowMs(scheduler))
    const kept = findActiveReservation(tx)
    scheduler.pass('recovery.step_2')
    return accept([
      ...expired.map(({ reservation_id }) => ({ step: 2, about: reservation_id, did: 'reservation_expired' }) as const),
      ...(kept ? [{ step: 2, about: kept.reservation_id, did: 'reservation_kept' } as const] : []),
    ])
  })
}

/** Step 3: decides failures without a verdict. A stored verdict stays, even if the rules have changed. */
function recoverVerdicts(scheduler: Scheduler): Decision<readonly RecoveryAction[]> {
  const undecided = scheduler.db.read((reader) => accept(listUndecided(reader)))
  if (!undecided.ok) return undecided
  const actions: RecoveryAction[] = []
  for (const run of undecided.value) {
    const done = decideVerdict(scheduler, run)
    if (!done.ok) return done
    actions.push(done.value)
  }
  return accept(actions)
}

function decideVerdict(scheduler: Scheduler, run: StoredRun): Decision<RecoveryAction> {
  return scheduler.db.write((tx) => {
    const now = nowMs(scheduler)
    const job = findJob(tx, run.job_id)
    if (!job) return accept({ step: 3, about: run.run_id, did: 'permanent' })
    const judged = { exitCode: run.exit_code, errorClass: run.error_class ?? 'work_failed' } as const
    const present = findRetry(tx, job.job_id)
    const plan = present ? { verdict: 'retry' as const, delayMs: 0 } : planRetry(scheduler, tx, job, judged)
    saveVerdict(tx, run.run_id, plan.verdict)
    const retry = present ?? applyRetry(scheduler, tx, job, plan, now)
    notifyEnd(tx, job, findRun(tx, run.run_id) ?? run, retry, now)
    settleGroup(scheduler, tx, job, !retry, now)
    scheduler.pass('recovery.step_3')
    return accept({ step: 3, about: run.run_id, did: retry ? 'retried' : 'permanent' })
  })
}
