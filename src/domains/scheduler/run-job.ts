/** Runs one claimed job, as a child process or by a handler of this process, and maps its end to an outcome. */
import { join, resolve } from 'node:path'
import { parseGuardedObject } from '#kernel/json-guard'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { RunEnd } from './finish-run.ts'
import { requireJobType } from './job-types.ts'
import { type ProcessTable, RUN_VARIABLE } from './process-table.ts'
import { type ChildEnd, type RunningChild, startChild, type RunStopReason } from './run-child.ts'
import { parseRunEnd, readRunEnd } from './run-files.ts'
import { noteInLog, openRunLog, type RunLog, runLogPath } from './run-log.ts'
import { type RunOrder, runEndPath, withArtifacts } from './run-outcome.ts'
import { recordLogPath, recordProcess } from './run-repository.ts'
import { type ClaimedRun, type CommandPlan, planJobCommand } from './runner-settings.ts'
import type { Scheduler, Wait } from './scheduler.ts'

export type JobDeps = {
  /** Handlers by job type; a handler takes precedence over the command of the type. */
  readonly handlers: JobHandlers
  /** The variables that commands may receive; see `runner-settings.ts`. */
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The base of relative working folders. */
  readonly folder: string
  /** The folder of the logs. */
  readonly runFolder: string
  readonly table: ProcessTable
  readonly wait: Wait
}

export type RunningJob = {
  readonly run: ClaimedRun
  readonly ended: Promise<RunEnd>
  end(reason: RunStopReason): void
  killNow(): void
}

export function startJob(scheduler: Scheduler, deps: JobDeps, run: ClaimedRun): RunningJob {
  const { handlers, runFolder, wait } = deps
  const handler = Object.hasOwn(handlers, run.job.job_type) ? handlers[run.job.job_type] : undefined
  if (handler) {
    const log = openRunLog(runLogPath(runFolder, run.runId), HANDLER_LOG_MAX_BYTES)
    recordLogPath(scheduler, run.runId, log.path)
    return startHandler({ run, handler, log, wait })
  }
  const plan = planOf(scheduler, deps, run)
  if (!plan.ok) {
    const error = plan.hint === undefined ? plan.reason : `${plan.reason} ${plan.hint}`
    return endedJob(run, { outcome: 'failed', error, errorClass: 'validation_error' })
  }
  return startCommand(scheduler, deps, run, plan.value)
}

const HANDLER_LOG_MAX_BYTES = 10 * 1_048_576

function planOf(scheduler: Scheduler, deps: JobDeps, run: ClaimedRun): Decision<CommandPlan> {
  const { job, params } = run
  const type = scheduler.db.read((reader) => requireJobType(reader, job.job_type))
  if (!type.ok) return type
  const { runner } = type.value
  if (runner === null) {
    return refuse(
      'scheduler.runner.invalid',
      `No handler or command is registered for jobs of type ${quote(job.job_type)}.`,
      {
        hint: 'Register a handler in this process, or give the type a `runner` with a command.',
      },
    )
  }
  const settings: Decision<JsonObject> = parseGuardedObject(runner)
  if (!settings.ok) return settings
  const plan = planJobCommand({ jobType: job.job_type, runner: settings.value, params, environment: deps.environment })
  if (!plan.ok) return plan
  return accept({ ...plan.value, cwd: resolve(deps.folder, plan.value.cwd ?? '.') })
}

function startCommand(scheduler: Scheduler, deps: JobDeps, run: ClaimedRun, plan: CommandPlan): RunningJob {
  const { runId, job, params, attempt } = run
  const { timeoutMs, killAfterMs, ...command } = plan
  const logPath = runLogPath(deps.runFolder, runId)
  // Its log exists before the run names it.
  openRunLog(logPath, 0).close()
  const artifactList = join(deps.runFolder, `${runId}.artifacts`)
  const environment = {
    ...plan.environment,
    [RUN_VARIABLE]: runId,
    JOB_ID: job.job_id,
    JOB_TYPE: job.job_type,
    JOB_ATTEMPT: String(attempt),
    JOB_ARTIFACTS: artifactList,
  }
  const order: RunOrder = {
    ...command,
    environment,
    input: `${JSON.stringify(params)}\n`,
    logPath: resolve(logPath),
    artifactList: resolve(artifactList),
    endPath: resolve(runEndPath(deps.runFolder, runId)),
  }
  const child = startChild({ runId, order, limits: { timeoutMs, killAfterMs }, wait: deps.wait })
  scheduler.pass('run.started')
  recordChild(scheduler, deps, runId, child)
  // A failed record does not end the child: recovery also finds it by its run id.
  recordLogPath(scheduler, runId, logPath)
  scheduler.pass('run.recorded')
  const ended = child.ended.then((end) => {
    const outcome = outcomeOfChild(order, end, timeoutMs)
    if (outcome.outcome === 'failed') noteInLog(logPath, outcome.error)
    return outcome
  })
  return { run, ended, end: child.end, killNow: child.killNow }
}

function recordChild(scheduler: Scheduler, { table }: JobDeps, runId: string, { pid }: RunningChild): void {
  if (pid === undefined) return
  const startedAt = table.startOf(pid)
  // Null means that it has already ended; its exit event follows.
  if (startedAt !== null) recordProcess(scheduler, runId, { pid, startedAt, bootId: table.bootId })
}

function outcomeOfChild(order: RunOrder, { answer, how, stoppedBy }: ChildEnd, timeoutMs: number | null): RunEnd {
  const stored = parseRunEnd(answer) ?? readRunEnd(order.endPath)
  const end = stored?.end ?? withArtifacts(lostOutcome(how), order)
  // A job that completed before the signal has not failed. One that exits with 0 because of the signal has not completed.
  const hasCompleted = end.outcome === 'completed' && stored?.isSignalled === false
  if (stoppedBy === null || (stoppedBy === 'shutdown' && hasCompleted)) return end
  const { exitCode, artifacts } = end as { exitCode?: number; artifacts?: readonly string[] }
  const stopped = endOfStopped(stoppedBy, timeoutMs)
  return {
    ...stopped,
    ...(exitCode !== undefined && { exitCode }),
    ...(artifacts && stopped.outcome === 'failed' && { artifacts }),
  }
}

/** The process of the run was killed, by the system or with its command, or it could not work. */
function lostOutcome(how: string): RunEnd {
  if (how.startsWith('ended by')) return { outcome: 'failed', error: how, errorClass: 'work_failed' }
  return { outcome: 'failed', error: `The process of the run failed: ${how}.`, errorClass: 'infrastructure' }
}

export const SHUTDOWN_ERROR = 'Scheduler stopped before the run ended'

function endedJob(run: ClaimedRun, end: RunEnd): RunningJob {
  return { run, ended: Promise.resolve(end), end() {}, killNow() {} }
}

/**
 * A handler runs in this process and cannot be killed. Its signal asks it to end, and the run stays open until it
 * settles, because a concurrent retry would be worse than a late one.
 */
export type HandlerContext = {
  readonly runId: string
  readonly jobId: string
  readonly attempt: number
  readonly signal: AbortSignal
  log(text: string): void
}

/** Undefined means completed, a thrown error failed, and `skipped` that there was nothing to do. */
export type HandlerResult = { readonly artifacts?: readonly string[] } | { readonly skipped: string } | undefined

export type JobHandler = {
  readonly timeoutMs?: number
  work(params: JsonObject, context: HandlerContext): Promise<HandlerResult> | HandlerResult
}
export type JobHandlers = Readonly<Record<string, JobHandler>>

type HandlerInput = {
  readonly run: ClaimedRun
  readonly handler: JobHandler
  readonly log: RunLog
  readonly wait: Wait
}

function startHandler({ run, handler, log, wait }: HandlerInput) {
  const stop = new AbortController()
  const over = new AbortController()
  let stoppedBy: RunStopReason | undefined
  const end = (reason: RunStopReason) => {
    if (stop.signal.aborted || over.signal.aborted) return
    stoppedBy = reason
    stop.abort(reason)
  }
  if (handler.timeoutMs !== undefined) void wait(handler.timeoutMs, over.signal).then(() => end('timeout'))
  const work = async (): Promise<RunEnd> => {
    try {
      const result = await handler.work(run.params, {
        runId: run.runId,
        jobId: run.job.job_id,
        attempt: run.attempt,
        signal: stop.signal,
        log: (text) => log.write(Buffer.from(text.endsWith('\n') ? text : `${text}\n`)),
      })
      if (result && 'skipped' in result) return { outcome: 'skipped', error: result.skipped }
      return { outcome: 'completed', ...(result?.artifacts && { artifacts: result.artifacts }) }
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      if (stoppedBy) return endOfStopped(stoppedBy, handler.timeoutMs ?? null, `: ${message}`)
      return { outcome: 'failed', error: message, errorClass: 'work_failed' }
    } finally {
      over.abort()
      log.close()
    }
  }
  return { run, ended: work(), end, killNow() {} }
}

/** Maps the reason why a run was ended from outside to its outcome. */
function endOfStopped(reason: RunStopReason, timeoutMs: number | null, detail = ''): RunEnd {
  switch (reason) {
    case 'stopped':
      return { outcome: 'stopped' }
    case 'timeout':
      return {
        outcome: 'failed',
        error: `The run took longer than ${timeoutMs} ms and was ended${detail || '.'}`,
        errorClass: 'timeout',
      }
    case 'shutdown':
      return { outcome: 'failed', error: SHUTDOWN_ERROR + detail, errorClass: 'infrastructure' }
  }
}
