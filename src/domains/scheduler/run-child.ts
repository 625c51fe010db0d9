/**
 * Runs one job in a child process (`run-process.ts`), which runs its command: a process group that can be ended as a whole. The
 * job ends with its command.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { extname, join } from 'node:path'
import type { RunOrder } from './run-outcome.ts'
import { RUN_VARIABLE } from './process-table.ts'
import type { CommandPlan } from './runner-settings.ts'
import type { Wait } from './scheduler.ts'

/** Why a run was ended from outside: on request, by its timeout, or with the scheduler. */
export type RunStopReason = 'stopped' | 'timeout' | 'shutdown'

export type ChildEnd = {
  /** The outcome, as JSON; empty when the process was killed or never started. */
  readonly answer: string
  /** How the process ended without an outcome. */
  readonly how: string
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
  readonly runId: string
  readonly order: RunOrder
  readonly limits: Pick<CommandPlan, 'timeoutMs' | 'killAfterMs'>
  readonly wait: Wait
}

/** The program is next to this file, with the same extension in the source and in the build. */
const program = join(import.meta.dirname, `run-process${extname(import.meta.filename)}`)

export function startChild({ runId, order, limits, wait }: ChildInput): RunningChild {
  const over = new AbortController()
  let stoppedBy: RunStopReason | null = null
  let child: ChildProcess
  try {
    child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program, runId], {
      // Recovery finds the process by this variable. The command has an environment of its own.
      env: { [RUN_VARIABLE]: runId },
      // The folder of the scheduler may be deleted while it runs.
      cwd: import.meta.dirname,
      stdio: ['pipe', 'pipe', 'ignore'],
      // A separate process group: the job is ended with its children, and Ctrl-C for the scheduler does not reach it.
      detached: true,
      windowsHide: true,
    })
  } catch (error) {
    const ended = Promise.resolve({ answer: '', how: (error as Error).message, stoppedBy: null })
    return { pid: undefined, ended, end() {}, killNow() {} }
  }
  child.stdin?.on('error', () => {}).end(JSON.stringify(order))
  const chunks: Buffer[] = []
  child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk))
  const end = (reason: RunStopReason) => {
    if (stoppedBy !== null || over.signal.aborted) return
    stoppedBy = reason
    // Its process stores the outcome: it must know of the signal before the command ends by it.
    child.kill('SIGTERM')
    signalGroup(child, 'SIGTERM')
    void wait(limits.killAfterMs, over.signal).then(() => {
      if (!over.signal.aborted) signalGroup(child, 'SIGKILL')
    })
  }
  if (limits.timeoutMs !== null) {
    void wait(limits.timeoutMs, over.signal).then(() => end('timeout'))
  }
  const ended = new Promise<ChildEnd>((resolve) => {
    child.once('error', (error) => {
      // Also emitted when a signal could not be sent; then a child exists, and its exit follows.
      if (child.pid !== undefined) return
      over.abort()
      resolve({ answer: '', how: error.message, stoppedBy })
    })
    child.once('close', (exitCode, signal) => {
      over.abort()
      signalGroup(child, 'SIGKILL')
      const how = exitCode === null ? `ended by ${signal ?? 'a signal'}` : `exit code ${exitCode}`
      resolve({ answer: Buffer.concat(chunks).toString('utf8'), how, stoppedBy })
    })
  })
  return { pid: child.pid, ended, end, killNow: () => signalGroup(child, 'SIGKILL') }
}

function signalGroup(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (child.pid === undefined) return
  try {
    process.kill(-child.pid, signal)
  } catch {
    // The group no longer exists.
  }
}
