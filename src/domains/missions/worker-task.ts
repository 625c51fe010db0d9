/**
 * Tasks that outside workers run. Each attempt is a command of the shipped task `Run Worker Task`, so policy, approvals, cancel and `why` hold for it. Its effect
 * offers the task to the workers of a queue, and waits for the submission.
 */
import { z } from 'zod'
import { allow, defineCommand, defineEffect, type Definition, EffectFailure, EffectPending } from '#domains/commands'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { type Sql, statement } from '#store'
import { MISSION_KIND, type MissionDeps } from './deps.ts'
import type { StoredTask } from './mission.ts'
import { RUN_WORKER_TASK } from './plan.ts'

/** A notice on this channel means that a worker of the workspace in its payload may find a task. */
export const OFFERS_CHANNEL = 'concord_worker_tasks'
export const WORKER_EFFECT = 'mission.worker'

const payload = z.object({
  mission_task_id: z.string().refine((text) => decodeId('mission_task', text).ok, 'the id of a task, task_…'),
  worker: z.string(),
  /** What the worker gets: the payload of the plan, with the results that it refers to. */
  input: z.record(z.string(), z.unknown()),
})

export const workerPayload = ({ id }: Pick<StoredTask, 'id'>, worker: string, input: JsonObject): JsonObject => ({
  mission_task_id: encodeId('mission_task', id),
  worker,
  input,
})

/** $1 channel, $2 workspace. */
const notifyOffer = statement<never>('missions.notify_offer', 'select pg_notify($1, $2)')
export const announceOffers = (sql: Sql, workspaceId: string) => sql.run(notifyOffer, [OFFERS_CHANNEL, workspaceId])

/** $1 command. */
const findOffered = statement<
  Pick<StoredTask, 'run_id' | 'state' | 'state_type' | 'error_message' | 'submission'> & {
    readonly is_cancelled: boolean
  }
>(
  'missions.find_offered',
  `select t.run_id, t.state, t.state_type, t.error_message, t.submission, c.cancellation_requested as is_cancelled
from concord.commands as c join missions.orchestration_tasks as t
  on t.workspace_id = c.workspace_id and c.idempotency_key like 'mission:' || t.id || ':%'
where c.command_id = $1::uuid and t.id = $2::uuid`,
)

const taskIdOf = (text: string) => {
  const id = decodeId('mission_task', text)
  return id.ok ? id.value : null
}

async function findTask({ commands: { db } }: MissionDeps, commandId: string, taskId: string) {
  const [task] = await db.run(findOffered, [commandId, taskIdOf(taskId)])
  // Only this room submits the task, with the key of an attempt.
  if (!task) throw new EffectFailure('validation_error', 'The command is not an attempt of this task.', 'no')
  return task
}

/** The end of the attempt: the submission, or why there will be none. */
async function findEnd(deps: MissionDeps, commandId: string, taskId: string) {
  const { submission, state, state_type, error_message, is_cancelled } = await findTask(deps, commandId, taskId)
  if (submission !== null) return { found: true, result: submission.output } as const
  if (is_cancelled) throw new EffectFailure('validation_error', 'The command was cancelled.', 'no')
  if (state_type !== 'terminal') return { found: false } as const
  throw new EffectFailure('validation_error', `The task is ${state}: ${error_message ?? ''}`, 'no')
}

export function workerTaskDefinitions(deps: () => MissionDeps): readonly Definition[] {
  const offer = defineEffect(WORKER_EFFECT, {
    input: payload,
    class: 'queryable',
    outward: false,
    async do({ input, commandId, workspaceId }) {
      const { run_id } = await findTask(deps(), commandId, input.mission_task_id)
      await announceOffers(deps().commands.db, workspaceId)
      throw EffectPending.ofProcess(MISSION_KIND, run_id)
    },
    find: ({ commandId, input }) => findEnd(deps(), commandId, input.mission_task_id),
  })
  return defineCommand('run_worker_task', {
    description: 'Offers a task of a mission to the workers of a queue, and waits for what one of them submits.',
    input: payload,
    policy: allow,
    steps: (input) => [offer(input)],
    uses: [offer],
    risk: 'low',
    // A worker that is lost is replaced within the command. A refused output is another command.
    task: { name: RUN_WORKER_TASK, ingress_types: ['system_event'], max_attempts: 1 },
  }).definitions
}
