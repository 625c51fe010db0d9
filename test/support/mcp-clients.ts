/** Concord as an MCP server in tests: the API on a real port, with workers, and the stock clients of both generations. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client'
import { serve } from '../../src/api/server.ts'
import { createUser, openAuthenticator } from '../../src/domains/identity/index.ts'
import { bySystem } from '../../src/kernel/actor.ts'
import { openMcp } from '../../src/mcp/index.ts'
import { type AgentApi, openAgentApi } from './agents.ts'
import { accepted, anOrgRole, TRACE } from './tenant.ts'
import { openTokenProvider } from './token.ts'

const WRITER = 'auth0|ada'
export const TASKS = 'io.modelcontextprotocol/tasks'
export type { CallToolResult, Client } from '@modelcontextprotocol/client'
export { resultFromTaskOutcome } from '@modelcontextprotocol/ext-tasks/client'

export const MODERN = '2026-07-28'
const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const clientInfo = { name: 'stock', version: '1.0.0' }

export type McpApi = Awaited<ReturnType<typeof openMcpApi>>

/** `holdMs` is short, so that a test sees the end of a round. */
export async function openMcpApi({ holdMs = 2_000 } = {}) {
  const agent: AgentApi = await openAgentApi()
  const { api, room } = agent
  const closing = new AbortController()
  const commands = room.world
  const errors: Error[] = []
  const mcp = openMcp({
    commands,
    version: '0.0.0-test',
    stateKey: new Uint8Array(32).fill(9),
    closing: closing.signal,
    holdMs,
    onError: (error) => void errors.push(error),
  })
  const work = { commands, approvals: room.approvals, webhooks: [] }
  const oauthResource = { resource: 'https://concord.example.com/mcp', issuer: 'https://id.example.com/' }
  const tokens = await openTokenProvider()
  const { authenticate } = openAuthenticator({ db: api.world.db, now: api.world.now, provider: tokens.provider })
  const served = await serve(api.with({ work, mcp, oauthResource, authenticate }), {
    host: '127.0.0.1',
    port: 0,
    randomBytes,
  })
  // Works off the woken commands, as a worker would.
  const working = (async () => {
    while (!closing.signal.aborted) {
      await room.settleWoken()
      await pause(5)
    }
  })()
  await anOrgRole(api.world, api.ours.orgId, 'data-owner', [api.ours.people.admin])
  const url = new URL('/mcp', served.url)
  const person = { orgId: api.ours.orgId, externalId: WRITER, role: 'writer' as const }
  accepted(await createUser(api.world, bySystem(TRACE), person))
  const keyOf = async (tools: readonly string[], name = 'planner', by = api.ours.people.writer.key) => {
    const { status, body } = await agent.post('/keys', { name, role: 'writer', agent: name, tools }, by)
    assert.equal(status, 201, JSON.stringify(body))
    return body['key'] as string
  }
  const headersOf = (key: string) => ({ authorization: `Bearer ${key}`, 'x-workspace': 'main' })

  return {
    ...agent,
    url,
    errors,
    keyOf,
    headersOf,
    /** A token of the identity provider for the writer. */
    tokenFor: (audience: string | string[]) =>
      tokens.sign(WRITER, Math.floor(api.world.now().getTime() / 1_000) + 300, audience),
    /** Posts one message as it is. */
    async rpc(key: string, message: string | object, headers: Record<string, string> = {}) {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          ...headersOf(key),
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...headers,
        },
        body: typeof message === 'string' ? message : JSON.stringify(message),
      })
      const text = await response.text()
      return { status: response.status, headers: response.headers, body: parse(text) }
    },
    connect: (key: string, mode: Mode = 'modern') => connectTo(url, headersOf(key), mode),
    /** The client of the tasks extension. */
    async connectTasks(key: string) {
      const capabilities = { extensions: { [TASKS]: {} } }
      const client = await connectTo(url, headersOf(key), 'modern', capabilities)
      return taskSession(client, url, headersOf(key))
    },
    /** Decides the one approval of a command over HTTP, as the administrator. */
    async decide(commandId: string, decision: 'approved' | 'rejected' = 'approved') {
      const admin = api.ours.people.admin.key
      const { body } = await agent.get(`/approvals?command_id=${commandId}`, admin)
      const [approval] = (body as { items: { approval_id: string; checksum?: string }[] }).items
      assert.ok(approval, JSON.stringify(body))
      const decided = await agent.post(
        `/approvals/${approval.approval_id}/resolve`,
        { decision, reason: 'Decided.' },
        admin,
      )
      assert.equal(decided.status, 200, JSON.stringify(decided.body))
    },
    async close() {
      closing.abort()
      await working
      await served.close(200)
      await agent.close()
    },
  }
}

function parse(text: string): Record<string, unknown> {
  const data = /^data: (.*)$/m.exec(text)?.[1] ?? text
  return data === '' ? {} : (JSON.parse(data) as Record<string, unknown>)
}

export type Mode = 'modern' | 'legacy'

/** The stock client over standard input and output: it starts `concord mcp`. */
export async function startClient(env: Readonly<Record<string, string>>, cwd: string, mode: Mode): Promise<Client> {
  const client = newClient(mode)
  const args = ['--conditions=concord-source', MAIN, 'mcp']
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env: { ...env }, cwd }))
  return client
}

const newClient = (mode: Mode, capabilities = {}) =>
  new Client(clientInfo, { capabilities, versionNegotiation: { mode: mode === 'modern' ? 'auto' : 'legacy' } })

/** The stock client: revision 2026-07-28, or the handshake of the earlier ones. */
export async function connectTo(url: URL, headers: Record<string, string>, mode: Mode, capabilities = {}) {
  const client = newClient(mode, capabilities)
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
  return client
}

export function taskSession(client: Client, url: URL, headers: Record<string, string>) {
  let id = 0
  const clientCapabilities = { extensions: { [TASKS]: {} } }
  return createTaskSessionFromClient(client, {
    endpointId: url.href,
    v2RequestFraming: { protocolVersion: MODERN, clientInfo, clientCapabilities },
    async rawDispatch(request, options) {
      const { method, params } = request as { method: string; params?: { name?: string; taskId?: string } }
      const name = params?.name ?? params?.taskId
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          ...headers,
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'mcp-protocol-version': MODERN,
          'mcp-method': method,
          ...(name === undefined ? {} : { 'mcp-name': name }),
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: (id += 1), ...(request as object) }),
        ...(options?.signal && { signal: options.signal }),
      })
      const { result, error } = parse(await response.text())
      return (error === undefined ? { kind: 'result', result } : { kind: 'error', error }) as never
    },
  })
}
