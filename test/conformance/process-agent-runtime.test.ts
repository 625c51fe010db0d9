/** The runtime of programs in the common suite, in each dialect, with a model that calls the tool once. */
import { fileURLToPath } from 'node:url'
import { type ModelRequest, processRuntime } from '#domains/agents'
import { agentRuntimeCase } from './agent-runtime.case.ts'

const program = fileURLToPath(new URL('../support/agent-program-child.ts', import.meta.url))
const usage = { inputTokens: 1, outputTokens: 1, cachedTokens: 0, reasoningTokens: 0 }
const call = { id: 'c1', actionType: 'tool_call', toolName: 'look', payload: { n: 1 }, reason: 'r' } as const

/** The conversation of a program is one text: an outcome in it names its call. */
function askOnce({ messages, tools }: ModelRequest) {
  const isSeen = JSON.stringify(messages).includes('c1')
  return Promise.resolve({ text: 'seen', calls: isSeen || tools.length === 0 ? [] : [call], usage })
}

for (const dialect of ['concord', 'claude', 'codex'] as const)
  agentRuntimeCase(`process, ${dialect}`, {
    open: () => processRuntime({ name: 'program', command: process.execPath, args: [program, dialect], dialect }),
    turn: { modelConfig: { model: 'm' }, runtimeConfig: { name: 'program' }, askModel: askOnce },
  })
