/** Tasks as tools of the Model Context Protocol, and decisions about commands as results of tools. Pure. */
import type { CallToolResult, Tool } from '@modelcontextprotocol/server'
import { refuseSecret } from '#contract'
import { type Catalog, listTools, type ProposedAction, toActionView, toolSchema } from '#domains/commands'
import type { Principal } from '#domains/identity'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, type Refusal, type RefusalCode, refuse } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import { hintOf } from '#refusals'

/** An argument of every tool, apart from the payload of its task. */
const REASON = '_reason'
/** The same in the `_meta` of a request, for programs that call tools. */
const REASON_META = 'concord/reason'
const KEY_META = 'concord/idempotency-key'
const REASON_CHARS_MAX = 500
const NO_REASON = 'The agent gave no reason.'

/** Reads a command, for clients that know neither tasks nor `input_required`. */
export const GET_COMMAND = 'get_command'
/** How long a request is held at most. The stock client gives up on one after 60 s. */
export const HOLD_MS = 20_000

/** The part of a result that every client can express. A result has more: the decision, the approval and the output. */
const outputSchema = {
  type: 'object',
  properties: {
    command_id: { type: 'string' },
    status: { type: 'string' },
    reasons: { type: 'array', items: { type: 'string' } },
    message: { type: 'string' },
  },
  required: ['command_id', 'status', 'reasons', 'message'],
} as const

const getCommand: Tool = {
  name: GET_COMMAND,
  description: 'Waits for a command that an earlier call of a tool has named, and returns its state and its output.',
  inputSchema: {
    type: 'object',
    properties: {
      command_id: { type: 'string', description: 'Of the result of the earlier call.' },
      wait_seconds: { type: 'integer', minimum: 0, maximum: HOLD_MS / 1_000, default: HOLD_MS / 1_000 },
    },
    required: ['command_id'],
    additionalProperties: false,
  },
  outputSchema,
  annotations: { readOnlyHint: true, openWorldHint: false },
}

export function listMcpTools(catalog: Catalog, { agent }: Pick<Principal, 'agent'>): Tool[] {
  const tools = listTools(catalog, agent).map((tool) => toTool(catalog, tool))
  return [...tools.toSorted((a, b) => (a.name < b.name ? -1 : 1)), getCommand]
}

type Listed = ReturnType<typeof listTools>[number]

function toTool(catalog: Catalog, { name, task }: Listed): Tool {
  const { spec, type } = task
  const schema = toolSchema(task)
  const reason = {
    type: 'string',
    maxLength: REASON_CHARS_MAX,
    description: 'Why you call it. The people who approve it see the reason.',
  }
  const effects = type.side_effects.map((effect) => catalog.effects.get(effect)?.definition)
  const readOnlyHint = effects.every((effect) => effect?.class === 'read')
  return {
    // A task whose slug is the name of the tool of this room keeps its own name.
    name: name === GET_COMMAND ? spec.name : name,
    title: spec.name,
    description: spec.description,
    inputSchema: {
      ...schema,
      type: 'object',
      properties: { ...schema.properties, [REASON]: reason },
    },
    outputSchema,
    annotations: {
      title: spec.name,
      readOnlyHint,
      destructiveHint: !readOnlyHint && effects.some((effect) => effect?.reversibility !== 'compensatable'),
    },
  }
}

type Called = { readonly payload: JsonObject; readonly reason: string; readonly idempotencyKey: string | undefined }

/** Takes the reason and the idempotency key apart from the payload. The id of the JSON-RPC request is never a key. */
export function readCall(given: JsonObject = {}, meta: Readonly<Record<string, unknown>> = {}): Decision<Called> {
  const { [REASON]: argument, ...payload } = given
  const [key, reason = NO_REASON] = [meta[KEY_META], argument ?? meta[REASON_META]]
  if (typeof reason !== 'string' || reason.trim() === '' || reason.length > REASON_CHARS_MAX)
    return refuse('mcp.argument.invalid', `The reason must be a text of 1 to ${REASON_CHARS_MAX} characters.`, {
      path: REASON,
    })
  if (key !== undefined && typeof key !== 'string')
    return refuse('mcp.argument.invalid', 'The idempotency key must be a text.', { path: `_meta.${KEY_META}` })
  // The key is stored as it is.
  if (key !== undefined && hasSecretShape(key))
    return refuseSecret('The idempotency key looks like a key, a token or a password.', `_meta.${KEY_META}`)
  return accept({ payload, reason, idempotencyKey: key })
}

/** At rest: it has ended, or only a person can go on with it, with input that the call did not contain. */
export const hasOutcome = ({ status, command: { completed_at } }: ProposedAction) =>
  completed_at !== null || status === 'waiting_for_input'

export function toResult(action: ProposedAction): CallToolResult {
  const { status, message, output } = action
  const commandId = encodeId('command', action.command.command_id)
  const isDone = status === 'succeeded'
  const more = isDone ? JSON.stringify(output) : hasOutcome(action) ? '' : pendingHint(commandId)
  return {
    content: [message, more].flatMap((text) => (text === '' ? [] : [{ type: 'text' as const, text }])),
    structuredContent: toActionView(action),
    ...(hasOutcome(action) && !isDone && { isError: true }),
  }
}

const pendingHint = (commandId: string) =>
  `It is not finished. Call the tool ${GET_COMMAND} with {"command_id":"${commandId}"} to wait for it. Do not call this tool again.`

/** A refusal is a result that the model can read, so that it can correct the call. */
export function toErrorResult(refusal: Refusal): CallToolResult {
  const at = refusal.path === undefined ? '' : ` at ${refusal.path}`
  const text = `${refusal.reason} (${refusal.code}${at}) ${hintForModel(refusal)}`
  return { content: [{ type: 'text', text: text.trim() }], isError: true }
}

const hints: Partial<Record<RefusalCode, string>> = {
  'commands.payload.malformed': 'Correct the arguments: the list of tools has the schema of each.',
  'commands.command.not_found': 'Use the command_id that the result of an earlier call has named.',
}
/** A route of the API, or a program on a terminal. */
const ELSEWHERE = /\b(?:GET|POST|PUT|PATCH|DELETE) \/|\bconcord [a-z]/

/** A model has tools, and neither the API nor a terminal. */
function hintForModel(refusal: Refusal): string {
  const hint = hints[refusal.code] ?? hintOf(refusal)
  return ELSEWHERE.test(hint) ? 'Ask the person for whom you act.' : hint
}

const POLL_MS = 1_000
/** People take longer to decide than a worker to work. */
const POLL_PEOPLE_MS = 5_000

/** The state of a command as a task of the extension. `failed` is only for errors of the protocol, so a failed command is completed. */
export function toTask(action: ProposedAction) {
  const { status, message, command } = action
  const common = {
    taskId: encodeId('command', command.command_id),
    statusMessage: message,
    createdAt: command.created_at.toISOString(),
    lastUpdatedAt: command.updated_at.toISOString(),
    ttlMs: null,
    pollIntervalMs: status === 'waiting_for_approval' ? POLL_PEOPLE_MS : POLL_MS,
  }
  if (status === 'cancelled') return { ...common, status: 'cancelled' as const }
  if (hasOutcome(action))
    return { ...common, status: 'completed' as const, result: { resultType: 'complete', ...toResult(action) } }
  return { ...common, status: 'working' as const }
}
