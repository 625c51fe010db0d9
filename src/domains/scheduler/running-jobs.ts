/** Everything that runs in this process: started, followed to its stored outcome, and ended in three steps when it must be. */
import type { RunEnd } from './finish-run.ts'
import { finishRunSurely, type OutcomeAlert } from './finish-surely.ts'
import type { StopReason } from './run-child.ts'
import { type JobDeps, type RunningJob, startJob } from './run-job.ts'
import type { RunEvent } from './run-scheduler.ts'
import type { ClaimedRun } from './runner-port.ts'
import type { Scheduler } from './scheduler.ts'
import { takeStopRequest } from './stop-request.ts'

/** Longer than `kill_after` of most types; who takes longer is killed. */
const ENDING_MS = 15_000
const KILLED_MS = 2_000

type RunningInput = { readonly deps: JobDeps; readonly onEvent: (event: RunEvent) => void }

/** Everything that runs now. Handles of processes live in memory alone; the file knows how to find the processes again. */
export function openRunningJobs(scheduler: Scheduler, { deps, onEvent }: RunningInput) {
  const running = new Map<string, RunningJob>()
  const following = new Set<Promise<void>>()
  const sleep = (ms: number) => deps.wait(ms, new AbortController().signal)
  let ended = 0
  async function follow(job: RunningJob): Promise<void> {
    const { run } = job
    const end = await job.ended.catch(failureOf)
    scheduler.pass('run.ended')
    const alert = (told: OutcomeAlert) => onEvent({ kind: 'alert', alert: told })
    const finished = await finishRunSurely(scheduler, run.runId, end, { sleep, alert })
    takeStopRequest(deps.runFolder, run.runId)
    running.delete(run.runId)
    ended += 1
    onEvent({ kind: 'ended', run, end, finished })
  }
  async function settled(withinMs: number): Promise<void> {
    const over = new AbortController()
    const all = Promise.all(following).then(() => over.abort())
    await Promise.race([all, deps.wait(withinMs, over.signal)])
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
    takeStopRequests(): void {
      for (const [runId, job] of running) if (takeStopRequest(deps.runFolder, runId)) job.end('stopped')
    },
    killNow: () => {
      for (const job of running.values()) job.killNow()
    },
    /** First it waits, then it asks, then it kills. */
    async settle(graceMs: number): Promise<void> {
      await settled(graceMs)
      endAll(running, 'shutdown')
      await settled(ENDING_MS)
      for (const job of running.values()) job.killNow()
      await settled(KILLED_MS)
    },
  }
}

function endAll(running: ReadonlyMap<string, RunningJob>, reason: StopReason): void {
  for (const job of running.values()) job.end(reason)
}

/** A log that cannot be opened fails the run, not the loop. */
function tryStart(scheduler: Scheduler, deps: JobDeps, run: ClaimedRun): RunningJob {
  try {
    return startJob(scheduler, deps, run)
  } catch (error) {
    return { run, ended: Promise.resolve(failureOf(error)), end() {}, killNow() {} }
  }
}

function failureOf(error: unknown): RunEnd {
  const said = error instanceof Error ? error.message : String(error)
  return { outcome: 'failed', error: `the run could not be followed: ${said}`, errorClass: 'infrastructure' }
}
