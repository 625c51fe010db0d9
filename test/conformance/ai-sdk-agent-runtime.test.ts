/** The runtime of models in the common suite, with a model that calls the tool once. */
import { aiSdkRuntime, type ModelRequest } from '#domains/agents'
import { agentRuntimeCase } from './agent-runtime.case.ts'

const usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0, reasoningTokens: 0 }
const call = { id: 'c1', actionType: 'tool_call', toolName: 'look', payload: { n: 1 }, reason: 'r' } as const

/** A model that calls the tool once, if it is offered, and then answers. */
function askOnce({ messages, tools }: ModelRequest) {
  const isDone = tools.length === 0 || messages.some(({ role }) => role === 'tool')
  return Promise.resolve({ text: isDone ? 'seen' : null, calls: isDone ? [] : [call], usage })
}

agentRuntimeCase('ai_sdk', {
  open: aiSdkRuntime,
  turn: { modelConfig: { model: 'm' }, runtimeConfig: { name: 'ai_sdk' }, askModel: (request) => askOnce(request) },
})
