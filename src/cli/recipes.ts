/** `concord recipes`: plans of completed missions that can be run again. */
import type { missionView, recipeDetailView, recipeDriftView } from '#domains/missions'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, queryOf } from './client.ts'
import { formatFacts } from './layout.ts'
import { listVerb, noun, type PageFlags, paging, table, verb, type ViewOf, type When } from './noun.ts'
import { readConfigFlag, readPlanFile, withPlan } from './plan-file.ts'
import type { Terminal } from './terminal.ts'
import { sayTime } from './times.ts'

type RecipeView = ViewOf<typeof recipeDetailView>
type DriftView = ViewOf<typeof recipeDriftView>
type MissionView = ViewOf<typeof missionView>
type RunFlags = { var?: readonly string[]; goal?: string; config?: string; key?: string }
type EditFlags = { file?: string; name?: string; goal?: string }

const pathOfRecipe = (id: string, more = ''): Decision<string> =>
  /^[1-9]\d{0,8}$/.test(id)
    ? accept(`/recipes/${id}${more}`)
    : refuse('id_format', `${quote(id)} is not the id of a recipe.`, {
        path: '<id>',
        hint: '`concord recipes list` shows the ids of recipes.',
      })

export const recipes = noun('plans of missions that can be run again', (cli) => ({
  list: listVerb<RecipeView, [PageFlags]>({
    description: 'list the recipes of the workspace, newest first',
    options: paging,
    examples: ['concord recipes list'],
    at: ({ limit, cursor }) => `/recipes${queryOf({ limit, cursor })}`,
    none: () => 'There are none.',
    columns: {
      recipe: ({ recipe_id }) => String(recipe_id),
      name: ({ name }) => name,
      variables: ({ variables }) => variables.join(', '),
      created: ({ created_at }, when) => when(created_at),
    },
  }),
  'show <id>': verb({
    description: 'show a recipe with its steps, and how its runs differ from the mission that it came from',
    examples: ['concord recipes show 12'],
    async ask(id: string) {
      const recipe = await askServer<RecipeView>(cli, 'GET', pathOfRecipe(id))
      if (!recipe.ok) return recipe
      const drift = await askServer<DriftView>(cli, 'GET', pathOfRecipe(id, '/drift'))
      return drift.ok ? accept({ ...recipe.value, ...drift.value }) : drift
    },
    say: (recipe) => formatRecipe(cli.terminal, recipe),
  }),
  'edit <id>': verb({
    description: 'change the plan of a recipe, for example to add a {{variable}}',
    options: [
      ['--file <file>', 'the plan: JSON, .yaml, or .ndjson; - for standard input'],
      ['--name <text>', 'its name'],
      ['--goal <text>', 'the goal of its runs'],
    ],
    examples: ['concord recipes edit 12 --file plan.json --goal "Release {{version}}"'],
    async ask(id: string, { file, name, goal }: EditFlags) {
      const plan = file === undefined ? accept(undefined) : await readPlanFile(cli.terminal, file)
      if (!plan.ok) return plan
      const fields = fieldsOf({ name, description: goal })
      const body = plan.value ? withPlan(fields, plan.value) : fields
      return askServer<RecipeView>(cli, 'PATCH', pathOfRecipe(id), body)
    },
    say: ({ variables }) => `variables: ${variables.length === 0 ? 'none' : variables.join(', ')}\n`,
  }),
  'run <id>': verb({
    description: 'create a mission from a recipe',
    options: [
      ['--var <name=value...>', 'a value for a variable; repeat it for each'],
      ['--goal <text>', 'default: that of the recipe'],
      ['--config <json>', 'settings, as a JSON object'],
      ['--key <key>', 'idempotency key: the same key is the same mission'],
    ],
    examples: ['concord recipes run 12 --var version=2.5'],
    async ask(id: string, { var: given = [], goal, config, key }: RunFlags) {
      const path = pathOfRecipe(id)
      if (!path.ok) return path
      const variables = readVariables(given)
      if (!variables.ok) return variables
      const settings = readConfigFlag(config)
      if (!settings.ok) return settings
      const body = {
        recipe: Number(id),
        variables: variables.value,
        goal,
        config: settings.value,
        idempotency_key: key,
      }
      return askServer<MissionView>(cli, 'POST', '/missions', fieldsOf(body))
    },
    say: ({ mission_id }) => [`${mission_id}\n`, `\`concord missions watch ${mission_id}\` shows how it goes on\n`],
  }),
}))

/** Every value is a text. `POST /missions` takes others. */
function readVariables(given: readonly string[]): Decision<JsonObject> {
  const wrong = given.find((each) => !/^[A-Za-z_]\w*=/.test(each))
  if (wrong !== undefined)
    return refuse('cli.usage', `${quote(wrong)} is not name=value.`, { path: '--var', hint: 'Write --var version=2.5' })
  return accept(
    Object.fromEntries(given.map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)])),
  )
}

const ofSteps = {
  '#': ({ order }: RecipeView['steps'][number]) => String(order),
  step: ({ id }: RecipeView['steps'][number]) => String(id),
  does: ({ prompt_template }: RecipeView['steps'][number]) => String(prompt_template).split('\n')[0],
  after: ({ depends_on }: RecipeView['steps'][number]) => (depends_on as readonly string[]).join(', '),
}

const sayPercent = (value: number | null) => (value === null ? '' : `${value > 0 ? '+' : ''}${value} %`)

const ofRuns = {
  mission: ({ mission_id }: DriftView['runs'][number]) => mission_id,
  state: ({ state }: DriftView['runs'][number]) => state,
  cost: ({ drift }: DriftView['runs'][number]) => sayPercent(drift.cost_percent),
  time: ({ drift }: DriftView['runs'][number]) => sayPercent(drift.time_percent),
  score: ({ drift }: DriftView['runs'][number]) => drift.score?.toString(),
  shape: ({ drift: { added, removed, rewired } }: DriftView['runs'][number]) =>
    [...added.map((id) => `+${id}`), ...removed.map((id) => `-${id}`), ...rewired.map((id) => `~${id}`)].join(' '),
  ended: ({ completed_at }: DriftView['runs'][number], when: When) =>
    completed_at === null ? null : when(completed_at),
}

function formatRecipe(terminal: Terminal, recipe: RecipeView & DriftView): string {
  const facts = formatFacts(terminal, 9, [
    ['recipe', String(recipe.recipe_id)],
    ['goal', recipe.description && showLine(recipe.description)],
    ['variables', recipe.variables.join(', ')],
    ['from', recipe.origin.mission_id],
    ['created', sayTime(terminal, recipe.created_at)],
  ])
  const runs = recipe.runs.length === 0 ? '' : `\n${table(terminal, ofRuns, recipe.runs)}`
  return `${showLine(recipe.name)}\n${facts}\n${table(terminal, ofSteps, recipe.steps)}${runs}`
}
