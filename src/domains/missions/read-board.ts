/** The board as people see it: cards of missions, which follow their rows, and cards that people create. */
import { z } from 'zod'
import { exampleId, orNull, pageView, parsedField, textField, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { type Db, type Paged, pageText, scoped, statement } from '#store'
import type { RowOf } from '#store/rows'
import { cardStatuses } from './cards.ts'
import { priorities } from './config.ts'

const CARDS = 'missions.board_tasks'
/** A column shows its newest cards, and counts up to this many. */
const COLUMN_CARDS = 50
const COUNT_MAX = 1_000

type StoredCard = RowOf<
  'missions.board_tasks',
  { readonly tags: readonly string[]; readonly planning_data: JsonObject }
>

const NUMBER_MAX = 2_147_483_647
/** The number of a card in a path or a query. */
export const cardNumber = parsedField((text): Decision<number> => {
  const number = /^[1-9]\d{0,9}$/.test(text) ? Number(text) : 0
  if (number >= 1 && number <= NUMBER_MAX) return accept(number)
  return refuse('api.field.value', `${quote(text)} is not the number of a card.`, { hint: 'GET /board shows them.' })
}).meta({ type: 'integer', minimum: 1, maximum: NUMBER_MAX, example: 7 })

export const cardStatus = z.enum(cardStatuses)

export const cardView = z
  .object({
    id: z.int().meta({ example: 7 }),
    title: z.string().meta({ example: 'Write the notes' }),
    description: z.string().nullable(),
    status: cardStatus,
    priority: z.string().meta({ example: 'medium' }),
    review_mode: z.enum(['manual', 'auto']),
    assigned_agent_id: z.int().nullable(),
    created_by_type: z.string().meta({ example: 'user' }),
    created_by_id: z.string(),
    parent_task_id: z
      .int()
      .nullable()
      .meta({ description: 'The card above it. That of a mission task is the mission.' }),
    source_type: z.string().meta({ example: 'orchestration_task' }),
    source_id: z
      .string()
      .nullable()
      .meta({ example: exampleId('mission_task'), description: 'The mission or the task that it follows.' }),
    tags: z.array(z.string()),
    planning_data: z.record(z.string(), z.unknown()),
    result: z.string().nullable(),
    error_message: z.string().nullable(),
    started_at: timeView().nullable(),
    completed_at: timeView().nullable(),
    created_at: timeView(),
    updated_at: timeView(),
  })
  .meta({ id: 'BoardCard', description: 'A card of the board. It shows work and never steers it.' })

export const cardPageView = pageView(cardView, 'BoardCardPage')

export const boardView = z
  .object({
    columns: z.array(
      z.object({
        status: cardStatus,
        count: z.int().meta({ description: `Up to ${COUNT_MAX}.` }),
        is_more: z.boolean().meta({ description: 'There are more than `count`.' }),
        cards: z.array(cardView).meta({ description: `The newest ${COLUMN_CARDS}.` }),
      }),
    ),
  })
  .meta({ id: 'Board' })

export const createCardBody = z
  .strictObject({
    title: textField(500, { charsMin: 1 }).meta({ example: 'Ask the printer' }),
    description: textField(10_000).optional().meta({ example: 'Before Friday.' }),
    status: cardStatus.optional().meta({ example: 'inbox' }),
    priority: z.enum(priorities).optional().meta({ example: 'medium' }),
    parent_task_id: z.int().min(1).max(NUMBER_MAX).optional().meta({ example: 7, description: 'The card above it.' }),
  })
  .meta({ id: 'CreateBoardCard' })

const sourceKinds = { orchestration: 'mission', orchestration_task: 'mission_task' } as const

export function toCardView(card: StoredCard): z.infer<typeof cardView> {
  const { source_type, source_id } = card
  const kind = sourceKinds[source_type as keyof typeof sourceKinds]
  return {
    id: card.id,
    title: card.title,
    description: card.description,
    status: card.status,
    priority: card.priority,
    review_mode: card.review_mode,
    assigned_agent_id: card.assigned_agent_id,
    created_by_type: card.created_by_type,
    created_by_id: card.created_by_id,
    parent_task_id: card.parent_task_id,
    source_type,
    source_id: kind && source_id !== null ? encodeId(kind, source_id) : source_id,
    tags: [...card.tags],
    planning_data: card.planning_data,
    result: card.result,
    error_message: card.error_message,
    started_at: orNull(card.started_at, formatInstant),
    completed_at: orNull(card.completed_at, formatInstant),
    created_at: formatInstant(card.created_at),
    updated_at: formatInstant(card.updated_at),
  }
}

/** $1 workspace, $2 before the number, $3 limit, $4 card above, $5 status. */
const listCardRows = statement<StoredCard & Paged>(
  'missions.list_cards',
  pageText(`select t.* from ${CARDS} as t
    where t.workspace_id = $1::uuid and ($2::int is null or t.id < $2) and ($4::int is null or t.parent_task_id = $4) and ($5::text is null or t.status = $5)
    order by t.id desc limit $3`),
)
type CardFilter = {
  readonly before: number | null
  readonly limit: number
  readonly parentId?: number | undefined
  readonly status?: string | undefined
}
export function listCards(db: Db, workspaceId: string, { before, limit, parentId, status }: CardFilter) {
  const values = [workspaceId, before, limit, parentId ?? null, status ?? null]
  return scoped(db, workspaceId).read((tx) => tx.run(listCardRows, values))
}

/** $1 workspace, $2 number. */
const findCardRow = statement<StoredCard>(
  'missions.find_card',
  `select t.* from ${CARDS} as t where t.workspace_id = $1::uuid and t.id = $2`,
)
export async function readCard(db: Db, workspaceId: string, id: number): Promise<Decision<StoredCard>> {
  const [card] = await scoped(db, workspaceId).read((tx) => tx.run(findCardRow, [workspaceId, id]))
  return card ? accept(card) : refuse('missions.card.not_found', `There is no card ${id}.`)
}

/** $1 workspace, $2 card above or null, $3 title, $4 description, $5 status, $6 priority, $7 creator. Nothing if the card above is not of the workspace. */
const insertCardRow = statement<StoredCard>(
  'missions.insert_card',
  `insert into ${CARDS} as t (workspace_id, parent_task_id, title, description, status, priority, created_by_id)
select $1::uuid, $2::int, $3, $4, $5, $6, $7
where $2::int is null or exists (select from ${CARDS} as p where p.workspace_id = $1::uuid and p.id = $2) returning t.*`,
)
type NewPersonCard = z.output<typeof createCardBody> & { readonly workspaceId: string; readonly createdBy: string }

export async function createCard(
  db: Db,
  { workspaceId, createdBy, title, description, status = 'inbox', priority = 'medium', parent_task_id }: NewPersonCard,
): Promise<Decision<StoredCard>> {
  const values = [workspaceId, parent_task_id ?? null, title, description ?? null, status, priority, createdBy]
  const [card] = await scoped(db, workspaceId).transaction((tx) => tx.run(insertCardRow, values))
  if (card) return accept(card)
  return refuse('missions.card.not_found', `There is no card ${parent_task_id}.`, { path: 'parent_task_id' })
}

/** $1 workspace, $2 statuses. The newest cards of each column, and how many there are. */
const columnsWhere = (name: string, which: string) => {
  const of = `t.workspace_id = $1::uuid and t.status = s.status and ${which}`
  return {
    cards: statement<StoredCard>(
      `missions.read_${name}`,
      `select t.* from unnest($2::text[]) as s(status)
  cross join lateral (select t.* from ${CARDS} as t where ${of} order by t.id desc limit ${COLUMN_CARDS}) as t`,
    ),
    counts: statement<{ readonly status: string; readonly n: number }>(
      `missions.count_${name}`,
      `select s.status, count(t.found)::int as n from unnest($2::text[]) as s(status)
  left join lateral (select true as found from ${CARDS} as t where ${of} limit ${COUNT_MAX + 1}) as t on true group by s.status`,
    ),
  }
}
/** A mission is one card of the board. */
const ofBoard = columnsWhere('board', 't.parent_task_id is null')
/** $3 mission. */
const ofMission = columnsWhere(
  'mission_board',
  `t.parent_task_id = (select p.id from ${CARDS} as p where p.source_type = 'orchestration' and p.source_id = $3)`,
)

/** Of the workspace, or of the tasks of one mission. */
export function readBoard(db: Db, workspaceId: string, missionId: string | undefined) {
  const { cards: shownBy, counts: countedBy } = missionId === undefined ? ofBoard : ofMission
  const values = [workspaceId, cardStatuses, ...(missionId === undefined ? [] : [missionId])]
  return scoped(db, workspaceId).read(async (tx): Promise<z.infer<typeof boardView>> => {
    const cards = await tx.run(shownBy, values)
    const counts = new Map((await tx.run(countedBy, values)).map(({ status, n }) => [status, n]))
    return {
      columns: cardStatuses.map((status) => {
        const found = counts.get(status) ?? 0
        const shown = cards.filter((card) => card.status === status).map(toCardView)
        return { status, count: Math.min(found, COUNT_MAX), is_more: found > COUNT_MAX, cards: shown }
      }),
    }
  })
}
