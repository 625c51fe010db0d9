/** Any MCP server as a connector: its tools are governed operations, called only as a person approved their definitions. */
import { z } from 'zod'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import {
  type Connector,
  ConnectorFailure,
  type ConnectorResult,
  type LookContext,
  succeeded,
  unsupported,
} from '../connector.ts'
import type { ConnectorTools } from '../connector-tools.ts'
import { type ConnectorDefinition, defineConnector } from '../define-connector.ts'
import { hashDefinition } from '../definitions/hash-definition.ts'
import { findMcpFlaws } from './find-mcp-flaws.ts'
import { type McpSession, openMcpSession } from './mcp-session.ts'
import type { McpConnectorInput } from './mcp-settings.ts'
import { contractOf, definitionOf, mcpOutput } from './tool-definition.ts'

export function mcpConnector(input: McpConnectorInput): ConnectorDefinition {
  const { server, tools, secret_refs = [], ...declared } = input
  const auth = 'http' in server ? server.http.auth : undefined
  const { mode = 'none', secret_ref = null, scopes = [] } = auth ?? {}
  const own = 'stdio' in server ? Object.values(server.stdio.secret_env ?? {}) : []
  return defineConnector({
    risk_level: 'medium',
    ...declared,
    connector_type: 'mcp',
    auth: { mode, secret_ref, scopes },
    secret_refs: [...secret_refs, ...own],
    operations: Object.entries(tools).map(([name, { tool = name, ...terms }]) => ({
      side_effect_class: 'opaque' as const,
      risk_level: 'medium' as const,
      approval_required: true,
      ...terms,
      name,
      description: `The tool ${tool} of ${input.name}, whose definition nobody has approved yet.`,
      // Until a definition is approved there is no input that it takes.
      input: z.strictObject({}),
      output: mcpOutput,
    })),
    settings: settingsOf(input),
    pinned: { contractOf },
    flaws: findMcpFlaws(input),
    open: (own) => openMcp(input, own),
  })
}

function settingsOf({ server, tools }: McpConnectorInput): JsonObject {
  const names = Object.fromEntries(Object.entries(tools).map(([name, { tool = name }]) => [name, tool]))
  if ('http' in server) return { url: server.http.url, tools: names }
  const { command, args = [], cwd = null, env = {}, secret_env = {} } = server.stdio
  return { command, args: [...args], cwd, env, secret_env: Object.keys(secret_env), tools: names }
}

const ERROR_TEXT_CHARS_MAX = 200
const REFRESH_MS = 30_000

function openMcp({ name, server, tools }: McpConnectorInput, own: ConnectorTools): Connector {
  const sessions = new Set<McpSession>()

  async function within<T>(context: LookContext, work: (session: McpSession) => Promise<T>): Promise<T> {
    const session = await openMcpSession(server, context, own)
    sessions.add(session)
    try {
      return await work(session)
    } finally {
      // Nobody waits for the farewell; `close` of the connector does.
      void session.close().finally(() => sessions.delete(session))
    }
  }

  const look = (context: LookContext) =>
    within(context, async (session) => {
      const said = await session.tools()
      return Object.entries(tools).flatMap(([operation, { tool = operation }]) => {
        const found = said.find((each) => each.name === tool)
        return found ? [{ operation, definition: definitionOf(found) }] : []
      })
    })

  return {
    name,
    connector_type: 'mcp',
    capabilities: () => Object.keys(tools),
    async call({ capability, input, context }): Promise<ConnectorResult> {
      const terms = Object.hasOwn(tools, capability) ? tools[capability] : undefined
      if (!terms) return unsupported(capability)
      const tool = terms.tool ?? capability
      return within(context, async (session) => {
        const said = (await session.tools()).filter((each) => each.name === tool)
        if (said.length > 1)
          throw new ConnectorFailure('permission_denied', `the server has the tool ${tool} twice`, 'no')
        await context.confirmDefinition(said[0] ? definitionOf(said[0]) : null)
        const { content, structuredContent, isError } = await session.call(tool, { ...input }, context.idempotency_key)
        if (isError === true)
          throw new ConnectorFailure('validation_error', `the tool failed: ${textIn(content)}`, 'unknown')
        // It came off the wire as JSON.
        return succeeded({ content: content ?? [], structured: structuredContent ?? null } as unknown as JsonValue)
      })
    },
    look,
    async refresh(context) {
      const seen = await look({ ...context, timeout_ms: REFRESH_MS, output_max_bytes: 0 })
      return { definitions: Object.fromEntries(seen.map((each) => [each.operation, hashDefinition(each.definition)])) }
    },
    async close() {
      await Promise.all([...sessions].map((session) => session.close()))
    },
  }
}

/** The words of the tool, shortened; the gate takes secrets out of them. */
function textIn(content: readonly { readonly type: string; readonly text?: unknown }[] | undefined): string {
  const texts = (content ?? []).flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
  return texts.join(' ').slice(0, ERROR_TEXT_CHARS_MAX) || 'it did not say why'
}
