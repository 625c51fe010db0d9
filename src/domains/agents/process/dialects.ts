/** How programs report: our own lines, and those of two coding agents. A dialect reads lines and says what they mean. Pure. */
import { z } from 'zod'
import type { JsonObject } from '#kernel/json-value'
import type { AgentAnswer, AgentMessage, AgentTurn } from '../agent-runtime.ts'

export type Heard =
  | { readonly t: 'answer'; readonly answer: AgentAnswer }
  | { readonly t: 'failed'; readonly reason: string }
  /** Nothing that ends the turn. */
  | { readonly t: 'going_on' }

type Dialect = {
  /** The arguments that select this dialect, after those of the program. `modelUrl` is that of the proxy of the turn. */
  args(modelUrl: string): readonly string[]
  /** What the program gets on its standard input. Never an argument, which every user of the machine can read. */
  input(turn: AgentTurn): string
  /** Reads the lines of one turn, one by one. Throws where a line has not the form of the dialect. */
  listen(turn: number): (line: string) => Heard
}

const GOING_ON: Heard = { t: 'going_on' }

const ownLine = z.discriminatedUnion('type', [
  z.strictObject({
    type: z.literal('answer'),
    text: z.string().nullable().default(null),
    calls: z
      .array(
        z.strictObject({
          tool: z.string(),
          payload: z.record(z.string(), z.json()).default({}),
          reason: z.string().default('The program called it.'),
        }),
      )
      .default([]),
    final: z.record(z.string(), z.json()).nullable().default(null),
  }),
  z.strictObject({ type: z.literal('error'), message: z.string() }),
  z.looseObject({ type: z.literal('log') }),
])

/** One turn as one line of JSON, answered by one line of the type `answer`. */
const concord: Dialect = {
  args: () => [],
  input: ({ goal, context, messages, tools, isLast, turn }) =>
    `${JSON.stringify({ type: 'turn', turn, goal, context, messages, tools, is_last: isLast })}\n`,
  listen: (turn) => (line) => {
    const said = ownLine.parse(JSON.parse(line))
    if (said.type === 'log') return GOING_ON
    if (said.type === 'error') return { t: 'failed', reason: said.message }
    const calls = said.calls.map(({ tool, payload, reason }, at) => ({
      id: `call_${turn}_${at}`,
      actionType: 'tool_call' as const,
      toolName: tool,
      payload: payload as JsonObject,
      reason,
    }))
    const isEnd = calls.length === 0 && said.final === null
    const final = isEnd ? { text: said.text ?? '' } : (said.final as JsonObject | null)
    return { t: 'answer', answer: { text: said.text, calls, final } }
  },
}

const streamLine = z.looseObject({
  type: z.string(),
  is_error: z.boolean().optional(),
  subtype: z.string().optional(),
  result: z.string().optional(),
})

const CLAUDE = ['-p', '--output-format', 'stream-json', '--verbose']
const CODEX = ['exec', '--json', '--skip-git-repo-check', '--ephemeral', '--sandbox', 'read-only']

/** Claude Code: its line of the type `result` ends the turn. Its own tools are off: the model is offered those of the run. */
const claude: Dialect = {
  args: () => [...CLAUDE, '--tools', '', '--strict-mcp-config', '--no-session-persistence'],
  input: sayTurn,
  listen: () => (line) => {
    const { type, is_error, subtype, result } = streamLine.parse(JSON.parse(line))
    if (type !== 'result') return GOING_ON
    if (is_error === true || result === undefined)
      return { t: 'failed', reason: result ?? `It ended with ${subtype ?? 'an error'}.` }
    return finalOf(result)
  },
}

const codexLine = z.looseObject({
  type: z.string(),
  error: z.looseObject({ message: z.string() }).optional(),
  item: z.looseObject({ type: z.string(), text: z.string().optional() }).optional(),
})

/** Codex: the last message of the agent counts when its turn is completed. A line of the type `error` can be followed by another try. */
const codex: Dialect = {
  // It takes the address of its model only from its configuration. The key is the name of a variable.
  args: (modelUrl) => {
    const provider = `model_providers.concord=${codexProvider(modelUrl)}`
    return [...CODEX, '-c', 'model_provider="concord"', '-c', provider, '-']
  },
  input: sayTurn,
  listen() {
    let text: string | undefined
    return (line) => {
      const { type, item, error } = codexLine.parse(JSON.parse(line))
      if (type === 'turn.failed') return { t: 'failed', reason: error?.message ?? 'It ended with an error.' }
      if (type === 'item.completed' && item?.type === 'agent_message') text = item.text ?? text
      if (type !== 'turn.completed') return GOING_ON
      return text === undefined ? { t: 'failed', reason: 'It ended without a message.' } : finalOf(text)
    }
  },
}

/** A table of TOML. Each try of a call is one of the run, so the program makes none of its own. */
const codexProvider = (modelUrl: string) =>
  `{name="Concord",base_url="${modelUrl}/v1",env_key="OPENAI_API_KEY",wire_api="responses",request_max_retries=0,stream_max_retries=0}`

export const dialects = { concord, claude, codex } as const
export type DialectName = keyof typeof dialects

function finalOf(text: string): Heard {
  return { t: 'answer', answer: { text, calls: [], final: { text } } }
}

/** A whole turn in words: the program of another machine continues the conversation as well as the one that began it. */
function sayTurn({ goal, context, messages, isLast }: AgentTurn): string {
  const parts = [
    `Your goal: ${goal}`,
    ...(Object.keys(context).length === 0 ? [] : [`Context: ${JSON.stringify(context)}`]),
    ...(messages.length === 0 ? [] : ['What has happened so far:', ...messages.map(sayMessage)]),
    isLast
      ? 'No further tools are available. Answer with what you have: your answer is the result.'
      : 'Call the tools that you are offered, or give your final answer as text.',
  ]
  return `${parts.join('\n\n')}\n`
}

function sayMessage(message: AgentMessage): string {
  switch (message.role) {
    case 'assistant': {
      const calls = message.calls.map(
        ({ id, toolName, payload }) => `You called ${toolName} (${id}) with ${JSON.stringify(payload)}.`,
      )
      return [...(message.text ? [`You said: ${message.text}`] : []), ...calls].join('\n')
    }
    case 'tool': {
      const { callId, decision, content } = message.observation
      return `The outcome of ${callId}: ${decision}. ${JSON.stringify(content)}`
    }
    default:
      return typeof message.content === 'string' ? message.content : JSON.stringify(message.content)
  }
}
