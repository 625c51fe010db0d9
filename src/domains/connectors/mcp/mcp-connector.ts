/** Any MCP server as a connector. Its tools are governed operations, called only with a definition that a person approved. */
import { isAbsolute } from 'node:path'
import { z } from 'zod'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Operation } from '#kernel/step'
import {
  type Connector,
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorInput,
  type ConnectorOperationContract,
  type ConnectorResult,
  type ConnectorTools,
  defineConnector,
  type LookContext,
  succeeded,
  unsupported,
} from '../connector.ts'
import { hashDefinition } from '../definitions.ts'
import { closed, typeOfSchema } from '../json-schema.ts'
import { findAddressFlaws } from '../http/guarded-fetch.ts'
import { type HttpServer, type McpServer, type McpSession, openMcpSession } from './mcp-session.ts'
import type { StdioServer } from './stdio-transport.ts'

/** The terms that the project sets for a tool. The hints of the server about itself are ignored. */
export type McpToolTerms = Partial<
  Omit<ConnectorOperationContract, 'name' | 'description' | 'input' | 'output' | 'idempotency'>
> & {
  /** Its name on the server, if it is not that of the operation. */
  readonly tool?: string
  /** The type of its input for the steps of commands. The approved definition of the server checks the call. */
  readonly input?: z.ZodType<object, object>
  /** The type of its structured output. */
  readonly output?: z.ZodType
}

type McpTools = Readonly<Record<string, McpToolTerms>>

export type McpConnectorInput<Tools extends McpTools = McpTools> = Pick<ConnectorInput, 'name' | 'description'> &
  Partial<Omit<ConnectorInput, 'open' | 'connector_type' | 'operations' | 'settings' | 'auth' | 'flaws' | 'pinned'>> & {
    readonly server: McpServer
    /** By operation: lower-case letters, digits and `_`. A tool that is not listed here cannot be called. */
    readonly tools: Tools
  }

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/

function findMcpFlaws({ server, tools }: McpConnectorInput): readonly string[] {
  const names = Object.entries(tools).map(([operation, { tool = operation }]) => tool)
  return [
    ...names.filter((name, at) => names.indexOf(name) !== at).map((name) => `The tool ${name} is mounted twice.`),
    ...('stdio' in server ? findStdioFlaws(server.stdio) : findHttpFlaws(server.http)),
  ]
}

function findStdioFlaws({ command, cwd, env = {}, secret_env = {} }: StdioServer): readonly string[] {
  const variables = [...Object.keys(env), ...Object.keys(secret_env)]
  return [
    ...(isAbsolute(command) ? [] : ['command must be an absolute path: there is no PATH.']),
    ...(cwd === undefined || isAbsolute(cwd) ? [] : ['cwd must be an absolute path.']),
    ...variables.filter((name) => !VARIABLE.test(name)).map((name) => `${name} is not a valid name of a variable.`),
    ...variables.filter((name, at) => variables.indexOf(name) !== at).map((name) => `${name} is set twice.`),
  ]
}

function findHttpFlaws({ url, auth, reach }: HttpServer): readonly string[] {
  return [
    ...findAddressFlaws('url', url, reach),
    ...(['none', 'bearer', 'api_key'].includes(auth?.mode ?? 'none')
      ? []
      : ['The auth mode of an MCP server must be none, bearer or api_key.']),
  ]
}

/** A tool as its server describes it. */
type SaidTool = {
  readonly name: string
  readonly description?: string | undefined
  readonly inputSchema: unknown
  readonly outputSchema?: unknown
}

const DEFINITION_CHARS_MAX = 65_536

/** Returns the approved parts: name, description and schemas, which define what a call means to its caller. */
function definitionOf({ name, description, inputSchema, outputSchema }: SaidTool): JsonObject {
  const said = { name, description: description ?? '', input_schema: inputSchema, output_schema: outputSchema ?? null }
  const text = JSON.stringify(said)
  // A person must be able to read it before approving it.
  if (text.length > DEFINITION_CHARS_MAX)
    throw new ConnectorFailure(
      'permission_denied',
      `The server describes a tool with more than ${DEFINITION_CHARS_MAX} characters.`,
      'no',
    )
  // It arrived as JSON; this drops undefined fields.
  return JSON.parse(text) as JsonObject
}

const content = z.array(z.looseObject({ type: z.string() }))

/** The output of every tool; `structured` has a schema only if the server declares one. */
const mcpOutput = z.object({ content, structured: z.unknown() })

/** Uses the approved texts and schemas, and keeps the terms of the project. */
function contractOf(operation: ConnectorOperationContract, approved: JsonObject): Decision<ConnectorOperationContract> {
  const { description, input_schema, output_schema } = approved
  try {
    const input = typeOfSchema(closed(input_schema))
    const structured = output_schema === null ? z.unknown() : typeOfSchema(asPart(output_schema, operation.name))
    return accept({
      ...operation,
      description: typeof description === 'string' && description.trim() !== '' ? description : operation.description,
      input,
      output: z.object({ content, structured }),
    })
  } catch (error) {
    const why = error instanceof Error ? error.message.slice(0, 200) : 'It is not a schema.'
    return refuse('connectors.definition.unreadable', `A schema of ${operation.name} is not readable: ${why}`)
  }
}

/** The output of a tool is shown inside a larger schema: with an id, the references in it still lead to its own parts. */
function asPart(schema: JsonValue | undefined, name: string): JsonValue | undefined {
  return schema !== undefined && schema !== null && isJsonObject(schema)
    ? { $id: `urn:concord:${name}`, ...schema }
    : schema
}

type InputOf<Terms> = Terms extends { readonly input: infer Schema extends z.ZodType<object, object> }
  ? z.input<Schema>
  : JsonObject
type ResultOf<Terms> = {
  readonly structured: Terms extends { readonly output: z.ZodType<infer Output> } ? Output : unknown
}

type ToolsOf<Tools extends McpTools> = {
  readonly [Name in Exclude<keyof Tools & string, keyof ConnectorDefinition>]: Operation<
    InputOf<Tools[Name]>,
    ResultOf<Tools[Name]>
  >
}

export function mcpConnector<const Tools extends McpTools>(
  input: McpConnectorInput<Tools>,
): ConnectorDefinition & ToolsOf<Tools> {
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
    operations: Object.entries(tools).map(([name, { tool = name, input: _input, output: _output, ...terms }]) => ({
      side_effect_class: 'opaque' as const,
      risk_level: 'medium' as const,
      approval_required: true,
      ...terms,
      name,
      description: `The tool ${tool} of ${input.name}, whose definition nobody has approved yet.`,
      // Without an approved definition it accepts no input.
      input: z.strictObject({}),
      output: mcpOutput,
    })),
    settings: settingsOf(input),
    pinned: { contractOf },
    flaws: findMcpFlaws(input),
    open: (own) => openMcp(input, own),
    // The types of the steps come from the terms of the project, not from the server.
  }) as ConnectorDefinition & ToolsOf<Tools>
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
      // A call does not wait for the end of its session; `close` of the connector does.
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
          throw new ConnectorFailure('permission_denied', `The server lists the tool ${tool} twice.`, 'no')
        await context.confirmDefinition(said[0] ? definitionOf(said[0]) : null)
        const { content, structuredContent, isError } = await session.call(tool, { ...input }, context.idempotency_key)
        if (isError === true)
          throw new ConnectorFailure('validation_error', `The tool failed: ${textIn(content)}`, 'unknown')
        // It arrived as JSON.
        const output = { content: content ?? [], structured: structuredContent ?? null } as unknown as JsonValue
        return succeeded(output, {
          'mcp.method.name': 'tools/call',
          'gen_ai.operation.name': 'execute_tool',
          'gen_ai.tool.name': tool,
        })
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

/** The error text of the tool, shortened; the gate removes secrets from it. */
function textIn(content: readonly { readonly type: string; readonly text?: unknown }[] | undefined): string {
  const texts = (content ?? []).flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
  return texts.join(' ').slice(0, ERROR_TEXT_CHARS_MAX) || 'it gave no reason'
}
