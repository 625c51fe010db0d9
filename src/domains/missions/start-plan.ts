/**
 * The gate of a mission is a command: `Start Mission Plan`. Its rule decides by the level of autonomy whether a person is asked; the inbox does the rest. Its
 * effect makes the tasks, their edges and cards, and moves the mission to `running`, in one transaction.
 */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import {
  type Catalog,
  type CommandPreview,
  defineCommand,
  defineEffect,
  definePolicy,
  type Definition,
  EffectFailure,
  previewCommand,
  redactPayload,
} from '#domains/commands'
import type { Actor } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import { cutText } from '#kernel/cut-text'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonValue } from '#kernel/json-value'
import { parseMoney } from '#kernel/money'
import type { PolicyAnswer, PolicyInput } from '#kernel/policy/policy'
import { accept, type Decision } from '#kernel/refusal'
import { statement, type Tx } from '#store'
import { decisionTerms, decisionTermsOf, askPeople, autonomyLevels, OPERATOR, readMissionConfig } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { readCarried } from './fork.ts'
import { findMission, findPlanVersion, lockMission, readStoredPlan, type StoredMission } from './mission.ts'
import { type ReadPlan, startMission } from './plan-rows.ts'
import {
  edgesOf,
  type MissionPlan,
  type PlanTask,
  readPlan,
  type Runnable,
  sayRun,
  strategies,
  taskNameOf,
} from './plan.ts'
import { type Origin, submitFollowed } from './turn.ts'

const START_MISSION_PLAN = 'Start Mission Plan'
const AUTONOMY = 'mission_autonomy'
const NAMES_MAX = 50
const TASKS_SHOWN = 10
const TITLE_SHOWN = 80

const payload = z.object({
  mission_id: z.string().refine((text) => decodeId('mission', text).ok, 'the id of a mission, mission_…'),
  title: z.string(),
  plan_version: z.int().min(1),
  plan_hash: z.string(),
  task_count: z.int().min(0),
  /** Tasks that a fork takes over as completed. */
  carried_count: z.int().min(0),
  /** Tasks of the catalog that the plan runs. */
  runs: z.array(z.string()),
  strategy: z.enum(strategies),
  estimated_cost: z.string(),
  autonomy: z.enum(autonomyLevels),
  auto_approve_threshold: z.string(),
  approver_role: z.string().nullable(),
  ...decisionTerms.shape,
  /** Where the whole plan is. */
  plan: z.string(),
  /** The first tasks, so that people see what they approve. */
  tasks: z.array(
    z.object({
      title: z.string(),
      task: z.string(),
      after: z.array(z.string()),
      effects: z.array(z.string()),
      destination: z.string().nullable(),
    }),
  ),
})
type GatePayload = z.output<typeof payload>

export const planHashOf = (plan: MissionPlan) =>
  createHash('sha256')
    .update(canonicalJson(plan as unknown as JsonValue))
    .digest('hex')

type Gated = Omit<ReadPlan, 'run'> & { readonly run: Pick<StoredMission, 'id' | 'title'> }

function gateOf({ run, plan, config, carried }: Gated, catalog: Pick<Catalog, 'tasks'>): GatePayload {
  const missionId = encodeId('mission', run.id)
  return {
    mission_id: missionId,
    title: run.title,
    plan_version: plan.version,
    plan_hash: planHashOf(plan),
    task_count: plan.tasks.length,
    carried_count: carried.size,
    runs: [...new Set(plan.tasks.map(({ run: each }) => sayRun(each)))].toSorted().slice(0, NAMES_MAX),
    strategy: plan.strategy,
    estimated_cost: plan.estimated_cost,
    autonomy: config.autonomy,
    auto_approve_threshold: config.auto_approve_threshold,
    approver_role: config.approver_role ?? null,
    ...decisionTermsOf(config),
    plan: `concord missions show ${missionId}`,
    tasks: plan.tasks.slice(0, TASKS_SHOWN).map((task) => showTask(task, catalog)),
  }
}

/** A destination that its contract hides stays hidden. */
function showTask(task: PlanTask, { tasks }: Pick<Catalog, 'tasks'>): GatePayload['tasks'][number] {
  const type = tasks.get(taskNameOf(task.run))?.type
  const { destination = null } = redactPayload(task.run.payload, type?.fields ?? {}, 'pii')
  return {
    title: cutText(task.title, TITLE_SHOWN),
    task: sayRun(task.run),
    after: edgesOf(task)
      .slice(0, TASKS_SHOWN)
      .map(({ from }) => from),
    effects: [...(type?.side_effects ?? [])],
    destination:
      destination === null ? null : typeof destination === 'string' ? destination : canonicalJson(destination),
  }
}

type Autonomy = Pick<
  GatePayload,
  | 'autonomy'
  | 'estimated_cost'
  | 'auto_approve_threshold'
  | 'approver_role'
  | 'approvals_required'
  | 'expires_in_minutes'
>

/**
 * `approve`: a person. `autonomous`: a person if the estimate is above the threshold. `full_auto`: nobody. The person is a member of the role that the
 * mission names, or else its requester.
 */
export function decideAutonomy(
  { autonomy, estimated_cost, auto_approve_threshold, approver_role: role, ...terms }: Autonomy,
  requestedBy: string,
): PolicyAnswer {
  const [estimate, threshold] = [parseMoney(estimated_cost), parseMoney(auto_approve_threshold)]
  const isBelow = estimate.ok && threshold.ok && estimate.value <= threshold.value
  if (autonomy === 'full_auto' || (autonomy === 'autonomous' && isBelow)) return { decision: 'allow' }
  const reason =
    autonomy === 'approve' ? 'The plan waits for a person.' : `The estimate is above ${auto_approve_threshold}.`
  return askPeople(reason, { role, requestedBy }, terms)
}

export function startPlanDefinitions(deps: () => MissionDeps): readonly Definition[] {
  const start = defineEffect('mission.start', {
    input: payload,
    class: 'queryable',
    outward: false,
    async do({ input, workspaceId, commandId, traceId, alongside }) {
      const room = deps()
      const id = decodeId('mission', input.mission_id)
      const read = id.ok ? await readMissionPlan(room, workspaceId, id.value) : undefined
      if (!id.ok || !read) throw new EffectFailure('validation_error', 'There is no such mission.', 'no')
      if (!read.ok) throw new EffectFailure('validation_error', read.reason, 'no')
      const { plan, config, carried } = read.value
      // What people approved is what is started, also if the plan was changed meanwhile.
      if (
        canonicalJson(gateOf(read.value, room.commands.catalog) as unknown as JsonValue) !==
        canonicalJson(input as unknown as JsonValue)
      )
        throw new EffectFailure('validation_error', 'The request is not that of the plan.', 'no')
      alongside(async (tx) => {
        const run = await lockMission(tx, id.value)
        if (run?.state !== 'planning' && run?.state !== 'awaiting_approval')
          throw new EffectFailure('validation_error', `The mission is ${run?.state ?? 'gone'}.`, 'no')
        if ((await findPlanVersion(tx, id.value)) !== plan.version)
          throw new EffectFailure('validation_error', 'The plan has been changed.', 'no')
        await startMission(tx, room, {
          run,
          plan,
          config,
          carried,
          traceId,
          approvedBy: await findApprover(tx, commandId),
        })
      })
      return { mission_id: input.mission_id, task_count: plan.tasks.length }
    },
    // What it writes commits with its record. So an attempt without a record has done nothing.
    find: async () => ({ found: false }),
  })
  const rule = definePolicy({
    name: AUTONOMY,
    category: 'approval_requirement',
    actions: '*',
    // Only this room submits the task.
    decide: ({ command }: PolicyInput) =>
      decideAutonomy(command['payload'] as GatePayload, String(command['requested_by'])),
  })
  return [
    rule,
    ...defineCommand('start_mission_plan', {
      description: 'Starts the plan of a mission.',
      input: payload,
      policy: [AUTONOMY],
      steps: (input) => [start(input)],
      uses: [start],
      risk: 'medium',
      approval: {
        approver: `role:${OPERATOR}`,
        self_decision_allowed: true,
        edits_allowed: false,
        expires_in_minutes: null,
      },
      task: { name: START_MISSION_PLAN, ingress_types: ['system_event'], max_attempts: 1 },
    }).definitions,
  ]
}

const ingressOfMissions = ['user_request', 'scheduled_trigger', 'webhook'] as const

/** The contracts against which the payloads of a plan are checked. */
export const payloadsOf =
  ({ tasks }: Pick<Catalog, 'tasks'>) =>
  (task: string) =>
    tasks.get(task)?.type.payload

/** The tasks that a plan can name. A task that only Concord itself starts, such as the gate, is none of them. */
export function runnableTasks({ tasks }: Pick<Catalog, 'tasks'>): Runnable {
  const open = [...tasks].filter(([, { spec }]) =>
    ingressOfMissions.some((ingress) => spec.ingress_types.includes(ingress)),
  )
  const agentic = open.filter(
    ([
      ,
      {
        type: { execution_mode: mode },
      },
    ]) => mode === 'agentic' || mode === 'swarm',
  )
  return { tasks: new Set(open.map(([name]) => name)), agents: new Set(agentic.map(([name]) => name)) }
}

/** Read through the schema every time: a damaged document stops this mission and no other. */
export async function readMissionPlan(
  { commands: { db, catalog } }: MissionDeps,
  workspaceId: string,
  id: string,
): Promise<Decision<ReadPlan> | undefined> {
  const run = await findMission(db, workspaceId, id)
  if (!run) return undefined
  const plan = readPlan((await readStoredPlan(db, id)) as JsonValue, runnableTasks(catalog))
  if (!plan.ok) return plan
  const config = readMissionConfig(run.config)
  if (!config.ok) return config
  const carried = await readCarried(db, catalog, run, plan.value)
  return carried.ok ? accept({ run, plan: plan.value, config: config.value, carried: carried.value }) : carried
}

/** Submits the gate. Its key is the version of the plan, so a turn that is given again finds it, and a changed plan has another. */
export const submitGate = (deps: MissionDeps, by: Actor, read: ReadPlan, origin: Origin): Promise<Decision<string>> =>
  submitFollowed(
    deps,
    by,
    { run: read.run, origin },
    {
      taskName: START_MISSION_PLAN,
      payload: gateOf(read, deps.commands.catalog),
      idempotencyKey: `mission:${read.run.id}:start:${read.plan.version}`,
      ingress: 'system_event',
      labelled: [origin.labelled_plan_id],
    },
  )

/** Who would have to approve the plan. Nothing is recorded. */
export function previewGate(
  { commands }: MissionDeps,
  by: Actor,
  { workspaceId, requestId, ...gated }: Gated & { readonly workspaceId: string; readonly requestId: string },
): Promise<Decision<CommandPreview>> {
  const payload = gateOf(gated, commands.catalog)
  const asked = { workspaceId, requestId, taskName: START_MISSION_PLAN, payload, ingress: 'system_event' as const }
  return previewCommand(commands, by, asked)
}

/** $1 command. */
const findDecision = statement<{
  readonly decided_by: string | null
  readonly decision_reason: string | null
  readonly status: string
}>(
  'missions.find_decision',
  `select a.decided_by, a.decision_reason, a.status from concord.approvals as a
where a.command_id = $1::uuid and a.decided_by is not null order by a.decided_at desc limit 1`,
)

export async function findPlanDecision(sql: Pick<Tx, 'run'>, commandId: string) {
  const [decision] = await sql.run(findDecision, [commandId])
  return decision
}

/** Null: no person was asked. */
async function findApprover(tx: Tx, commandId: string): Promise<string | null> {
  const decision = await findPlanDecision(tx, commandId)
  return decision?.status === 'approved' ? decision.decided_by : null
}
