/** An MCP server on this machine over stdio, as a watched process that ends with its call. */
import type { JSONRPCMessage, Transport } from '@modelcontextprotocol/client'
import type { ConnectorFailure, ConnectorTools } from '../connector.ts'
import { openWatchedProcess, type WatchedProgram } from '../watched-process.ts'

/** A program on this machine that starts for a call and ends with it. */
export type StdioServer = WatchedProgram & {
  /** The whole environment of the program, in addition to `secret_env`. Nothing is inherited, not even `PATH`. */
  readonly env?: Readonly<Record<string, string>>
  /** Names with references to secrets: `{ API_TOKEN: 'env://TICKETS_TOKEN' }`. */
  readonly secret_env?: Readonly<Record<string, string>>
}

/** How long a server may take to end by itself. */
const GRACE_MS = 300

export type StdioTransport = Transport & {
  /** Why it ended, if it ended by itself. */
  readonly failure: ConnectorFailure | undefined
  readonly ended: Promise<void>
}

export function openStdioTransport(
  server: StdioServer,
  env: Readonly<Record<string, string>>,
  sleep: ConnectorTools['sleep'],
): StdioTransport {
  let isStarted = false
  const watched = openWatchedProcess(server, env, 'The server', {
    onLine(line) {
      try {
        // The client checks the message.
        transport.onmessage?.(JSON.parse(line) as JSONRPCMessage)
      } catch {
        watched.fail('The server sent a message that is not MCP.')
      }
    },
    onFailure: (failure) => transport.onerror?.(failure),
    onEnd: () => transport.onclose?.(),
  })
  const transport: StdioTransport = {
    get failure() {
      return watched.failure
    },
    ended: watched.ended,
    start() {
      isStarted = true
      return watched.start()
    },
    send: (message) => watched.write(JSON.stringify(message)),
    async close() {
      if (!isStarted) return
      watched.endInput()
      const waiting = new AbortController()
      await Promise.race([watched.ended, sleep(GRACE_MS, waiting.signal)])
      waiting.abort()
      watched.kill()
      await watched.ended
    },
  }
  return transport
}
