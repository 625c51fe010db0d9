/** The calls of flow workers and functions: claim, heartbeat, complete, fail, fetch; and events from outside. No call gives a credential of a store. */
import {
  acceptEvent,
  claimedFlowTaskView,
  claimFlowTask,
  claimFlowTaskBody,
  completeFlowTask,
  completeFlowTaskBody,
  failFlowTask,
  failFlowTaskBody,
  fetchFlowTask,
  fetchFlowTaskBody,
  FLOW_OFFERS_CHANNEL,
  type FlowDeps,
  flowEventBody,
  flowEventView,
  flowTaskView,
  heldFlowTaskView,
  keepFlowTask,
  keepFlowTaskBody,
  type OutputReport,
  flowPayloadOf,
  type TaskHolder,
  toClaimedFlowTask,
  toFlowTaskView,
  toHeldFlowTask,
} from '#domains/flow'
import { defined } from '#kernel/json-value'
import { resource, routes, shown } from './resource.ts'
import { claimOrWait, type WorkerPolls } from './worker-routes-kit.ts'

type Deps = { readonly flow: FlowDeps; readonly polls: WorkerPolls }

const { post } = resource<Deps>('flow-tasks')
const answers = { 200: ['The task as it stands.', heldFlowTaskView] } as const

type Held = { readonly task_id: string; readonly attempt: number; readonly lease_token: string }
const holderOf = (orgId: string, { task_id: taskId, attempt, lease_token: leaseToken }: Held): TaskHolder => ({
  orgId,
  taskId,
  attempt,
  leaseToken,
})

export const flowWorkerRoutes = routes({
  claimFlowTask: post('/v1/task/claim', {
    summary: 'Claim the next flow task of these operators, or wait for one',
    description: 'The lease ends unless the worker sends heartbeats.',
    role: 'writer',
    body: [claimFlowTaskBody, 'The worker and its operators'],
    answers: { 200: ['The task with everything it needs, or null.', claimedFlowTaskView] },
    handle(call) {
      const { deps, principal, body } = call
      const { operators, worker_id: workerId, wait_s } = body
      const claim = async () => {
        const task = await claimFlowTask(deps.flow, { orgId: principal.orgId, operators, workerId })
        return task ? flowPayloadOf(deps.flow, task) : null
      }
      return shown(
        claimOrWait(call, deps.polls, { channel: FLOW_OFFERS_CHANNEL, waitMs: wait_s * 1_000, claim }),
        toClaimedFlowTask,
      )
    },
  }),
  keepFlowTask: post('/v1/task/heartbeat', {
    summary: 'Renew the lease of a flow task',
    role: 'writer',
    body: [keepFlowTaskBody, 'The lease'],
    answers,
    problems: [404, 409],
    handle: ({ deps, principal, body }) =>
      shown(keepFlowTask(deps.flow, { ...holderOf(principal.orgId, body), isDraining: body.draining }), toHeldFlowTask),
  }),
  completeFlowTask: post('/v1/task/complete', {
    summary: 'Complete a flow task with its outputs and its state',
    role: 'writer',
    body: [completeFlowTaskBody, 'The lease, the outputs and the state'],
    answers,
    problems: [404, 409],
    handle: ({ deps, principal, body: { outputs, state, ...held } }) =>
      shown(
        completeFlowTask(deps.flow, {
          ...holderOf(principal.orgId, held),
          outputs: outputs.map((output) => defined(output) as OutputReport),
          state,
        }),
        toHeldFlowTask,
      ),
  }),
  failFlowTask: post('/v1/task/fail', {
    summary: 'Report that the attempt of a flow task failed',
    role: 'writer',
    body: [failFlowTaskBody, 'The lease and the error'],
    answers,
    problems: [404, 409],
    handle: ({ deps, principal, body: { error: message, retryable, ...held } }) =>
      shown(
        failFlowTask(deps.flow, {
          ...holderOf(principal.orgId, held),
          message,
          errorClass: retryable ? 'work_failed' : 'validation_error',
        }),
        toHeldFlowTask,
      ),
  }),
  fetchFlowTask: post('/internal/task-fetch', {
    summary: 'Read again everything that the holder of a flow task needs',
    role: 'writer',
    body: [fetchFlowTaskBody, 'The lease'],
    answers: { 200: ['The task with everything it needs.', flowTaskView] },
    problems: [404, 409],
    handle: ({ deps, principal, body }) =>
      shown(fetchFlowTask(deps.flow, holderOf(principal.orgId, body)), toFlowTaskView),
  }),
  acceptFlowEvent: post('/v1/event', {
    summary: 'Report an event to the source of a dataset',
    role: 'writer',
    body: [flowEventBody, 'The dataset and the event'],
    answers: { 200: ['Whether the event is new.', flowEventView] },
    problems: [404],
    handle: ({ deps, principal, body: { dataset, event_id: eventId, payload } }) =>
      shown(acceptEvent(deps.flow, { orgId: principal.orgId, dataset, eventId, payload }), ({ isNew }) => ({
        is_new: isNew,
      })),
  }),
})
