/** What a turn of a swarm reads: its row, its agents with their commands and artifacts, the evaluations, and what is left to undo. */
import {
  type ArtifactDeps,
  findArtifact,
  listSwarmArtifacts,
  readArtifactText,
  type StoredArtifact,
} from '#domains/artifacts'
import type { FactSources } from '#domains/commands'
import type { JoinEvaluation } from '#kernel/agents/join-input'
import { KernelFault } from '#kernel/errors'
import { agentKey } from '#kernel/idempotency-key'
import { decodeId } from '#kernel/ids'
import { isJsonObject, type JsonObject } from '#kernel/json-value'
import { accept, type Decision } from '#kernel/refusal'
import { parseJson } from '#kernel/secrets/field-name'
import { type Sql, statement } from '#store'
import { type TurnRoom, turnTable } from '#turns'
import type { AgentDeps } from '../deps.ts'
import {
  haveJudgesEnded,
  isPassed,
  type OwnCommand,
  REDUCE_INDEX,
  REVIEW_INDEX,
  type SwarmFacts,
  type SwarmMember,
} from './advance-swarm.ts'
import { spawnFacts } from './spawn-subagent.ts'
import { isJudge } from './swarm-definition.ts'
import type { PlannedAgent } from './swarm-planner.ts'
import type { SwarmTree } from './contract.ts'
import { verifyAuthority } from './verify-authority.ts'
import {
  getSwarmRun,
  listSwarmAgents,
  OPEN_SWARM,
  type StoredSwarmRun,
  SWARM_KIND,
  type SwarmAgentRun,
  swarmTable,
} from './swarm-run.ts'

/** $1 command. */
const findOrigin = statement<SwarmFacts['origin']>(
  'swarms.find_origin',
  `select c.command_id, c.requested_by, c.context, c.cancellation_requested, c.cancellation_mode from concord.commands as c where c.command_id = $1::uuid`,
)
/** $1 workspace, $2 commands, $3 keys. The oldest first. */
const listOwn = statement<OwnCommand>(
  'swarms.list_commands',
  `select c.command_id, c.idempotency_key, c.status, c.error, c.cancellation_requested, c.completed_at, c.agent_run_id
from concord.commands as c where c.workspace_id = $1::uuid and (c.command_id = any($2::uuid[]) or c.idempotency_key = any($3::text[]))
order by c.created_at, c.command_id`,
)

async function readSwarm(deps: ArtifactDeps | undefined, sql: Sql, swarm: StoredSwarmRun): Promise<SwarmFacts> {
  const { swarm_run_id: swarmRunId, workspace_id: workspaceId } = swarm
  const [origin] = await sql.run(findOrigin, [swarm.command_id])
  const runs = await listSwarmAgents(sql, swarmRunId)
  const runOf = new Map(runs.map((run) => [run.agent_run_id, run]))
  const coordinator = runOf.get(swarm.coordinator_agent_run_id ?? '')
  if (!origin || !coordinator)
    throw new KernelFault('agents.swarm.origin', 'A swarm without its command or its coordinator.')
  const children = runs.filter(({ invocation_id }) => invocation_id !== null)
  const childOf = new Map(children.map((run) => [run.command_id, run]))
  const plan = swarm.plan ?? []
  const keys = [...plan.keys(), REVIEW_INDEX, REDUCE_INDEX].map((index) => agentKey(swarmRunId, index))
  const own = await sql.run(listOwn, [workspaceId, [...childOf.keys()], keys])
  const artifacts = await listSwarmArtifacts(sql, { workspaceId, swarmRunId })
  const artifactsOf = Map.groupBy(artifacts, ({ agent_run_id }) => agent_run_id)
  const memberOf = (
    command: OwnCommand | undefined,
    planned: PlannedAgent | null,
    index: number | null,
  ): SwarmMember => {
    const run = childOf.get(command?.command_id ?? '') ?? null
    const parent = runOf.get(command?.agent_run_id ?? '') ?? coordinator
    return {
      index,
      planned,
      isJudge: isJudge(swarm, planned ?? { agent_role: run?.agent_role ?? '' }),
      command: command ?? null,
      parentCommandId: parent.command_id,
      run,
      artifacts: (run && artifactsOf.get(run.agent_run_id)) ?? [],
      isTerminal: run?.constraints?.['terminal_on_child_failure'] === true,
    }
  }
  const commandOf = new Map(own.map((command) => [command.idempotency_key, command]))
  const planned = plan.map((agent, index) => memberOf(commandOf.get(agentKey(swarmRunId, index)), agent, index))
  const known = new Set(planned.flatMap(({ command }) => command?.command_id ?? []))
  const others = own.filter(({ command_id }) => !known.has(command_id) && childOf.has(command_id))
  const members = [...planned, ...others.map((command) => memberOf(command, null, null))]
  const evaluations =
    swarm.end_reason === null && haveJudgesEnded(members)
      ? await readEvaluations(deps, artifacts, judgesOf(swarm, runs))
      : null
  return { swarm, origin, coordinator, own, members, artifacts, evaluations }
}

export const swarmTurnTable = turnTable<StoredSwarmRun>({
  room: 'swarms',
  table: 'concord.swarm_runs',
  id: 'swarm_run_id',
  columns: 't.*',
  mayTake: OPEN_SWARM,
  isOpen: OPEN_SWARM,
})

/** The evaluations of judges are content, which is read through `deps`. */
export function swarmTurns({ commands: { artifacts } }: AgentDeps): TurnRoom<StoredSwarmRun, SwarmFacts> {
  return { kind: SWARM_KIND, table: swarmTurnTable, read: (sql, swarm) => readSwarm(artifacts, sql, swarm) }
}

/**
 * The facts of swarms for policy. `review`: whether all judges of a review-driven swarm have ended, and passed the artifact that the payload names; null: it is
 * not the work of such a swarm.
 */
export function swarmFacts(deps: ArtifactDeps): FactSources {
  return {
    ...spawnFacts,
    review: async ({ db }, { workspace_id: workspaceId, payload }) => {
      const { artifact_id: shown } = payload
      const id = decodeId('artifact', typeof shown === 'string' ? shown : '')
      const artifact = id.ok ? await findArtifact(db, workspaceId, id.value) : undefined
      const swarmRunId = artifact?.swarm_run_id ?? null
      const swarm = swarmRunId === null ? undefined : await swarmTable.find(db, workspaceId, swarmRunId)
      if (!artifact || swarmRunId === null || swarm?.execution_mode !== 'review_driven') return null
      // As for a join that has not decided: a judge that is still at work may refuse the artifact.
      const { evaluations } = await readSwarm(deps, db, { ...swarm, end_reason: null })
      return evaluations !== null && isPassed(evaluations, artifact.artifact_id)
    },
  }
}

/** Whether the evaluation by one run counts for the work of another. */
type MayJudge = (judgeId: string | null, authorId: string | null) => boolean

/**
 * Judges are agents of the plan. If the coordinator starts the agents itself, they are the judges that it started, for all work but its own. Nobody evaluates
 * its own work, or that of an agent below it.
 */
function judgesOf(swarm: StoredSwarmRun, runs: readonly SwarmAgentRun[]): MayJudge {
  const { coordinator_agent_run_id: coordinatorId, definition } = swarm
  const runOf = new Map(runs.map((run) => [run.agent_run_id, run]))
  const isAtOrBelow = (id: string | null, topId: string): boolean =>
    id !== null && (id === topId || isAtOrBelow(runOf.get(id)?.parent_agent_run_id ?? null, topId))
  return (judgeId, authorId) => {
    const judge = runOf.get(judgeId ?? '')
    if (!judge || !isJudge(swarm, judge) || isAtOrBelow(authorId, judge.agent_run_id)) return false
    if (judge.invocation_type !== 'spawn') return true
    const isOfCoordinator = judge.parent_agent_run_id === coordinatorId && authorId !== coordinatorId
    return definition.planner === 'coordinator' && isOfCoordinator
  }
}

/** The first artifact in the lineage of an evaluation. */
const subjectOf = ({ artifact_type, lineage }: StoredArtifact) =>
  artifact_type === 'evaluation_result' ? lineage.sources.find(({ kind }) => kind === 'artifact')?.id : undefined

/** The decision of an evaluation is its content. */
async function readEvaluations(
  deps: ArtifactDeps | undefined,
  artifacts: readonly StoredArtifact[],
  mayJudge: MayJudge,
): Promise<readonly JoinEvaluation[]> {
  const found: JoinEvaluation[] = []
  const artifactOf = new Map(artifacts.map((each) => [each.artifact_id, each]))
  for (const each of artifacts) {
    const subject = artifactOf.get(subjectOf(each) ?? '')
    if (!subject || !mayJudge(each.agent_run_id, subject.agent_run_id) || !deps) continue
    const text = await readArtifactText(deps, each)
    // A judge may write any text.
    const judgement = (text.ok && parseJson(text.value)) || null
    const { decision, confidence }: JsonObject = isJsonObject(judgement) ? judgement : {}
    found.push({
      subjectId: subject.artifact_id,
      by: each.agent_run_id ?? '',
      decision: decision === 'passed' || decision === 'pass' ? 'pass' : 'fail',
      confidence: typeof confidence === 'number' ? confidence : 0,
    })
  }
  return found
}

/** A swarm with all its agents and the proofs of their authority. */
export async function readSwarmTree(sql: Sql, workspaceId: string, swarmRunId: string): Promise<Decision<SwarmTree>> {
  const swarm = await getSwarmRun(sql, workspaceId, swarmRunId)
  if (!swarm.ok) return swarm
  const [origin] = await sql.run(findOrigin, [swarm.value.command_id])
  const runs = await listSwarmAgents(sql, swarmRunId)
  const proofs = verifyAuthority(runs, origin?.requested_by ?? '')
  return accept({ swarm: swarm.value, runs, proofs })
}
