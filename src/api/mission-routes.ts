/** Missions: create, list, get, and their tasks and events. */
import { z } from '@hono/zod-openapi'
import { idField, textField } from '#contract'
import { actingFor } from '#domains/commands'
import {
  createMission,
  createMissionBody,
  findApprovers,
  listMissions,
  missionDetailView,
  missionEventPageView,
  missionGraphView,
  missionPageView,
  missionPreflightBody,
  missionPreflightView,
  missionState,
  missionStateType,
  missionTaskPageView,
  missionView,
  type MissionDeps,
  preflightMission,
  preflightPlan,
  outcomesView,
  planLines,
  raiseMissionBudget,
  raiseMissionBudgetBody,
  readMission,
  readOutcomes,
  readMissionEvents,
  readMissionTasks,
  toMissionDetailView,
  toMissionEventView,
  toMissionGraphView,
  toMissionTaskView,
  toMissionView,
} from '#domains/missions'
import type { JsonObject } from '#kernel/json-value'
import { missionTaskTypes } from '#kernel/machines/mission'
import { accept } from '#kernel/refusal'
import { cutPage } from '#store'
import { Known, resource, routes, shown } from './resource.ts'

const { list, get, post } = resource<MissionDeps>('missions')
const params = { mission_id: idField('mission') }

export const missionRoutes = routes({
  listMissions: list('/missions', {
    summary: 'List the missions of the workspace, newest first, with their progress',
    role: 'reader',
    query: {
      state: missionState.optional(),
      state_type: missionStateType.optional(),
      created_by: textField(255).optional().meta({ example: 'user:0197f3b2c4d57a8e9b0c1d2e3f405161' }),
      search: textField(255, { charsMin: 1 }).optional().meta({
        description: 'Words that the goal has, all of them.',
        example: 'release notes',
      }),
    },
    page: [missionPageView, 'A page of missions.'],
    scope: ({ workspaceId, query: { state, state_type, created_by, search } }) => [
      workspaceId,
      state ?? null,
      state_type ?? null,
      created_by ?? null,
      search ?? null,
    ],
    async read({ deps, workspaceId, query }, from, limit) {
      const { state, state_type: stateType, created_by: createdBy, search } = query
      const before = from?.[0] && from[1] ? ([from[0], from[1]] as const) : null
      const filter = { before, limit: limit + 1, state, stateType, createdBy, search }
      const rows = await listMissions(deps.commands.db, workspaceId, filter)
      const approversOf = await findApprovers(deps.commands.db, rows)
      const view = (run: (typeof rows)[number]) => toMissionView(run, approversOf(run))
      return accept(cutPage(rows, limit, view, ({ created_at, id }) => [created_at.toISOString(), id]))
    },
  }),
  createMission: post('/missions', {
    summary: 'Create a mission from a plan; a person approves the plan unless the level of autonomy says otherwise',
    role: 'writer',
    body: [createMissionBody, 'The goal, the plan and the settings'],
    lines: planLines,
    answers: { 200: ['The same mission already exists.', missionView], 201: ['The mission.', missionView] },
    problems: [404, 409],
    handle: ({
      deps,
      principal,
      workspaceId,
      traceId,
      requestId,
      body: { idempotency_key: idempotencyKey, ...asked },
    }) =>
      shown(
        createMission(deps, actingFor(principal, traceId), {
          ...asked,
          idempotencyKey,
          workspaceId,
          requestId,
        }),
        ({ run, isNew }) => (isNew ? toMissionView(run) : new Known(toMissionView(run))),
      ),
  }),
  readMissionOutcomes: get('/missions/outcomes', {
    summary: 'Compare how tasks ended, by agent, model and type of task: success, cost, time and score',
    role: 'reader',
    query: {
      task_type: z.enum(missionTaskTypes).optional(),
      suggest: z
        .enum(['true', 'false'])
        .optional()
        .meta({ description: 'True: with the agents and models to prefer.' }),
    },
    answers: { 200: ['The outcomes.', outcomesView] },
    handle: async ({ deps, workspaceId, query: { task_type, suggest } }) =>
      accept(await readOutcomes(deps.commands.db, workspaceId, task_type, suggest === 'true')),
  }),
  getMission: get('/missions/{mission_id}', {
    summary: 'Get a mission with its plan, its tasks and the edges between them',
    role: 'reader',
    params,
    answers: { 200: ['The mission.', missionDetailView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, params: { mission_id } }) =>
      shown(readMission(deps.commands.db, workspaceId, mission_id), (found) =>
        toMissionDetailView(found, deps.commands.catalog),
      ),
  }),
  getMissionGraph: get('/missions/{mission_id}/graph', {
    summary: 'Get the tasks of a mission with their states, and the edges between them',
    role: 'reader',
    params,
    answers: { 200: ['The graph.', missionGraphView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, params: { mission_id } }) =>
      shown(readMission(deps.commands.db, workspaceId, mission_id), toMissionGraphView),
  }),
  preflightPlan: post('/missions/preflight', {
    summary: 'Find out what a plan will need: approvals, cost, irreversible effects, what is missing or unknown',
    role: 'writer',
    body: [missionPreflightBody, 'The plan and the settings'],
    lines: planLines,
    answers: { 200: ['The pre-flight.', missionPreflightView] },
    handle: ({ deps, principal, workspaceId, traceId, requestId, body: { plan, config = {} } }) =>
      shown(
        preflightPlan(deps, actingFor(principal, traceId), {
          workspaceId,
          requestId,
          plan,
          // The body was parsed from JSON.
          config: config as JsonObject,
        }),
        (found) => new Known(found),
      ),
  }),
  preflightMission: post('/missions/{mission_id}/preflight', {
    summary: 'Find out what the tasks of a mission that have not ended will need',
    role: 'writer',
    params,
    answers: { 200: ['The pre-flight.', missionPreflightView] },
    problems: [400, 404],
    handle: ({ deps, workspaceId, requestId, params: { mission_id: missionId } }) =>
      shown(preflightMission(deps, { workspaceId, requestId, missionId }), (found) => new Known(found)),
  }),
  raiseMissionBudget: post('/missions/{mission_id}/budget', {
    summary: 'Raise the hard limit of a mission; one that is budget_exceeded goes on',
    role: 'writer',
    params,
    body: [raiseMissionBudgetBody, 'The new limit'],
    answers: { 200: ['The mission.', missionView] },
    problems: [403, 404, 409],
    handle: ({ deps, principal, workspaceId, traceId, params: { mission_id: missionId }, body: { hard_limit } }) =>
      shown(
        raiseMissionBudget(deps, actingFor(principal, traceId), { workspaceId, missionId, hardLimit: hard_limit }),
        (run) => new Known(toMissionView(run)),
      ),
  }),
  listMissionTasks: list('/missions/{mission_id}/tasks', {
    summary: 'List the tasks of a mission in the order of the plan',
    role: 'reader',
    params,
    page: [missionTaskPageView, 'A page of tasks.'],
    problems: [404],
    scope: ({ workspaceId, params: { mission_id } }) => [workspaceId, mission_id],
    async read({ deps, workspaceId, params: { mission_id } }, from, limit) {
      const page = { after: Number(from?.[0] ?? 0), limit: limit + 1 }
      const tasks = await readMissionTasks(deps.commands.db, workspaceId, mission_id, page)
      return tasks.ok
        ? accept(cutPage(tasks.value, limit, toMissionTaskView, ({ sequence_number }) => String(sequence_number)))
        : tasks
    },
  }),
  listMissionEvents: list('/missions/{mission_id}/events', {
    summary: 'List the events of a mission, oldest first',
    role: 'reader',
    params,
    page: [missionEventPageView, 'A page of events.'],
    problems: [404],
    scope: ({ workspaceId, params: { mission_id } }) => [workspaceId, mission_id],
    async read({ deps, workspaceId, params: { mission_id } }, from, limit) {
      const page = { after: from?.[0] ?? '0', limit: limit + 1 }
      const events = await readMissionEvents(deps.commands.db, workspaceId, mission_id, page)
      return events.ok ? accept(cutPage(events.value, limit, toMissionEventView, ({ id }) => id)) : events
    },
  }),
})
