/**
 * The life of an agent run: what follows from its row, its last answer and the commands of the calls in that answer. Pure. The drive does what
 * the step says, commits it, and asks again.
 */
import type { ErrorClass } from '#kernel/error-classes'
import type { CommandState } from '#kernel/machines/command'
import type { AgentRunState } from '#kernel/machines/agent'
import type { AgentAnswer, AgentObservation } from './agent-runtime.ts'

type EndState = Extract<AgentRunState, 'succeeded' | 'failed' | 'cancelled' | 'expired'>
type End = { readonly status: EndState; readonly errorClass: ErrorClass | null }

/** Every reason for which a run ends: the state of the run, and the class of the error of its command. */
export const ends = {
  final_answer_created: { status: 'succeeded', errorClass: null },
  human_cancelled: { status: 'cancelled', errorClass: 'internal_error' },
  max_steps_reached: { status: 'failed', errorClass: 'validation_error' },
  policy_denied: { status: 'failed', errorClass: 'policy_denied' },
  budget_exhausted: { status: 'failed', errorClass: 'permission_denied' },
  deadline_passed: { status: 'expired', errorClass: 'internal_error' },
  loop_detected: { status: 'failed', errorClass: 'validation_error' },
  stopped: { status: 'cancelled', errorClass: 'internal_error' },
  failed: { status: 'failed', errorClass: 'internal_error' },
  parent_ended: { status: 'cancelled', errorClass: 'internal_error' },
  join_decided: { status: 'cancelled', errorClass: 'internal_error' },
} as const satisfies Readonly<Record<string, End>>
export type EndReason = keyof typeof ends
/** The reasons of a request to end a run. */
export type CancelReason = {
  [Reason in EndReason]: (typeof ends)[Reason]['status'] extends 'cancelled' ? Reason : never
}[EndReason]

/** The end for a reason. A run with a result has succeeded, also when its money ran out. */
export function endFor(reason: EndReason, hasResult = false): AgentRunEnd {
  return { status: hasResult ? 'succeeded' : ends[reason].status, reason }
}

type WaitState = Extract<AgentRunState, `waiting_for_${string}`>
export type OpenState = Exclude<AgentRunState, EndState>
export type AgentRunEnd = { readonly status: EndState; readonly reason: EndReason }

/** The answer whose calls have no observation yet. */
export type OpenAnswer = AgentAnswer & {
  /** Set where the run could take no further step: the answer had to be the last one. */
  readonly lastBecause: EndReason | null
  /** Its content was erased before its calls had ended. Their commands are then among the others of the run. */
  readonly isErased: boolean
}

export type OpenCall = {
  readonly t: 'open'
  readonly commandId: string
  readonly status: CommandState
  readonly isSpawn: boolean
  readonly isCancelRequested: boolean
}

/** A call of the open answer, in its order. */
export type CallState =
  | { readonly t: 'unproposed' }
  | OpenCall
  | { readonly t: 'settled'; readonly decision: AgentObservation['decision'] }

/** Why the run is to end, as requested by a person, an operator, its parent or a join. */
type CancelRequest = { readonly reason: CancelReason }

export type RunFacts = {
  readonly status: AgentRunState
  readonly stepCount: number
  readonly maxSteps: number
  readonly deadlineAt: Date | null
  readonly conditions: readonly string[]
  readonly cancel: CancelRequest | null
  /** A stop of agents covers the run: it ends, or waits for the lift. */
  readonly stop: { readonly ends_runs: boolean } | null
  /** A call of the last answer that was recorded had the same observation too often. */
  readonly isLooping: boolean
  /** People refused a higher budget: the next answer is the last. */
  readonly isRaiseRefused: boolean
  readonly answer: OpenAnswer | null
  readonly calls: readonly CallState[]
  /** The open steps of the run beside these calls, such as actions from outside of Concord. Null: nobody has looked for them yet. */
  readonly others: readonly OpenCall[] | null
}

export type RunStep =
  /** The run has ended. */
  | { readonly t: 'done' }
  | { readonly t: 'start' }
  /** Ask the agent for an answer; `lastBecause` tells it that there will be no other. */
  | { readonly t: 'ask'; readonly lastBecause: EndReason | null }
  /** Propose these calls of the answer, by their positions. */
  | { readonly t: 'propose'; readonly calls: readonly number[] }
  /** Before an end: look for the others of the run. */
  | { readonly t: 'look' }
  | { readonly t: 'cancel_calls'; readonly commandIds: readonly string[] }
  | { readonly t: 'wait'; readonly status: OpenState; readonly until: Date | null }
  /** Write a step for each of these calls, their observations, and the end if there is one. */
  | { readonly t: 'record'; readonly calls: readonly number[]; readonly end: AgentRunEnd | null }
  /** Tell the runtime that the run is cancelled, then end it. */
  | { readonly t: 'end'; readonly end: AgentRunEnd }

const ended: readonly string[] = ['succeeded', 'failed', 'cancelled', 'expired'] satisfies EndState[]
/** The lift wakes the run. It looks by itself too, because the lift may come before the write of its wait. */
export const STOPPED_MS = 60_000
/** The same call with the same observation so often is a loop. */
export const LOOP_REPEATS = 3

/** A run does not end while one of its steps is open: it waits for what its agent has begun. */
export function advanceRun(facts: RunFacts, at: Date): RunStep {
  const step = nextStep(facts, at)
  if (step.t !== 'end' && !(step.t === 'record' && step.end)) return step
  if (!facts.others) return { t: 'look' }
  return facts.others.length === 0 ? step : { t: 'wait', status: waitOf(facts.others), until: facts.deadlineAt }
}

function nextStep(facts: RunFacts, at: Date): RunStep {
  const { status } = facts
  if (!isOpen(status)) return { t: 'done' }
  const exit = exitOf(facts, at)
  if (exit) return leave(facts, exit)
  if (facts.stop) return waitForLift({ ...facts, status }, at)
  if (status === 'created' || status === 'queued') return { t: 'start' }
  const { answer, stepCount, maxSteps } = facts
  if (!answer) {
    // Actions from outside of Concord may have used up the steps.
    if (stepCount >= maxSteps) return { t: 'end', end: endFor('max_steps_reached') }
    if (facts.isLooping) return { t: 'end', end: endFor('loop_detected') }
    if (facts.isRaiseRefused) return { t: 'ask', lastBecause: 'budget_exhausted' }
    return { t: 'ask', lastBecause: maxSteps - stepCount === 1 ? 'max_steps_reached' : null }
  }
  if (answer.isErased) return leave(facts, endFor('failed'))
  return settle(facts, answer)
}

function isOpen(status: AgentRunState): status is OpenState {
  return !ended.includes(status)
}

function waitForLift({ status, deadlineAt }: RunFacts & { readonly status: OpenState }, at: Date): RunStep {
  const untilMs = Math.min(at.getTime() + STOPPED_MS, deadlineAt?.getTime() ?? Infinity)
  return { t: 'wait', status, until: new Date(untilMs) }
}

/** What can end a run whatever its answers are. */
export type ExitFacts = Pick<RunFacts, 'cancel' | 'stop' | 'deadlineAt' | 'status'>

/** A request to end comes before everything else, then a stop that ends runs, then the deadline. */
export function exitOf({ cancel, stop, deadlineAt, status }: ExitFacts, at: Date): AgentRunEnd | null {
  if (cancel) return endFor(cancel.reason)
  if (stop?.ends_runs) return endFor('stopped')
  if (status === 'cancelling') return endFor('human_cancelled')
  return deadlineAt !== null && deadlineAt <= at ? endFor('deadline_passed') : null
}

/** What had begun is cancelled and ends first; calls are recorded. Nothing new begins. */
function leave({ calls: all, others, status, stepCount, maxSteps }: RunFacts, end: AgentRunEnd): RunStep {
  if (!others) return { t: 'look' }
  const calls = all.slice(0, maxSteps - stepCount)
  const open = [...all.filter((call) => call.t === 'open'), ...others]
  const uncancelled = open.filter(({ isCancelRequested }) => !isCancelRequested)
  if (uncancelled.length > 0) return { t: 'cancel_calls', commandIds: uncancelled.map(({ commandId }) => commandId) }
  if (open.length > 0)
    return { t: 'wait', status: status === 'cancelling' ? 'cancelling' : 'waiting_for_tool', until: null }
  const made = indexesOf(calls, 'settled')
  return made.length > 0 ? { t: 'record', calls: made, end } : { t: 'end', end }
}

function settle(facts: RunFacts, answer: OpenAnswer): RunStep {
  const { calls, stepCount, maxSteps, deadlineAt } = facts
  const left = maxSteps - stepCount
  // Without money the run hands back what it has.
  const finalReason = answer.lastBecause === 'budget_exhausted' ? 'budget_exhausted' : 'final_answer_created'
  if (answer.final) return { t: 'record', calls: [], end: endFor(finalReason, true) }
  if (answer.lastBecause !== null)
    return { t: 'record', calls: calls.length > 0 ? [0] : [], end: endFor(answer.lastBecause) }
  const possible = calls.slice(0, left)
  const unproposed = indexesOf(possible, 'unproposed')
  if (unproposed.length > 0) return { t: 'propose', calls: unproposed }
  if (indexesOf(possible, 'open').length > 0) return { t: 'wait', status: waitOf(possible), until: deadlineAt }
  // An answer without calls and without a result is a step too, so that it cannot repeat for ever.
  const made = Math.max(1, possible.length)
  return { t: 'record', calls: possible.map((_, index) => index), end: endAfter(facts, possible, stepCount + made) }
}

function endAfter({ conditions, maxSteps }: RunFacts, calls: readonly CallState[], steps: number): AgentRunEnd | null {
  const isDenied = calls.some((call) => call.t === 'settled' && call.decision === 'denied')
  if (isDenied && conditions.includes('policy_denied')) return endFor('policy_denied')
  return steps >= maxSteps ? endFor('max_steps_reached') : null
}

/** A person comes first: the run shows whom it waits for. */
function waitOf(calls: readonly CallState[]): WaitState {
  const open = calls.filter((call) => call.t === 'open')
  if (open.some(({ status }) => status === 'waiting_for_approval' || status === 'blocked'))
    return 'waiting_for_approval'
  if (open.some(({ status }) => status === 'waiting_for_input')) return 'waiting_for_input'
  return open.some(({ isSpawn }) => isSpawn) ? 'waiting_for_children' : 'waiting_for_tool'
}

function indexesOf(calls: readonly CallState[], t: CallState['t']): readonly number[] {
  return calls.flatMap((call, index) => (call.t === t ? [index] : []))
}
