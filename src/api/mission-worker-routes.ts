/** The tasks of missions that outside workers run: claim, start, heartbeat, continue, submit, fail; and the verdicts of workers about outputs. */
import { idField } from '#contract'
import { actingFor } from '#domains/commands'
import {
  claimedTaskView,
  claimTask,
  claimTaskBody,
  continueTask,
  continueTaskBody,
  failTask,
  failTaskBody,
  heldTaskView,
  keepTask,
  keepTaskBody,
  type LeaseHolder,
  type MissionDeps,
  OFFERS_CHANNEL,
  outputView,
  recordVerdict,
  startTask,
  startTaskBody,
  startVerification,
  startVerificationBody,
  submitTask,
  submitTaskBody,
  toClaimView,
  toHeldTaskView,
  toOutputView,
  verdictBody,
  workerIdOf,
} from '#domains/missions'
import { resource, routes, shown } from './resource.ts'
import { claimOrWait, type WorkerPolls } from './worker-routes-kit.ts'

type Deps = MissionDeps & { readonly polls: WorkerPolls }

const { post } = resource<Deps>('mission-tasks')
const params = { task_id: idField('mission_task') }
const answers = { 200: ['The task as it stands.', heldTaskView] } as const

/** A worker acts with the key of a writer. The lease token and the attempt are the fence of every call after the claim. */
const holderOf = ({
  workspaceId,
  traceId,
  params: { task_id: taskId },
  body: { lease_token: leaseToken, attempt },
}: {
  readonly workspaceId: string
  readonly traceId: string
  readonly params: { readonly task_id: string }
  readonly body: { readonly lease_token: string; readonly attempt: number }
}): LeaseHolder => ({ workspaceId, traceId, taskId, leaseToken, attempt })

const verifyingOf = (
  by: { readonly id: string },
  {
    workspaceId,
    params: { task_id: taskId },
    body: { attempt, worker },
  }: {
    readonly workspaceId: string
    readonly params: { readonly task_id: string }
    readonly body: { readonly attempt: number; readonly worker?: string | undefined }
  },
) => ({ workspaceId, taskId, attempt, workerId: workerIdOf(by.id, worker) })

export const missionWorkerRoutes = routes({
  claimMissionTask: post('/mission-tasks/claim', {
    summary: 'Claim the next task of these queues, or wait for one',
    description: 'The lease ends unless the worker starts the task in time and sends heartbeats.',
    role: 'writer',
    body: [claimTaskBody, 'The queues of the worker'],
    answers: { 200: ['The task with its lease, or null.', claimedTaskView] },
    handle(call) {
      const { deps, principal, workspaceId, traceId, body } = call
      const { queues, agent, wait_seconds } = body
      const workerId = workerIdOf(actingFor(principal, traceId).id, body.worker)
      const claim = () => claimTask(deps, { workspaceId, queues, workerId, agent, traceId })
      const poll = { channel: OFFERS_CHANNEL, waitMs: wait_seconds * 1_000, claim }
      return shown(claimOrWait(call, deps.polls, poll), toClaimView)
    },
  }),
  startMissionTask: post('/mission-tasks/{task_id}/start', {
    summary: 'Start the claimed task',
    role: 'writer',
    params,
    body: [startTaskBody, 'The lease'],
    answers,
    problems: [404, 409],
    handle: (call) => shown(startTask(call.deps, { ...holderOf(call), model: call.body.model }), toHeldTaskView),
  }),
  keepMissionTask: post('/mission-tasks/{task_id}/heartbeat', {
    summary: 'Renew the lease of a task',
    role: 'writer',
    params,
    body: [keepTaskBody, 'The lease'],
    answers,
    problems: [404, 409],
    handle: (call) => shown(keepTask(call.deps, holderOf(call)), toHeldTaskView),
  }),
  continueMissionTask: post('/mission-tasks/{task_id}/continue', {
    summary: 'Stop with work left; the same attempt goes on after the delay of the settings',
    role: 'writer',
    params,
    body: [continueTaskBody, 'The lease'],
    answers,
    problems: [404, 409],
    handle: (call) => shown(continueTask(call.deps, { ...holderOf(call), tokens: call.body.tokens }), toHeldTaskView),
  }),
  submitMissionTask: post('/mission-tasks/{task_id}/submit', {
    summary: 'Submit the output of a task',
    role: 'writer',
    params,
    body: [submitTaskBody, 'The lease and the output'],
    answers,
    problems: [404, 409],
    handle(call) {
      const { output, summary, artifact_id: artifactId, cost, tokens } = call.body
      const submitted = { output, summary, artifactId, cost, tokens }
      return shown(submitTask(call.deps, { ...holderOf(call), ...submitted }), toHeldTaskView)
    },
  }),
  failMissionTask: post('/mission-tasks/{task_id}/fail', {
    summary: 'Report that the attempt failed',
    role: 'writer',
    params,
    body: [failTaskBody, 'The lease and the error'],
    answers,
    problems: [404, 409],
    handle(call) {
      const { error, retryable: isRetryable, cost, tokens } = call.body
      return shown(failTask(call.deps, { ...holderOf(call), error, isRetryable, cost, tokens }), toHeldTaskView)
    },
  }),
  startMissionVerification: post('/mission-tasks/{task_id}/verification', {
    summary: 'Start to verify the output of a task whose check asks for a worker',
    role: 'writer',
    params,
    body: [startVerificationBody, 'The attempt'],
    answers: { 200: ['The output, with its digest.', outputView] },
    problems: [404, 409],
    handle(call) {
      const { deps, principal, traceId, body } = call
      const by = actingFor(principal, traceId)
      const asked = { ...verifyingOf(by, call), model: body.model }
      return shown(startVerification(deps, by, asked), toOutputView)
    },
  }),
  giveMissionVerdict: post('/mission-tasks/{task_id}/verdict', {
    summary: 'Give the verdict about the output of a task: pass, unsure or fail, with a score and feedback',
    role: 'writer',
    params,
    body: [verdictBody, 'The attempt, the digest of the output and the verdict'],
    answers,
    problems: [404, 409],
    handle(call) {
      const { deps, principal, traceId, body } = call
      const { verdict, score = null, feedback = null, output_checksum: outputChecksum } = body
      const by = actingFor(principal, traceId)
      const asked = { ...verifyingOf(by, call), outputChecksum, verdict: { verdict, score, feedback } }
      return shown(recordVerdict(deps, by, asked), toHeldTaskView)
    },
  }),
})
