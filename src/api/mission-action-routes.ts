/** What people do with a mission and its tasks. */
import { idField } from '#contract'
import type { ApprovalDeps } from '#domains/approvals'
import { actingFor } from '#domains/commands'
import {
  cancelMission,
  cancelTask,
  changePlan,
  decideOutput,
  decidePlan,
  explainedTaskView,
  explainTask,
  findApprovers,
  missionActionBody,
  type MissionDeps,
  missionPlan,
  planLines,
  missionTaskView,
  missionView,
  pauseMission,
  rejectOutputBody,
  resumeMission,
  retryTask,
  toExplainedTaskView,
  toMissionTaskView,
  toMissionView,
} from '#domains/missions'
import type { Decision } from '#kernel/refusal'
import { type Call, resource, routes, shown } from './resource.ts'

type Api = MissionDeps & { readonly approvals: ApprovalDeps }

const { get, post, put } = resource<Api>('missions')
const params = { mission_id: idField('mission') }
const taskParams = { ...params, task_id: idField('mission_task') }

type Acting = Call<Api, {}, typeof params, typeof missionActionBody>
type ActingOnTask = Call<Api, {}, typeof taskParams, typeof missionActionBody>
type Run = Parameters<typeof toMissionView>[0]
type Task = Parameters<typeof toMissionTaskView>[0]

const asked = ({ workspaceId, params: { mission_id: missionId }, body: { reason } }: Acting) => ({
  workspaceId,
  missionId,
  reason,
})
const person = ({ principal, traceId }: Pick<Acting, 'principal' | 'traceId'>) => actingFor(principal, traceId)

/** Every action answers with the mission as it is now. */
const action = (path: string, summary: string, act: (call: Acting) => Promise<Decision<Run>>) =>
  post(`/missions/{mission_id}/${path}`, {
    summary,
    role: 'writer',
    params,
    body: [missionActionBody, 'The reason'],
    answers: { 200: ['The mission.', missionView] },
    problems: [403, 404, 409],
    handle: (call) =>
      shown(act(call), async (run) => toMissionView(run, (await findApprovers(call.deps.commands.db, [run]))(run))),
  })

const ofTask = ({ workspaceId, params: given }: Pick<ActingOnTask, 'workspaceId' | 'params'>) => ({
  workspaceId,
  missionId: given.mission_id,
  taskId: given.task_id,
})

/** And every action on a task with the task. */
const taskAction = (path: string, summary: string, act: (call: ActingOnTask) => Promise<Decision<Task>>) =>
  post(`/missions/{mission_id}/tasks/{task_id}/${path}`, {
    summary,
    role: 'writer',
    params: taskParams,
    body: [missionActionBody, 'The reason'],
    answers: { 200: ['The task.', missionTaskView] },
    problems: [403, 404, 409],
    handle: (call) => shown(act(call), toMissionTaskView),
  })

const decide = (decision: 'approved' | 'rejected') => (call: Acting) =>
  decidePlan(call.deps, call.principal, call.traceId, { ...asked(call), decision })

export const missionActionRoutes = routes({
  pauseMission: action('pause', 'Pause a mission: nothing new starts, and what runs may end', (call) =>
    pauseMission(call.deps, person(call), asked(call)),
  ),
  resumeMission: action('resume', 'Resume a paused mission', (call) =>
    resumeMission(call.deps, person(call), asked(call)),
  ),
  cancelMission: action('cancel', 'Cancel a mission with its open tasks and their commands', (call) =>
    cancelMission(call.deps, person(call), asked(call)),
  ),
  approveMission: action('approve', 'Approve the plan of a mission, as in the inbox', decide('approved')),
  rejectMission: action('reject', 'Reject the plan of a mission, as in the inbox', decide('rejected')),
  changeMissionPlan: put('/missions/{mission_id}/plan', {
    summary: 'Replace the plan before it starts, or add tasks while the mission runs; the version is the next one',
    role: 'writer',
    params,
    body: [missionPlan, 'The whole plan'],
    lines: { at: ['tasks'], max: planLines.max },
    answers: { 200: ['The mission.', missionView] },
    problems: [403, 404, 409],
    handle: ({ deps, principal, traceId, workspaceId, requestId, params: { mission_id: missionId }, body: plan }) =>
      shown(changePlan(deps, actingFor(principal, traceId), { workspaceId, missionId, plan, requestId }), (run) =>
        toMissionView(run),
      ),
  }),
  retryMissionTask: taskAction('retry', 'Begin the next attempt of a task at once', (call) =>
    retryTask(call.deps, person(call), ofTask(call)),
  ),
  cancelMissionTask: taskAction('cancel', 'Cancel a task of a mission with its command', (call) =>
    cancelTask(call.deps, person(call), { ...ofTask(call), reason: call.body.reason }),
  ),
  approveMissionTask: taskAction('approve', 'Approve the output of a task, as in the inbox', (call) =>
    decideOutput(call.deps, call.principal, call.traceId, {
      ...ofTask(call),
      decision: 'approved',
      reason: call.body.reason,
    }),
  ),
  rejectMissionTask: post('/missions/{mission_id}/tasks/{task_id}/reject', {
    summary: 'Reject the output of a task, as in the inbox: it fails, or runs again',
    role: 'writer',
    params: taskParams,
    body: [rejectOutputBody, 'The reason, and whether the task runs again'],
    answers: { 200: ['The task.', missionTaskView] },
    problems: [403, 404, 409],
    handle(call) {
      const { retry, reason } = call.body
      const decision = retry ? 'request_changes' : 'rejected'
      const asked_ = { ...ofTask(call), decision, reason } as const
      return shown(decideOutput(call.deps, call.principal, call.traceId, asked_), toMissionTaskView)
    },
  }),
  explainMissionTask: get('/missions/{mission_id}/tasks/{task_id}/why', {
    summary: 'Explain where a task stands: what it waits for, who is asked, or what ended it',
    role: 'reader',
    params: taskParams,
    answers: { 200: ['The explanation.', explainedTaskView] },
    problems: [400, 404],
    handle: (call) => shown(explainTask(call.deps.commands.db, ofTask(call)), toExplainedTaskView),
  }),
})
