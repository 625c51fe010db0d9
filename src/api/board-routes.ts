/** The board: its columns, and its cards under the path that other tools of boards use. */
import { idField } from '#contract'
import { actingFor } from '#domains/commands'
import {
  boardView,
  cardNumber,
  cardPageView,
  cardStatus,
  cardView,
  createCard,
  createCardBody,
  listCards,
  type MissionDeps,
  readBoard,
  readCard,
  requireMission,
  toCardView,
} from '#domains/missions'
import { accept } from '#kernel/refusal'
import { cutPage } from '#store'
import { resource, routes, shown } from './resource.ts'

const { list, get, post } = resource<MissionDeps>('missions')

export const boardRoutes = routes({
  getBoard: get('/board', {
    summary: 'Show the board: each column with its newest cards; a mission is one card, or one column set of its tasks',
    role: 'reader',
    query: {
      mission_id: idField('mission').optional().meta({ description: 'Show the tasks of this mission instead.' }),
    },
    answers: { 200: ['The board.', boardView] },
    problems: [404],
    async handle({ deps, workspaceId, query: { mission_id } }) {
      const { db } = deps.commands
      const found = mission_id === undefined ? accept(undefined) : await requireMission(db, workspaceId, mission_id)
      return found.ok ? accept(await readBoard(db, workspaceId, mission_id)) : found
    },
  }),
  listCards: list('/api/v1/tasks', {
    summary: 'List the cards of the board, newest first',
    role: 'reader',
    query: {
      parent_task_id: cardNumber.optional().meta({ description: 'Only the cards below this one.' }),
      status: cardStatus.optional(),
    },
    page: [cardPageView, 'A page of cards.'],
    scope: ({ workspaceId, query: { parent_task_id, status } }) => [
      workspaceId,
      String(parent_task_id ?? ''),
      status ?? null,
    ],
    async read({ deps, workspaceId, query: { parent_task_id: parentId, status } }, from, limit) {
      const before = from?.[0] === undefined ? null : Number(from[0])
      const cards = await listCards(deps.commands.db, workspaceId, { before, limit: limit + 1, parentId, status })
      return accept(cutPage(cards, limit, toCardView, ({ id }) => String(id)))
    },
  }),
  createCard: post('/api/v1/tasks', {
    summary: 'Create a card of a person',
    role: 'writer',
    body: [createCardBody, 'The card'],
    answers: { 201: ['The card.', cardView] },
    problems: [404],
    handle: ({ deps, principal, workspaceId, traceId, body }) =>
      shown(
        createCard(deps.commands.db, { ...body, workspaceId, createdBy: actingFor(principal, traceId).id }),
        toCardView,
      ),
  }),
  getCard: get('/api/v1/tasks/{card_id}', {
    summary: 'Get a card of the board',
    role: 'reader',
    params: { card_id: cardNumber },
    answers: { 200: ['The card.', cardView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, params: { card_id } }) =>
      shown(readCard(deps.commands.db, workspaceId, card_id), toCardView),
  }),
})
