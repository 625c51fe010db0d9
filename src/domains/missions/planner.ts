/** A plan that a task of the catalog makes: its result is read as strictly as the plan of a person. */
import { z } from 'zod'
import { textField } from '#contract'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { statement, type Tx } from '#store'
import { submitAuxiliary } from './auxiliary.ts'
import { money, sayUnknown } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { type MissionPlan, readPlan, type Runnable } from './plan.ts'
import { fillReferences } from './references.ts'
import { payloadsOf, runnableTasks } from './start-plan.ts'
import { type Found, write } from './turn.ts'

const RUNS = 'missions.orchestration_runs'

export const planner = z
  .strictObject({
    task: textField(200, { charsMin: 1 }).meta({ example: 'Draft Plan' }),
    payload: z.record(z.string(), z.unknown()).default({}),
    max_cost: money('1.00').optional().meta({ description: 'What it may cost. Default, under a hard limit: nothing.' }),
    path: textField(1_000).default('').meta({
      example: '/plan',
      description: 'Where the plan is in the result, as a JSON pointer. Default: the result is the plan.',
    }),
  })
  .meta({
    id: 'MissionPlanner',
    example: { task: 'Draft Plan', payload: { topic: 'Release 2.4' }, path: '/plan' },
    description: 'A task of the catalog whose result is the plan.',
  })
type Planner = z.output<typeof planner>

export function checkPlanner({ task, path }: Planner, { tasks }: Runnable): Decision<null> {
  if (!tasks.has(task))
    return refuse('missions.request.invalid', sayUnknown('task of the catalog', task, tasks), { path: 'planner.task' })
  const isPointer = path === '' || path.startsWith('/')
  return isPointer
    ? accept(null)
    : refuse('missions.request.invalid', `The path ${quote(path)} is no JSON pointer.`, { path: 'planner.path' })
}

/** $1 mission. What was asked for, and the command that makes the plan. */
const findPlanner = statement<{
  readonly has_plan: boolean
  readonly planner: unknown
  readonly status: string | null
  readonly completed_at: Date | null
  readonly error: string | null
  readonly result: unknown
}>(
  'missions.find_planner',
  `select r.plan is not null as has_plan, o.payload->'planner' as planner, c.status, c.completed_at, c.error, c.result
from ${RUNS} as r join concord.commands as o on o.command_id = r.command_id
  left join concord.commands as c on c.workspace_id = r.workspace_id and c.idempotency_key = 'mission:' || r.id || ':plan'
where r.id = $1::uuid`,
)
/** $1 mission, $2 plan. */
const setPlanOf = statement<never>(
  'missions.set_made_plan',
  `update ${RUNS} set plan = $2::jsonb where id = $1::uuid and plan is null`,
)

/** `planned`: the mission has its plan. `asked`: the command was submitted just now, and may have ended. */
export async function makePlan(deps: MissionDeps, found: Found): Promise<Decision<'planned' | 'asked' | 'waits'>> {
  const { run } = found
  const { db, catalog } = deps.commands
  const [row] = await db.run(findPlanner, [run.id])
  if (!row || row.has_plan) return accept('planned')
  const asked = planner.safeParse(row.planner)
  if (!asked.success) return refuse('missions.plan.invalid', 'The mission has no plan.')
  if (row.status === null) {
    const { task, payload, max_cost: maxCost } = asked.data
    const submitted = await submitAuxiliary(deps, found, {
      kind: 'planner',
      key: `mission:${run.id}:plan`,
      task: null,
      attempt: null,
      maxCost,
      taskName: task,
      payload: payload as JsonObject,
    })
    return submitted.ok ? accept('asked') : submitted
  }
  if (row.completed_at === null) return accept('waits')
  if (row.status !== 'succeeded')
    return refuse('missions.plan.invalid', `The planner ${quote(asked.data.task)} is ${row.status}: ${row.error ?? ''}`)
  const plan = readMade(row.result as JsonValue, asked.data, catalog)
  if (!plan.ok) return plan
  await write(deps, run, (_batch, _at, tx: Tx) => tx.run(setPlanOf, [run.id, JSON.stringify(plan.value)]))
  return accept('asked')
}

function readMade(
  result: JsonValue,
  { task, path }: Planner,
  catalog: Parameters<typeof runnableTasks>[0],
): Decision<MissionPlan> {
  const found = fillReferences({ $from: task, path }, new Map([[task, result]]))
  const plan = found.ok ? readPlan(found.value, runnableTasks(catalog), payloadsOf(catalog)) : found
  return plan.ok ? plan : { ...plan, reason: `The planner ${quote(task)} gave no plan. ${plan.reason}` }
}
