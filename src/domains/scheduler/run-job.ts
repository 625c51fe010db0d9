/** Runs one claimed job, as a child process or by a handler of this process, and maps its end to an outcome. */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseGuardedObject } from '#kernel/json-guard'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { RunEnd } from './finish-run.ts'
import { requireJobType } from './job-types.ts'
import { type ProcessTable, RUN_VARIABLE } from './process-table.ts'
import { type ChildEnd, type RunningChild, startChild, type RunStopReason } from './run-child.ts'
import { openRunLog, type RunLog, runLogPath } from './run-files.ts'
import { ARTIFACTS_MAX, PATH_CHARS_MAX, recordLogPath, recordProcess } from './run-repository.ts'
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
  const log = openRunLog(runLogPath(deps.runFolder, runId), plan.logMaxBytes)
  const artifactList = join(deps.runFolder, `${runId}.artifacts`)
  const child = startChild({
    plan,
    environment: {
      [RUN_VARIABLE]: runId,
      JOB_ID: job.job_id,
      JOB_TYPE: job.job_type,
      JOB_ATTEMPT: String(attempt),
      JOB_ARTIFACTS: artifactList,
    },
    input: `${JSON.stringify(params)}\n`,
    log,
    wait: deps.wait,
  })
  scheduler.pass('run.started')
  recordChild(scheduler, deps, runId, child)
  // A failed record does not end the child: recovery also finds it by its run id.
  recordLogPath(scheduler, runId, log.path)
  scheduler.pass('run.recorded')
  const ended = child.ended.then((end) => {
    const outcome = outcomeOf(plan, end, log)
    if (outcome.outcome === 'failed') log.note(outcome.error)
    log.close()
    return withArtifacts(outcome, takeArtifacts(artifactList, plan.cwd))
  })
  return { run, ended, end: child.end, killNow: child.killNow }
}

function recordChild(scheduler: Scheduler, { table }: JobDeps, runId: string, { pid }: RunningChild): void {
  if (pid === undefined) return
  const startedAt = table.startOf(pid)
  // Null means that it has already ended; its exit event follows.
  if (startedAt !== null) recordProcess(scheduler, runId, { pid, startedAt, bootId: table.bootId })
}

/** Transient start errors; every other one means a wrong command and is permanent. */
const transientErrors: ReadonlySet<string | undefined> = new Set(['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM', 'ETXTBSY'])

function outcomeOf(plan: CommandPlan, end: ChildEnd, log: Pick<RunLog, 'lastLine'>): RunEnd {
  const { exitCode, signal, startError, stoppedBy } = end
  if (startError) {
    const error = `${quote(plan.command)} could not be started in ${plan.cwd ?? '.'}: ${startError.code ?? startError.message}`
    return {
      outcome: 'failed',
      error,
      errorClass: transientErrors.has(startError.code) ? 'infrastructure' : 'validation_error',
    }
  }
  const code = exitCode === null ? {} : { exitCode }
  // A job that completed before the scheduler had to kill it has not failed.
  if (stoppedBy !== null && !(stoppedBy === 'shutdown' && exitCode === 0))
    return { ...endOfStopped(stoppedBy, plan.timeoutMs), ...code }
  if (exitCode === 0) return { outcome: 'completed', exitCode }
  const last = log.lastLine()
  const detail = last === '' ? '' : `: ${last}`
  if (exitCode !== null && plan.skipExitCodes.includes(exitCode)) {
    return { outcome: 'skipped', error: `exit code ${exitCode}${detail}` }
  }
  const how = exitCode === null ? `ended by ${signal ?? 'a signal'}` : `exit code ${exitCode}`
  return { outcome: 'failed', error: how + detail, errorClass: 'work_failed', ...code }
}

export const SHUTDOWN_ERROR = 'Scheduler stopped before the run ended'

function withArtifacts(end: RunEnd, artifacts: readonly string[]): RunEnd {
  if (artifacts.length === 0 || end.outcome === 'skipped' || end.outcome === 'stopped') return end
  return { ...end, artifacts }
}

/** Reads the paths that the job wrote to `JOB_ARTIFACTS`, one per line; relative paths start in its working folder. */
function takeArtifacts(list: string, cwd: string | undefined): string[] {
  if (!existsSync(list)) return []
  const lines = readFileSync(list, 'utf8').split('\n')
  rmSync(list, { force: true })
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.includes('\0') && line.isWellFormed())
    .map((line) => resolve(cwd ?? '.', line))
    .filter((path) => path.length <= PATH_CHARS_MAX)
    .slice(0, ARTIFACTS_MAX)
}

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
