/** A recipe as data: the steps that a plan becomes, its variables, and how far a run is from the mission that it came from. Pure. */
import { validateGraph } from '#kernel/dag/graph'
import type { TriggerRule } from '#kernel/dag/readiness'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { edgesOf, type MissionPlan, nodesOf } from './plan.ts'

/** Who did the work of a task in the mission that is saved. */
export type DoneBy = { readonly agent_id: number | null; readonly agent_type: string | null }

export type RecipeStep = {
  readonly id: string
  readonly order: number
  readonly prompt_template: string
  readonly agent_id: number | null
  readonly model_override: string | null
  readonly task_type: string
  readonly tools_needed: readonly string[]
  readonly depends_on: readonly string[]
  readonly pass_to: readonly string[]
  readonly error_handling: { readonly on_failure: 'stop' | 'continue' | 'always_run' }
  readonly note?: string
}

const onFailure = {
  all_success: 'stop',
  all_done: 'continue',
  none_failed: 'stop',
  always: 'always_run',
} as const satisfies Record<TriggerRule, RecipeStep['error_handling']['on_failure']>

const CONTRACTOR = 'A contractor did it. Choose an agent before the next run.'

/** The steps in topological order, ties by the order of the plan. Agents are those of the mission: a snapshot that people edit. */
export function toSteps(
  { tasks }: MissionPlan,
  doneBy: ReadonlyMap<string, DoneBy>,
  models: JsonObject,
): readonly RecipeStep[] {
  const graph = validateGraph(nodesOf(tasks))
  if (!graph.ok) return []
  const { nodes, order } = graph.value
  const byId = new Map(tasks.map((task) => [task.temp_id, task]))
  const passTo = new Map<string, string[]>()
  for (const task of tasks)
    for (const { from, type } of edgesOf(task))
      if (type === 'data') passTo.set(from, [...(passTo.get(from) ?? []), task.temp_id])
  return order.flatMap((position, rank): RecipeStep[] => {
    const task = byId.get(nodes[position]?.id ?? '')
    if (!task) return []
    const { agent_id = null, agent_type = null } = doneBy.get(task.temp_id) ?? {}
    const isContractor = agent_type === 'contractor'
    const model = task.suggested_model ?? models[task.task_type] ?? models['default']
    const criteria = task.success_criteria ? `Success criteria: ${task.success_criteria}` : null
    return [
      {
        id: task.temp_id,
        order: rank + 1,
        prompt_template: [task.title, task.description, criteria].filter(Boolean).join('\n\n'),
        agent_id: isContractor ? null : agent_id,
        model_override: typeof model === 'string' ? model : null,
        task_type: task.task_type,
        tools_needed: task.tools_requested ?? [],
        depends_on: edgesOf(task).map(({ from }) => from),
        pass_to: passTo.get(task.temp_id) ?? [],
        error_handling: { on_failure: onFailure[task.trigger_rule] },
        ...(isContractor && { note: CONTRACTOR }),
      },
    ]
  })
}

const VARIABLE = /\{\{ *([A-Za-z_][A-Za-z0-9_]{0,62}) *\}\}/g
const WHOLE = new RegExp(`^${VARIABLE.source}$`)

/** The names of the places `{{name}}` in all texts, each once and sorted. */
export function variablesIn(value: JsonValue): readonly string[] {
  const names = new Set<string>()
  mapTexts(value, (text) => {
    for (const [, name] of text.matchAll(VARIABLE)) if (name !== undefined) names.add(name)
    return text
  })
  return [...names].toSorted()
}

/** Characters of all values that are written into places. One value may have many places. */
const FILLED_MAX = 1_000_000

/** A text that is one place takes the value as it is; in a longer text it is written out. Values are not searched for places. */
export function fillVariables<T extends JsonValue>(value: T, given: JsonObject): Decision<T> {
  const places = new Set(variablesIn(value))
  const missing = [...places].filter((name) => !Object.hasOwn(given, name))
  const unknown = Object.keys(given).filter((name) => !places.has(name))
  const sizes = new Map(Object.entries(given).map(([name, each]) => [name, JSON.stringify(each).length]))
  const inText = new Set<string>()
  let size = 0
  let tooLarge: string | undefined
  /** After the first value that is too much, nothing more is written. */
  const take = (name: string): JsonValue => {
    size += sizes.get(name) ?? 0
    if (size > FILLED_MAX) tooLarge ??= name
    return tooLarge === undefined ? (given[name] ?? null) : ''
  }
  const filled = mapTexts(value, (text) => {
    const whole = WHOLE.exec(text)?.[1]
    if (whole !== undefined) return take(whole)
    return text.replaceAll(VARIABLE, (_, name: string) => {
      const found = take(name)
      if (typeof found !== 'object') return String(found)
      inText.add(name)
      return ''
    })
  })
  const findings = [
    ...missing.map((name) => `${quote(name)} is missing`),
    ...unknown.map((name) => `${quote(name)} is unknown`),
    ...(missing.length === 0 ? [...inText].map((name) => `${quote(name)} is part of a text and has no text`) : []),
  ]
  if (findings.length > 0)
    return refuse('missions.recipe.variables', `The variables of the recipe are wrong: ${findings.join(', ')}.`, {
      path: 'variables',
      facts: { missing, unknown, variables: [...places] },
    })
  if (tooLarge === undefined) return accept(filled as T)
  return refuse(
    'missions.recipe.too_large',
    `With ${quote(tooLarge)} the values in all places have more than ${FILLED_MAX} characters.`,
    { path: `variables.${tooLarge}`, facts: { limit: FILLED_MAX } },
  )
}

function mapTexts(value: JsonValue, map: (text: string) => JsonValue): JsonValue {
  if (typeof value === 'string') return map(value)
  if (Array.isArray(value)) return value.map((each: JsonValue) => mapTexts(each, map))
  if (typeof value !== 'object' || value === null || !isJsonObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, mapTexts(each, map)]))
}

/** What a mission cost, took and scored, and its shape: the upstream ids of each task. */
export type Measured = {
  readonly cost: string
  readonly durationMs: string | null
  readonly score: string | null
  readonly shape: Readonly<Record<string, readonly string[]>>
}

export type RunDifference = {
  readonly cost_percent: number | null
  readonly time_percent: number | null
  readonly score: number | null
  readonly added: readonly string[]
  readonly removed: readonly string[]
  /** Tasks that wait for other tasks than at the origin. */
  readonly rewired: readonly string[]
}

/** Null: one of the two has no number, or the origin has zero. */
export function compareRuns(origin: Measured, run: Measured): RunDifference {
  const percent = (from: string | null, to: string | null) =>
    from === null || to === null || Number(from) === 0 ? null : Math.round((Number(to) / Number(from) - 1) * 1_000) / 10
  const isIn = (shape: Measured['shape']) => (id: string) => Object.hasOwn(shape, id)
  const ids = Object.keys(run.shape).toSorted()
  const order = (shape: Measured['shape'], id: string) => (shape[id] ?? []).toSorted().join('\n')
  return {
    cost_percent: percent(origin.cost, run.cost),
    time_percent: percent(origin.durationMs, run.durationMs),
    score:
      origin.score === null || run.score === null
        ? null
        : Math.round((Number(run.score) - Number(origin.score)) * 100) / 100,
    added: ids.filter((id) => !isIn(origin.shape)(id)),
    removed: Object.keys(origin.shape)
      .toSorted()
      .filter((id) => !isIn(run.shape)(id)),
    rewired: ids.filter((id) => isIn(origin.shape)(id) && order(run.shape, id) !== order(origin.shape, id)),
  }
}
