/** A program on this machine that speaks in lines. It sees only the given environment, can send only up to a limit, and ends with this process. */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import { ConnectorFailure, type Happened } from './connector.ts'

export type WatchedProgram = {
  readonly command: string
  readonly args?: readonly string[]
  readonly cwd?: string
  /** The user and the group that it runs as, instead of those of this process. */
  readonly runAs?: { readonly uid: number; readonly gid: number }
}

/** The limit for everything that a program sends. */
const BYTES_MAX = 8_388_608

/**
 * Waits in the process group of the program for the end of descriptor 3, whose other end only this process holds, and then kills the
 * group. So the program and its children end with this process, even when it is killed.
 */
const WATCHED = '(read -r _ <&3; kill -9 0) </dev/null >/dev/null 2>&1 & exec 3<&-; unset PWD OLDPWD SHLVL _; exec "$@"'

export type WatchedProcess = {
  /** Why it ended, if it ended by itself. */
  readonly failure: ConnectorFailure | undefined
  readonly ended: Promise<void>
  start(): Promise<void>
  write(line: string): Promise<void>
  endInput(): void
  /** Ends it with a reason. */
  fail(message: string): void
  /** Kills the whole group. */
  kill(): void
}

export type WatchedEvents = {
  readonly onLine: (line: string) => void
  readonly onFailure?: (failure: ConnectorFailure) => void
  readonly onEnd?: () => void
}

/** `noun` names the program in reasons: `The server`. */
export function openWatchedProcess(
  { command, args = [], cwd, runAs }: WatchedProgram,
  env: Readonly<Record<string, string>>,
  noun: string,
  { onLine, onFailure, onEnd }: WatchedEvents,
): WatchedProcess {
  let child: ChildProcess | undefined
  let failure: ConnectorFailure | undefined
  const rest: Buffer[] = []
  let sizeBytes = 0
  let isEnded = false
  /** Ended by `fail`: what it still sends does not count. */
  let isFailed = false
  let hasExitedWell = false
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()

  function fail(message: string, happened: Happened = 'unknown'): void {
    failure ??= new ConnectorFailure('transient_connector_error', message, happened)
    isFailed = true
    onFailure?.(failure)
    kill()
  }
  /** Kills the whole group, and ends descriptor 3 for its watcher. */
  function kill(): void {
    if (child?.pid === undefined || isEnded) return
    try {
      process.kill(-child.pid, 'SIGKILL')
    } catch {
      // The group is empty.
    }
    ;(child.stdio[3] as Writable | null)?.destroy()
  }
  function takeLine(): void {
    const line = Buffer.concat(rest.splice(0)).toString('utf8')
    if (line.trim() !== '') onLine(line)
  }
  function take(chunk: Buffer): void {
    if (isFailed) return
    sizeBytes += chunk.length
    if (sizeBytes > BYTES_MAX) return fail(`${noun} sent more than ${BYTES_MAX} bytes.`)
    let from = 0
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      rest.push(chunk.subarray(from, at))
      from = at + 1
      takeLine()
      if (isFailed) return
    }
    if (from < chunk.length) rest.push(chunk.subarray(from))
  }

  return {
    get failure() {
      return failure
    },
    ended,
    fail,
    kill,
    start: () =>
      new Promise<void>((resolve, reject) => {
        child = spawn('/bin/sh', ['-c', WATCHED, 'sh', command, ...args], {
          env: { ...env },
          ...(cwd === undefined ? {} : { cwd }),
          ...runAs,
          stdio: ['pipe', 'pipe', 'ignore', 'pipe'],
          detached: true,
        })
        for (const stream of child.stdio) stream?.on('error', () => {})
        child.once('spawn', resolve)
        child.once('error', () => {
          failure ??= new ConnectorFailure('transient_connector_error', `${noun} cannot be started.`, 'no')
          reject(failure)
          end()
        })
        child.stdout?.on('data', take)
        child.once('exit', (code, signal) => {
          hasExitedWell = code === 0
          failure ??= new ConnectorFailure(
            'transient_connector_error',
            `${noun} ended (${signal ?? `code ${code}`}) before it answered.`,
            'unknown',
          )
          kill()
        })
        child.once('close', () => {
          // From now on the process id may belong to another process.
          isEnded = true
          // The last line may have no end. That of a program that died is not whole.
          if (hasExitedWell && !isFailed) takeLine()
          end()
          onEnd?.()
        })
      }),
    write: (line) =>
      new Promise<void>((resolve, reject) => {
        const { stdin } = child ?? {}
        if (!stdin?.writable) return reject(failure ?? new Error(`${noun} is not running.`))
        stdin.write(`${line}\n`, (error) => (error ? reject(failure ?? error) : resolve()))
      }),
    endInput: () => void child?.stdin?.end(),
  }
}
