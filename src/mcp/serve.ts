/**
 * Serves the Model Context Protocol. A call of a tool is a proposal of the caller: a command with its policy, approvals and record. Nothing is
 * kept between two requests: what waits is a command, and a signed state or the id of a task names it.
 */
import {
  createMcpHandler,
  createRequestStateCodec,
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY as CAPABILITIES,
  type ClientCapabilities,
  inputRequired,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import {
  actingFor,
  cancelCommand,
  type CommandDeps,
  type ProposedAction,
  proposeAction,
  readAction,
  rejectRequest,
} from '#domains/commands'
import type { Principal } from '#domains/identity'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { GET_COMMAND, HOLD_MS, hasOutcome, readCall, toErrorResult, listMcpTools, toResult, toTask } from './tools.ts'
import { openWaits } from './waits.ts'

/** Who sends a request, as the guards of the API have found it. */
export type McpCaller = {
  readonly principal: Principal
  readonly workspaceId: string
  readonly traceId: string
  readonly requestId: string
}

export type McpDeps = {
  readonly commands: CommandDeps
  readonly version: string
  /** Signs the state of calls that wait; the same in every process of one installation. */
  readonly stateKey: Uint8Array
  /** Ends the waits when the server shuts down. */
  readonly closing: AbortSignal
  readonly holdMs?: number
  readonly onError?: (error: Error) => void
}

export type ServeMcp = (request: Request, sent: JsonObject, caller: McpCaller) => Promise<Response>

const TASKS = 'io.modelcontextprotocol/tasks'
/** The stock client gives up after ten rounds. The last round names `get_command` instead. */
const ROUNDS_MAX = 9
const STATE_TTL_S = 600

const INSTRUCTIONS = `Each tool proposes an action to Concord, which decides by policy, asks people where it must, and records everything. Give the reason in _reason. A denial is final: do not call the tool again with the same arguments. If a result says that it is not finished, call ${GET_COMMAND}.`

/** The command that a call waits for. */
type State = { readonly commandId: string; readonly tool: string; readonly round: number }

export function openMcp(deps: McpDeps): ServeMcp {
  const { commands, holdMs = HOLD_MS } = deps
  const waits = openWaits(commands, deps.closing)
  const codec = createRequestStateCodec<State>({
    key: deps.stateKey,
    ttlSeconds: STATE_TTL_S,
    bind: (ctx) => {
      const { principal, workspaceId } = callerIn(ctx.http?.authInfo)
      return JSON.stringify([workspaceId, principal.userId, principal.keyId, principal.agent?.name ?? null])
    },
  })

  /** Refuses a state that this caller did not get for this tool. The refusal is on record. */
  async function refuseState(caller: McpCaller): Promise<never> {
    const refusal = refuse('mcp.state.invalid', 'The state of a call is changed, expired, or of another caller.', {
      path: 'requestState',
    })
    const by = { ...actingOf(caller), kind: 'user' as const }
    await rejectRequest(
      commands,
      by,
      { workspaceId: caller.workspaceId, taskName: 'mcp', ingress: 'agent_action' },
      refusal,
    )
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'Invalid or expired requestState', { code: refusal.code })
  }

  const read = async (caller: McpCaller, id: string): Promise<Decision<ProposedAction>> => {
    const commandId = decodeId('command', id)
    if (!commandId.ok) return commandId
    const { workspaceId } = caller
    return readAction(commands, caller.principal, { workspaceId, commandId: commandId.value })
  }

  /** Holds the request until the command is at rest or the time is over, and reads it again. */
  const follow = async (caller: McpCaller, action: ProposedAction, ms: number, signal: AbortSignal) => {
    if (hasOutcome(action) || ms === 0) return accept(action)
    const { command_id: commandId } = action.command
    await waits.wait(commandId, ms, signal)
    return readAction(commands, caller.principal, { workspaceId: caller.workspaceId, commandId })
  }

  async function callGetCommand(caller: McpCaller, given: JsonObject, signal: AbortSignal): Promise<CallToolResult> {
    const parsed = getCommandArguments.safeParse(given)
    if (!parsed.success) {
      const { message, path } = parsed.error.issues[0] ?? { message: '', path: [] }
      return toErrorResult(refuse('mcp.argument.invalid', `${message}.`, { path: path.join('.') }))
    }
    const { command_id, wait_seconds = HOLD_MS / 1_000 } = parsed.data
    const found = await read(caller, command_id)
    if (!found.ok) return toErrorResult(found)
    const action = await follow(caller, found.value, Math.min(wait_seconds * 1_000, holdMs), signal)
    return action.ok ? toResult(action.value) : toErrorResult(action)
  }

  /** Proposes the call, or goes on with the one that the state names. */
  async function propose(caller: McpCaller, name: string, given: JsonObject, ctx: ServerContext) {
    const call = readCall(given, ctx.mcpReq._meta)
    if (!call.ok) return call
    const proposed = await proposeAction(commands, actingOf(caller), {
      ...call.value,
      workspaceId: caller.workspaceId,
      toolName: name,
      requestId: caller.requestId,
      signal: ctx.mcpReq.signal,
    })
    if (proposed.ok || !NOT_LISTED.has(proposed.code)) return proposed
    const { hint = '' } = didYouMean(name, namesOf(listMcpTools(commands.catalog, caller.principal)))
    const said = `There is no tool ${quote(name)} for this key. ${hint}`.trim()
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, said, { code: proposed.code })
  }

  async function callTool(caller: McpCaller, name: string, given: JsonObject, ctx: ServerContext, isOld: boolean) {
    if (name === GET_COMMAND) return callGetCommand(caller, given, ctx.mcpReq.signal)
    const state = ctx.mcpReq.requestState<State>()
    if (state && state.tool !== name) return refuseState(caller)
    const begun = state ? await read(caller, state.commandId) : await propose(caller, name, given, ctx)
    if (!begun.ok) return toErrorResult(begun)
    const [hasTasks, round] = [!isOld && declaresTasks(ctx), (state?.round ?? 0) + 1]
    // Without rounds there is no use in holding a request for a person, who takes longer.
    const waitsForPerson = begun.value.status === 'waiting_for_approval'
    const ms = hasTasks ? Math.min(TASK_AFTER_MS, holdMs) : holdMs
    const ended = await follow(caller, begun.value, waitsForPerson && (hasTasks || isOld) ? 0 : ms, ctx.mcpReq.signal)
    if (!ended.ok) return toErrorResult(ended)
    const action = ended.value
    if (hasOutcome(action) || isOld) return toResult(action)
    if (hasTasks) return { resultType: 'task', ...toTask(action), content: [] }
    if (round > ROUNDS_MAX) return toResult(action)
    const commandId = encodeId('command', action.command.command_id)
    return inputRequired({ requestState: await codec.mint({ commandId, tool: name, round }, ctx) })
  }

  async function findTask(caller: McpCaller, taskId: string): Promise<ProposedAction> {
    const found = await read(caller, taskId)
    if (found.ok) return found.value
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, 'There is no such task.', { code: found.code })
  }

  async function cancelTask(caller: McpCaller, taskId: string) {
    const { command } = await findTask(caller, taskId)
    const input = { workspaceId: caller.workspaceId, commandId: command.command_id, reason: 'Cancelled over MCP.' }
    const cancelled = await cancelCommand(commands, { ...actingOf(caller), kind: 'user' }, input)
    // A command that has ended keeps its outcome, which the next `tasks/get` returns.
    if (cancelled.ok || command.completed_at !== null) return {}
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, cancelled.reason, { code: cancelled.code })
  }

  const handler = createMcpHandler(
    ({ authInfo, era }) => {
      const caller = callerIn(authInfo)
      const { server } = new McpServer(
        { name: 'concord', title: 'Concord', version: deps.version },
        {
          capabilities: { tools: { listChanged: false }, ...(era === 'modern' && { extensions: { [TASKS]: {} } }) },
          instructions: INSTRUCTIONS,
          requestState: { verify: (state, ctx) => codec.verify(state, ctx).catch(() => refuseState(caller)) },
        },
      )
      server.setRequestHandler('tools/list', () => ({ tools: listMcpTools(commands.catalog, caller.principal) }))
      server.setRequestHandler('tools/call', ({ params }, ctx) =>
        callTool(caller, params.name, (params.arguments ?? {}) as JsonObject, ctx, era === 'legacy'),
      )
      if (era === 'modern') {
        const params = z.looseObject({ taskId: z.string() })
        server.setRequestHandler('tasks/get', { params }, async ({ taskId }) => toTask(await findTask(caller, taskId)))
        server.setRequestHandler('tasks/cancel', { params }, ({ taskId }) => cancelTask(caller, taskId))
        // A method of the extension. No task of ours asks for input, so there is nothing to take.
        server.setRequestHandler('tasks/update', { params }, async ({ taskId }) => {
          await findTask(caller, taskId)
          return {}
        })
      }
      return server
    },
    { maxSubscriptions: 0, ...(deps.onError && { onerror: deps.onError }) },
  )

  return (request, sent, caller) =>
    handler.fetch(request, {
      parsedBody: sent,
      // The credential stays with the guards: no handler sees it.
      authInfo: { token: '', clientId: caller.principal.userId, scopes: [], extra: { caller } },
    })
}

/** How long a call is held before it becomes a task. */
const TASK_AFTER_MS = 1_000

const getCommandArguments = z.strictObject({
  command_id: z.string(),
  wait_seconds: z
    .int()
    .min(0)
    .max(HOLD_MS / 1_000)
    .optional(),
})

/** A tool that the list does not contain: an error of the protocol. */
const NOT_LISTED: ReadonlySet<string> = new Set([
  'commands.tool.unknown',
  'commands.tool.forbidden',
  'commands.tool.outside_scope',
  'commands.tool.ambiguous',
])

const namesOf = (tools: readonly { readonly name: string }[]) => tools.map(({ name }) => name)

function callerIn(authInfo: { readonly extra?: Record<string, unknown> } | undefined): McpCaller {
  return authInfo?.extra?.['caller'] as McpCaller
}

const actingOf = ({ principal, traceId }: McpCaller) => actingFor(principal, traceId)

function declaresTasks({ mcpReq: { envelope } }: ServerContext): boolean {
  const declared: { readonly [CAPABILITIES]?: ClientCapabilities } = envelope ?? {}
  return declared[CAPABILITIES]?.extensions?.[TASKS] !== undefined
}
