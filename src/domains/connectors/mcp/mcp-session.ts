/** One session with an MCP server: opened for one call, ended with it. */
import {
  Client,
  type jsonSchemaValidator,
  type JsonSchemaValidator,
  StreamableHTTPClientTransport,
  type Tool,
} from '@modelcontextprotocol/client'
import type { Clock } from '#kernel/clock'
import { type CallContext, ConnectorFailure, type LookContext } from '../connector.ts'
import type { ConnectorTools } from '../connector-tools.ts'
import { openAuthorizer } from '../http/authorize.ts'
import { httpReachOf } from '../http/reach.ts'
import { systemResolve } from '../http/send-request.ts'
import { openGuardedFetch } from './guarded-fetch.ts'
import { failureOfMcp } from './mcp-failure.ts'
import type { HttpServer, McpConnectorInput, StdioServer } from './mcp-settings.ts'
import { openStdioTransport } from './stdio-transport.ts'

const trusting: jsonSchemaValidator = {
  getValidator<T>(): JsonSchemaValidator<T> {
    return (input) => ({ valid: true, data: input as T, errorMessage: undefined })
  },
}

/** The name under which a key goes out, for servers that dedupe by it. */
const KEY_META = 'concord/idempotency-key'

/** What comes over the wire is larger than what it says: escapes, frames, the list of tools. */
const WIRE_BYTES_MAX = 8_388_608

export type McpSession = {
  tools(): Promise<readonly Tool[]>
  call(tool: string, input: Record<string, unknown>, key: string | null): ReturnType<Client['callTool']>
  close(): Promise<void>
}

type Wire = {
  readonly transport: Parameters<Client['connect']>[0]
  readonly failure: () => ConnectorFailure | undefined
  leave(): Promise<void>
}

export async function openMcpSession(
  server: McpConnectorInput['server'],
  context: LookContext,
  { now, sleep }: ConnectorTools,
): Promise<McpSession> {
  const wire =
    'stdio' in server ? await openStdio(server.stdio, context, sleep) : await openHttp(server.http, context, now)
  const client = new Client(
    { name: 'concord', version: '1' },
    {
      capabilities: {},
      versionNegotiation: { mode: 'auto' },
      // What a person approved decides what an answer must look like, not what the server says now.
      jsonSchemaValidator: trusting,
    },
  )
  const options = { signal: context.signal, timeout: context.timeout_ms }
  let isCalled = false
  const guarded = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      throw failureOfMcp(error, wire.failure(), isCalled)
    }
  }
  const close = async () => {
    await wire.leave().catch(() => {})
    await client.close().catch(() => {})
  }
  if (context.signal.aborted) throw new ConnectorFailure('timeout', 'the call was given up before it began', 'no')
  const leave = () => void close()
  context.signal.addEventListener('abort', leave, { once: true })
  try {
    await guarded(() => client.connect(wire.transport, options))
  } catch (error) {
    leave()
    throw error
  }
  return {
    // Asked anew each time: what a cache knows is what the server said before.
    tools: () => guarded(async () => (await client.listTools(undefined, { ...options, cacheMode: 'refresh' })).tools),
    call(tool, input, key) {
      isCalled = true
      const meta = key === null ? {} : { _meta: { [KEY_META]: key } }
      return guarded(() => client.callTool({ name: tool, arguments: input, ...meta }, options))
    },
    close,
  }
}

async function openStdio(server: StdioServer, context: LookContext, sleep: ConnectorTools['sleep']): Promise<Wire> {
  const env: Record<string, string> = { ...server.env }
  for (const [name, reference] of Object.entries(server.secret_env ?? {})) env[name] = await context.secret(reference)
  const transport = openStdioTransport(server, env, sleep)
  return { transport, failure: () => transport.failure, leave: () => transport.close() }
}

async function openHttp(server: HttpServer, context: LookContext, now: Clock): Promise<Wire> {
  const { url: address, auth: given, reach, ca, resolve = systemResolve } = server
  const url = new URL(address)
  const auth = { mode: 'none' as const, secret_ref: null, scopes: [], ...given }
  const authorizer = openAuthorizer(auth, now, () =>
    Promise.reject(new ConnectorFailure('permission_denied', 'there is no token server', 'no')),
  )
  // The ways that are allowed here put the secret itself on the request; none of them asks the rest of a call.
  const headers = await authorizer.headersFor({ url, method: 'POST', body: undefined }, context as CallContext)
  let failure: ConnectorFailure | undefined
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: openGuardedFetch({
      reach: httpReachOf(url, reach),
      resolve,
      ca,
      headers,
      signal: context.signal,
      bytesMax: WIRE_BYTES_MAX,
      onFailure: (seen) => (failure ??= seen),
    }),
  })
  return { transport, failure: () => failure, leave: () => transport.terminateSession() }
}
