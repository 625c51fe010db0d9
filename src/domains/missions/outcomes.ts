/** How the tasks of missions ended, by who did them, with which model and for which type of task: what to prefer next time. */
import { z } from 'zod'
import { type Db, scoped, statement } from '#store'
import { missionTaskTypes } from '#kernel/machines/mission'

const MISSIONS_READ = 1_000
const ROWS_MAX = 100
/** Of a 95 % interval. */
const Z = 1.96

const outcomeView = z
  .object({
    agent: z.string().meta({ example: 'writer', description: 'Of the roster, or what the plan names.' }),
    model: z.string().nullable().meta({ example: 'small' }),
    task_type: z.enum(missionTaskTypes),
    ended: z.int().meta({ description: 'Completed and failed tasks.' }),
    completed: z.int(),
    success: z.number().meta({ example: 0.9 }),
    success_at_least: z.number().meta({
      example: 0.72,
      description: 'The lower bound of the success rate (Wilson, 95 %): few tasks prove little.',
    }),
    mean_cost: z.string().meta({ example: '0.250000' }),
    mean_attempts: z.number().meta({ example: 1.2 }),
    median_duration_ms: z.number().nullable(),
    mean_score: z.number().nullable().meta({ description: 'Of the verifier.' }),
  })
  .meta({ id: 'MissionOutcome' })

const suggestionView = z
  .object({
    name: z.string().meta({ example: 'writer' }),
    ended: z.int(),
    completed: z.int(),
    success_at_least: z.number().meta({ example: 0.72 }),
  })
  .meta({ id: 'MissionSuggestion', description: 'What a plan could name, with the numbers that speak for it.' })
const suggestionsView = z.object({ agents: z.array(suggestionView), models: z.array(suggestionView) })

export const outcomesView = z.object({ items: z.array(outcomeView), suggestions: suggestionsView.optional() }).meta({
  id: 'MissionOutcomes',
  description: `Of the newest ${MISSIONS_READ} missions, best first. At most ${ROWS_MAX} rows.`,
})

type Outcome = z.input<typeof outcomeView>

/** The lower bound of the Wilson interval of a rate. */
export function lowerBoundOf(successes: number, count: number): number {
  if (successes === 0) return 0
  const rate = successes / count
  const spread = Z * Math.sqrt((rate * (1 - rate)) / count + (Z * Z) / (4 * count * count))
  return (rate + (Z * Z) / (2 * count) - spread) / (1 + (Z * Z) / count)
}

const SUGGESTED_MAX = 5

/** The agents, workers and tasks, and the models, whose tasks ended best: by the lower bound over all their rows. Pure. */
export function suggest(rows: readonly Pick<Outcome, 'agent' | 'model' | 'ended' | 'completed'>[]) {
  const rank = (nameOf: (row: (typeof rows)[number]) => string | null) =>
    [...Map.groupBy(rows, nameOf)]
      .flatMap(([name, of]) => {
        if (name === null) return []
        const sum = (field: 'ended' | 'completed') => of.reduce((all, row) => all + row[field], 0)
        const [ended, completed] = [sum('ended'), sum('completed')]
        return [{ name, ended, completed, success_at_least: lowerBoundOf(completed, ended) }]
      })
      .toSorted((a, b) => b.success_at_least - a.success_at_least || (a.name < b.name ? -1 : 1))
      .slice(0, SUGGESTED_MAX)
  return { agents: rank(({ agent }) => agent), models: rank(({ model }) => model) }
}

/** $1 workspace, $2 task type or null, $3 missions. Tasks that a fork carries over ended in their own mission. */
const readRows = statement<Omit<Outcome, 'success' | 'success_at_least'>>(
  'missions.read_outcomes',
  `select coalesce(a.name, t.spec->'run'->>'agent', t.spec->'run'->>'task', 'worker:' || (t.spec->'run'->>'worker')) as agent,
  t.model_override as model, t.task_type, count(*)::int as ended, (count(*) filter (where t.state = 'completed'))::int as completed,
  avg(t.cost)::numeric(20, 6)::text as mean_cost, avg(t.attempt_number)::float8 as mean_attempts,
  percentile_cont(0.5) within group (order by t.duration_ms) as median_duration_ms, avg(t.verifier_score)::float8 as mean_score
from (select r.id from missions.orchestration_runs as r where r.workspace_id = $1::uuid order by r.created_at desc, r.id desc limit $3) as r
  join missions.orchestration_tasks as t on t.run_id = r.id left join missions.agents as a on a.id = t.agent_id
where t.state in ('completed', 'failed') and t.carried_from_id is null and ($2::text is null or t.task_type = $2)
group by 1, 2, 3`,
)

export async function readOutcomes(
  db: Db,
  workspaceId: string,
  taskType: Outcome['task_type'] | undefined,
  isSuggesting = false,
): Promise<z.input<typeof outcomesView>> {
  const rows = await scoped(db, workspaceId).read((tx) =>
    tx.run(readRows, [workspaceId, taskType ?? null, MISSIONS_READ]),
  )
  const items = rows.map(({ completed, ended, ...row }) => ({
    ...row,
    ended,
    completed,
    success: completed / ended,
    success_at_least: lowerBoundOf(completed, ended),
  }))
  const best = items.toSorted((a, b) => b.success_at_least - a.success_at_least || a.agent.localeCompare(b.agent))
  return { items: best.slice(0, ROWS_MAX), ...(isSuggesting && { suggestions: suggest(rows) }) }
}
