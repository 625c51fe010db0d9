/**
 * The turn of a swarm: load, plan, start agents, wait, join, persist. Only the turn that holds the row writes it. Everything else that a turn does is a command
 * with a key of its own, or a request that changes nothing when it is repeated, so a turn that is given again continues where the rows stand.
 */
import { closeAccount } from '#domains/budgets'
import { cancelCommand, COMMAND_KIND, findStop, proposeInRun } from '#domains/commands'
import { bySystem } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { encodeId } from '#kernel/ids'
import type { Refusal } from '#kernel/refusal'
import type { Drive, Next } from '#runtime'
import { failpoint, type Tx } from '#store'
import { keepHeld, LATE, refreshTurn, takeTurn, type Turn, withDeadline } from '#turns'
import { appendMessages } from '../agent-message.ts'
import { lockRun, requestRunCancel, wakeRun } from '../agent-run.ts'
import type { AgentDeps } from '../deps.ts'
import { STOPPED_MS } from '../advance-run.ts'
import {
  advanceSwarm,
  stopping,
  type SwarmChange,
  type SwarmFacts,
  type SwarmProposal,
  type SwarmStep,
} from './advance-swarm.ts'
import { swarmTurns, swarmTurnTable } from './read-swarm.ts'
import { instruction } from './spawn-subagent.ts'
import { lacksJudges, NO_JUDGE } from './swarm-definition.ts'
import { coordinatorPlanner, plannedAgent, templatePlanner } from './swarm-planner.ts'
import { lockHeldSwarm, releaseSwarm, type StoredSwarmRun, swarmTable, writeOutcome } from './swarm-run.ts'
import { listCommandsOf, undoEach } from './undo-run.ts'

const STEPS_MAX = 200
/** A planner is code of the project; a worker is not held for ever. */
const PLAN_MS = 600_000
const AGENTS_MAX = 1_000
const THROWN = Symbol('thrown')

type SwarmTurn = Turn<SwarmFacts>

export function openSwarmDrive(deps: AgentDeps): Drive {
  const room = swarmTurns(deps)
  return async (id, fence) => {
    const taken = await takeTurn(deps.commands, room, id, fence)
    if ('next' in taken) return taken.next
    const { turn } = taken
    for (let steps = 0; steps < STEPS_MAX && !turn.signal.aborted; steps++) {
      const next = await take(deps, turn, advanceSwarm(turn.found, deps.commands.now()))
      if (next) return next
      await refreshTurn(deps.commands, room, turn)
      if (turn.isLost) return { t: 'done' }
    }
    return { t: 'again' }
  }
}

/** Does what the step says. Returns what the runtime does next if the turn is over. */
async function take(deps: AgentDeps, turn: SwarmTurn, step: SwarmStep): Promise<Next | undefined> {
  switch (step.t) {
    case 'wait':
      return rest(deps, turn, step.until)
    case 'write':
      await commit(deps, turn, step.change)
      if (step.change.set?.joined) await failpoint('agents.joining')
      return undefined
    case 'plan':
      return commit(deps, turn, await plan(deps, turn))
    case 'propose':
      return propose(deps, turn, step.proposals)
    case 'ask_coordinator':
      return askCoordinator(deps, turn.found)
    case 'cancel':
      return cancelAll(deps, turn.found, step)
    case 'end_coordinator':
      return endCoordinator(deps, turn)
    case 'end':
      return end(deps, turn, step)
  }
}

/** One transaction on the row that the turn holds. Nothing is written if a later turn has it. */
async function commit(
  { commands: { db, now, newId } }: AgentDeps,
  { found, process, token }: SwarmTurn,
  { to, set = {}, notes = [] }: SwarmChange,
  also?: (tx: Tx, swarm: StoredSwarmRun) => Promise<unknown>,
): Promise<undefined> {
  const at = now()
  const kind = to === 'expired' || to === 'cancelling' ? ('system' as const) : ('worker' as const)
  const by = { id: kind, kind, traceId: found.origin.context.trace_id }
  await db.transaction(async (tx) => {
    const [held] = await tx.run(lockHeldSwarm, [process.id, token])
    if (!held) return
    const { plan = null, joined = null, end_reason = null } = set
    const [row = held] = await tx.run(writeOutcome, [
      process.id,
      plan && JSON.stringify(plan),
      joined && JSON.stringify(joined),
      end_reason,
    ])
    for (const { type, payload } of notes) await swarmTable.append(tx, row, by, { type, at, newId, payload })
    if (to) {
      const moved = await swarmTable.transition(tx, row, to, by, { at, newId })
      if (!moved.ok) throw new KernelFault('agents.swarm.moved', moved.reason)
    }
    await also?.(tx, row)
  })
}

/** A swarm that waits has no turn; a wake or its deadline brings the next. */
async function rest({ commands: { db } }: AgentDeps, { process, token }: SwarmTurn, until: Date | null) {
  const [released] = await db.run(releaseSwarm, [process.id, token, until])
  return released && ({ t: 'wait', until } as const)
}

/** The plan is on record before anything in it is proposed. What a planner returns is data, and every agent of it is decided as a spawn. */
async function plan({ commands, swarms }: AgentDeps, turn: SwarmTurn): Promise<SwarmChange> {
  const { swarm, origin } = turn.found
  const { definition, metadata } = swarm
  const own = definition.planner === 'coordinator' ? coordinatorPlanner : templatePlanner
  const planner = swarms.get(definition.name)?.planner ?? own
  const command = { command_id: encodeId('command', origin.command_id), input: metadata.input ?? {} }
  const context = { swarm_run_id: encodeId('swarm_run', swarm.swarm_run_id), swarm: definition }
  const planned = await withDeadline(
    { sleep: commands.sleep, ms: PLAN_MS, signal: turn.signal },
    async () => {
      try {
        return await planner.createSwarmPlan(command, context)
      } catch {
        return THROWN
      }
    },
    keepHeld(commands, swarmTurnTable, turn),
  )
  if (planned === 'lost') return {}
  if (planned === LATE) return stopping('plan_refused', ['The planner gave no plan in time.'])
  if (planned === THROWN) return stopping('plan_refused', ['The planner threw an error.'])
  const parsed = plannedAgent.array().max(AGENTS_MAX).safeParse(planned)
  if (!parsed.success) return stopping('plan_refused', [parsed.error.issues[0]?.message ?? ''])
  const agents = parsed.data
  if (planner !== coordinatorPlanner && lacksJudges(definition, agents))
    return stopping('plan_refused', [`The plan has ${NO_JUDGE}`])
  return { set: { plan: agents }, notes: [{ type: 'swarm_planned', payload: { agents: agents.length } }] }
}

/** Commands of the coordinator that the swarm proposes for it. The swarm is woken when one ends or waits for people. */
async function propose(deps: AgentDeps, turn: SwarmTurn, proposals: readonly SwarmProposal[]) {
  const { swarm, coordinator, origin } = turn.found
  for (const { index, action } of proposals) {
    const step = {
      workspaceId: swarm.workspace_id,
      agentRunId: coordinator.agent_run_id,
      stepIndex: index,
      requestId: origin.context.request_id,
      process: turn.process,
    }
    const proposed = await proposeInRun(deps.commands, step, action)
    if (!proposed.ok) return refused(deps, turn, proposed)
    await failpoint('agents.spawn_proposed')
  }
}

/** A stop of agents that can be lifted ends nothing: the swarm looks again. Every other refusal ends the swarm. */
async function refused(deps: AgentDeps, turn: SwarmTurn, { code, reason }: Refusal): Promise<Next | undefined> {
  const { swarm, coordinator } = turn.found
  if (code !== 'commands.agent.stopped') return commit(deps, turn, stopping('spawn_denied', [reason]))
  const { workspace_id: workspaceId, deadline_at } = swarm
  const inForce = await findStop(deps.commands.db, { workspaceId, agent: null, runId: coordinator.agent_run_id })
  if (inForce?.ends_runs) return commit(deps, turn, stopping('stopped'))
  const againMs = deps.commands.now().getTime() + STOPPED_MS
  return rest(deps, turn, new Date(Math.min(againMs, deadline_at?.getTime() ?? Infinity)))
}

/** Told which artifacts there are: a join reads artifacts, and so does its coordinator. */
async function askCoordinator({ commands }: AgentDeps, { coordinator, artifacts }: SwarmFacts): Promise<undefined> {
  const content = { artifact_ids: artifacts.map(({ artifact_id }) => encodeId('artifact', artifact_id)) }
  await commands.db.transaction(async (tx) => {
    const [run] = await tx.run(lockRun, [coordinator.agent_run_id, coordinator.workspace_id])
    if (!run || run.run_after !== null || run.status !== 'created') return
    await appendMessages(tx, commands.newId, run, [instruction(content)], commands.now())
    await wakeRun(tx, commands, run)
  })
}

async function cancelAll(
  { commands }: AgentDeps,
  { swarm, origin }: SwarmFacts,
  { commandIds, mode: cancellationMode }: Extract<SwarmStep, { t: 'cancel' }>,
): Promise<undefined> {
  const { workspace_id: workspaceId } = swarm
  const reason = swarm.end_reason ?? 'The swarm is cancelled.'
  const by = bySystem(origin.context.trace_id)
  for (const commandId of commandIds)
    await cancelCommand(commands, by, { workspaceId, commandId, reason, cancellationMode })
}

/** The end of the coordinator wakes the swarm. */
async function endCoordinator(deps: AgentDeps, turn: SwarmTurn): Promise<Next | undefined> {
  const { swarm, origin, coordinator } = turn.found
  const request = {
    reason: swarm.status === 'cancelling' ? 'human_cancelled' : 'join_decided',
    why: swarm.end_reason ?? 'The swarm is cancelled.',
  } as const
  await deps.commands.db.transaction((tx) =>
    requestRunCancel(tx, deps.commands, bySystem(origin.context.trace_id), coordinator, request),
  )
  return rest(deps, turn, null)
}

async function end(
  deps: AgentDeps,
  turn: SwarmTurn,
  { status, reason, undo }: Extract<SwarmStep, { t: 'end' }>,
): Promise<Next | undefined> {
  const { swarm, origin, coordinator } = turn.found
  const undone = undo === 'all_of_coordinator' ? await listCommandsOf(deps, coordinator) : undo
  const { state, failed } = await undoEach(deps, undone, {
    workspaceId: swarm.workspace_id,
    requestId: origin.context.request_id,
    traceId: origin.context.trace_id,
    follower: turn.process,
  })
  if (state === 'open') return rest(deps, turn, null)
  const left = { type: 'undo_failed', payload: { command_ids: [...failed] } } as const
  const change = { to: status, set: { end_reason: swarm.end_reason ?? reason }, notes: failed.length > 0 ? [left] : [] }
  return commit(deps, turn, change, async (tx, { swarm_run_id: accountId, workspace_id: workspaceId, command_id }) => {
    await closeAccount(tx, { accountId, workspaceId, at: deps.commands.now() })
    await tx.run(releaseSwarm, [accountId, turn.token, null])
    await deps.commands.wake({ kind: COMMAND_KIND, id: command_id }, { tx })
  })
}
