/** An MCP server on this machine over stdio. It sees only the given environment, can send only up to a limit, and ends with this process. */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'
import { ConnectorFailure, type ConnectorTools, type Happened } from '../connector.ts'

/** A program on this machine that starts for a call and ends with it. */
export type StdioServer = {
  readonly command: string
  readonly args?: readonly string[]
  readonly cwd?: string
  /** The whole environment of the program, in addition to `secret_env`. Nothing is inherited, not even `PATH`. */
  readonly env?: Readonly<Record<string, string>>
  /** Names with references to secrets: `{ API_TOKEN: 'env://TICKETS_TOKEN' }`. */
  readonly secret_env?: Readonly<Record<string, string>>
}

/** The limit for everything that a session sends. */
const SESSION_BYTES_MAX = 8_388_608
/** How long a server may take to end by itself. */
const GRACE_MS = 300

/**
 * Waits in the process group of the server for the end of descriptor 3, whose other end only this process holds, and then kills the
 * group. So the server and its children end with this process, even when it is killed.
 */
const WATCHED = '(read -r _ <&3; kill -9 0) </dev/null >/dev/null 2>&1 & exec 3<&-; unset PWD OLDPWD SHLVL _; exec "$@"'

export type StdioTransport = Transport & {
  /** Why it ended, if it ended by itself. */
  readonly failure: ConnectorFailure | undefined
  readonly ended: Promise<void>
}

export function openStdioTransport(
  { command, args = [], cwd }: StdioServer,
  env: Readonly<Record<string, string>>,
  sleep: ConnectorTools['sleep'],
): StdioTransport {
  let child: ChildProcess | undefined
  let failure: ConnectorFailure | undefined
  const rest: Buffer[] = []
  let sizeBytes = 0
  let isEnded = false
  const { promise: ended, resolve: end } = Promise.withResolvers<void>()

  function fail(message: string, happened: Happened = 'unknown'): void {
    failure ??= new ConnectorFailure('transient_connector_error', message, happened)
    transport.onerror?.(failure)
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
  function take(chunk: Buffer): void {
    sizeBytes += chunk.length
    if (sizeBytes > SESSION_BYTES_MAX) return fail(`The server sent more than ${SESSION_BYTES_MAX} bytes.`)
    let from = 0
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, from)) {
      rest.push(chunk.subarray(from, at))
      from = at + 1
      read(Buffer.concat(rest.splice(0)).toString('utf8'))
      if (failure) return
    }
    if (from < chunk.length) rest.push(chunk.subarray(from))
  }
  function read(line: string): void {
    if (line.trim() === '') return
    try {
      // The client checks the message.
      transport.onmessage?.(JSON.parse(line) as JSONRPCMessage)
    } catch {
      fail('The server sent a message that is not MCP.')
    }
  }

  const transport: StdioTransport = {
    get failure() {
      return failure
    },
    ended,
    start: () =>
      new Promise<void>((resolve, reject) => {
        child = spawn('/bin/sh', ['-c', WATCHED, 'sh', command, ...args], {
          env: { ...env },
          ...(cwd === undefined ? {} : { cwd }),
          stdio: ['pipe', 'pipe', 'ignore', 'pipe'],
          detached: true,
        })
        for (const stream of child.stdio) stream?.on('error', () => {})
        child.once('spawn', resolve)
        child.once('error', () => {
          failure ??= new ConnectorFailure('transient_connector_error', 'The server cannot be started.', 'no')
          reject(failure)
          end()
        })
        child.stdout?.on('data', take)
        child.once('exit', (code, signal) => {
          failure ??= new ConnectorFailure(
            'transient_connector_error',
            `The server ended (${signal ?? `code ${code}`}) before it answered.`,
            'unknown',
          )
          kill()
        })
        child.once('close', () => {
          // From now on the process id may belong to another process.
          isEnded = true
          end()
          transport.onclose?.()
        })
      }),
    send: (message) =>
      new Promise<void>((resolve, reject) => {
        const { stdin } = child ?? {}
        if (!stdin?.writable) return reject(failure ?? new Error('The server is not running.'))
        stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(failure ?? error) : resolve()))
      }),
    async close() {
      if (!child) return
      child.stdin?.end()
      const waiting = new AbortController()
      await Promise.race([ended, sleep(GRACE_MS, waiting.signal)])
      waiting.abort()
      kill()
      await ended
    },
  }
  return transport
}
