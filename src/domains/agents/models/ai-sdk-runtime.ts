/** The runtime that asks a model for each answer. The calls of an answer are proposed; an answer without calls is the result of the run. */
import type { AgentAnswer, AgentMessage, AgentRuntime, AgentTurn } from '../agent-runtime.ts'

const OUTPUT_TOKENS = 4_096
const LAST = 'No further tools are available. Hand back what you have: your answer is the result.'

export function aiSdkRuntime(): AgentRuntime {
  return {
    name: 'ai_sdk',
    startAgentRun: answerOf,
    // The observations are in the messages of the turn.
    resumeAgentRun: answerOf,
    // It keeps nothing for a run: the signal of a turn ends the call that is under way.
    cancelAgentRun: () => Promise.resolve(),
  }
}

async function answerOf(turn: AgentTurn): Promise<AgentAnswer> {
  turn.signal.throwIfAborted()
  const { askModel, isLast, tools } = turn
  const messages: readonly AgentMessage[] = [
    { role: 'user', content: { goal: turn.goal, context: turn.context } },
    ...turn.messages,
    ...(isLast ? [{ role: 'user' as const, content: LAST }] : []),
  ]
  const { text, calls } = await askModel({ ...modelOf(turn), messages, tools: isLast ? [] : tools })
  // A model may call a tool that it was not offered, or say nothing. In the last turn that is no result, and nothing of it begins.
  const isResult = calls.length === 0 && (!isLast || (text ?? '').trim() !== '')
  return isResult ? { text, calls: [], final: { text: text ?? '' } } : { text, calls, final: null }
}

/** The model of the run, and how much it may write in one answer. */
export function modelOf({ modelConfig: { model, output_tokens_max: cap } }: Pick<AgentTurn, 'modelConfig'>) {
  return {
    model: typeof model === 'string' ? model : '',
    outputTokensMax: typeof cap === 'number' ? cap : OUTPUT_TOKENS,
  }
}
