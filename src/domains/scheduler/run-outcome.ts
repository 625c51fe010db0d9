/** Maps the end of a command to the outcome of its run. Imports nothing heavy: every command has a process that loads it. */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { quote } from '#kernel/refusal'
import type { RunEnd } from './finish-run.ts'

/** What the process of a run is told: the command, its input and its files. */
export type RunOrder = {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string | undefined
  readonly environment: Readonly<Record<string, string>>
  /** For standard input. */
  readonly input: string
  readonly skipExitCodes: readonly number[]
  readonly logPath: string
  readonly logMaxBytes: number
  /** The file in which the job lists its artifacts. */
  readonly artifactList: string
  readonly endPath: string
}

export type CommandEnd = {
  readonly exitCode: number | null
  readonly signal: string | null
  /** The command never started: no such command, no such folder, or no more processes. */
  readonly startError: NodeJS.ErrnoException | null
}

/** The outcome that the process of a run stores. */
export type StoredEnd = { readonly end: RunEnd; readonly isSignalled: boolean }

/** The file with the outcome of a command, which survives the scheduler. */
export function runEndPath(folder: string, runId: string): string {
  return join(folder, `${runId}.end`)
}

/** Transient start errors; every other one means a wrong command and is permanent. */
const transientErrors: ReadonlySet<string | undefined> = new Set(['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM', 'ETXTBSY'])

type Command = Pick<RunOrder, 'command' | 'cwd' | 'skipExitCodes'>

export function outcomeOfCommand(
  order: Command,
  { exitCode, signal, startError }: CommandEnd,
  lastLine: string,
): RunEnd {
  if (startError) {
    const error = `${quote(order.command)} could not be started in ${order.cwd ?? '.'}: ${startError.code ?? startError.message}`
    return {
      outcome: 'failed',
      error,
      errorClass: transientErrors.has(startError.code) ? 'infrastructure' : 'validation_error',
    }
  }
  if (exitCode === 0) return { outcome: 'completed', exitCode }
  const detail = lastLine === '' ? '' : `: ${lastLine}`
  if (exitCode !== null && order.skipExitCodes.includes(exitCode)) {
    return { outcome: 'skipped', error: `exit code ${exitCode}${detail}` }
  }
  const how = exitCode === null ? `ended by ${signal ?? 'a signal'}` : `exit code ${exitCode}`
  const code = exitCode === null ? {} : { exitCode }
  return { outcome: 'failed', error: how + detail, errorClass: 'work_failed', ...code }
}

export const PATH_CHARS_MAX = 4_096
export const ARTIFACTS_MAX = 1_000

/** Adds the paths that the job wrote to its list, one per line; relative paths start in its working folder. */
export function withArtifacts(end: RunEnd, { artifactList, cwd }: Pick<RunOrder, 'artifactList' | 'cwd'>): RunEnd {
  if (!existsSync(artifactList)) return end
  const lines = readFileSync(artifactList, 'utf8').split('\n')
  rmSync(artifactList, { force: true })
  const artifacts = lines
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.includes('\0') && line.isWellFormed())
    .map((line) => resolve(cwd ?? '.', line))
    .filter((path) => path.length <= PATH_CHARS_MAX)
    .slice(0, ARTIFACTS_MAX)
  if (artifacts.length === 0 || end.outcome === 'skipped' || end.outcome === 'stopped') return end
  return { ...end, artifacts }
}
