/**
 * The loop of the owner: recovers, then fires schedules, starts jobs, delivers notifications, and sleeps until the next due
 * time or another process's write. On stop it starts no more jobs and lets the running ones end.
 */
import { accept, type Decision, type Refusal } from '#kernel/refusal'
import { isTransient } from './refusals.ts'
import { claimJobs } from './claim-next.ts'
import { query } from './database.ts'
import { startAskedDirect } from './direct-job.ts'
import { type FinishedRun, finishRunSurely, type OutcomeAlert, type RunEnd } from './finish-run.ts'
import { fireDueSchedules } from './fire-schedules.ts'
import { listQueue } from './job-views.ts'
import { type Deliver, deliverDue, noReceiver, type Undelivered } from './notifications.ts'
import { openProcessTable } from './process-table.ts'
import { isStopRequested, type Pruned, pruneRuns, removeRunRequests, runFolderOf } from './run-files.ts'
import { openOrphanEnder, recover, type RecoveryAction } from './recover.ts'
import { tickReservations } from './reservations.ts'
import type { RunStopReason } from './run-child.ts'
import { type JobDeps, type JobHandlers, type RunningJob, startJob } from './run-job.ts'
import type { ClaimedRun } from './runner-settings.ts'
import { repairTimes } from './repair-times.ts'
import { nowMs, type Scheduler, type Wait } from './scheduler.ts'
import type { StoredFiring } from './stored-rows.ts'

/** Longer than `kill_after` of most types; a job that takes longer is killed. */
const ENDING_MS = 15_000
const KILLED_MS = 2_000

type RunningInput = { readonly deps: JobDeps; readonly onEvent: (event: RunEvent) => void }

/** The running jobs. Process handles exist in memory only; the file identifies the processes after a crash. */
function openRunningJobs(scheduler: Scheduler, { deps, onEvent }: RunningInput) {
  const running = new Map<string, RunningJob>()
  const following = new Set<Promise<void>>()
  const { wait } = deps
  let ended = 0
  async function follow(job: RunningJob): Promise<void> {
    const { run } = job
    const end = await job.ended.catch(failureOf)
    scheduler.pass('run.ended')
    const alert = (raised: OutcomeAlert) => onEvent({ kind: 'alert', alert: raised })
    const finished = await finishRunSurely(scheduler, run.runId, end, { wait, alert })
    if (finished.ok) removeRunRequests(deps.runFolder, run.runId)
    running.delete(run.runId)
    ended += 1
    onEvent({ kind: 'ended', run, end, finished })
  }
  async function settled(withinMs: number): Promise<void> {
    const over = new AbortController()
    const all = Promise.all(following).then(() => over.abort())
    await Promise.race([all, wait(withinMs, over.signal)])
  }
  return {
    size: () => running.size,
    ended: () => ended,
    start(run: ClaimedRun, onEnd: () => void): void {
      onEvent({ kind: 'started', run })
      const job = tryStart(scheduler, deps, run)
      running.set(run.runId, job)
      const followed = follow(job).finally(() => {
        following.delete(followed)
        onEnd()
      })
      following.add(followed)
    },
    obeyStopRequests(): void {
      for (const [runId, job] of running) if (isStopRequested(deps.runFolder, runId)) job.end('stopped')
    },
    killNow: () => {
      for (const job of running.values()) job.killNow()
    },
    /** Waits, then sends SIGTERM, then SIGKILL. */
    async settle(graceMs: number): Promise<void> {
      await settled(graceMs)
      endAll(running, 'shutdown')
      await settled(ENDING_MS)
      for (const job of running.values()) job.killNow()
      await settled(KILLED_MS)
    },
  }
}

function endAll(running: ReadonlyMap<string, RunningJob>, reason: RunStopReason): void {
  for (const job of running.values()) job.end(reason)
}

/** Turns a start error, such as a log that cannot be opened, into a failed run, so that the loop continues. */
function tryStart(scheduler: Scheduler, deps: JobDeps, run: ClaimedRun): RunningJob {
  try {
    return startJob(scheduler, deps, run)
  } catch (error) {
    return { run, ended: Promise.resolve(failureOf(error)), end() {}, killNow() {} }
  }
}

function failureOf(error: unknown): RunEnd {
  const message = error instanceof Error ? error.message : String(error)
  return { outcome: 'failed', error: `The run could not be followed: ${message}`, errorClass: 'infrastructure' }
}

/** The next times at which the loop has work without an outside event. */
type WakeRow = {
  readonly schedule: number | null
  readonly delayed: number | null
  readonly reservation: number | null
  readonly notification: number | null
}

const selectWake = query<WakeRow>(`
   select (select min(next_trigger_at) from schedules where enabled = 1) as schedule,
          (select min(not_before) from jobs indexed by jobs_delayed_ix where status = 'QUEUED' and hold = 'delay') as delayed,
          (select max(expires_at) from direct_reservations where status = 'ACTIVE') as reservation,
          (select min(next_attempt_at) from notifications where status = 'PENDING') as notification`)

export type NextWake = { readonly at: Date | null; readonly reasons: readonly (keyof WakeRow)[] }

/** Returns the earliest of the next schedule, delayed job, end of a reservation and notification; null without any. */
export function nextWake(scheduler: Scheduler): Decision<NextWake> {
  return scheduler.db.read((reader): Decision<NextWake> => {
    const row: Partial<WakeRow> = reader.one(selectWake) ?? {}
    const times = Object.entries(row).filter((entry): entry is [keyof WakeRow, number] => entry[1] !== null)
    if (times.length === 0) return accept({ at: null, reasons: [] })
    const earliest = Math.min(...times.map(([, at]) => at))
    const reasons = times.filter(([, at]) => at === earliest).map(([reason]) => reason)
    return accept({ at: new Date(earliest), reasons })
  })
}

/** Events for logging only; listeners decide nothing. */
export type RunEvent =
  | { readonly kind: 'recovered'; readonly actions: readonly RecoveryAction[] }
  | { readonly kind: 'fired'; readonly firing: StoredFiring }
  | { readonly kind: 'started'; readonly run: ClaimedRun }
  | { readonly kind: 'ended'; readonly run: ClaimedRun; readonly end: RunEnd; readonly finished: Decision<FinishedRun> }
  | ({ readonly kind: 'undelivered' } & Undelivered)
  | { readonly kind: 'alert'; readonly alert: OutcomeAlert }
  | { readonly kind: 'waiting'; readonly refusal: Refusal }
  | { readonly kind: 'pruned'; readonly pruned: Pruned }
  | { readonly kind: 'stopping'; readonly running: number }

export type RunScheduler = {
  readonly wait: Wait
  /** Stops the loop. */
  readonly stop: AbortSignal
  readonly handlers?: JobHandlers
  readonly environment?: JobDeps['environment']
  readonly folder?: string
  readonly runFolder?: string
  /** Without it, notifications are marked as delivered. */
  readonly deliver?: Deliver
  readonly onEvent?: (event: RunEvent) => void
  /** How long running jobs may continue after the stop before they are ended. */
  readonly graceMs?: number
  /** How often to poll the file for writes of other processes. */
  readonly pollMs?: number
  /** Ends when no job is queued or running. */
  readonly untilIdle?: boolean
  /** Receives a function that kills all children immediately, for a forced exit. */
  readonly atExit?: (killNow: () => void) => void
}

export type RunSummary = {
  readonly ended: number
  /** Runs that did not end; the next start closes them. */
  readonly left: number
}

const GRACE_MS = 30_000
const POLL_MS = 200
const PRUNE_EVERY_MS = 3_600_000
const CLOSE_WAIT_MS = 5_000

export async function runScheduler(scheduler: Scheduler, options: RunScheduler): Promise<Decision<RunSummary>> {
  const { stop, wait, onEvent = () => {}, pollMs = POLL_MS } = options
  const table = openProcessTable()
  const runFolder = options.runFolder ?? runFolderOf(scheduler.db.file) ?? 'jobs.runs'
  const recovered = await recover(scheduler, openOrphanEnder({ wait, table }), runFolder)
  if (!recovered.ok) return recovered
  onEvent({ kind: 'recovered', actions: recovered.value })
  const jobs = openRunningJobs(scheduler, {
    deps: {
      handlers: options.handlers ?? {},
      environment: options.environment ?? {},
      folder: options.folder ?? '.',
      runFolder,
      table,
      wait,
    },
    onEvent,
  })
  options.atExit?.(jobs.killNow)
  const onUndelivered = (failed: Undelivered) => onEvent({ kind: 'undelivered', ...failed })
  const delivery = openBackground(
    (signal) => deliverDue(scheduler, options.deliver ?? noReceiver, signal, onUndelivered),
    (error) => onUndelivered({ notificationId: '', error: String(error), next: '' }),
  )
  const pruning = openBackground(
    (signal) => prune(scheduler, runFolder, signal, onEvent),
    // A folder that cannot be read must not stop the loop; the next pass tries again.
    () => {},
  )
  const alarm = openAlarm(stop)
  let seen = ''
  let pruneAtMs = 0
  let wakeAtMs = 0
  let lastMs = Infinity
  let refused: Refusal | undefined
  while (!stop.aborted) {
    jobs.obeyStopRequests()
    if (nowMs(scheduler) < lastMs) {
      const repaired = repairTimes(scheduler)
      if (!repaired.ok) onEvent({ kind: 'waiting', refusal: repaired })
      pruneAtMs = 0
      wakeAtMs = 0
    }
    lastMs = nowMs(scheduler)
    if (nowMs(scheduler) >= pruneAtMs && pruning.start()) pruneAtMs = nowMs(scheduler) + PRUNE_EVERY_MS
    const hasRung = alarm.take()
    // Read before the turn, so that concurrent writes trigger the next one.
    const version = scheduler.db.version()
    if (hasRung || version !== seen || nowMs(scheduler) >= wakeAtMs) {
      seen = version
      const turned = takeTurn(scheduler, onEvent, (run) => jobs.start(run, alarm.ring))
      if (turned.ok) delivery.start()
      else if (isTransient(turned)) onEvent({ kind: 'waiting', refusal: turned })
      else refused = turned
      if (refused || (options.untilIdle === true && isIdle(scheduler, jobs.size()))) break
      const wake = nextWake(scheduler)
      wakeAtMs = wake.ok ? (wake.value.at?.getTime() ?? Infinity) : 0
    }
    const untilWakeMs = wakeAtMs - nowMs(scheduler)
    await alarm.wait(wait, untilWakeMs > 0 ? Math.min(pollMs, untilWakeMs) : pollMs)
  }
  if (jobs.size() > 0) onEvent({ kind: 'stopping', running: jobs.size() })
  await jobs.settle(options.graceMs ?? GRACE_MS)
  // Notifications of the last runs are delivered if the receiver is quick; otherwise the next start delivers them.
  await delivery.close(wait, true)
  await pruning.close(wait, false)
  return refused ?? accept({ ended: jobs.ended(), left: jobs.size() })
}

function takeTurn(
  scheduler: Scheduler,
  onEvent: (event: RunEvent) => void,
  start: (run: ClaimedRun) => void,
): Decision<undefined> {
  const ticked = tickReservations(scheduler)
  if (!ticked.ok) return ticked
  const fired = fireDueSchedules(scheduler)
  if (!fired.ok) return fired
  for (const firing of fired.value) onEvent({ kind: 'fired', firing })
  const direct = startAskedDirect(scheduler)
  if (!direct.ok) return direct
  if (direct.value) start(direct.value)
  const claimed = claimJobs(scheduler, scheduler.settings.workers)
  if (!claimed.ok) return claimed
  for (const run of claimed.value.runs) start(run)
  return accept(undefined)
}

function isIdle(scheduler: Scheduler, running: number): boolean {
  if (running > 0) return false
  const queue = listQueue(scheduler, { limit: 1 })
  return queue.ok && queue.value.ready === 0 && queue.value.held === 0
}

async function prune(
  scheduler: Scheduler,
  runFolder: string,
  signal: AbortSignal,
  onEvent: (event: RunEvent) => void,
): Promise<void> {
  const pruned = await pruneRuns(scheduler, runFolder, signal)
  if (!pruned.ok) onEvent({ kind: 'waiting', refusal: pruned })
  else if (pruned.value.logs + pruned.value.notifications > 0) onEvent({ kind: 'pruned', pruned: pruned.value })
}

/** Runs passes concurrently with the loop, one at a time, so that a slow receiver or disk does not delay jobs. */
function openBackground(pass: (signal: AbortSignal) => Promise<void>, onError: (error: unknown) => void) {
  const over = new AbortController()
  let running: Promise<void> | undefined
  /** Returns false while a pass is running. */
  function start(): boolean {
    if (running) return false
    running = pass(over.signal)
      .catch(onError)
      .finally(() => {
        running = undefined
      })
    return true
  }
  return {
    start,
    /** Gives the running pass, and on request one more, five seconds to end. */
    async close(wait: Wait, hasLastPass: boolean): Promise<void> {
      const done = new AbortController()
      const ended = (async () => {
        await running
        if (hasLastPass) start()
        await running
      })().finally(() => done.abort())
      await wait(CLOSE_WAIT_MS, done.signal)
      over.abort()
      await ended
    },
  }
}

/** Ends a sleep early. A wake-up between two sleeps ends the next one. */
function openAlarm(stop: AbortSignal) {
  let rung = new AbortController()
  const ring = () => rung.abort()
  stop.addEventListener('abort', ring, { once: true })
  return {
    ring,
    wait: (wait: Wait, ms: number) => (stop.aborted ? Promise.resolve() : wait(ms, rung.signal)),
    take(): boolean {
      const wasRung = rung.signal.aborted
      if (wasRung) rung = new AbortController()
      return wasRung
    },
  }
}
