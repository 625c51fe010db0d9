/** Stops of agents: stop, list and lift. Stopping and lifting are commands, which policy decides about. */
import { z } from 'zod'
import { idField, pageView } from '#contract'
import {
  actingFor,
  type CommandDeps,
  liftBody,
  listStops,
  requestLift,
  stopAgents,
  stopBody,
  stopView,
  submittedView,
  toStopView,
  toSubmittedView,
} from '#domains/commands'
import { accept } from '#kernel/refusal'
import { cutPage } from '#store'
import { resource, routes, shown } from './resource.ts'

type Api = { readonly commands: CommandDeps }

const { list, post } = resource<Api>('stops')

export const stopRoutes = routes({
  listStops: list('/stops', {
    summary: 'List the stops of agents, newest first',
    role: 'reader',
    query: { in_force: z.enum(['true', 'false']).optional().meta({ description: 'true: only those in force.' }) },
    page: [pageView(stopView, 'StopPage'), 'A page of stops.'],
    scope: ({ workspaceId, query: { in_force } }) => [workspaceId, in_force ?? 'false'],
    async read({ deps, workspaceId, query: { in_force } }, from, limit) {
      const asked = { isInForce: in_force === 'true', beforeId: from?.[0] ?? null, limit: limit + 1 }
      const rows = await listStops(deps.commands.db, workspaceId, asked)
      return accept(cutPage(rows, limit, toStopView, ({ stop_id }) => stop_id))
    },
  }),
  stopAgents: post('/stops', {
    summary: 'Stop agents: nothing of theirs begins until the stop is lifted',
    description:
      'Needs an administrator or a member of the org role operator. When the command has succeeded, the stop is in force. Undoing goes on during a stop.',
    role: 'writer',
    body: [stopBody, 'What is stopped, and why'],
    answers: { 202: ['The command that stops.', submittedView] },
    problems: [404, 409],
    handle: ({ deps, principal, workspaceId, traceId, requestId, body }) =>
      shown(
        stopAgents(deps.commands, actingFor(principal, traceId), { ...body, workspaceId, requestId }),
        ({ command }) => toSubmittedView(command),
      ),
  }),
  liftStop: post('/stops/{stop_id}/lift', {
    summary: 'Lift a stop: what waited goes on, and runs that the stop ended stay ended',
    description:
      'An administrator lifts it at once. A member of the org role operator needs the approval of another one.',
    role: 'writer',
    params: { stop_id: idField('stop') },
    body: [liftBody, 'Why it is lifted'],
    answers: { 202: ['The command that lifts the stop.', submittedView] },
    problems: [404, 409],
    handle: ({ deps, principal, workspaceId, traceId, requestId, params: { stop_id: stopId }, body }) =>
      shown(
        requestLift(deps.commands, actingFor(principal, traceId), { ...body, workspaceId, requestId, stopId }),
        ({ command }) => toSubmittedView(command),
      ),
  }),
})
