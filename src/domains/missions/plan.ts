/** The plan of a mission: its shape, and every finding at once. Pure. */
import { z } from 'zod'
import { slugField, textField } from '#contract'
import { type GraphNode, validateGraph } from '#kernel/dag/graph'
import { triggerRules } from '#kernel/dag/readiness'
import { missionTaskTypes } from '#kernel/machines/mission'
import { formatPath, type JsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { checkChecks, checkList } from './checks.ts'
import { money, sayUnknown } from './config.ts'
import { type ResultReference, referencesIn } from './references.ts'

export const dependencyTypes = ['data', 'ordering'] as const
export const strategies = ['sequential', 'parallel', 'mixed'] as const

/** A plan of more than about 1,000 tasks is above the limits of one JSON text, and is sent as lines. */
const PLAN_TASKS_MAX = 10_000
const PLAN_EDGES_MAX = 100_000
/** How a request sends its plan as lines. */
export const planLines = { at: ['plan', 'tasks'], max: PLAN_TASKS_MAX } as const

const jsonObject = z.record(z.string(), z.unknown()) as unknown as z.ZodType<JsonObject, JsonObject>

const tempId = textField(100, { charsMin: 1 }).meta({ example: 'notes', description: 'Unique in the plan.' })

const dependency = z
  .union([tempId, z.strictObject({ task: tempId, type: z.enum(dependencyTypes).default('data') })])
  .meta({ example: 'notes', description: 'A temporary id, or one with its type. `data`: it uses the output.' })

const taskName = textField(200, { charsMin: 1 })

/** Exactly one runner: a task of the catalog, one of its agents, or outside workers. */
const taskRun = z
  .strictObject({
    task: taskName.optional().meta({ example: 'Generate Report', description: 'A task of the catalog.' }),
    agent: taskName
      .optional()
      .meta({ example: 'Draft Notes', description: 'A task of the catalog that an agent does.' }),
    worker: slugField('translate').optional().meta({ description: 'The queue from which outside workers claim it.' }),
    payload: jsonObject.default({}).meta({
      description: 'A value `{"$from": "notes", "path": "/artifact_id"}` is taken from the result of that task.',
    }),
  })
  .refine(({ task, agent, worker }) => [task, agent, worker].filter((each) => each !== undefined).length === 1, {
    message: 'A task names exactly one of task, agent and worker.',
  })
  .meta({ id: 'MissionTaskRun', example: { task: 'Generate Report', payload: {} } })

/** The attempts of tasks that workers run are commands of this shipped task. */
export const RUN_WORKER_TASK = 'Run Worker Task'

/** The task of the catalog whose commands are the attempts. */
export const taskNameOf = ({ task, agent }: Pick<PlanTask['run'], 'task' | 'agent'>): string =>
  task ?? agent ?? RUN_WORKER_TASK

/** What runs it, for people. */
export const sayRun = ({ worker, ...run }: Pick<PlanTask['run'], 'task' | 'agent' | 'worker'>): string =>
  worker === undefined ? taskNameOf(run) : `worker:${worker}`

const planTask = z
  .strictObject({
    temp_id: tempId,
    title: textField(500, { charsMin: 1 }).meta({ example: 'Write the notes' }),
    description: textField(10_000).nullish(),
    task_type: z.enum(missionTaskTypes).meta({ example: 'writing' }),
    depends_on: z.array(dependency).max(PLAN_TASKS_MAX).default([]),
    trigger_rule: z.enum(triggerRules).default('all_success'),
    success_criteria: textField(10_000).nullish(),
    tools_requested: z.array(textField(200)).max(100).nullish(),
    suggested_agent: textField(255).nullish(),
    suggested_model: textField(255).nullish(),
    verify: checkList.optional(),
    max_retries: z.int().min(0).max(100).optional().meta({ description: 'At most that of the mission.' }),
    max_continuations: z.int().min(0).max(1_000).optional().meta({ description: 'At most that of the mission.' }),
    max_cost: money('1.00')
      .optional()
      .meta({ description: 'What an attempt may cost. Reserved before it starts if the mission has a hard limit.' }),
    run: taskRun,
  })
  .meta({ id: 'MissionPlanTask' })

const taskExample = {
  temp_id: 'notes',
  title: 'Write the notes',
  task_type: 'writing',
  run: { task: 'Generate Report', payload: {} },
}

export const missionPlan = z
  .strictObject({
    version: z.int().min(1).meta({ example: 1 }),
    strategy: z
      .enum(strategies)
      .meta({ example: 'mixed', description: 'For people. The graph alone decides the order.' }),
    estimated_cost: money('4.50'),
    estimated_tokens: z.int().min(0).optional().meta({ example: 12_000 }),
    estimated_duration_ms: z.int().min(0).optional().meta({ example: 60_000 }),
    notes: textField(10_000).optional().meta({ example: 'The mail waits for the notes.' }),
    tasks: z.array(planTask).meta({ example: [taskExample] }),
  })
  .meta({
    id: 'MissionPlan',
    example: {
      version: 1,
      strategy: 'mixed',
      estimated_cost: '4.50',
      tasks: [taskExample],
    },
  })
export type MissionPlan = z.output<typeof missionPlan>
export type PlanTask = MissionPlan['tasks'][number]

export type PlanFinding = { readonly code: string; readonly path: string; readonly message: string }

type Edge = { readonly from: string; readonly type: (typeof dependencyTypes)[number] }

export const edgesOf = ({ depends_on }: Pick<PlanTask, 'depends_on'>): readonly Edge[] =>
  depends_on.map((each) =>
    typeof each === 'string' ? { from: each, type: 'data' } : { from: each.task, type: each.type },
  )

/** The contract of the payload of a task. */
type PayloadOf = (task: string) => Pick<z.ZodType, 'safeParse'> | undefined

/** The names of the catalog that a plan may use, and those of them that agents do. */
export type Runnable = { readonly tasks: ReadonlySet<string>; readonly agents: ReadonlySet<string> }

/** Reads a plan, or refuses it with every finding. Payloads are checked if their contracts are given. */
export function readPlan(given: JsonValue, known: Runnable, payloadOf?: PayloadOf): Decision<MissionPlan> {
  const parsed = missionPlan.safeParse(given)
  if (!parsed.success)
    return refusePlan(
      parsed.error.issues.map(({ path, message }) => ({
        code: 'shape',
        path: formatPath(['plan', ...(path as JsonStep[])]),
        message,
      })),
    )
  const findings = checkPlan(parsed.data, known, payloadOf)
  return findings.length > 0 ? refusePlan(findings) : accept(parsed.data)
}

const FINDINGS_SHOWN = 100
/** To find the nearest of 10,000 names takes some 10 ms. */
const NEAREST_NAMED = 10

type SayUnknown = typeof sayUnknown

export function refusePlan(findings: readonly PlanFinding[]): Decision<never> {
  const [first] = findings
  const others = findings.length - 1
  const more = others > 1 ? ` There are ${others} more findings.` : others === 1 ? ' There is one more finding.' : ''
  return refuse('missions.plan.invalid', `${first?.path ?? 'plan'}: ${first?.message ?? 'not a plan'}${more}`, {
    path: first?.path ?? 'plan',
    facts: { findings: findings.slice(0, FINDINGS_SHOWN), count: findings.length },
  })
}

export function checkPlan(
  { tasks }: MissionPlan,
  known: Runnable,
  payloadOf: PayloadOf = () => undefined,
): readonly PlanFinding[] {
  if (tasks.length === 0) return [{ code: 'size', path: 'plan.tasks', message: 'The plan has no task.' }]
  if (tasks.length > PLAN_TASKS_MAX)
    return [{ code: 'size', path: 'plan.tasks', message: `${tasks.length} tasks; the limit is ${PLAN_TASKS_MAX}.` }]
  const edges = tasks.reduce((count, { depends_on }) => count + depends_on.length, 0)
  if (edges > PLAN_EDGES_MAX)
    return [{ code: 'size', path: 'plan.tasks', message: `${edges} dependencies; the limit is ${PLAN_EDGES_MAX}.` }]
  const ids = new Set(tasks.map(({ temp_id }) => temp_id))
  const seen = new Set<string>()
  let named = 0
  const say: SayUnknown = (noun, name, names) => sayUnknown(noun, name, named++ < NEAREST_NAMED ? names : [])
  const findings = tasks.flatMap((task, index) => {
    const at = (field: string) => `plan.tasks[${index}].${field}`
    const isDoubled = seen.has(task.temp_id)
    seen.add(task.temp_id)
    return [
      ...(isDoubled
        ? [{ code: 'doubled', path: at('temp_id'), message: `Two tasks are ${quote(task.temp_id)}.` }]
        : []),
      ...checkEdges(task, ids, at('depends_on'), say),
      ...checkRun(task, known, at('run'), say),
      // The workers of a queue say what they take.
      ...(task.run.worker === undefined
        ? checkPayload(task.run.payload, payloadOf(taskNameOf(task.run)), at('run.payload'))
        : []),
      ...checkChecks(task, known, at('verify')),
    ]
  })
  return [...findings, ...checkCycle(tasks)]
}

function checkEdges(task: PlanTask, ids: ReadonlySet<string>, path: string, say: SayUnknown): readonly PlanFinding[] {
  const seen = new Set<string>()
  return edgesOf(task).flatMap(({ from }) => {
    const isAgain = seen.has(from)
    seen.add(from)
    if (from === task.temp_id) return [{ code: 'cycle', path, message: `The plan has a cycle: ${from} → ${from}.` }]
    if (isAgain) return [{ code: 'doubled', path, message: `It depends on ${quote(from)} twice.` }]
    return ids.has(from) ? [] : [{ code: 'unknown_id', path, message: say('task', from, ids) }]
  })
}

function checkRun(task: PlanTask, { tasks, agents }: Runnable, path: string, say: SayUnknown): readonly PlanFinding[] {
  const data = edgesOf(task).flatMap(({ from, type }) => (type === 'data' ? [from] : []))
  const unknown = (field: 'task' | 'agent', noun: string, names: ReadonlySet<string>) => {
    const name = task.run[field]
    if (name === undefined || names.has(name)) return []
    return [{ code: `unknown_${field}`, path: `${path}.${field}`, message: say(noun, name, names) }]
  }
  return [
    ...unknown('task', 'task of the catalog', tasks),
    ...unknown('agent', 'task of the catalog that an agent does', agents),
    ...referencesIn(task.run.payload, ['payload']).flatMap(({ at, ...reference }) =>
      checkReference(reference, task, data).map((found) => ({ ...found, path: `${path}.${at}` })),
    ),
  ]
}

function checkReference(
  { from, fault }: ResultReference,
  { trigger_rule }: PlanTask,
  data: readonly string[],
): readonly Omit<PlanFinding, 'path'>[] {
  if (fault !== undefined) return [{ code: 'reference', message: fault }]
  if (!data.includes(from))
    return [{ code: 'no_data_edge', message: `$from names ${quote(from)}, and no data edge leads from it.` }]
  return trigger_rule === 'always'
    ? [{ code: 'reference', message: `A task with the rule always does not wait for the result of ${quote(from)}.` }]
    : []
}

/**
 * A missing field can still be supplied by a person, as in a command. What a reference is part of is known only when its result is. The messages of Zod name
 * types and limits, never the value.
 */
export function checkPayload(
  payload: JsonObject,
  contract: ReturnType<PayloadOf>,
  path: string,
): readonly PlanFinding[] {
  const parsed = contract?.safeParse(payload)
  if (!parsed || parsed.success) return []
  const references = referencesIn(payload).map(({ steps }) => steps)
  return parsed.error.issues.flatMap((issue) => {
    const steps = issue.path as JsonStep[]
    const isOwnKey = issue.code === 'unrecognized_keys'
    const isOpen = references.some((reference) => {
      const shorter = Math.min(reference.length, isOwnKey ? reference.length : steps.length)
      return reference.slice(0, shorter).every((step, index) => step === steps[index])
    })
    if (isOpen || (!isOwnKey && steps.length > 0 && isAbsent(payload, steps))) return []
    const at = formatPath(steps)
    return [{ code: 'payload', path: at === '' ? path : `${path}.${at}`, message: issue.message }]
  })
}

function isAbsent(payload: JsonValue, steps: readonly JsonStep[]): boolean {
  let value: JsonValue | undefined = payload
  for (const step of steps) {
    const isInside: boolean = typeof value === 'object' && value !== null && Object.hasOwn(value, step)
    value = isInside ? (value as Readonly<Record<JsonStep, JsonValue>>)[step] : undefined
  }
  return value === undefined || value === null
}

/** Without the edges and tasks that have a finding of their own: a cycle among the others is found with them. */
function checkCycle(tasks: readonly PlanTask[]): readonly PlanFinding[] {
  const nodes = new Map<string, GraphNode>()
  for (const node of nodesOf(tasks)) if (!nodes.has(node.id)) nodes.set(node.id, node)
  const graph = validateGraph(
    [...nodes.values()].map((node) => ({
      ...node,
      dependsOn: [...new Set(node.dependsOn)].filter((id) => id !== node.id && nodes.has(id)),
    })),
  )
  return graph.ok ? [] : [{ code: 'cycle', path: 'plan.tasks', message: graph.reason }]
}

export const nodesOf = (tasks: readonly PlanTask[]): readonly GraphNode[] =>
  tasks.map((task, index) => ({
    id: task.temp_id,
    sequence: index + 1,
    dependsOn: edgesOf(task).map(({ from }) => from),
    rule: task.trigger_rule,
  }))
