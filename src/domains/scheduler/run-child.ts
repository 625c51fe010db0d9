/**
 * Runs one job in a child process: a process group that can be ended as a whole, output into a log with a size limit, params
 * on standard input. The job ends with its process; processes left in its group are killed.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { RunLog } from './run-files.ts'
import type { CommandPlan } from './runner-settings.ts'
import type { Wait } from './scheduler.ts'

/** Why a run was ended from outside: on request, by its timeout, or with the scheduler. */
export type RunStopReason = 'stopped' | 'timeout' | 'shutdown'

export type ChildEnd = {
  readonly exitCode: number | null
  readonly signal: string | null
  /** The child never started: no such command, no such folder, or no more processes. */
  readonly startError: NodeJS.ErrnoException | null
  readonly stoppedBy: RunStopReason | null
}

export type RunningChild = {
  readonly pid: number | undefined
  readonly ended: Promise<ChildEnd>
  /** Sends SIGTERM, then SIGKILL if the child does not end in time. */
  end(reason: RunStopReason): void
  /** Sends SIGKILL immediately, when the scheduler itself must exit. */
  killNow(): void
}

export type ChildInput = {
  readonly plan: CommandPlan
  readonly environment: Readonly<Record<string, string>>
  readonly input: string
  readonly log: RunLog
  readonly wait: Wait
}

/** A process that moved to another group may hold the pipes open forever. */
const PIPES_MS = 1_000

export function startChild({ plan, environment, input, log, wait }: ChildInput): RunningChild {
  const over = new AbortController()
  let stoppedBy: RunStopReason | null = null
  let child: ChildProcess
  try {
    child = spawn(plan.command, plan.args, {
      cwd: plan.cwd,
      env: { ...plan.environment, ...environment },
      stdio: ['pipe', 'pipe', 'pipe'],
      // A separate process group: the job is ended with its children, and Ctrl-C for the scheduler does not reach it.
      detached: true,
      windowsHide: true,
    })
  } catch (error) {
    const startError = error as NodeJS.ErrnoException
    const ended = Promise.resolve({ exitCode: null, signal: null, startError, stoppedBy: null })
    return { pid: undefined, ended, end() {}, killNow() {} }
  }
  // A job need not read its params, so a broken pipe is not an error.
  child.stdin?.on('error', () => {}).end(input)
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => log.write(chunk))
  const end = (reason: RunStopReason) => {
    if (stoppedBy !== null || over.signal.aborted) return
    stoppedBy = reason
    signalGroup(child, 'SIGTERM')
    void wait(plan.killAfterMs, over.signal).then(() => {
      if (!over.signal.aborted) signalGroup(child, 'SIGKILL')
    })
  }
  if (plan.timeoutMs !== null) {
    void wait(plan.timeoutMs, over.signal).then(() => end('timeout'))
  }
  const ended = new Promise<ChildEnd>((resolve) => {
    child.once('error', (startError) => {
      // Also emitted when a signal could not be sent; then a child exists, and its exit follows.
      if (child.pid !== undefined) return
      over.abort()
      resolve({ exitCode: null, signal: null, startError, stoppedBy })
    })
    child.once('exit', (exitCode, signal) => {
      over.abort()
      signalGroup(child, 'SIGKILL')
      void readRest(child, wait).then(() => resolve({ exitCode, signal, startError: null, stoppedBy }))
    })
  })
  return { pid: child.pid, ended, end, killNow: () => signalGroup(child, 'SIGKILL') }
}

async function readRest(child: ChildProcess, wait: Wait): Promise<void> {
  const read = new AbortController()
  child.once('close', () => read.abort())
  if (child.stdout?.closed && child.stderr?.closed) return
  await wait(PIPES_MS, read.signal)
  child.stdout?.destroy()
  child.stderr?.destroy()
}

function signalGroup(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // The group no longer exists.
  }
}
