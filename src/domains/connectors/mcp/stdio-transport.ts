/** A server on this machine, spoken to in lines: it sees the environment it was given and no other, can send no more than its limit, and dies with us. */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Writable } from 'node:stream'
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'
import { ConnectorFailure } from '../connector.ts'
import type { ConnectorTools } from '../define-connector.ts'
import type { StdioServer } from './mcp-settings.ts'

/** What one session may send in all; a line is a part of it. Above this it is a flood. */
const SESSION_BYTES_MAX = 8_388_608
/** A server that is told to end has this long to do it by itself. */
const GRACE_MS = 300

/**
 * Waits in the server's own process group for the end of descriptor 3, whose other end is held by this process alone, then
 * ends the group: so the server and its children go when we go, also when we are killed.
 */
const WATCHED = '(read -r _ <&3; kill -9 0) </dev/null >/dev/null 2>&1 & exec 3<&-; unset PWD OLDPWD SHLVL _; exec "$@"'

export type StdioTransport = Transport & {
  /** Why it ended, where it did so by itself. */
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

  function fail(message: string, happened: 'no' | 'unknown' = 'unknown'): void {
    failure ??= new ConnectorFailure('transient_connector_error', message, happened)
    transport.onerror?.(failure)
    kill()
  }
  /** The whole group; whoever still waits at descriptor 3 is let go with it. */
  function kill(): void {
    if (child?.pid === undefined || isEnded) return
    try {
      process.kill(-child.pid, 'SIGKILL')
    } catch {
      // Nobody is left in it.
    }
    ;(child.stdio[3] as Writable | null)?.destroy()
  }
  function take(chunk: Buffer): void {
    sizeBytes += chunk.length
    if (sizeBytes > SESSION_BYTES_MAX) return fail(`the server sent more than ${SESSION_BYTES_MAX} bytes`)
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
      // The client checks the shape of what it is given.
      transport.onmessage?.(JSON.parse(line) as JSONRPCMessage)
    } catch {
      fail('the server wrote something that is no MCP')
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
          failure ??= new ConnectorFailure('transient_connector_error', 'the server cannot be started', 'no')
          reject(failure)
          end()
        })
        child.stdout?.on('data', take)
        child.once('exit', (code, signal) => {
          failure ??= new ConnectorFailure(
            'transient_connector_error',
            `the server ended (${signal ?? `code ${code}`}) before it had answered`,
            'unknown',
          )
          kill()
        })
        child.once('close', () => {
          // From here on the number may be somebody else's.
          isEnded = true
          end()
          transport.onclose?.()
        })
      }),
    send: (message) =>
      new Promise<void>((resolve, reject) => {
        const { stdin } = child ?? {}
        if (!stdin?.writable) return reject(failure ?? new Error('the server is not there'))
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
