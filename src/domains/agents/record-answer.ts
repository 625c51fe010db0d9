/** What a turn records of an answer when its calls have ended: the steps, and the messages with their observations. */
import type { AgentCall } from './agent-runtime.ts'
import { answerOf, type NewMessage } from './agent-message.ts'
import type { AgentDeps } from './deps.ts'
import { type CallCommand, noStepsLeft, type Observed, signatureOf, stepOf, type StepCosts } from './observe-call.ts'
import { callOutcome, findOpenAnswer, isObservationOf } from './read-run.ts'
import { readFound } from './run-tools.ts'
import type { Recorded, RunTurn } from './write-run.ts'

const GO_ON = 'Call a tool, or give the final answer.'

type Observing = {
  readonly stepIndex?: number | undefined
  readonly command?: CallCommand | undefined
  /** What the call came to without the content that a reading tool has found. */
  readonly outcome?: Observed | undefined
}

export function observationMessage(
  { found: { run, messages } }: RunTurn,
  call: AgentCall,
  { decision, content }: Observed,
  { stepIndex, command, outcome = { decision, content } }: Observing,
): NewMessage {
  return {
    turn: messages[0]?.turn ?? 0,
    stepIndex,
    message_role: 'tool',
    message_type: 'observation',
    content: { callId: call.id, decision, content },
    labels: run.labels,
    metadata: {
      ...(stepIndex !== undefined && { signature: signatureOf(call, outcome) }),
      ...(command && { command_id: command.command_id }),
    },
  }
}

/** The steps of the open answer and their messages. */
export async function toRecord(
  deps: AgentDeps,
  turn: RunTurn,
  indexes: readonly number[],
): Promise<Pick<Recorded, 'steps' | 'messages'> | undefined> {
  const { run, messages, commands } = turn.found
  const answer = findOpenAnswer(turn.found)
  if (!answer) return undefined
  const { calls, final, text } = answerOf(answer)
  const { latency_ms, usage, cost_units } = answer.metadata
  const costs: StepCosts = {
    latency_ms: latency_ms ?? null,
    token_usage: usage ?? null,
    cost_units: cost_units ?? null,
  }
  const stepAt = (nth: number) => ({ agent_run_id: run.agent_run_id, step_index: run.step_count + nth })
  // An answer without calls is one step: its result, or only words.
  const alone: AgentCall = {
    id: '',
    actionType: final ? 'final_answer' : 'observe',
    toolName: null,
    payload: final ?? { text },
    reason: '',
  }
  const observed = await Promise.all(
    calls.map(async (call, index) => {
      const command = commands.get(index)
      const outcome = indexes.includes(index) ? callOutcome(turn.found, call, index) : undefined
      if (!outcome) return { call, observed: noStepsLeft }
      const content =
        command && outcome.decision !== 'failed' ? await readFound(deps, turn.found, call, command) : undefined
      return { call, command, observed: content ?? outcome, outcome }
    }),
  )
  const made = observed.filter((_, index) => indexes.includes(index))
  const isAlone = calls.length === 0 || final !== null
  const goOn: NewMessage = { turn: answer.turn, message_role: 'system', message_type: 'instruction', content: GO_ON }
  const unwritten = observed.filter(
    (_, index) => !messages.some((each) => isObservationOf(each, run.step_count + index)),
  )
  const observations = unwritten.map((one) => {
    const nth = made.indexOf(one)
    const stepIndex = nth === -1 ? undefined : run.step_count + nth
    return observationMessage(turn, one.call, one.observed, { stepIndex, command: one.command, outcome: one.outcome })
  })
  return {
    steps: isAlone
      ? [stepOf(stepAt(0), alone, { decision: 'done', content: null }, undefined, costs)]
      : made.map((one, nth) => stepOf(stepAt(nth), one.call, one.observed, one.command, nth === 0 ? costs : {})),
    messages: isAlone ? (final ? [] : [goOn]) : observations,
  }
}
