/** One session with an MCP server, for one call. */
import {
  Client,
  type FetchLike,
  type jsonSchemaValidator,
  type JsonSchemaValidator,
  ProtocolError,
  SdkError,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type Tool,
} from '@modelcontextprotocol/client'
import type { Clock } from '#kernel/clock'
import {
  type CallContext,
  type ConnectorAuth,
  ConnectorFailure,
  type ConnectorTools,
  type Happened,
  type LookContext,
} from '../connector.ts'
import { openAuthorizer } from '../http/authorize.ts'
import { type FetchTerms, openGuardedFetch } from '../http/guarded-fetch.ts'
import { httpReachOf } from '../http/reach.ts'
import { failureOfStatus, type Network } from '../http/request.ts'
import { openStdioTransport, type StdioServer } from './stdio-transport.ts'

/** A server behind streamable HTTP, called only at checked addresses. */
export type HttpServer = Network & {
  readonly url: string
  /** `none`, `bearer` or `api_key`. */
  readonly auth?: Partial<ConnectorAuth> & { readonly key_header?: string }
}

export type McpServer = { readonly stdio: StdioServer } | { readonly http: HttpServer }

/** JSON-RPC codes for an unknown method or tool, and for refused input. */
const refusals: readonly number[] = [-32_600, -32_601, -32_602]

function failureOfMcp(error: unknown, first: ConnectorFailure | undefined, isCalled: boolean): ConnectorFailure {
  const { errorClass, message, happened, retryAfterMs } = first ?? classify(error)
  return new ConnectorFailure(errorClass, message, isCalled ? happened : 'no', retryAfterMs)
}

function classify(error: unknown): ConnectorFailure {
  if (error instanceof ConnectorFailure) return error
  if (error instanceof SdkHttpError && typeof error.status === 'number')
    return failureOfStatus({ status: error.status, headers: {} })
  if (error instanceof ProtocolError) {
    const isNo = refusals.includes(error.code)
    const happened: Happened = isNo ? 'no' : 'unknown'
    return new ConnectorFailure(
      isNo ? 'validation_error' : 'transient_connector_error',
      `The server refused the request (${error.code}): ${error.message.slice(0, 200)}`,
      happened,
    )
  }
  if (error instanceof SdkError)
    return new ConnectorFailure(
      'transient_connector_error',
      `The session with the server broke (${error.code}).`,
      'unknown',
    )
  return new ConnectorFailure('transient_connector_error', 'The server violates the MCP protocol.', 'unknown')
}

const GOODBYE_MS = 2_000

function openMcpFetch(terms: FetchTerms): FetchLike {
  const guarded = openGuardedFetch(terms)
  return (address, init = {}) => {
    // GET opens a stream of server messages: a call waits only for its own answer.
    if ((init.method ?? 'GET') === 'GET') return Promise.resolve(new Response(null, { status: 405 }))
    // DELETE ends the session, after the call has ended.
    if (init.method === 'DELETE')
      return openGuardedFetch({ ...terms, signal: AbortSignal.timeout(GOODBYE_MS) })(address, init)
    return guarded(address, init)
  }
}

const trusting: jsonSchemaValidator = {
  getValidator<T>(): JsonSchemaValidator<T> {
    return (input) => ({ valid: true, data: input as T, errorMessage: undefined })
  },
}

/** The name of the idempotency key, for servers that deduplicate by it. */
const KEY_META = 'concord/idempotency-key'

/** The wire format is larger than the result: escapes, frames, the list of tools. */
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
  server: McpServer,
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
      // The approved definition is the contract of an answer, not what the server says now.
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
  if (context.signal.aborted) throw new ConnectorFailure('timeout', 'The call was aborted before it began.', 'no')
  const leave = () => void close()
  context.signal.addEventListener('abort', leave, { once: true })
  try {
    await guarded(() => client.connect(wire.transport, options))
  } catch (error) {
    leave()
    throw error
  }
  return {
    // A cache would return what the server said before.
    tools: () => guarded(async () => (await client.listTools(undefined, { ...options, cacheMode: 'refresh' })).tools),
    call(tool, input, key) {
      isCalled = true
      const { traceparent } = context
      const _meta = { ...(key !== null && { [KEY_META]: key }), ...(traceparent !== undefined && { traceparent }) }
      const meta = Object.keys(_meta).length === 0 ? {} : { _meta }
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
  const { url: address, auth: given, reach, ca, resolve } = server
  const url = new URL(address)
  const auth = { mode: 'none' as const, secret_ref: null, scopes: [], ...given }
  const authorizer = openAuthorizer(auth, now)
  // The auth modes allowed here send the secret itself and need nothing else of a call.
  const headers = await authorizer.headersFor({ url, method: 'POST', body: undefined }, context as CallContext)
  let failure: ConnectorFailure | undefined
  const transport = new StreamableHTTPClientTransport(url, {
    fetch: openMcpFetch({
      reach: httpReachOf(url, reach),
      resolve,
      ca,
      headers: context.traceparent === undefined ? headers : { traceparent: context.traceparent, ...headers },
      signal: context.signal,
      bytesMax: WIRE_BYTES_MAX,
      onFailure: (seen) => (failure ??= seen),
    }),
  })
  return { transport, failure: () => failure, leave: () => transport.terminateSession() }
}
