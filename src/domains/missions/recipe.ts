/** Recipes: plans of completed missions that can be run again. */
import { z } from 'zod'
import { idView, orNull, pageView, textField, timeView } from '#contract'
import type { Catalog } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { type Db, type Paged, pageText, scoped, type Sql, statement, type Tx } from '#store'
import type { RowOf } from '#store/rows'
import type { MissionDeps } from './deps.ts'
import { restorePlan, showPlan } from './hidden-values.ts'
import { listTasks } from './mission-task.ts'
import { findMission, readStoredPlan, type StoredMission } from './mission.ts'
import { missionPlan, type MissionPlan, readPlan } from './plan.ts'
import { compareRuns, fillVariables, type Measured, type RecipeStep, toSteps, variablesIn } from './recipe-plan.ts'
import { runnableTasks } from './start-plan.ts'

const RECIPES = 'missions.workflow_recipes'
const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'
const EDGES = 'missions.orchestration_task_dependencies'
const RUNS_COMPARED = 50

/** The plan is what runs; the steps are its form for people and other tools. */
type Template = { readonly plan: JsonObject; readonly config: JsonObject }
/** The mission that was saved, as it ended. */
type Origin = {
  readonly run_id: string
  readonly completed_at: string | null
  readonly cost: string
  readonly duration_ms: string | null
  readonly task_count: number
  readonly score: string | null
  readonly shape: Measured['shape']
}
type StoredRecipe = RowOf<
  'missions.workflow_recipes',
  {
    readonly steps: readonly RecipeStep[]
    readonly tags: readonly string[]
    readonly execution_config: { readonly originated_from: Origin }
    readonly template_definition: Template
  }
>

export const saveRecipeBody = z
  .strictObject({ name: textField(500, { charsMin: 1 }).optional().meta({ example: 'Release' }) })
  .meta({ id: 'SaveRecipe' })

export const editRecipeBody = z
  .strictObject({
    name: textField(500, { charsMin: 1 }).optional().meta({ example: 'Release' }),
    description: textField(10_000, { filled: true }).optional().meta({ example: 'Release {{version}}' }),
    plan: missionPlan.optional(),
  })
  .meta({ id: 'EditRecipe' })

const recipeView = z
  .object({
    recipe_id: z.int().meta({ example: 12 }),
    name: z.string().meta({ example: 'Release' }),
    description: z.string().nullable(),
    template_id: z.string().nullable().meta({ example: 'mission-0197f3b2-20260501100000000' }),
    owner_type: z.string().meta({ example: 'workspace' }),
    tags: z.array(z.string()),
    variables: z.array(z.string()).meta({ description: 'Every run gives a value for each.' }),
    created_by: z.string(),
    created_at: timeView(),
  })
  .meta({ id: 'Recipe' })

export const recipeDetailView = recipeView
  .extend({
    execution_config: z.record(z.string(), z.unknown()),
    steps: z.array(z.record(z.string(), z.unknown())),
    plan: missionPlan.nullable(),
  })
  .meta({ id: 'RecipeDetail' })

export const recipePageView = pageView(recipeView, 'RecipePage')

export const recipeDriftView = z
  .object({
    origin: z.object({ mission_id: idView('mission'), cost: z.string(), duration_ms: z.string().nullable() }),
    runs: z.array(
      z.object({
        mission_id: idView('mission'),
        state: z.string(),
        cost: z.string(),
        duration_ms: z.string().nullable(),
        score: z.string().nullable(),
        completed_at: timeView().nullable(),
        drift: z.object({
          cost_percent: z.number().nullable(),
          time_percent: z.number().nullable(),
          score: z.number().nullable(),
          added: z.array(z.string()),
          removed: z.array(z.string()),
          rewired: z.array(z.string()),
        }),
      }),
    ),
  })
  .meta({ id: 'RecipeDrift', description: 'The newest 50 runs against the mission that the recipe came from.' })

/** `{{variable}}` in the goal and in every text of the plan. */
const textsOf = ({ description, template_definition: { plan } }: StoredRecipe): JsonObject => ({ description, plan })

export const toRecipeView = (recipe: StoredRecipe): z.input<typeof recipeView> => ({
  recipe_id: recipe.id,
  name: recipe.name,
  description: recipe.description,
  template_id: recipe.template_id,
  owner_type: recipe.owner_type,
  tags: [...recipe.tags],
  variables: [...variablesIn(textsOf(recipe))],
  created_by: recipe.created_by,
  created_at: formatInstant(recipe.created_at),
})

export function toRecipeDetailView(
  recipe: StoredRecipe,
  catalog: Pick<Catalog, 'tasks'>,
): z.input<typeof recipeDetailView> {
  const plan = missionPlan.safeParse(recipe.template_definition.plan)
  return {
    ...toRecipeView(recipe),
    execution_config: recipe.execution_config,
    steps: [...recipe.steps],
    plan: plan.success ? showPlan(plan.data, catalog) : null,
  }
}

/** $1 the row as JSON. Nothing is returned if the template exists. */
const insertRecipe = statement<StoredRecipe>(
  'missions.insert_recipe',
  `insert into ${RECIPES} as t (workspace_id, name, description, steps, execution_config, template_definition, template_id, owner_type, tags, created_by, created_at)
select r.workspace_id, r.name, r.description, r.steps, r.execution_config, r.template_definition, r.template_id, r.owner_type, r.tags, r.created_by, r.created_at
from jsonb_populate_record(null::${RECIPES}, $1::jsonb) as r on conflict (workspace_id, template_id) do nothing returning t.*`,
)
/** $1 recipe, $2 workspace. */
const findRow = statement<StoredRecipe>(
  'missions.find_recipe',
  `select t.* from ${RECIPES} as t where t.id = $1::int and t.workspace_id = $2::uuid`,
)
/** $1 recipe, $2 workspace, $3 name, $4 description, $5 steps, $6 template. */
const updateRecipe = statement<StoredRecipe>(
  'missions.update_recipe',
  `update ${RECIPES} as t set name = $3, description = $4, steps = $5::jsonb, template_definition = $6::jsonb
where t.id = $1::int and t.workspace_id = $2::uuid returning t.*`,
)
const listNewest = statement<StoredRecipe & Paged>(
  'missions.list_recipes',
  pageText(
    `select t.* from ${RECIPES} as t where t.workspace_id = $1::uuid and ($2::int is null or t.id < $2) order by t.id desc limit $3`,
  ),
)
export const listRecipes = (db: Db, workspaceId: string, before: string | null, limit: number) =>
  scoped(db, workspaceId).read((tx) => tx.run(listNewest, [workspaceId, before, limit]))

async function find(sql: Sql, workspaceId: string, id: number): Promise<Decision<StoredRecipe>> {
  const [recipe] = await sql.run(findRow, [id, workspaceId])
  return recipe ? accept(recipe) : refuse('missions.recipe.not_found', 'There is no such recipe.')
}

export const readRecipe = (db: Db, workspaceId: string, id: number) =>
  scoped(db, workspaceId).read((tx) => find(tx, workspaceId, id))

const objectOf = (value: JsonValue | undefined): JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}

const LIST_ONLY =
  'The steps are one list: what ran in parallel is one after the other. A run by Concord uses the graph of the plan.'

/** Saves the plan of a completed mission. The mission stays as it is. */
export async function saveRecipe(
  { commands: { db, now } }: MissionDeps,
  workspaceId: string,
  missionId: string,
  { name }: z.output<typeof saveRecipeBody>,
): Promise<Decision<StoredRecipe>> {
  return scoped(db, workspaceId).transaction(async (tx): Promise<Decision<StoredRecipe>> => {
    const run = await findMission(tx, workspaceId, missionId)
    if (!run) return refuse('missions.mission.not_found', 'There is no such mission.')
    if (run.state !== 'completed')
      return refuse('missions.recipe.not_completed', `The mission is ${quote(run.state)}.`, {
        facts: { mission_id: encodeId('mission', run.id), state: run.state, version: run.version_id },
      })
    const plan = missionPlan.safeParse(await readStoredPlan(tx, run.id))
    if (!plan.success) return refuse('missions.plan.invalid', 'The stored plan cannot be read.', { path: 'plan' })
    const row = await rowOf(tx, run, plan.data, name, now())
    // Missions of the same minute share the first 8 digits of their ids: the next free millisecond makes the template unique.
    for (let at = row.created_at; ; at = new Date(at.getTime() + 1)) {
      const template_id = `mission-${run.id.slice(0, 8)}-${at.toISOString().replaceAll(/\D/g, '')}`
      const [recipe] = await tx.run(insertRecipe, [JSON.stringify({ ...row, template_id })])
      if (recipe) return accept(recipe)
    }
  })
}

async function rowOf(tx: Tx, run: StoredMission, plan: MissionPlan, name: string | undefined, at: Date) {
  const [measured] = await tx.run(measureRuns, [run.workspace_id, run.id, null, 1])
  const doneBy = new Map((await listTasks(tx, run.id)).map((task) => [task.spec.temp_id, task]))
  const { autonomy: _, auto_approve_threshold: __, ...config } = run.config
  return {
    workspace_id: run.workspace_id,
    name: name ?? run.title,
    description: run.goal,
    steps: toSteps(plan, doneBy, objectOf(run.config['model_preferences'])),
    execution_config: {
      mode: plan.strategy === 'sequential' ? 'sequential' : 'parallel',
      budget: run.config['budget'] ?? null,
      max_retries: objectOf(run.config['retry'])['max_retries'] ?? null,
      notes: [LIST_ONLY],
      originated_from: {
        run_id: run.id,
        completed_at: orNull(run.completed_at, formatInstant),
        cost: run.total_cost,
        duration_ms: run.duration_ms,
        task_count: run.task_count,
        score: measured?.score ?? null,
        shape: measured?.shape ?? {},
      },
    },
    template_definition: { plan, config },
    owner_type: 'workspace',
    tags: ['from_mission', 'auto_generated'],
    created_by: run.created_by,
    created_at: at,
  }
}

/** People add `{{variable}}` places and choose other agents by hand. Steps follow the plan and keep the agents that they have. */
export function editRecipe(
  { commands: { db, catalog } }: MissionDeps,
  workspaceId: string,
  id: number,
  { name, description, plan }: z.output<typeof editRecipeBody>,
): Promise<Decision<StoredRecipe>> {
  return scoped(db, workspaceId).transaction(async (tx): Promise<Decision<StoredRecipe>> => {
    const found = await find(tx, workspaceId, id)
    if (!found.ok) return found
    const { value: recipe } = found
    const stored = missionPlan.safeParse(recipe.template_definition.plan).data
    const restored = plan && restorePlan(plan, stored, catalog)
    if (restored && !restored.ok) return restored
    const checked = restored && readPlan(restored.value as unknown as JsonValue, runnableTasks(catalog))
    if (checked && !checked.ok) return checked
    const template = { ...recipe.template_definition, ...(checked && { plan: checked.value }) }
    const agents = new Map(recipe.steps.map(({ id: step, agent_id }) => [step, { agent_id, agent_type: null }]))
    const steps = checked
      ? toSteps(checked.value, agents, objectOf(template.config['model_preferences']))
      : recipe.steps
    const [updated] = await tx.run(updateRecipe, [
      id,
      workspaceId,
      name ?? recipe.name,
      description ?? recipe.description,
      JSON.stringify(steps),
      JSON.stringify(template),
    ])
    return updated ? accept(updated) : found
  })
}

/** What a run of a recipe asks for. The level of autonomy is that of the request: a recipe never lowers it. */
export async function fillRecipe(
  sql: Sql,
  workspaceId: string,
  id: number,
  variables: JsonObject,
): Promise<
  Decision<{
    readonly name: string
    readonly goal: string | null
    readonly plan: JsonValue
    readonly config: JsonObject
  }>
> {
  const found = await find(sql, workspaceId, id)
  if (!found.ok) return { ...found, path: 'recipe' }
  const filled = fillVariables(textsOf(found.value), variables)
  if (!filled.ok) return filled
  const { description, plan = null } = filled.value
  return accept({
    name: found.value.name,
    goal: typeof description === 'string' ? description : null,
    plan,
    config: found.value.template_definition.config,
  })
}

type MeasuredRun = {
  readonly id: string
  readonly state: string
  readonly total_cost: string
  readonly duration_ms: string | null
  readonly completed_at: Date | null
  readonly score: string | null
  readonly shape: Measured['shape'] | null
}
/** $1 workspace, $2 one mission or null, $3 the missions of a recipe or null, $4 limit. */
const measureRuns = statement<MeasuredRun>(
  'missions.measure_runs',
  `select r.id, r.state, r.total_cost, r.duration_ms, r.completed_at,
  (select round(avg(t.verifier_score), 2)::text from ${TASKS} as t where t.run_id = r.id) as score,
  (select jsonb_object_agg(t.spec->>'temp_id', coalesce((select jsonb_agg(u.spec->>'temp_id') from ${EDGES} as d join ${TASKS} as u on u.id = d.depends_on_id
    where d.task_id = t.id), '[]')) from ${TASKS} as t where t.run_id = r.id) as shape
from ${RUNS} as r where r.workspace_id = $1::uuid and (r.id = $2::uuid or r.tags @> jsonb_build_object('recipe_id', $3::int))
order by r.created_at desc, r.id desc limit $4`,
)

export function readDrift(db: Db, workspaceId: string, id: number): Promise<Decision<z.input<typeof recipeDriftView>>> {
  return scoped(db, workspaceId).read(async (tx): Promise<Decision<z.input<typeof recipeDriftView>>> => {
    const recipe = await find(tx, workspaceId, id)
    if (!recipe.ok) return recipe
    const from = recipe.value.execution_config.originated_from
    const origin: Measured = { ...from, durationMs: from.duration_ms }
    const runs = await tx.run(measureRuns, [workspaceId, null, id, RUNS_COMPARED])
    return accept({
      origin: {
        mission_id: encodeId('mission', from.run_id),
        cost: origin.cost,
        duration_ms: origin.durationMs,
      },
      runs: runs.map(({ id: runId, state, total_cost: cost, duration_ms, completed_at, score, shape }) => {
        const drift = compareRuns(origin, { cost, durationMs: duration_ms, score, shape: shape ?? {} })
        return {
          mission_id: encodeId('mission', runId),
          state,
          cost,
          duration_ms,
          score,
          completed_at: orNull(completed_at, formatInstant),
          drift: { ...drift, added: [...drift.added], removed: [...drift.removed], rewired: [...drift.rewired] },
        }
      }),
    })
  })
}
