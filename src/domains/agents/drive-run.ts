/**
 * The turn of a run: it asks the agent for an answer, commits it, proposes its calls, and records what came of them. Between two turns nothing
 * of the run is in memory.
 */
import { cancelCommand, type CommitEnded, proposeInRun, type StoredCommand } from '#domains/commands'
import { isRetryable } from '#kernel/error-classes'
import type { JsonValue } from '#kernel/json-value'
import { redactText } from '#kernel/secret-shapes'
import type { Drive, Next } from '#runtime'
import { failpoint } from '#store'
import { LATE, takeTurn, withDeadline } from '#turns'
import { type AgentRunEnd, endFor, type EndReason, type RunStep } from './advance-run.ts'
import { answerOf, type NewMessage, type StoredAgentMessage } from './agent-message.ts'
import type { AgentCall } from './agent-runtime.ts'
import type { RunNotes } from './agent-run.ts'
import { askRuntime, type PaidAnswer, turnNumberOf } from './ask-agent.ts'
import { referToContent } from './call-content.ts'
import { type AgentDeps, ConversationTooLong, NoModelAnswer } from './deps.ts'
import { actionOf, type CallCommand, observeRefused, toolOf } from './observe-call.ts'
import type { FailedModel } from './models/ask-model.ts'
import { askForRaise, type Exhausted } from './raise-budget.ts'
import { findOpenAnswer, nextRunStep, readCallCommands, readOthers, runTurns } from './read-run.ts'
import { observationMessage, toRecord } from './record-answer.ts'
import { isReadingTool } from './run-tools.ts'
import {
  writeEnd,
  refresh,
  writeWait,
  type RunTurn,
  beginRun,
  writeAnswer,
  writeRefused,
  writeSteps,
  writeStepWith,
} from './write-run.ts'

const ERROR_CHARS_MAX = 500
/** Waits after failures of the runtime in a row; the run fails after the last. */
const RETRY_MS = [1_000, 5_000, 30_000, 120_000] as const
/** A turn asks for another answer only within this time, so that a run that never waits does not hold its worker. A new turn costs ten statements, also on a busy worker. */
const ANSWERS_MS = 10_000
/** A runtime that hangs does not keep a run from ending. Shorter than the lease of a turn. */
const CANCEL_MS = 10_000
/** No provider can ask for a longer wait. */
const RETRY_MAX_MS = 3_600_000

export function openRunDrive(deps: AgentDeps): Drive {
  return async (id, fence) => {
    const taken = await takeTurn(deps.commands, runTurns, id, fence)
    return 'next' in taken ? taken.next : driveTurn(deps, taken.turn)
  }
}

async function driveTurn(deps: AgentDeps, turn: RunTurn): Promise<Next> {
  const untilMs = deps.commands.now().getTime() + ANSWERS_MS
  let hasAsked = false
  while (!turn.isLost) {
    if (turn.signal.aborted) return { t: 'again' }
    const at = deps.commands.now()
    const step = nextRunStep(turn.found, at)
    if (step.t === 'ask' && hasAsked && at.getTime() >= untilMs) return { t: 'again' }
    hasAsked ||= step.t === 'ask'
    const next = await take(deps, turn, step)
    if (next) return next
  }
  return { t: 'done' }
}

type Taken = Next | undefined

/** Does what the step says. Returns what the runtime does next if the turn is over. */
async function take(deps: AgentDeps, turn: RunTurn, step: RunStep): Promise<Taken> {
  switch (step.t) {
    case 'done':
      return { t: 'done' }
    case 'start':
      await beginRun(deps, turn)
      return undefined
    case 'ask':
      return ask(deps, turn, step.lastBecause)
    case 'propose':
      return propose(deps, turn, step.calls)
    case 'look':
      turn.found = await readOthers(deps.commands.db, turn.found)
      return undefined
    case 'cancel_calls':
      return cancelCalls(deps, turn, step.commandIds)
    case 'wait':
      if (!(await writeWait(deps, turn, step.status, step.until))) return undefined
      await failpoint('agents.wait_written')
      return { t: 'wait', until: step.until }
    case 'record':
      return record(deps, turn, step.calls, step.end)
    case 'end':
      return end(deps, turn, step.end)
  }
}

async function ask(deps: AgentDeps, turn: RunTurn, lastBecause: EndReason | null): Promise<Taken> {
  const paid: PaidAnswer[] = []
  try {
    const message = await askRuntime(deps, turn, lastBecause, paid)
    if (!message) return undefined
    await writeAnswer(deps, turn, message, paid)
    await failpoint('agents.answer_written')
    return undefined
  } catch (error) {
    // The answers of the model are lost with the answer of the runtime. They were paid for.
    for (const answer of paid) await answer.settle(deps.commands.db)
    if (error instanceof ConversationTooLong) return giveUp(deps, turn, endFor('failed'), { error: error.message })
    const refusal = error instanceof NoModelAnswer ? error.cause : undefined
    if (refusal?.t === 'exhausted') return exhausted(deps, turn, refusal, lastBecause)
    return failed(deps, turn, error, refusal?.error)
  }
}

/** People are asked for a higher limit. If nobody can raise it, the next answer is the last. A run that was told no, or that has no step left for the question, ends. */
async function exhausted(
  deps: AgentDeps,
  turn: RunTurn,
  why: Exhausted,
  lastBecause: EndReason | null,
): Promise<Taken> {
  const { run } = turn.found
  if (lastBecause !== null) return giveUp(deps, turn, endFor('budget_exhausted'))
  const question = await askForRaise(deps.commands.db, run, turnNumberOf(turn), why)
  if (!question) return ask(deps, turn, 'budget_exhausted')
  const message: NewMessage = {
    turn: turnNumberOf(turn),
    message_role: 'assistant',
    message_type: 'question',
    content: question as unknown as JsonValue,
    labels: run.labels,
    metadata: {},
  }
  await writeAnswer(deps, turn, message, [])
  return undefined
}

/** A failure of the runtime is retried later; the run fails after the last try. Nothing was proposed meanwhile. */
async function failed(
  deps: AgentDeps,
  turn: RunTurn,
  cause: unknown,
  { error_class, retry_after_ms }: Partial<FailedModel> = {},
): Promise<Next | undefined> {
  const { metadata, deadline_at } = turn.found.run
  const failures = (metadata.failures ?? 0) + 1
  const error = errorTextOf(cause)
  const isFinal = error_class !== undefined && !isRetryable(error_class)
  const waitMs = isFinal ? undefined : RETRY_MS[failures - 1]
  if (waitMs === undefined) return giveUp(deps, turn, endFor('failed'), { failures, error })
  const retryMs = deps.commands.now().getTime() + Math.max(waitMs, Math.min(retry_after_ms ?? 0, RETRY_MAX_MS))
  const until = new Date(Math.min(retryMs, deadline_at?.getTime() ?? Infinity))
  return (await writeWait(deps, turn, 'running', until, { failures, error })) ? { t: 'wait', until } : undefined
}

/** All calls of an answer are proposed before the outcome of one is awaited. */
async function propose(deps: AgentDeps, turn: RunTurn, indexes: readonly number[]): Promise<undefined> {
  const answer = findOpenAnswer(turn.found)
  if (!answer) return
  const { calls } = answerOf(answer)
  const proposed = await Promise.all(
    indexes.flatMap((index) =>
      calls.slice(index, index + 1).map((call) => {
        const commitEnded = indexes.length === 1 ? commitWithStep(deps, turn, call, index) : undefined
        return proposeCall(deps, turn, answer, call, index, commitEnded)
      }),
    ),
  )
  await failpoint('agents.step_proposed')
  // The step was recorded with the command.
  if (turn.found.run.step_count !== answer.step_index) return
  const refusals = proposed.flatMap(({ refusal }) => refusal ?? [])
  const lasting = refusals.filter(({ code }) => code !== 'commands.agent.stopped')
  if (lasting.length > 0)
    await writeRefused(
      deps,
      turn,
      lasting.map(({ message }) => message),
    )
  const commands = new Map(turn.found.commands)
  for (const { index, ended } of proposed) if (ended) commands.set(index, ended)
  turn.found = { ...turn.found, commands }
  // A stop came in between: the run waits for the lift and then proposes the call, or it ends.
  if (lasting.length < refusals.length) await refresh(deps, turn)
  else if (proposed.some(({ isOpen }) => isOpen)) turn.found = await readCallCommands(deps.commands.db, turn.found)
}

type Proposed = {
  readonly index: number
  /** The call made no command. */
  readonly refusal?: { readonly code: string; readonly message: NewMessage }
  /** The command of the call, if it ended with its insert. */
  readonly ended?: CallCommand
  readonly isOpen?: boolean
}

/** Proposes the call as a command of the run: for the person who asked, with that person's rights of today and the tools of the manifest. A repeat is the same command. */
async function proposeCall(
  deps: AgentDeps,
  turn: RunTurn,
  answer: StoredAgentMessage,
  call: AgentCall,
  index: number,
  commitEnded: CommitEnded | undefined,
): Promise<Proposed> {
  const { run, origin } = turn.found
  if (call.actionType === 'observe') return { index }
  const stepIndex = run.step_count + index
  const refused = (code: string, reason: string): Proposed => {
    const observed = observeRefused(code, reason)
    return { index, refusal: { code, message: observationMessage(turn, call, observed, { stepIndex }) } }
  }
  if (call.invalid !== undefined) return refused('agents.call.invalid', call.invalid)
  const payload = referToContent(call, answer)
  if (!payload.ok) return refused(payload.code, payload.reason)
  const { workspace_id: workspaceId, agent_run_id: agentRunId } = run
  const submitted = await proposeInRun(
    deps.commands,
    { workspaceId, agentRunId, stepIndex, requestId: origin.context.request_id, commitEnded },
    { actionType: actionOf(call), toolName: toolOf(call) ?? '', payload: payload.value, reason: call.reason },
  )
  if (!submitted.ok) return refused(submitted.code, submitted.reason)
  const { command, isNew } = submitted.value
  // A command that ended with its insert has asked nobody.
  if (!isNew || command.completed_at === null) return { index, isOpen: true }
  return { index, ended: endedCall(command) }
}

function endedCall(command: StoredCommand): CallCommand {
  const result = command.result as JsonValue
  return { ...command, result, approval_id: null, approval_status: null, decision_reason: null }
}

/** The command of a call that ends with its insert, and its step, are one commit. */
function commitWithStep(deps: AgentDeps, turn: RunTurn, call: AgentCall, index: number): CommitEnded | undefined {
  // What such a tool has found is read after its command is on record.
  if (isReadingTool(call)) return undefined
  return async (command, insert) => {
    const commands = new Map(turn.found.commands).set(index, endedCall(command))
    const step = nextRunStep({ ...turn.found, commands }, deps.commands.now())
    if (step.t !== 'record' || step.end) return false
    const { found } = turn
    turn.found = { ...found, commands }
    try {
      const recorded = await toRecord(deps, turn, step.calls)
      const isWritten = recorded !== undefined && (await writeStepWith(deps, turn, recorded, insert))
      if (isWritten) await failpoint('agents.step_recorded')
      return isWritten
    } finally {
      // Nothing was written, so there is no such command.
      if (turn.found.run === found.run) turn.found = found
    }
  }
}

async function cancelCalls(deps: AgentDeps, turn: RunTurn, commandIds: readonly string[]): Promise<undefined> {
  const { run, origin } = turn.found
  const by = { id: 'system', kind: 'system' as const, traceId: origin.context.trace_id }
  for (const commandId of commandIds) {
    const reason = run.metadata.cancel?.why ?? 'The run of the agent has ended.'
    await cancelCommand(deps.commands, by, { workspaceId: run.workspace_id, commandId, reason })
  }
  await refresh(deps, turn)
}

async function record(
  deps: AgentDeps,
  turn: RunTurn,
  indexes: readonly number[],
  ending: AgentRunEnd | null,
): Promise<Taken> {
  const recorded = await toRecord(deps, turn, indexes)
  if (!recorded) return undefined
  const notes = ending ? await tellRuntime(deps, turn, ending) : undefined
  const isWritten = await writeSteps(deps, turn, { ...recorded, end: ending, notes })
  await failpoint('agents.step_recorded')
  return isWritten && ending ? { t: 'done' } : undefined
}

/** Ends a run that gets no answer any more. While an action from outside is open it waits, and then asks once more. */
async function giveUp(
  deps: AgentDeps,
  turn: RunTurn,
  ending: AgentRunEnd,
  notes?: Partial<RunNotes>,
): Promise<Next | undefined> {
  turn.found = await readOthers(deps.commands.db, turn.found)
  if (turn.found.others?.length === 0) return end(deps, turn, ending, notes)
  const until = turn.found.run.deadline_at
  return (await writeWait(deps, turn, 'running', until, notes)) ? { t: 'wait', until } : undefined
}

async function end(
  deps: AgentDeps,
  turn: RunTurn,
  ending: AgentRunEnd,
  notes?: Partial<RunNotes>,
): Promise<Next | undefined> {
  const told = await tellRuntime(deps, turn, ending)
  return (await writeEnd(deps, turn, ending, { ...told, ...notes })) ? { t: 'done' } : undefined
}

/**
 * The runtime frees what it keeps for a run that does not end by its own answer. The call comes before the end is on record. A runtime that fails or hangs here does
 * not keep the run from ending: its error is noted on the run.
 */
async function tellRuntime(
  { runtimes, commands: { sleep } }: AgentDeps,
  { found: { run } }: RunTurn,
  { reason }: AgentRunEnd,
): Promise<Partial<RunNotes> | undefined> {
  const runtime = runtimes.get(run.runtime_config.name)
  if (reason === 'final_answer_created' || !runtime) return undefined
  try {
    const told = await withDeadline({ sleep, ms: CANCEL_MS }, () => runtime.cancelAgentRun(run.agent_run_id, reason))
    return told === LATE ? { error: 'The agent runtime did not end the run in time.' } : undefined
  } catch (error) {
    return { error: errorTextOf(error) }
  }
}

function errorTextOf(cause: unknown): string {
  return redactText(cause instanceof Error ? cause.message : String(cause)).slice(0, ERROR_CHARS_MAX)
}
