/**
 * Work that is a function of this process. It cannot be ended by force: its signal asks it, and the run is open until it
 * has settled, since a retry beside it would be worse than a late one.
 */
import type { JsonObject } from '#kernel/json-value'
import type { RunEnd } from './finish-run.ts'
import type { StopReason, Wait } from './run-child.ts'
import type { RunLog } from './run-log.ts'
import type { ClaimedRun } from './runner-port.ts'

export type HandlerContext = {
  readonly runId: string
  readonly jobId: string
  readonly attempt: number
  readonly signal: AbortSignal
  log(text: string): void
}

/** Nothing: completed. A throw: failed. `skipped`: there was nothing to do. */
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

export function startHandler({ run, handler, log, wait }: HandlerInput) {
  const stop = new AbortController()
  const over = new AbortController()
  let stoppedBy: StopReason | undefined
  const end = (reason: StopReason) => {
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
      return failureOf(error, stoppedBy, handler.timeoutMs)
    } finally {
      over.abort()
      log.close()
    }
  }
  return { run, ended: work(), end, killNow() {} }
}

function failureOf(error: unknown, stoppedBy: StopReason | undefined, timeoutMs: number | undefined): RunEnd {
  const said = error instanceof Error ? error.message : String(error)
  switch (stoppedBy) {
    case 'stopped':
      return { outcome: 'stopped' }
    case 'timeout':
      return {
        outcome: 'failed',
        error: `it took longer than ${timeoutMs} ms and was ended: ${said}`,
        errorClass: 'timeout',
      }
    case 'shutdown':
      return {
        outcome: 'failed',
        error: `Scheduler stopped before the run ended: ${said}`,
        errorClass: 'infrastructure',
      }
    case undefined:
      return { outcome: 'failed', error: said, errorClass: 'work_failed' }
  }
}
