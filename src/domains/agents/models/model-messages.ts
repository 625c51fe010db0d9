/**
 * The input and the output of a model call, and how they become the messages of the AI SDK and come back. All contents are texts: the
 * limits of the gate on fields and depth count the call, not what a tool has returned.
 */
import type { jsonSchema, ModelMessage, ToolSet } from 'ai'
import { z } from 'zod'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { redactText } from '#kernel/secret-shapes'
import type { AgentCall, AgentMessage, AgentObservation, ModelRequest } from '../agent-runtime.ts'

const called = z.strictObject({ id: z.string(), name: z.string(), arguments: z.string() })
const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['system', 'user']), text: z.string() }),
  z.strictObject({ role: z.literal('assistant'), text: z.string().nullable(), calls: z.array(called) }),
  z.strictObject({ role: z.literal('tool'), call_id: z.string(), text: z.string() }),
])
const offered = z.strictObject({ name: z.string(), description: z.string(), schema: z.string() })

export const generateInput = z.strictObject({
  messages: z.array(message).min(1),
  tools: z.array(offered),
  output_tokens_max: z.int().min(1),
})
export type GenerateInput = z.output<typeof generateInput>

const count = z.int().min(0)

/** The form of a `ModelAnswer`. */
export const generateOutput = z.strictObject({
  text: z.string().nullable(),
  calls: z.array(
    z.strictObject({
      id: z.string(),
      actionType: z.literal('tool_call'),
      toolName: z.string(),
      payload: z.record(z.string(), z.json()),
      reason: z.string(),
      invalid: z.string().optional(),
    }),
  ),
  usage: z.strictObject({ inputTokens: count, outputTokens: count, cachedTokens: count, reasoningTokens: count }),
})

export function toGenerateInput({ messages, tools, outputTokensMax }: ModelRequest): GenerateInput {
  return {
    messages: messages.map(toMessage),
    tools: tools.map(({ name, description, input }) => ({ name, description, schema: JSON.stringify(input) })),
    output_tokens_max: outputTokensMax,
  }
}

function toMessage(given: AgentMessage): GenerateInput['messages'][number] {
  switch (given.role) {
    case 'system':
      return { role: 'system', text: textOf(given.content) }
    case 'user':
    case 'agent':
      return { role: 'user', text: textOf(given.content) }
    case 'assistant':
      return { role: 'assistant', text: given.text, calls: given.calls.map(toCalled) }
    case 'tool':
      return { role: 'tool', call_id: given.observation.callId, text: sayObservation(given.observation) }
  }
}

function toCalled({ id, toolName, actionType, payload }: AgentCall): z.output<typeof called> {
  return { id, name: toolName ?? actionType, arguments: JSON.stringify(payload) }
}

function textOf(content: JsonValue): string {
  return typeof content === 'string' ? content : JSON.stringify(content)
}

/** A content that was forgotten stays visible as such: the model must not guess it. */
function sayObservation({ decision, content }: AgentObservation): string {
  return JSON.stringify({ decision, result: content })
}

/** Names that every provider accepts. A name that the provider would refuse is written with `_`, and read back. */
export function openNames(names: readonly string[]): { wire(name: string): string; own(wire: string): string } {
  const byWire = new Map<string, string>()
  const byName = new Map<string, string>()
  for (const name of names) {
    const base = name.replaceAll(/[^\w-]/g, '_').slice(0, 60)
    let wire = base
    for (let more = 2; byWire.has(wire); more += 1) wire = `${base}_${more}`
    byWire.set(wire, name)
    byName.set(name, wire)
  }
  return {
    wire: (name) => byName.get(name) ?? name.replaceAll(/[^\w-]/g, '_').slice(0, 64),
    own: (wire) => byWire.get(wire) ?? wire,
  }
}
type Names = ReturnType<typeof openNames>

/** Tools without `execute`: the AI SDK returns the calls, and Concord decides about them. */
export function toToolSet(tools: GenerateInput['tools'], names: Names, schemaOf: typeof jsonSchema): ToolSet {
  return Object.fromEntries(
    tools.map(({ name, description, schema }) => [
      names.wire(name),
      { description, inputSchema: schemaOf(JSON.parse(schema) as Parameters<typeof jsonSchema>[0]) },
    ]),
  )
}

type Asked = GenerateInput['messages'][number]

/** The results that follow an answer, up to the next one: ids of calls are unique only within their answer. */
function resultsAfter(messages: readonly Asked[], index: number): ReadonlyMap<string, string> {
  const results = new Map<string, string>()
  for (let next = index + 1; next < messages.length; next++) {
    const each = messages[next]
    if (each?.role === 'assistant') break
    if (each?.role === 'tool') results.set(each.call_id, each.text)
  }
  return results
}

/**
 * Texts and arguments are sent without what looks like a secret. A call without an observation gets one that says so: providers refuse a conversation with an open
 * call, and one with two calls of the same id. So ids are sent by position.
 */
export function toModelMessages(messages: readonly Asked[], names: Names): readonly ModelMessage[] {
  let answers = 0
  return messages.flatMap((each, index): readonly ModelMessage[] => {
    if (each.role === 'tool') return []
    if (each.role !== 'assistant') return [{ role: each.role, content: redactText(each.text) }]
    const results = resultsAfter(messages, index)
    const nth = answers++
    const calls = each.calls.map((call, at) => ({
      id: `call_${nth}_${at}`,
      name: names.wire(call.name),
      arguments: call.arguments,
      result: results.get(call.id),
    }))
    const said = {
      role: 'assistant' as const,
      content: [
        ...(each.text === null || each.text === '' ? [] : [{ type: 'text' as const, text: redactText(each.text) }]),
        ...calls.map((call) => ({
          type: 'tool-call' as const,
          toolCallId: call.id,
          toolName: call.name,
          input: readObject(redactText(call.arguments)) ?? {},
        })),
      ],
    }
    if (calls.length === 0) return said.content.length === 0 ? [] : [said]
    const content = calls.map((call) => ({
      type: 'tool-result' as const,
      toolCallId: call.id,
      toolName: call.name,
      output: { type: 'text' as const, value: redactText(call.result ?? 'There is no result.') },
    }))
    return [said, { role: 'tool' as const, content }]
  })
}

type SaidCall = { readonly toolName: string; readonly input: unknown }
const ARGUMENTS_NOT_READ = 'The arguments are not a JSON object.'

/**
 * Reads the calls of an answer. Ids are our own: a provider may repeat or leave out its own. A call whose arguments cannot be read says so. A tool that was
 * not offered is for the gateway to refuse, which records it.
 */
export function readCalls(said: readonly SaidCall[], names: Names): readonly AgentCall[] {
  return said.map(({ toolName, input }, at) => {
    const given = typeof input === 'string' ? readObject(input) : ((input ?? null) as JsonValue)
    const payload = isJsonObject(given ?? null) ? (given as JsonObject) : undefined
    return {
      id: `call_${at}`,
      actionType: 'tool_call',
      toolName: names.own(toolName),
      payload: payload ?? {},
      reason: 'The model called it.',
      ...(payload ? {} : { invalid: ARGUMENTS_NOT_READ }),
    }
  })
}

function readObject(text: string): JsonObject | undefined {
  try {
    const value = JSON.parse(text) as JsonValue
    return value !== null && isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}
