/**
 * The life of a swarm: what follows from its row, its agents and their artifacts. Pure. The drive does what the step says, reads again, and asks again.
 */
import type { StoredArtifact } from '#domains/artifacts'
import type { RunAction, StoredCommand } from '#domains/commands'
import { joinSwarm } from '#kernel/agents/join'
import type { JoinArtifact, JoinEvaluation, JoinInput, JoinStep, JoinWorker } from '#kernel/agents/join-input'
import { spawnLimits } from '#kernel/agents/spawn'
import { agentKey } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { SwarmRunState } from '#kernel/machines/agent'
import { hasEnded, type StoredAgentRun } from '../agent-run.ts'
import { isBeingCancelled } from '../observe-call.ts'
import type { PlannedAgent } from './swarm-planner.ts'
import type { StoredSwarmRun, SwarmEndReason } from './swarm-run.ts'

/** A Spawn Subagent command of the swarm, its question to people, or the command that puts its parts together. */
export type OwnCommand = Pick<
  StoredCommand,
  'command_id' | 'idempotency_key' | 'status' | 'error' | 'cancellation_requested' | 'completed_at' | 'agent_run_id'
>

/** An agent of the plan, or one that another agent has started. */
export type SwarmMember = {
  /** Its position in the plan; null: an agent started it. */
  readonly index: number | null
  readonly planned: PlannedAgent | null
  readonly isJudge: boolean
  /** Its Spawn Subagent command. Null: not proposed yet. */
  readonly command: OwnCommand | null
  /** The command of the run that started it. */
  readonly parentCommandId: string
  readonly run: StoredAgentRun | null
  readonly artifacts: readonly StoredArtifact[]
  /** Its failure cancels the command of the run that started it. */
  readonly isTerminal: boolean
}

export type SwarmFacts = {
  readonly swarm: StoredSwarmRun
  readonly origin: Pick<
    StoredCommand,
    'command_id' | 'requested_by' | 'context' | 'cancellation_requested' | 'cancellation_mode'
  >
  readonly coordinator: StoredAgentRun
  /** The oldest first. */
  readonly own: readonly OwnCommand[]
  readonly members: readonly SwarmMember[]
  readonly artifacts: readonly StoredArtifact[]
  /** Null: the judges have not ended, or the swarm needs none of them any more. */
  readonly evaluations: readonly JoinEvaluation[] | null
}

/** Written in one commit. Plan, join and reason are written once. */
export type SwarmChange = {
  readonly to?: SwarmRunState
  readonly set?: Partial<Pick<StoredSwarmRun, 'plan' | 'joined' | 'end_reason'>>
  readonly notes?: readonly {
    readonly type: 'swarm_planned' | 'swarm_joined' | 'swarm_stopping' | 'spawn_denied' | 'undo_failed'
    readonly payload: JsonObject
  }[]
}

/** A command that the swarm proposes for its coordinator. Its position makes its key. */
export type SwarmProposal = { readonly index: number; readonly action: RunAction }

type EndState = Extract<SwarmRunState, 'succeeded' | 'partially_succeeded' | 'failed' | 'cancelled' | 'expired'>

export type SwarmStep =
  | { readonly t: 'wait'; readonly until: Date | null }
  | { readonly t: 'write'; readonly change: SwarmChange }
  | { readonly t: 'plan' }
  | { readonly t: 'propose'; readonly proposals: readonly SwarmProposal[] }
  /** The coordinator begins its turns: it plans, or it makes one result of many. */
  | { readonly t: 'ask_coordinator' }
  | { readonly t: 'cancel'; readonly commandIds: readonly string[]; readonly mode: StoredCommand['cancellation_mode'] }
  | { readonly t: 'end_coordinator' }
  /** The commands are undone one after the other; then the swarm ends. */
  | {
      readonly t: 'end'
      readonly status: EndState
      readonly reason: SwarmEndReason
      readonly undo: readonly string[] | 'all_of_coordinator'
    }

/** The positions of commands that the swarm proposes for its coordinator beside the agents of its plan. */
export const REVIEW_INDEX = 10_000
export const REDUCE_INDEX = 10_001
const QUESTION_CHARS_MAX = 2_000

export function advanceSwarm(facts: SwarmFacts, at: Date): SwarmStep {
  const { status, end_reason, joined, deadline_at, plan } = facts.swarm
  if (status === 'created') return write({ to: 'running' })
  if (status === 'cancelling') return leave(facts, 'cancelled', end_reason ?? 'human_cancelled')
  if (facts.origin.cancellation_requested) return write({ to: 'cancelling' })
  if (joined) return leave(facts, joined.decision, 'joined')
  if (end_reason !== null) return leave(facts, end_reason === 'deadline_passed' ? 'expired' : 'failed', end_reason)
  if (deadline_at !== null && deadline_at <= at) return stop('deadline_passed')
  return plan === null ? { t: 'plan' } : work(facts)
}

function write(change: SwarmChange): SwarmStep {
  return { t: 'write', change }
}

function waitFor(until: Date | null): SwarmStep {
  return { t: 'wait', until }
}

/** The reason is on record before the agents are stopped: no spawn begins after this commit. */
export function stopping(reason: SwarmEndReason, denied: readonly string[] = []): SwarmChange {
  const stopped = { type: 'swarm_stopping', payload: { reason } } as const
  const refused = { type: 'spawn_denied', payload: { reasons: [...denied] } } as const
  return { set: { end_reason: reason }, notes: denied.length > 0 ? [refused, stopped] : [stopped] }
}

const stop = (reason: SwarmEndReason, denied?: readonly string[]) => write(stopping(reason, denied))
const isOpen = (command: OwnCommand | null | undefined) => command?.completed_at === null
/** The end of a run wakes the swarm, and so does the end of a command that the swarm has proposed. */
const isLiving = ({ command, run, index }: SwarmMember) =>
  (index !== null && isOpen(command)) || (run !== null && !hasEnded(run))
const commandAt = ({ swarm, own }: SwarmFacts, index: number) =>
  own.find(({ idempotency_key }) => idempotency_key === agentKey(swarm.swarm_run_id, index))

/**
 * Children first: the agents that work for nothing end, then the coordinator. What a join left out is undone; the work of a cancelled swarm is undone if the
 * mode of its command says so.
 */
function leave(facts: SwarmFacts, status: EndState, reason: SwarmEndReason): SwarmStep {
  const { swarm, members, coordinator, origin } = facts
  const losers = status === 'cancelled' ? undefined : swarm.joined?.losers
  const mode = losers ? 'compensate_then_stop' : origin.cancellation_mode
  const leaving = members.filter(({ run }) => !losers || (run && losers.includes(run.agent_run_id)))
  const living = leaving.filter(isLiving)
  const asked = losers ? [] : [commandAt(facts, REVIEW_INDEX), commandAt(facts, REDUCE_INDEX)]
  const open = [...living.map(({ command }) => command), ...asked].flatMap((command) =>
    command && isOpen(command) ? [command] : [],
  )
  const commandIds = open.filter((command) => !isBeingCancelled(command)).map(({ command_id }) => command_id)
  if (commandIds.length > 0) return { t: 'cancel', commandIds, mode }
  if (living.length > 0 || open.length > 0) return waitFor(null)
  if (!hasEnded(coordinator)) return { t: 'end_coordinator' }
  if (mode !== 'compensate_then_stop') return { t: 'end', status, reason, undo: [] }
  const left = leaving.flatMap(({ command }) => command?.command_id ?? []).toReversed()
  return { t: 'end', status, reason, undo: losers ? left : 'all_of_coordinator' }
}

function work(facts: SwarmFacts): SwarmStep {
  const { swarm, members, coordinator, own, origin } = facts
  const wait = waitFor(swarm.deadline_at)
  const runs = [coordinator, ...members.flatMap(({ run }) => run ?? [])]
  const isPayer = ({ budget_account_id }: StoredAgentRun) => budget_account_id === swarm.swarm_run_id
  if (swarm.max_cost_units !== null && runs.some((run) => run.end_reason === 'budget_exhausted' && isPayer(run)))
    return stop('max_cost_units')
  const broken = members
    .filter(({ isTerminal, run }) => isTerminal && (run?.status === 'failed' || run?.status === 'expired'))
    .map(({ parentCommandId: id }) => own.find(({ command_id }) => command_id === id) ?? origin)
    .find((command) => !('status' in command) || (isOpen(command) && !isBeingCancelled(command)))
  if (broken) return { t: 'cancel', commandIds: [broken.command_id], mode: origin.cancellation_mode }
  const refused = members.find(({ index, command, run }) => index !== null && command && !isOpen(command) && !run)
  if (refused) return stopRefused(refused.command?.error ?? '')
  const isAsked = coordinator.status !== 'created' || coordinator.run_after !== null
  const ask: SwarmStep = isAsked ? wait : { t: 'ask_coordinator' }
  if (swarm.definition.planner === 'coordinator' && !hasEnded(coordinator)) return ask
  const step = judge(facts)
  if (step.kind === 'joined') return join(facts, step)
  const next = spawnNext(facts, step.kind === 'ask' && step.whom === 'judges')
  if (next) return next
  if (step.kind === 'wait') return wait
  switch (step.whom) {
    case 'judges':
      return wait
    case 'coordinator':
      return ask
    case 'reducer':
      return reduce(facts)
    case 'person':
      return isOpen(commandAt(facts, REVIEW_INDEX)) ? wait : askPerson(facts)
  }
}

function join({ swarm }: SwarmFacts, { result, losers }: Extract<JoinStep, { kind: 'joined' }>): SwarmStep {
  return write({
    ...(swarm.status === 'joining' ? {} : { to: 'joining' }),
    set: { joined: { ...result, losers }, end_reason: 'joined' },
    notes: [{ type: 'swarm_joined', payload: { ...result, losers: [...losers] } }],
  })
}

/** The limit that a denied spawn names, or that it was denied. */
function stopRefused(error: string): SwarmStep {
  const limit = Object.entries(spawnLimits).find(([, text]) => error.includes(text))?.[0]
  return stop((limit as keyof typeof spawnLimits | undefined) ?? 'spawn_denied', [error])
}

const idsOf = (artifacts: readonly Pick<StoredArtifact, 'artifact_id'>[]) =>
  artifacts.map(({ artifact_id }) => encodeId('artifact', artifact_id))

/** One at a time in the sequential mode; otherwise as many as may work at the same time. Each gets a list of what the agents before it have made. */
function spawnNext({ swarm, members, artifacts }: SwarmFacts, withJudges: boolean): SwarmStep | null {
  const { execution_mode, max_parallel } = swarm
  const room =
    (execution_mode === 'sequential' ? 1 : (max_parallel ?? members.length)) - members.filter(isLiving).length
  const proposals = members
    .filter(({ command, isJudge }) => command === null && (withJudges || !isJudge))
    .slice(0, Math.max(0, room))
    .flatMap(({ index, planned }): SwarmProposal[] => {
      if (index === null || planned === null) return []
      const { invocation_type: _type, required: _required, part, constraints, ...request } = planned
      const told = { ...constraints, artifact_ids: idsOf(artifacts), ...(part === null ? {} : { part }) }
      return [proposal(index, 'spawn_subagent', { ...request, constraints: told }, 'It is an agent of the plan.')]
    })
  return proposals.length > 0 ? { t: 'propose', proposals } : null
}

function proposal(
  index: number,
  tool: 'spawn_subagent' | 'request_approval' | 'create_artifact',
  payload: JsonObject,
  reason: string,
): SwarmProposal {
  return { index, action: { actionType: tool, toolName: tool, payload, reason } }
}

function askPerson({ swarm, artifacts }: SwarmFacts): SwarmStep {
  const question = `Accept ${swarm.definition.name}? Its results: ${idsOf(artifacts).join(', ')}`
  const payload = { question: question.slice(0, QUESTION_CHARS_MAX) }
  const proposals = [proposal(REVIEW_INDEX, 'request_approval', payload, 'The swarm joins by human review.')]
  return { t: 'propose', proposals }
}

/** The parts in the order of their names, as one artifact with the parts as its sources. */
function reduce(facts: SwarmFacts): SwarmStep {
  const reduced = commandAt(facts, REDUCE_INDEX)
  if (reduced) return isOpen(reduced) ? waitFor(facts.swarm.deadline_at) : stop('plan_refused', [reduced.error ?? ''])
  const parts = facts.members
    .filter(({ isJudge }) => !isJudge)
    .flatMap((member) =>
      idsOf(member.artifacts.slice(-1)).map((artifact_id) => ({ part: partOf(member) ?? '', artifact_id })),
    )
    .sort((one, other) => (one.part < other.part ? -1 : 1))
  const sources = parts.map(({ artifact_id }) => artifact_id)
  const payload = { type: 'final_report', content: { json: { parts } }, sources }
  return {
    t: 'propose',
    proposals: [proposal(REDUCE_INDEX, 'create_artifact', payload, 'The parts are put together.')],
  }
}

/** By every judge that evaluated it, and by one at least. */
export function isPassed(evaluations: readonly JoinEvaluation[], artifactId: string): boolean {
  const own = evaluations.filter(({ subjectId }) => subjectId === artifactId)
  return own.length > 0 && own.every(({ decision }) => decision === 'pass')
}

/** In the mode `review_driven` nothing is a result that a judge did not pass. */
function judge(facts: SwarmFacts): JoinStep {
  const { execution_mode, join_strategy } = facts.swarm
  const input = joinInputOf(facts)
  const step = joinSwarm(join_strategy, input)
  const selected = step.kind === 'joined' ? step.result.selected_artifact_id : null
  if (execution_mode !== 'review_driven' || step.kind !== 'joined' || selected === null) return step
  if (!input.haveJudgesEnded) return { kind: 'ask', whom: 'judges' }
  const own = input.evaluations.filter(({ subjectId }) => subjectId === selected)
  if (isPassed(input.evaluations, selected)) return step
  const summary = own.length === 0 ? 'No reviewer evaluated the result.' : 'A reviewer did not pass the result.'
  return { ...step, result: { ...step.result, decision: 'failed', summary, selected_artifact_id: null } }
}

/** Nothing is decided by judges before all of them have ended. A coordinator that plans may have started none. */
export function haveJudgesEnded(members: readonly SwarmMember[]): boolean {
  return members.every(({ isJudge, run }) => !isJudge || (run !== null && hasEnded(run)))
}

function joinInputOf(facts: SwarmFacts): JoinInput {
  const { swarm, members, evaluations } = facts
  const workers = members.filter(({ isJudge }) => !isJudge)
  const review = commandAt(facts, REVIEW_INDEX)
  const { join } = swarm.definition
  return {
    workers: workers.map(workerOf),
    evaluations: evaluations ?? [],
    haveJudgesEnded: evaluations !== null,
    synthesis: synthesisOf(facts),
    review: !review || isOpen(review) ? null : review.status === 'succeeded' ? 'approved' : 'rejected',
    settings: { ...join, candidates: join.candidates ?? workers.length },
  }
}

/** The newest artifact of the coordinator once its last step is on record, or the one that the swarm put together. */
function synthesisOf(facts: SwarmFacts): JoinInput['synthesis'] {
  const { artifacts, coordinator } = facts
  const reduced = commandAt(facts, REDUCE_INDEX)
  if (reduced ? isOpen(reduced) : !hasEnded(coordinator)) return null
  const made = artifacts.findLast(
    (each) =>
      each.agent_run_id === coordinator.agent_run_id &&
      each.artifact_type !== 'evaluation_result' &&
      (!reduced || each.command_id === reduced.command_id),
  )
  return made ? joinedAs(made) : reduced ? null : 'none'
}

const joinedAs = ({ artifact_id, artifact_type, checksum }: StoredArtifact): JoinArtifact => ({
  artifactId: artifact_id,
  artifactType: artifact_type,
  contentHash: checksum,
})

/** An agent that another agent started has a part of its own. */
const partOf = ({ planned, run }: SwarmMember) => (planned ? planned.part : (run?.agent_run_id ?? null))

function workerOf(member: SwarmMember): JoinWorker {
  const { run, index, planned, artifacts } = member
  const status = run?.status
  const isEnd = status === 'succeeded' || status === 'failed' || status === 'cancelled' || status === 'expired'
  return {
    agentRunId: run?.agent_run_id ?? `planned ${index}`,
    status: isEnd ? status : null,
    endedAt: run?.completed_at?.toISOString() ?? null,
    isRequired: planned?.required ?? true,
    part: partOf(member),
    artifacts: artifacts.map(joinedAs),
  }
}
