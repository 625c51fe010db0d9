/**
 * The repair of what follows from rows: the counters of missions, their cards, and those of their tasks. A turn writes them with the rows, but a card that
 * could not be written is left out, and people may delete one. Keeps nothing between two calls, so it may run twice at once.
 */
import { defineMaintenance, type Definition } from '#domains/commands'
import { type Db, statement } from '#store'
import { findMissionCard, insertCards, linkCards, placeCards, updateCards } from './board.ts'
import { missionCard, newMissionCard, newTaskCard, runStatuses, taskCard, taskStatuses } from './cards.ts'
import { readMissionConfig } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { listEdges, listTasks } from './mission-task.ts'
import { lockMission, readStoredPlan } from './mission.ts'
import { missionPlan } from './plan.ts'

const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'
const CARDS = 'missions.board_tasks'
const BATCH = 100
/** A mission that ended longer ago was right at its last repair. */
const RECENT_MS = 86_400_000

const statusOf = (states: Readonly<Record<string, string>>, row: string) =>
  `'${JSON.stringify(states)}'::jsonb->>${row}.state::text`

/** What the commands of the mission beside its attempts have used. */
const beside = (field: string) =>
  `(select coalesce(sum(x.${field}), 0) from missions.orchestration_auxiliaries as x where x.run_id = r.id)`

const counted = `(select count(*) as n, count(*) filter (where t.state = 'completed') as done, count(*) filter (where t.state = 'failed') as failed,
  least(coalesce(sum(t.cost), 0) + ${beside('cost')}, 9999.999999) as cost, least(coalesce(sum(t.tokens_used), 0) + ${beside('tokens')}, 2147483647) as tokens
from ${TASKS} as t where t.run_id = r.id)`

/** The missions `r` whose counters are not those of their tasks. */
export const COUNTERS_DIFFER = `(r.task_count, r.tasks_completed, r.tasks_failed, r.total_cost, r.total_tokens) <> ${counted}`

/** The missions `r` whose card or a card of whose tasks is missing or shows another state. A damaged card differs from every state. */
export const CARDS_DIFFER = `(not exists (select from ${CARDS} as c where c.source_type = 'orchestration' and c.source_id = r.id::text
    and c.status = ${statusOf(runStatuses, 'r')} and c.tags->>1 = r.state::text and c.planning_data->>'tasks_completed' = r.tasks_completed::text)
  or exists (select from ${TASKS} as t left join ${CARDS} as c on c.id = t.board_task_id where t.run_id = r.id
    and (c.status = ${statusOf(taskStatuses, 't')} and c.planning_data->>'attempt_number' = t.attempt_number::text and c.parent_task_id is not null) is not true))`

/** $1 since, $2 after the id, $3 limit. */
const listDamaged = statement<{ readonly id: string }>(
  'missions.list_damaged',
  `select r.id from ${RUNS} as r where (r.state_type <> 'terminal' or r.completed_at > $1) and r.id > $2::uuid and (${COUNTERS_DIFFER} or ${CARDS_DIFFER})
order by r.id limit $3`,
)

/** $1 mission. */
const recount = statement<never>(
  'missions.recount',
  `update ${RUNS} as r set (task_count, tasks_completed, tasks_failed, total_cost, total_tokens) = ${counted}, version_id = r.version_id + 1
where r.id = $1::uuid and ${COUNTERS_DIFFER}`,
)

/** Returns how many missions were corrected, and how many could not be. */
export async function repairMissions({ commands: { db, now } }: MissionDeps, signal?: AbortSignal) {
  const since = new Date(now().getTime() - RECENT_MS)
  let [repaired, failed, after] = [0, 0, '00000000-0000-0000-0000-000000000000']
  for (let isMore = true; isMore && signal?.aborted !== true; ) {
    const damaged = await db.run(listDamaged, [since, after, BATCH])
    for (const { id } of damaged) {
      const isDone = await repair(db, id).then(
        () => true,
        () => false,
      )
      if (isDone) repaired += 1
      else failed += 1
    }
    after = damaged.at(-1)?.id ?? after
    isMore = damaged.length === BATCH
  }
  return { repaired, failed }
}

/** Title, description and priority of a card belong to people, and stay as they are. */
function repair(db: Db, id: string): Promise<void> {
  return db.transaction(async (tx) => {
    if (!(await lockMission(tx, id))) return
    await tx.run(recount, [id])
    const run = await lockMission(tx, id)
    if (!run) return
    const read = readMissionConfig(run.config)
    const config = read.ok ? read.value : { autonomy: 'approve' as const }
    const [tasks, edges] = [await listTasks(tx, id), await listEdges(tx, id)]
    await insertCards(tx, [newMissionCard(run, config)], null)
    const plan = missionPlan.safeParse(await readStoredPlan(tx, id))
    const { strategy = null, estimated_cost = null } = plan.data ?? {}
    const parent = await findMissionCard(tx, id)
    const dependsOn = Map.groupBy(edges, ({ task_id }) => task_id)
    const cards = tasks
      .filter(({ board_task_id }) => board_task_id === null)
      .map((task) => {
        const own = dependsOn.get(task.id) ?? []
        return newTaskCard(
          task,
          config,
          own.map(({ depends_on_id }) => depends_on_id),
        )
      })
    await linkCards(tx, await insertCards(tx, cards, parent))
    await placeCards(
      tx,
      tasks.map((task) => task.id),
      parent,
    )
    await updateCards(tx, [missionCard(run, { strategy, estimated_cost }), ...tasks.map(taskCard)])
  })
}

/** The work of the shipped schedule `repair_missions`. */
export const repairDefinitions = (deps: () => MissionDeps): readonly Definition[] =>
  defineMaintenance({
    command_type: 'repair_missions',
    task_name: 'Repair Missions',
    description: 'Corrects counters and cards of missions that do not agree with their rows.',
    run: ({ signal }) => repairMissions(deps(), signal),
  })
