/**
 * The three forms in which programs ask for a model: chat completions, messages with blocks, and responses. A program never sees a call, so its
 * requests are texts, and so is each answer, whole or as a stream of one part. Pure.
 */
import { z } from 'zod'
import type { JsonObject } from '#kernel/json-value'
import type { AgentMessage, ModelAnswer } from '../agent-runtime.ts'

type ProgramRequest = {
  readonly messages: readonly AgentMessage[]
  readonly outputTokensMax: number | null
  readonly isStream: boolean
}
export type WireFormat = {
  /** The answer as one body. */
  whole(answer: ModelAnswer): JsonObject
  /** The same as events of a stream. */
  stream(answer: ModelAnswer): string
}

const content = z.union([z.string(), z.array(z.looseObject({ text: z.string().nullish() }))]).nullish()
const message = z.looseObject({ role: z.string().optional(), content })
const tokens = z.int().min(1).nullish()
/** The forms use different names for the same parts. */
const programRequest = z.looseObject({
  system: content,
  instructions: content,
  messages: z.array(message).optional(),
  input: z.union([z.string(), z.array(message)]).optional(),
  max_tokens: tokens,
  max_completion_tokens: tokens,
  max_output_tokens: tokens,
  stream: z.boolean().nullish(),
})

/** Throws where the request has none of the forms. Parts without text, such as definitions of tools, are left out. */
export function readRequest(body: unknown): ProgramRequest {
  const { system, instructions, messages, input, stream, ...caps } = programRequest.parse(body)
  const said = typeof input === 'string' ? [{ role: 'user', content: input }] : (input ?? messages ?? [])
  const read = [{ role: 'system', content: system ?? instructions }, ...said].flatMap((each): AgentMessage[] => {
    const text = textOf(each.content)
    return each.role === undefined || text === '' ? [] : [messageOf(each.role, text)]
  })
  if (read.every(({ role }) => role === 'system')) throw new TypeError('The request has no message.')
  return {
    // Some providers accept instructions only at the beginning.
    messages: read.toSorted((a, b) => Number(b.role === 'system') - Number(a.role === 'system')),
    outputTokensMax: caps.max_output_tokens ?? caps.max_completion_tokens ?? caps.max_tokens ?? null,
    isStream: stream ?? false,
  }
}

function messageOf(role: string, text: string): AgentMessage {
  if (role === 'assistant') return { role, text, calls: [] }
  return { role: role === 'system' || role === 'developer' ? 'system' : 'user', content: text }
}

function textOf(given: z.output<typeof content>): string {
  return typeof given === 'string' ? given : (given ?? []).flatMap(({ text }) => text ?? []).join('\n')
}

const MODEL = 'concord'

export const chatCompletions: WireFormat = {
  whole: ({ text, usage }) => ({
    id: 'chatcmpl-concord',
    object: 'chat.completion',
    created: 0,
    model: MODEL,
    choices: [{ index: 0, message: { role: 'assistant', content: text ?? '' }, finish_reason: 'stop' }],
    usage: chatUsage(usage),
  }),
  stream({ text, usage }) {
    const chunk = { id: 'chatcmpl-concord', object: 'chat.completion.chunk', created: 0, model: MODEL }
    const chunks = [
      { ...chunk, choices: [{ index: 0, delta: { role: 'assistant', content: text ?? '' }, finish_reason: null }] },
      { ...chunk, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage: chatUsage(usage) },
    ]
    return `${chunks.map((each) => `data: ${JSON.stringify(each)}\n\n`).join('')}data: [DONE]\n\n`
  },
}

function chatUsage({ inputTokens, outputTokens }: ModelAnswer['usage']): JsonObject {
  const total_tokens = inputTokens + outputTokens
  return { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens }
}

export const blockMessages: WireFormat = {
  whole: ({ text, usage }) => blockMessage([{ type: 'text', text: text ?? '' }], 'end_turn', usage),
  stream: ({ text, usage }) =>
    toEvents([
      { type: 'message_start', message: blockMessage([], null, usage) },
      { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
      { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: text ?? '' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: plainUsage(usage) },
      { type: 'message_stop' },
    ]),
}

function blockMessage(blocks: JsonObject[], stop_reason: string | null, usage: ModelAnswer['usage']): JsonObject {
  const head = { id: 'msg_concord', type: 'message', role: 'assistant', model: MODEL }
  return { ...head, content: blocks, stop_reason, stop_sequence: null, usage: plainUsage(usage) }
}

export const responses: WireFormat = {
  whole: ({ text, usage }) => response('completed', [responseItem(text)], usage),
  stream({ text, usage }) {
    const item = responseItem(text)
    const place = { item_id: 'msg_concord', output_index: 0, content_index: 0 }
    const started = { ...item, status: 'in_progress', content: [] }
    return toEvents([
      { type: 'response.created', response: response('in_progress', [], usage) },
      { type: 'response.output_item.added', output_index: 0, item: started },
      { type: 'response.output_text.delta', ...place, delta: text ?? '' },
      { type: 'response.output_item.done', output_index: 0, item },
      { type: 'response.completed', response: response('completed', [item], usage) },
    ])
  },
}

function responseItem(text: string | null): JsonObject {
  const head = { id: 'msg_concord', type: 'message', role: 'assistant', status: 'completed' }
  return { ...head, content: [{ type: 'output_text', text: text ?? '', annotations: [] }] }
}

function response(status: string, output: JsonObject[], usage: ModelAnswer['usage']): JsonObject {
  const total_tokens = usage.inputTokens + usage.outputTokens
  const head = { id: 'resp_concord', object: 'response', created_at: 0, model: MODEL }
  return { ...head, status, output, usage: { ...plainUsage(usage), total_tokens } }
}

function plainUsage({ inputTokens, outputTokens }: ModelAnswer['usage']): JsonObject {
  return { input_tokens: inputTokens, output_tokens: outputTokens }
}

function toEvents(events: readonly (JsonObject & { readonly type: string })[]): string {
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
}
