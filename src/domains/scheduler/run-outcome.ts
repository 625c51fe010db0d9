/** Maps the end of a command to the outcome of its run. Imports nothing heavy: every command has a process that loads it. */
import { closeSync, constants, fstatSync, openSync, readSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { quote } from '#kernel/refusal'
import type { RunEnd } from './finish-run.ts'
import { noteInLog } from './run-log.ts'

/** What the process of a run receives: the command, its input and its files. */
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

const LIST_MAX_BYTES = ARTIFACTS_MAX * PATH_CHARS_MAX

type ArtifactList = Pick<RunOrder, 'artifactList' | 'cwd' | 'logPath'>

/** Adds the paths that the job wrote to its list, one per line; relative paths start in its working folder. */
export function withArtifacts(end: RunEnd, list: ArtifactList): RunEnd {
  const artifacts = readList(list)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.includes('\0') && line.isWellFormed())
    .map((line) => resolve(list.cwd ?? '.', line))
    .filter((path) => path.length <= PATH_CHARS_MAX)
    .slice(0, ARTIFACTS_MAX)
  if (artifacts.length === 0 || end.outcome === 'skipped' || end.outcome === 'stopped') return end
  return { ...end, artifacts }
}

/** Whatever the job has put in the place of its list, the outcome stays. What is not a list is kept until the run is pruned. */
function readList({ artifactList, logPath }: ArtifactList): readonly string[] {
  let fd: number | undefined
  let lines: readonly string[] = []
  try {
    // Opening a pipe would otherwise wait for its writer.
    fd = openSync(artifactList, constants.O_RDONLY | constants.O_NONBLOCK)
    const stat = fstatSync(fd)
    if (!stat.isFile()) throw new Error('it is not a file')
    const bytes = Buffer.alloc(Math.min(stat.size, LIST_MAX_BYTES))
    lines = bytes.toString('utf8', 0, readSync(fd, bytes)).split('\n')
    // The last line of a longer list is cut.
    if (stat.size > LIST_MAX_BYTES) lines = lines.slice(0, -1)
    rmSync(artifactList, { force: true })
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT') noteInLog(logPath, `The list of artifacts cannot be read or removed: ${code ?? message}.`)
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
  return lines
}
