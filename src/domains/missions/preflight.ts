/**
 * The pre-flight of a mission: what the rest of its plan will need. The gate and every payload of the plan are previewed once; what comes from the result of
 * another task is tried with examples, and named as unknown until that task ends. Nothing is recorded.
 */
import { amountOf } from '#domains/budgets'
import { type CommandPreview, findHolders, listIrreversible, mergeApprovals } from '#domains/commands'
import type { Actor } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import { encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { formatMoney, maxMoney, type Money, zeroMoney } from '#kernel/money'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { attemptsAllowed } from '#kernel/retry'
import { decisionTermsOf, type MissionConfig, readMissionConfig, sayUnknown } from './config.ts'
import { previewReview, reviewerOf } from './accept-output.ts'
import { verifierOf } from './checks.ts'
import { attemptLimitOf } from './decide-attempt.ts'
import type { MissionDeps } from './deps.ts'
import { listTasks } from './mission-task.ts'
import { findMission, readStoredPlan, type StoredMission } from './mission.ts'
import { readCarried } from './fork.ts'
import type { ReadPlan } from './plan-rows.ts'
import { missionPlan, type MissionPlan, type PlanTask, readPlan, taskNameOf } from './plan.ts'
import type { MissionPreflight } from './preflight-contract.ts'
import {
  type AskedPreview,
  GROUPS_MAX,
  groupCalls,
  type Previewed,
  previewGroups,
  rememberReads,
} from './preview-calls.ts'
import { referencesIn } from './references.ts'
import { previewGate, runnableTasks } from './start-plan.ts'
import { actAsRequester, findOrigin } from './turn.ts'
import { amountIn, maxCostOf } from './usage.ts'

type Rest = {
  readonly plan: MissionPlan
  readonly config: MissionConfig
  /** The commands of its own tasks. */
  readonly own: ReadonlySet<string | null>
  /** Null: the plan is started already. */
  readonly gate: (Pick<StoredMission, 'id' | 'title'> & Pick<ReadPlan, 'carried'>) | null
  readonly budget: { readonly limit: Money; readonly spent: Money } | null
}

/** Of a plan that is no mission yet. */
export async function preflightPlan(
  deps: MissionDeps,
  by: Actor,
  { plan, config: given = {}, ...asked }: Omit<AskedPreview, 'ingress'> & { plan: MissionPlan; config?: JsonObject },
): Promise<Decision<MissionPreflight>> {
  const read = readWhole(deps, plan as unknown as JsonValue)
  if (!read.ok) return read
  const config = readMissionConfig(given)
  if (!config.ok) return config
  const limit = config.value.budget?.hard_limit
  return preflight(
    deps,
    by,
    { ...asked, ingress: 'user_request' },
    {
      plan: read.value,
      config: config.value,
      own: new Set(),
      gate: { id: deps.commands.newId(), title: '', carried: new Map() },
      budget: limit === undefined ? null : { limit: amountIn(limit), spent: zeroMoney },
    },
  )
}

/** Of the tasks of a mission that have not ended, for its requester. */
export async function preflightMission(
  deps: MissionDeps,
  {
    workspaceId,
    requestId,
    missionId,
  }: Pick<AskedPreview, 'workspaceId' | 'requestId'> & { readonly missionId: string },
): Promise<Decision<MissionPreflight>> {
  const { db } = deps.commands
  const run = await findMission(db, workspaceId, missionId)
  const [origin] = run ? await db.run(findOrigin, [missionId]) : []
  if (!run || !origin) return refuse('missions.mission.not_found', 'There is no such mission.')
  const plan = readWhole(deps, (await readStoredPlan(db, missionId)) as JsonValue)
  if (!plan.ok) return plan
  const config = readMissionConfig(run.config)
  if (!config.ok) return config
  const by = await actAsRequester(deps.commands, run, origin)
  if (!by.ok) return by
  const rows = await listTasks(db, missionId)
  const carried = rows.length > 0 ? accept(new Map()) : await readCarried(db, deps.commands.catalog, run, plan.value)
  if (!carried.ok) return carried
  const ended = new Set(rows.flatMap(({ state_type, spec }) => (state_type === 'terminal' ? [spec.temp_id] : [])))
  const isOver = run.state_type === 'terminal'
  const tasks = isOver
    ? []
    : plan.value.tasks.filter(({ temp_id }) => !ended.has(temp_id) && !carried.value.has(temp_id))
  return preflight(
    deps,
    by.value,
    { workspaceId, requestId, ingress: origin.ingress },
    {
      plan: { ...plan.value, tasks },
      config: config.value,
      own: new Set(rows.map(({ command_id }) => command_id)),
      gate: isOver || rows.length > 0 ? null : { ...run, carried: carried.value },
      budget: run.budget && { limit: amountOf(run.budget.limit), spent: amountOf(run.budget.spent) },
    },
  )
}

/** Tasks that the catalog does not have are part of the answer, so they are no findings. */
function readWhole({ commands: { catalog } }: MissionDeps, given: JsonValue): Decision<MissionPlan> {
  const runs = missionPlan.safeParse(given).data?.tasks.map(({ run }) => run) ?? []
  const { tasks, agents } = runnableTasks(catalog)
  const named = {
    tasks: new Set([...tasks, ...runs.map(({ task = '' }) => task)]),
    agents: new Set([...agents, ...runs.map(({ agent = '' }) => agent)]),
  }
  return readPlan(given, named, (task) => catalog.tasks.get(task)?.type.payload)
}

async function preflight(
  { commands: given }: MissionDeps,
  by: Actor,
  asked: AskedPreview,
  { plan, config, gate, budget, own: begun }: Rest,
): Promise<Decision<MissionPreflight>> {
  const commands = { ...given, db: rememberReads(given.db) }
  const { catalog } = commands
  const asksFor =
    gate && (await previewGate({ commands }, by, { ...asked, plan, config, run: gate, carried: gate.carried }))
  if (asksFor && !asksFor.ok) return asksFor
  const own = plan.tasks.filter(({ run }) => run.worker === undefined)
  const ofWorkers = plan.tasks.filter(({ run }) => run.worker !== undefined)
  const reviews = await previewReviews(commands, by, asked, plan.tasks, config)
  if (!reviews.ok) return reviews
  const groups = groupCalls([
    ...own.map(({ temp_id, run }) => ({ name: taskNameOf(run), payload: run.payload, task: temp_id })),
    ...plan.tasks.flatMap(({ temp_id, verify = [] }) =>
      verify.flatMap((check) => {
        const verifier = verifierOf(check)
        return verifier ? [{ name: verifier.task, payload: verifier.payload, task: temp_id }] : []
      }),
    ),
  ])
  const found = await previewGroups(commands, by, asked, groups.slice(0, GROUPS_MAX))
  const approvals = joinApprovals([
    ...(asksFor?.value.approvals ?? []).map((approval) => ({ ...approval, tasks: [], when: 'always' as const })),
    ...found.flatMap(({ tasks, previews }) =>
      mergeApprovals(previews.filter(({ policy }) => policy !== null)).map(({ when, ...approval }) => ({
        ...approval,
        tasks,
        when: when === 'always' ? when : ('arguments' as const),
      })),
    ),
    ...reviews.value,
  ])
  const named = Map.groupBy(groups, ({ name }) => name)
  const runnable = runnableTasks(catalog)
  const missing: MissionPreflight['missing'] = [
    ...findUnknown(own, 'task', 'task of the catalog', runnable.tasks),
    ...findUnknown(own, 'agent', 'task of the catalog that an agent does', runnable.agents),
    ...found.flatMap((group) => findDenied(group, catalog.tasks.get(group.name)?.spec.connector_requirements ?? [])),
    ...(await findTaken(commands, asked.workspaceId, found, begun)),
    ...approvals.flatMap(({ approver, tasks, blocked_by }) =>
      blocked_by ? [{ kind: 'approver' as const, name: approver, tasks, reason: blocked_by.reason }] : [],
    ),
    ...findUnpaid(plan.tasks, config, budget),
  ]
  return accept({
    is_ready: missing.length === 0,
    tasks: plan.tasks.length,
    approvals,
    // The catalog limits runs of one command. An attempt after a refused output, and one of a worker, is another.
    spend: spendOf(plan.tasks, config, budget, ({ run, verify = [] }) =>
      run.worker === undefined && verify.length === 0
        ? (catalog.tasks.get(taskNameOf(run))?.spec.max_attempts ?? 1)
        : Number.MAX_SAFE_INTEGER,
    ),
    irreversible: [...named].flatMap(([name, of]) => {
      const task = catalog.tasks.get(name)
      const tasks = [...new Set(of.flatMap((group) => group.tasks))]
      return task ? listIrreversible(catalog, task).map((effect) => ({ tasks, ...effect })) : []
    }),
    missing,
    unknown: [
      ...found.flatMap(listUnknown),
      ...(groups.length > GROUPS_MAX
        ? [
            {
              tasks: groups.slice(GROUPS_MAX).flatMap(({ tasks }) => tasks),
              what: 'What they need.',
              until: 'they start',
            },
          ]
        : []),
      ...(ofWorkers.length > 0 ? [{ tasks: idsOf(ofWorkers), what: 'What their workers do.', until: 'they end' }] : []),
      ...(budget ? [] : [{ tasks: [], what: 'The cost: the mission has no hard limit.', until: 'it ends' }]),
    ],
  })
}

const idsOf = (tasks: readonly PlanTask[]) => tasks.map(({ temp_id }) => temp_id)

/** The persons whom a check of an output asks, by their role. */
async function previewReviews(
  commands: MissionDeps['commands'],
  by: Actor,
  asked: AskedPreview,
  tasks: readonly PlanTask[],
  config: MissionConfig,
): Promise<Decision<readonly Needed[]>> {
  const reviewed = tasks.filter(({ verify = [] }) => verify.some((check) => 'person' in check))
  const needed: Needed[] = []
  for (const [role, of] of Map.groupBy(reviewed, ({ verify }) => reviewerOf({ verify }, config))) {
    const preview = await previewReview({ commands }, by, { ...asked, role, terms: decisionTermsOf(config) })
    if (!preview.ok) return preview
    for (const approval of preview.value.approvals) needed.push({ ...approval, tasks: idsOf(of), when: 'always' })
  }
  return accept(needed)
}

type Needed = MissionPreflight['approvals'][number]

/** The same question about several tasks is one entry. */
function joinApprovals(needed: readonly Needed[]): Needed[] {
  const keyOf = ({ tasks, ...question }: Needed) => canonicalJson([question, tasks.length > 0])
  return [...Map.groupBy(needed, keyOf).values()].flatMap(([first, ...same]) =>
    first ? [{ ...first, tasks: [first, ...same].flatMap(({ tasks }) => tasks) }] : [],
  )
}

/** Tasks of the plan whose runner the catalog does not have. */
function findUnknown(
  tasks: readonly PlanTask[],
  field: 'task' | 'agent',
  noun: string,
  known: ReadonlySet<string>,
): MissionPreflight['missing'] {
  const unknown = tasks.filter(({ run: { [field]: name } }) => name !== undefined && !known.has(name))
  return [...Map.groupBy(unknown, ({ run }) => taskNameOf(run))].map(([name, of]) => {
    return { kind: 'task', name, tasks: idsOf(of), reason: sayUnknown(noun, name, known) }
  })
}

/** Rules deny it, whatever other tasks return. */
function findDenied(
  { name, tasks, previews, fault }: Previewed,
  connectors: readonly string[],
): MissionPreflight['missing'] {
  if (fault !== null) return [{ kind: 'task', name, tasks, reason: fault }]
  const decided = previews.filter(({ policy, status }) => policy !== null || status === 'failed')
  const [first] = decided
  const isDenied = ({ policy, status }: CommandPreview) => policy?.decision === 'deny' || status === 'failed'
  if (!first || !decided.every(isDenied)) return []
  const isScope = first.policy?.trace.some(
    ({ category, answer }) => category === 'connector_scope' && answer === 'deny',
  )
  const reason = first.policy?.reasons.join(' ') || (first.error ?? 'A rule denies it.')
  return [{ kind: isScope ? 'connector' : 'policy', name: isScope ? connectors.join(', ') : name, tasks, reason }]
}

/** Another command has the contract's key, so that the submit would be refused. */
async function findTaken(
  { db }: MissionDeps['commands'],
  workspaceId: string,
  found: readonly Previewed[],
  own: Rest['own'],
): Promise<MissionPreflight['missing']> {
  const known = found.filter(({ payload }) => referencesIn(payload).length === 0)
  const groupOf = new Map(known.flatMap((group) => group.previews.map(({ contract_key }) => [contract_key, group])))
  const keys = [...groupOf.keys()].filter((key) => key !== null)
  return (await findHolders(db, workspaceId, keys)).flatMap(({ command_id, contract_key }) => {
    const group = own.has(command_id) ? undefined : groupOf.get(contract_key)
    const reason = `${encodeId('command', command_id)} was asked for the same thing, and its contract allows it once.`
    return group ? [{ kind: 'task' as const, name: group.name, tasks: group.tasks, reason }] : []
  })
}

/** An attempt that the whole limit does not pay for never starts. */
function findUnpaid(
  tasks: readonly PlanTask[],
  config: MissionConfig,
  budget: Rest['budget'],
): MissionPreflight['missing'] {
  if (!budget) return []
  return tasks.flatMap(({ temp_id, max_cost }) => {
    const most = maxCostOf(max_cost, config)
    const [needed, limit] = [formatMoney(most), formatMoney(budget.limit)]
    const reason = `An attempt may cost ${needed}, and the hard limit is ${limit}.`
    return most > budget.limit ? [{ kind: 'budget' as const, name: needed, tasks: [temp_id], reason }] : []
  })
}

/** All attempts that the settings allow, with their hooks and verifiers, and never more than the limit. */
function spendOf(
  tasks: readonly PlanTask[],
  config: MissionConfig,
  budget: Rest['budget'],
  runsMax: (task: PlanTask) => number,
): MissionPreflight['spend'] {
  const costs = tasks.map((task) => {
    const verifiers = (task.verify ?? []).map((check) => verifierOf(check)?.maxCost)
    const beside = [config.hooks.before_run?.max_cost, config.hooks.after_run?.max_cost, ...verifiers]
    const most = beside
      .filter((cost) => cost !== undefined)
      .reduce((all, cost) => all + maxCostOf(cost, config), BigInt(maxCostOf(task.max_cost, config)))
    return [most, most * BigInt(attemptsAllowed(attemptLimitOf(config, task, runsMax(task)).limit))] as const
  })
  const least = (amount: bigint, bound: bigint) => formatMoney((amount < bound ? amount : bound) as Money)
  const sum = (of: 0 | 1) => costs.reduce((all, cost) => all + cost[of], 0n)
  return {
    limit: budget && formatMoney(budget.limit),
    spent: formatMoney(budget?.spent ?? zeroMoney),
    first_attempts: least(sum(0), maxMoney),
    all_attempts: least(sum(1), maxMoney),
    worst_case: budget && least(budget.spent + sum(1), budget.limit),
  }
}

function listUnknown({ tasks, payload, previews }: Previewed): MissionPreflight['unknown'] {
  const references = referencesIn(payload)
  const fields = [...new Set(previews.flatMap(({ missing_fields }) => missing_fields))]
  const own = fields.filter((field) => !references.some(({ steps }) => steps[0] === field))
  const denied = previews.filter(({ policy }) => policy?.decision === 'deny').length
  const upstream = [...new Set(references.map(({ from }) => from))]
  const until = `${upstream.join(' and ')} ${upstream.length > 1 ? 'end' : 'ends'}`
  return [
    ...(references.length > 0
      ? [{ tasks, what: `${references.map(({ at }) => at).join(', ')}: from results.`, until }]
      : []),
    ...(denied > 0 && denied < previews.length ? [{ tasks, what: 'A rule denies some arguments.', until }] : []),
    ...(own.length > 0 ? [{ tasks, what: `A person supplies ${own.join(', ')}.`, until: 'the person answers' }] : []),
  ]
}
