/** The request of a mission: the shipped task `Run Mission`, its effect, and the rows that it opens. */
import { z } from 'zod'
import { keyField, textField } from '#contract'
import {
  allow,
  type Catalog,
  defineCommand,
  defineEffect,
  type Definition,
  EffectFailure,
  EffectPending,
  submitCommand,
} from '#domains/commands'
import { listActive } from '#domains/identity'
import type { Actor } from '#kernel/actor'
import { cutText } from '#kernel/cut-text'
import { decideKeyOwner } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { appendEvents, statement, type Tx } from '#store'
import { draftOf } from './batch.ts'
import { insertCards } from './board.ts'
import { newMissionCard } from './cards.ts'
import { missionConfig, type MissionConfig, readMissionConfig } from './config.ts'
import { MISSION_KIND, MISSION_QUEUE, type MissionDeps } from './deps.ts'
import { missionLog } from './events.ts'
import { checkHooks } from './hooks.ts'
import { type ForkRequest, forkRequest, readFork } from './fork.ts'
import { restorePlan } from './hidden-values.ts'
import { listOpenCommands } from './mission-task.ts'
import { findMissionOfCommand, insertMission, setDue, type StoredMission } from './mission.ts'
import { missionPlan, readPlan } from './plan.ts'
import { checkPlanner, planner } from './planner.ts'
import { fillRecipe } from './recipe.ts'
import { openBudget } from './spending.ts'
import { payloadsOf, planHashOf, runnableTasks } from './start-plan.ts'

const RUN_MISSION = 'Run Mission'

const TITLE_MAX = 500

const goal = textField(10_000, { filled: true }).meta({ example: 'Release 2.4' })
const title = textField(TITLE_MAX, { charsMin: 1 })
  .optional()
  .meta({ example: 'Release 2.4', description: 'Default: the first line of the goal.' })
const description = textField(10_000).optional().meta({ example: 'With notes and a mail.' })

const recipe = z
  .int()
  .min(1)
  .max(2_147_483_647)
  .optional()
  .meta({ example: 12, description: 'The recipe that gives the plan.' })
const variables = z.record(z.string(), z.unknown()).optional()

export const createMissionBody = z
  .strictObject({
    goal: goal.optional().meta({ description: 'Default: that of the recipe.' }),
    title,
    description,
    plan: missionPlan.optional(),
    recipe,
    variables: variables.meta({
      example: { version: '2.4' },
      description: 'One value for each `{{variable}}` of the recipe.',
    }),
    planner: planner.optional(),
    config: missionConfig.optional(),
    idempotency_key: keyField('release-2.4').optional(),
  })
  .meta({ id: 'CreateMission' })
type CreateMissionBody = z.output<typeof createMissionBody>

/**
 * As the command keeps it. Plan and settings are read by the room, which names every finding. A plan of a request to this room is in the mission only: it
 * may be larger than a command, which has its hash.
 */
const payload = z.object({
  goal: goal.optional(),
  title,
  description,
  plan: z.record(z.string(), z.unknown()).optional(),
  plan_hash: z.string().optional(),
  recipe,
  variables,
  planner: planner.optional(),
  fork: forkRequest.optional(),
  config: z.record(z.string(), z.unknown()).optional(),
})

type MissionRequest = {
  readonly missionId: string
  readonly commandId: string
  readonly workspaceId: string
  readonly requestedBy: string
  readonly traceId: string
  readonly payload: z.output<typeof payload>
}

export function runMissionDefinitions(deps: () => MissionDeps): readonly Definition[] {
  const run = defineEffect('mission.run', {
    input: payload,
    class: 'queryable',
    outward: false,
    do: ({ input, ...call }) => start(deps(), { ...call, missionId: deps().commands.newId(), payload: input }),
    find: ({ commandId }) => findEnd(deps(), commandId),
  })
  return defineCommand('run_mission', {
    description: 'Runs a plan of tasks towards a goal, after a person or the level of autonomy has approved the plan.',
    input: payload,
    policy: allow,
    steps: (input) => [run(input)],
    uses: [run],
    risk: 'medium',
    // It holds the payloads of other tasks. The view of the mission shows it, each payload by the contract of its task.
    type: { fields: { plan: 'payment', variables: 'payment', planner: 'payment', 'config.hooks': 'payment' } },
    // To run a mission again is another mission.
    task: {
      name: RUN_MISSION,
      ingress_types: ['user_request', 'scheduled_trigger', 'webhook'],
      policy_checks: ['permission'],
      max_attempts: 1,
    },
  }).definitions
}

type Source = {
  readonly goal: string
  readonly plan: JsonValue
  readonly config: JsonValue
  readonly tags: JsonObject
  readonly forkedFrom: string | null
}

/** The plan of the request, of a recipe, or of the mission that is forked; null: a planner makes it. Settings of the request replace theirs. */
async function readSource(
  tx: Tx,
  catalog: Catalog,
  { workspaceId, payload: asked }: MissionRequest,
): Promise<Decision<Source>> {
  const { goal: wanted, recipe: id, plan = null, config = {}, fork: request } = asked
  if (request) {
    const fork = await readFork(tx, catalog, workspaceId, request, plan as JsonValue)
    if (!fork.ok) return fork
    const { origin, plan: forked } = fork.value
    const { autonomy: _, auto_approve_threshold: __, ...settings } = origin.config
    const own = { goal: wanted ?? origin.goal, config: { ...settings, ...config } as JsonObject }
    return accept({ ...own, plan: forked, tags: {}, forkedFrom: origin.id })
  }
  const sources = [plan, id ?? null, asked.planner ?? null].filter((each) => each !== null)
  if (sources.length !== 1 || (id === undefined && asked.variables !== undefined))
    return refuse('missions.request.invalid', 'A mission has a plan, a recipe with its variables, or a planner.', {
      path: 'plan',
    })
  const made = asked.planner && checkPlanner(asked.planner, runnableTasks(catalog))
  if (made && !made.ok) return made
  const found =
    id === undefined ? undefined : await fillRecipe(tx, workspaceId, id, (asked.variables ?? {}) as JsonObject)
  if (found && !found.ok) return found
  const own = wanted ?? found?.value.goal ?? undefined
  if (own === undefined) return refuse('missions.request.invalid', 'The mission has no goal.', { path: 'goal' })
  return accept({
    goal: own,
    plan: (found?.value.plan ?? plan) as JsonValue,
    config: { ...found?.value.config, ...config } as JsonObject,
    tags: id === undefined ? {} : { recipe_id: id },
    forkedFrom: null,
  })
}

/** The role of the mission has as many members as must approve. */
async function checkApprovers(
  tx: Tx,
  workspaceId: string,
  { approver_role: role, approval: { count } }: MissionConfig,
): Promise<Decision<null>> {
  if (role === undefined)
    return count === 1
      ? accept(null)
      : refuse('missions.config.invalid', `${count} approvals need an \`approver_role\`.`, {
          path: 'config.approval.count',
        })
  const { length } = await listActive(tx, { workspaceId, userIds: [], orgRoles: [role] })
  if (length >= count) return accept(null)
  const who = length === 0 ? 'Nobody' : `Only ${length}`
  return refuse('missions.config.invalid', `${who} with the org role ${quote(role)} can approve the plan.`, {
    path: length === 0 ? 'config.approver_role' : 'config.approval.count',
  })
}

/** Checks the request and inserts the run, its card and `run_created`, once for each command. */
async function openMission(tx: Tx, deps: MissionDeps, asked: MissionRequest): Promise<Decision<StoredMission>> {
  const { commandId, workspaceId, requestedBy, traceId } = asked
  const { catalog } = deps.commands
  const source = await readSource(tx, catalog, asked)
  if (!source.ok) return source
  // That of a recipe is known only now.
  const wanted = goal.safeParse(source.value.goal)
  if (!wanted.success)
    return refuse('missions.request.invalid', `The goal: ${wanted.error.issues[0]?.message ?? 'wrong'}.`, {
      path: 'goal',
    })
  const isMade = asked.payload.planner !== undefined
  const plan = isMade ? accept(null) : readPlan(source.value.plan, runnableTasks(catalog), payloadsOf(catalog))
  if (!plan.ok) return plan
  const filled = plan.value && restorePlan(plan.value, undefined, catalog)
  if (filled && !filled.ok) return filled
  const config = readMissionConfig(source.value.config)
  if (!config.ok) return config
  const hooks = checkHooks(config.value, catalog)
  if (!hooks.ok) return hooks
  const approvers = await checkApprovers(tx, workspaceId, config.value)
  if (!approvers.ok) return approvers
  const at = deps.commands.now()
  const run = await insertMission(tx, {
    id: asked.missionId,
    workspace_id: workspaceId,
    title: asked.payload.title ?? cutText(wanted.data.split('\n')[0] ?? '', TITLE_MAX),
    description: asked.payload.description ?? null,
    goal: wanted.data,
    plan: plan.value,
    config: config.value,
    tags: source.value.tags,
    forked_from_id: source.value.forkedFrom,
    created_by: requestedBy,
    created_at: at,
    command_id: commandId,
  })
  if (!run) {
    const known = await findMissionOfCommand(tx, commandId)
    return known ? accept(known) : refuse('missions.mission.not_found', 'The command has no mission.')
  }
  const opened = await openBudget(tx, run, config.value)
  if (!opened.ok) return { ...opened, path: 'config.budget.hard_limit' }
  await insertCards(tx, [newMissionCard(run, config.value)], null)
  const { autonomy, priority = null } = config.value
  const created = { goal: run.goal, config_summary: { priority } as JsonObject, autonomy_level: autonomy }
  const kind = requestedBy.startsWith('user:') ? 'human' : 'system'
  const creating = { by: { id: requestedBy, kind, traceId } as const, at, payloads: { run_created: created } }
  await appendEvents(tx, missionLog, [draftOf('run_created', { run_id: run.id, task_id: null }, creating)])
  return opened
}

type CreateMission = Omit<CreateMissionBody, 'idempotency_key'> & {
  readonly fork?: ForkRequest
  readonly workspaceId: string
  readonly requestId: string
  readonly idempotencyKey?: string | undefined
}

/** Submits the command and inserts the mission in one transaction. The same key gives the same mission. The end of the command wakes the mission. */
export async function createMission(
  deps: MissionDeps,
  by: Actor,
  { workspaceId, requestId, idempotencyKey, ...asked }: CreateMission,
): Promise<Decision<{ readonly run: StoredMission; readonly isNew: boolean }>> {
  const { commands } = deps
  // The mission follows its command, and only the keys of what it submits itself may begin with its name.
  const owned = decideKeyOwner(idempotencyKey ?? '', 'user_request')
  if (!owned.ok) return { ...owned, path: 'idempotency_key' }
  const missionId = commands.newId()
  const { plan, ...rest } = asked
  const submitted = await submitCommand(commands, by, {
    workspaceId,
    taskName: RUN_MISSION,
    payload: JSON.parse(JSON.stringify({ ...rest, ...(plan && { plan_hash: planHashOf(plan) }) })) as JsonObject,
    idempotencyKey,
    ingress: 'user_request',
    requestId,
    follower: { kind: MISSION_KIND, id: missionId },
    alongside: (tx, command) =>
      openMission(tx, deps, {
        missionId,
        commandId: command.command_id,
        workspaceId,
        requestedBy: command.requested_by,
        traceId: by.traceId,
        payload: asked,
      }),
  })
  if (!submitted.ok) return submitted
  const { command, isNew } = submitted.value
  const run = await findMissionOfCommand(commands.db, command.command_id)
  return run ? accept({ run, isNew }) : refuse('missions.mission.not_found', 'The command has no mission.')
}

/** Missions inside missions. A recipe can run itself, so something must end it. */
const DEPTH_MAX = 5

/** $1 command. */
const findDepth = statement<{ readonly depth: number }>(
  'missions.find_depth',
  `select coalesce((c.context->'metadata'->>'mission_depth')::int, 0) as depth from concord.commands as c where c.command_id = $1::uuid`,
)

async function checkDepth(tx: Tx, commandId: string): Promise<Decision<null>> {
  const [row] = await tx.run(findDepth, [commandId])
  if (!row || row.depth <= DEPTH_MAX) return accept(null)
  return refuse('missions.request.too_deep', `The mission is inside more than ${DEPTH_MAX} others.`)
}

async function start(deps: MissionDeps, asked: MissionRequest): Promise<never> {
  const { commands } = deps
  const opened = await commands.db.transaction(async (tx) => {
    const known = await findMissionOfCommand(tx, asked.commandId)
    const allowed = known ? accept(null) : await checkDepth(tx, asked.commandId)
    if (!allowed.ok) return allowed
    const run = known ? accept(known) : await openMission(tx, deps, asked)
    if (run.ok && run.value.state_type !== 'terminal') {
      await setDue(tx, run.value.id, commands.now())
      await commands.wake({ kind: MISSION_KIND, id: run.value.id }, { tx, queue: MISSION_QUEUE })
    }
    return run
  })
  if (!opened.ok) throw new EffectFailure('validation_error', `${opened.code}: ${opened.reason}`, 'no')
  throw EffectPending.ofProcess(MISSION_KIND, opened.value.id)
}

/** The command ends after its mission, and after every command of its mission. A cancel of the command wakes the mission. */
async function findEnd({ commands }: MissionDeps, commandId: string) {
  const run = await findMissionOfCommand(commands.db, commandId)
  if (!run) return { found: false } as const
  const isOpen = run.state_type !== 'terminal' || (await listOpenCommands(commands.db, run.id)).length > 0
  if (isOpen) {
    await commands.wake({ kind: MISSION_KIND, id: run.id }, { queue: MISSION_QUEUE })
    return { found: false } as const
  }
  if (run.state !== 'completed')
    throw new EffectFailure('validation_error', `the mission is ${run.state}: ${run.error_message ?? ''}`, 'no')
  return {
    found: true,
    result: {
      mission_id: encodeId('mission', run.id),
      state: run.state,
      tasks: run.task_count,
      completed: run.tasks_completed,
      failed: run.tasks_failed,
      // For a mission that this one is a task of.
      usage: { cost: run.total_cost, tokens: run.total_tokens },
    },
  } as const
}
