/** One answer of an agent: what its runtime is given, how long it may take, what its model calls have cost, and what can be stored. */
import { amountOf } from '#domains/budgets'
import { guardValue } from '#kernel/json-guard'
import type { JsonValue } from '#kernel/json-value'
import { formatMoney, type Money } from '#kernel/money'
import { isStillHeld, keepHeld, LATE, withDeadline } from '#turns'
import type { EndReason } from './advance-run.ts'
import {
  CONVERSATION_BYTES_MAX,
  isTooLong,
  type NewMessage,
  observationOf,
  readConversation,
  toConversation,
} from './agent-message.ts'
import type { AgentAnswer, AgentTurn, ModelUsage } from './agent-runtime.ts'
import { type AgentDeps, ConversationTooLong, NoModelAnswer } from './deps.ts'
import type { AskedModel } from './models/ask-model.ts'
import { isToEnd, runTurns } from './read-run.ts'
import { visibleTools } from './run-tools.ts'
import { refresh, type RunTurn } from './write-run.ts'

/** A process may answer slowly, but a worker is not held for ever. */
const ANSWER_MS = 600_000
/** How often a run with an answer under way looks whether it is to end. */
const LOOK_MS = 2_000
const CALLS_MAX = 64
const ANSWER_BYTES_MAX = 1_048_576

/** An answer of a model that went into the answer of the agent. */
export type PaidAnswer = Extract<AskedModel, { t: 'answered' }>

/** The answers of a run are numbered from 0. */
export const turnNumberOf = ({ found: { messages } }: RunTurn) => (messages[0] ? messages[0].turn + 1 : 0)

/** Settles when the run is to end: a program or a model may work for minutes on an answer that nobody wants. */
function untilToEnd({ db, sleep, now }: AgentDeps['commands'], { found: { run } }: RunTurn) {
  return async (ended: AbortSignal): Promise<'ends'> => {
    for (;;) {
      await sleep(LOOK_MS, ended)
      if (ended.aborted) return new Promise(() => {})
      if (await isToEnd(db, run.agent_run_id, now()).catch(() => false)) return 'ends'
    }
  }
}

/** The answer as a message; `paid` gets what it has cost. Undefined: a later turn has the run, or the run is to end. Throws where there is no answer that can be stored. */
export async function askRuntime(
  deps: AgentDeps,
  turn: RunTurn,
  lastBecause: EndReason | null,
  paid: PaidAnswer[],
): Promise<NewMessage | undefined> {
  const { commands } = deps
  const { run } = turn.found
  const call = await prepareCall(deps, turn, lastBecause !== null, paid)
  if (!(await isStillHeld(commands, runTurns.table, turn))) return undefined
  const startedMs = commands.now().getTime()
  const leftMs = run.deadline_at === null ? Number.POSITIVE_INFINITY : run.deadline_at.getTime() - startedMs
  const deadline = { sleep: commands.sleep, ms: Math.max(0, Math.min(ANSWER_MS, leftMs)), signal: turn.signal }
  const held = keepHeld(commands, runTurns.table, turn)
  const answer = await withDeadline<AgentAnswer, 'lost' | 'ends'>(deadline, call, held, untilToEnd(commands, turn))
  if (answer === 'lost') return undefined
  if (answer === 'ends' || (answer === LATE && leftMs <= ANSWER_MS)) {
    for (const each of paid) await each.settle(commands.db)
    await refresh(deps, turn)
    return undefined
  }
  if (answer === LATE) throw new Error('The agent runtime gave no answer in time.')
  const checked = checkAnswer(answer)
  return {
    turn: turnNumberOf(turn),
    message_role: 'assistant',
    message_type: checked.final ? 'result' : 'answer',
    content: checked as unknown as JsonValue,
    labels: run.labels,
    metadata: {
      latency_ms: Math.max(0, commands.now().getTime() - startedMs),
      ...(lastBecause && { last_because: lastBecause }),
      ...(paid.length > 0 && { usage: sumUsage(paid), cost_units: sumCosts(paid) }),
    },
  }
}

/** The runtime gets data. Its only function asks a model, within the budget of the run. */
async function prepareCall(
  deps: AgentDeps,
  turn: RunTurn,
  isLast: boolean,
  paid: PaidAnswer[],
): Promise<(signal: AbortSignal) => Promise<AgentAnswer>> {
  const { run, messages } = turn.found
  const { name } = run.runtime_config
  const runtime = deps.runtimes.get(name)
  if (!runtime) throw new Error(`There is no agent runtime ${name}.`)
  const number = turnNumberOf(turn)
  const conversation = turn.found.conversation ?? (await readConversation(deps.commands.db, run.agent_run_id))
  if (isTooLong(conversation))
    throw new ConversationTooLong(`The conversation has more than ${CONVERSATION_BYTES_MAX} bytes.`)
  turn.found = { ...turn.found, conversation }
  const known = {
    agentRunId: run.agent_run_id,
    turn: number,
    goal: run.goal,
    context: run.context_scope,
    messages: toConversation(conversation),
    tools: visibleTools(deps, run),
    isLast,
    modelConfig: run.model_config,
    runtimeConfig: run.runtime_config,
  }
  let call = 0
  return (signal) => {
    const asking: AgentTurn = {
      ...known,
      signal,
      async askModel(request) {
        const asked = await deps.models.ask({ run, turn: number, call: call++, request, signal, isLast })
        if (asked.t !== 'answered') throw new NoModelAnswer(asked)
        paid.push(asked)
        return asked.answer
      },
    }
    if (number === 0) return runtime.startAgentRun(asking)
    return runtime.resumeAgentRun(asking, messages.slice(1).map(observationOf))
  }
}

function sumUsage(paid: readonly PaidAnswer[]): ModelUsage {
  const sum = (name: keyof ModelUsage) => paid.reduce((total, { answer }) => total + answer.usage[name], 0)
  return {
    inputTokens: sum('inputTokens'),
    outputTokens: sum('outputTokens'),
    cachedTokens: sum('cachedTokens'),
    reasoningTokens: sum('reasoningTokens'),
  }
}

function sumCosts(paid: readonly PaidAnswer[]): string {
  return formatMoney(paid.reduce((total, { costUnits }) => total + amountOf(costUnits), 0n) as Money)
}

/** An answer is data: what cannot be stored is an error of the runtime. */
function checkAnswer({ text, calls, final }: AgentAnswer): AgentAnswer {
  const answer = JSON.parse(JSON.stringify({ text: text ?? null, calls, final: final ?? null })) as AgentAnswer
  const guarded = guardValue(answer)
  if (!guarded.ok) throw new Error(guarded.reason)
  if (JSON.stringify(answer).length > ANSWER_BYTES_MAX) throw new Error('The answer is too large.')
  if (answer.calls.length > CALLS_MAX) throw new Error(`The answer has more than ${CALLS_MAX} calls.`)
  if (new Set(answer.calls.map(({ id }) => id)).size !== answer.calls.length)
    throw new Error('Two calls of the answer have the same id.')
  return answer
}
