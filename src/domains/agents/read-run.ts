/** What a turn reads of a run: its row, its last answer with its observations, and the commands of the calls in that answer. */
import type { StoredCommand } from '#domains/commands'
import { KernelFault } from '#kernel/errors'
import { agentKey } from '#kernel/idempotency-key'
import { type Sql, statement } from '#store'
import { type TurnRoom, turnTable } from '#turns'
import {
  advanceRun,
  type CallState,
  type ExitFacts,
  exitOf,
  LOOP_REPEATS,
  type OpenAnswer,
  type OpenCall,
  type RunFacts,
  type RunStep,
} from './advance-run.ts'
import { answerOf, lastAnswerOf, observationOf, type StoredAgentMessage } from './agent-message.ts'
import { OPEN_RUN, type StoredAgentRun } from './agent-run.ts'
import type { AgentCall, AgentObservation } from './agent-runtime.ts'
import { RUN_KIND } from './deps.ts'
import { isRaiseRefused } from './raise-budget.ts'
import { type CallCommand, isBeingCancelled, observeCommand, toolOf } from './observe-call.ts'

/** The command that waits for the run: for whom it acts, with which rights at most, and under which trace. */
type RunOrigin = Pick<StoredCommand, 'requested_by' | 'context' | 'status' | 'task_name' | 'command_type'> & {
  /** The stop that covers the run. */
  readonly stop: RunFacts['stop']
}

export type FoundRun = {
  readonly run: StoredAgentRun
  readonly origin: RunOrigin
  /** The last answer, and the observations of its calls so far. */
  readonly messages: readonly StoredAgentMessage[]
  /** All messages, as long as the turn that has read them goes on; null: not read yet. */
  readonly conversation: readonly StoredAgentMessage[] | null
  /** The commands of the calls in the open answer, by the position of the call. */
  readonly commands: ReadonlyMap<number, CallCommand>
  /** The other steps of the run that are open; null: not read since the last commit. */
  readonly others: readonly CallCommand[] | null
}

/** $1 run, $2 keys; null: all its steps that have not ended. What its swarm proposes for it, and a memory that waits for a person, are no steps of the run. */
const listCallCommands = statement<CallCommand>(
  'agents.list_call_commands',
  `select c.command_id, c.idempotency_key, c.status, c.payload, c.result, c.error, c.error_class, c.cancellation_requested,
  c.completed_at, a.approval_id, a.status as approval_status, a.decision_reason
from concord.commands as c
left join lateral (select p.approval_id, p.status, p.decision_reason from concord.approvals as p
  where p.command_id = c.command_id and p.domain_effect_id is null and p.superseded_by is null
  order by p.created_at desc, p.approval_id desc limit 1) as a on true
where c.agent_run_id = $1::uuid and case when $2::text[] is null then c.completed_at is null and starts_with(c.idempotency_key, 'agent:' || $1::uuid || ':')
  else c.idempotency_key = any($2) end`,
)

/** The stop that covers the run of this id, for the alias `c` of its command. The function is called only where a stop is in force. */
const stopOf = (run: string) =>
  `case when exists (select from concord.stops as s where s.workspace_id = c.workspace_id and s.lifted_at is null) then
    (select jsonb_build_object('ends_runs', bool_or(s.ends_runs)) from concord.find_stops(c.workspace_id, c.context->>'agent', ${run}) as s having count(*) > 0)
  end as stop`

/** What can change in a run, and what its messages need. The database refuses every change of its other columns, so a turn reads those once. */
const held = [
  'agent_run_id',
  'workspace_id',
  'swarm_run_id',
  'parent_agent_run_id',
  'status',
  'step_count',
  'metadata',
  'started_at',
  'completed_at',
  'cancelled_at',
  'run_after',
  'turn_token',
  'turn_until',
  'labels',
  'end_reason',
  'cost_units',
  'erasures',
] as const satisfies readonly (keyof StoredAgentRun)[]

/** A run that a turn holds, and the stop that covers it. */
export type HeldRun = Pick<StoredAgentRun, (typeof held)[number]> & Pick<RunOrigin, 'stop'>

/** Of the run `t` and its command `c`. */
export const HELD_COLUMNS = `${held.map((name) => `t.${name}`).join(', ')}, ${stopOf('t.agent_run_id')}`

/** SQL: locks the run if the condition about `t` holds. */
export const lockRunIf = (condition: string, run = '$1::uuid') =>
  `select ${HELD_COLUMNS} from concord.agent_runs as t join concord.commands as c on c.command_id = t.command_id
where t.agent_run_id = ${run} and ${condition} for update of t`

/** $1 run, $2 token. */
export const lockHeld = statement<HeldRun>('agents.lock_held', lockRunIf('t.turn_token = $2::uuid'))

/** $1 command, $2 run. One row without a message if there is no answer. */
const findSituation = statement<RunOrigin & (StoredAgentMessage | { readonly agent_message_id: null })>(
  'agents.find_situation',
  `select c.requested_by, c.context, c.status, c.task_name, c.command_type, ${stopOf('$2::uuid')}, m.*
from concord.commands as c left join lateral (${lastAnswerOf('$2::uuid')}) as m on true where c.command_id = $1::uuid order by m.position`,
)

/** $1 run. */
const findExit = statement<ExitFacts>(
  'agents.find_exit',
  `select r.status, r.metadata->'cancel' as cancel, r.deadline_at as "deadlineAt", ${stopOf('r.agent_run_id')}
from concord.agent_runs as r join concord.commands as c on c.command_id = r.command_id where r.agent_run_id = $1::uuid`,
)

/** Whether the run is to end now, whatever its agent answers. */
export async function isToEnd(sql: Sql, agentRunId: string, at: Date): Promise<boolean> {
  const [facts] = await sql.run(findExit, [agentRunId])
  return facts !== undefined && exitOf(facts, at) !== null
}

/** The answer whose steps are not recorded. It has the number of its first step. */
export function findOpenAnswer({ run, messages: [last] }: Pick<FoundRun, 'run' | 'messages'>) {
  return last?.step_index === run.step_count ? last : undefined
}

type Situation = Pick<FoundRun, 'origin' | 'messages'>

/** The command of the run, its last answer and the observations of that answer. */
export async function readSituation(sql: Sql, run: StoredAgentRun): Promise<Situation> {
  const rows = await sql.run(findSituation, [run.command_id, run.agent_run_id])
  const [origin] = rows
  if (!origin) throw new KernelFault('agents.run.origin', 'A run without its command.')
  return { origin, messages: rows.filter((row) => row.agent_message_id !== null) }
}

async function readRun(sql: Sql, run: StoredAgentRun): Promise<FoundRun> {
  const situation = await readSituation(sql, run)
  return readCallCommands(sql, { run, ...situation, conversation: null, commands: new Map(), others: null })
}

/** Reads the other open steps of the run: actions from outside of Concord, and the calls of an answer that was erased. */
export async function readOthers(sql: Sql, found: FoundRun): Promise<FoundRun> {
  const calls = new Set([...found.commands.values()].map(({ command_id }) => command_id))
  const open = await sql.run(listCallCommands, [found.run.agent_run_id, null])
  return { ...found, others: open.filter(({ command_id }) => !calls.has(command_id)) }
}

/** Reads the commands of the calls in the open answer. */
export async function readCallCommands(sql: Sql, found: FoundRun): Promise<FoundRun> {
  const { run } = found
  const answer = findOpenAnswer(found)
  const keys = answer
    ? answerOf(answer).calls.map((_, index) => agentKey(run.agent_run_id, run.step_count + index))
    : []
  const rows = keys.length === 0 ? [] : await sql.run(listCallCommands, [run.agent_run_id, keys])
  return { ...found, commands: new Map(rows.map((row) => [keys.indexOf(row.idempotency_key ?? ''), row])) }
}

export const runTurns: TurnRoom<StoredAgentRun, FoundRun> = {
  kind: RUN_KIND,
  table: turnTable({
    room: 'agents',
    table: 'concord.agent_runs',
    id: 'agent_run_id',
    columns: 't.*',
    mayTake: OPEN_RUN,
    isOpen: OPEN_RUN,
  }),
  read: readRun,
}

/** The outcome of a call, as far as it is known without the content of a reading tool. A refused call has its observation already. */
export function callOutcome(
  { run, messages, commands }: FoundRun,
  call: AgentCall,
  index: number,
): Omit<AgentObservation, 'callId'> | undefined {
  if (call.actionType === 'observe') return { decision: 'done', content: call.payload }
  const refused = messages.find((message) => isObservationOf(message, run.step_count + index))
  if (refused) return observationOf(refused)
  const command = commands.get(index)
  return command && command.completed_at !== null ? observeCommand(command, toolOf(call)) : undefined
}

export const isObservationOf = ({ message_role, step_index }: StoredAgentMessage, step: number): boolean =>
  message_role === 'tool' && step_index === step

function runFactsOf(found: FoundRun): RunFacts {
  const { run, origin, messages, commands, others } = found
  const open = findOpenAnswer(found)
  const answer: OpenAnswer | null = open
    ? { ...answerOf(open), lastBecause: open.metadata.last_because ?? null, isErased: open.content === '' }
    : null
  const openCall = (command: CallCommand, isSpawn: boolean): OpenCall => {
    const { command_id: commandId, status } = command
    return { t: 'open', commandId, status, isSpawn, isCancelRequested: isBeingCancelled(command) }
  }
  const calls = (answer?.calls ?? []).map((call, index): CallState => {
    const outcome = callOutcome(found, call, index)
    if (outcome) return { t: 'settled', decision: outcome.decision }
    const command = commands.get(index)
    return command ? openCall(command, toolOf(call) === 'spawn_subagent') : { t: 'unproposed' }
  })
  return {
    status: run.status,
    stepCount: run.step_count,
    maxSteps: run.max_steps,
    deadlineAt: run.deadline_at,
    conditions: run.termination.conditions ?? [],
    cancel: run.metadata.cancel ?? null,
    stop: origin.stop,
    isLooping: messages.some(({ metadata }) => (metadata.repeats ?? 0) + 1 >= LOOP_REPEATS),
    isRaiseRefused: isRaiseRefused(messages),
    answer,
    calls,
    others: others && others.map((command) => openCall(command, false)),
  }
}

export function nextRunStep(found: FoundRun, at: Date): RunStep {
  return advanceRun(runFactsOf(found), at)
}
