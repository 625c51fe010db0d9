/** The cards of missions and their tasks: one per row, inserted once, and updated with its row. */
import { type Sql, statement, type Tx } from '#store'
import type { CardUpdate, NewCard } from './cards.ts'

const TASKS = 'missions.orchestration_tasks'
const CARDS = 'missions.board_tasks'

/** $1 the cards as JSON, $2 the card above them or null. A card of the same source exists once. */
const insertCardRows = statement<{ readonly id: number; readonly source_id: string }>(
  'missions.insert_cards',
  `insert into ${CARDS} (workspace_id, title, description, status, priority, review_mode, created_by_type, created_by_id, parent_task_id,
  source_type, source_id, tags, planning_data, assigned_agent_id, result, started_at, completed_at)
select r.workspace_id, r.title, r.description, r.status, r.priority, r.review_mode, r.created_by_type, r.created_by_id, $2::int,
  r.source_type, r.source_id, r.tags, r.planning_data, r.assigned_agent_id, r.result, r.started_at, r.completed_at
from jsonb_populate_recordset(null::${CARDS}, $1::jsonb) as r on conflict do nothing returning id, source_id`,
)
type CardId = { readonly id: number; readonly source_id: string }
/** $1 sources. */
const findCards = {
  orchestration: statement<CardId>('missions.find_run_cards', cardsOf('orchestration')),
  orchestration_task: statement<CardId>('missions.find_task_cards', cardsOf('orchestration_task')),
}
function cardsOf(type: string): string {
  return `select t.id, t.source_id from ${CARDS} as t where t.source_type = '${type}' and t.source_id = any($1::text[])`
}

/** Returns the ids of the cards by source, of new ones and of those that were there. */
export async function insertCards(
  tx: Tx,
  cards: readonly NewCard[],
  parentId: number | null,
): Promise<ReadonlyMap<string, number>> {
  const [first] = cards
  if (!first) return new Map()
  const made = await tx.run(insertCardRows, [JSON.stringify(cards), parentId])
  const found =
    made.length === cards.length
      ? made
      : await tx.run(findCards[first.source_type], [cards.map(({ source_id }) => source_id)])
  return new Map(found.map(({ id, source_id }) => [source_id, id]))
}

/** $1 tasks, $2 cards. */
const linkCardRows = statement<never>(
  'missions.link_cards',
  `update ${TASKS} as t set board_task_id = v.card from unnest($1::uuid[], $2::int[]) as v(id, card) where t.id = v.id`,
)
export const linkCards = (tx: Tx, cards: ReadonlyMap<string, number>) =>
  tx.run(linkCardRows, [[...cards.keys()], [...cards.values()]])

/** $1 tasks, $2 the card above them. */
const placeCardRows = statement<never>(
  'missions.place_cards',
  `update ${CARDS} as t set parent_task_id = $2::int where t.source_type = 'orchestration_task' and t.source_id = any($1::text[]) and t.parent_task_id is null`,
)
export const placeCards = (tx: Tx, taskIds: readonly string[], parentId: number | null) =>
  tx.run(placeCardRows, [taskIds, parentId])

export async function findMissionCard(sql: Sql, runId: string): Promise<number | null> {
  const [card] = await sql.run(findCards.orchestration, [[runId]])
  return card?.id ?? null
}

/** Each kind of card has an index of its own, so the kind is a constant of the statement. */
const cardOf = (type: string) =>
  `select c.id from ${CARDS} as c where c.source_type = '${type}' and r.source_type = '${type}' and c.source_id = r.source_id`
/** $1 the cards as JSON. A card that was deleted is left alone. */
const updateCardRows = statement<never>(
  'missions.update_cards',
  `update ${CARDS} as t set status = r.status, tags = r.tags, planning_data = t.planning_data || r.planning_data, result = coalesce(r.result, t.result),
  error_message = r.error_message, assigned_agent_id = r.assigned_agent_id, started_at = r.started_at, completed_at = r.completed_at, updated_at = now()
from jsonb_populate_recordset(null::${CARDS}, $1::jsonb) as r,
  lateral (${cardOf('orchestration')} union all ${cardOf('orchestration_task')}) as own
where t.id = own.id`,
)
export const updateCards = (tx: Tx, cards: readonly CardUpdate[]) => tx.run(updateCardRows, [JSON.stringify(cards)])
