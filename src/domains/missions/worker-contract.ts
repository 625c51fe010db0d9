/** The API shapes of the calls of workers. */
import { z } from 'zod'
import {
  exampleId,
  idField,
  idView,
  jsonObjectField,
  nameField,
  orNull,
  slugField,
  textField,
  timeView,
} from '#contract'
import { attemptKindOf, attemptKinds, failureTypes } from '#kernel/error-classes'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { missionTaskStates, missionTaskTypes } from '#kernel/machines/mission'
import { type ClaimedTask, UPSTREAM_SHOWN } from './claim-task.ts'
import { money } from './config.ts'
import { verdicts } from './decide-verdict.ts'
import type { StoredTask } from './mission.ts'
import type { TaskOutput } from './record-verdict.ts'

const WAIT_SECONDS_MAX = 20
const SUMMARY_SENT_MAX = 20_000
const TOKENS_MAX = 1_000_000_000

const tokens = z
  .int()
  .min(0)
  .max(TOKENS_MAX)
  .default(0)
  .meta({ description: 'Tokens since the last call that named some.', example: 1_200 })
const cost = money('0.25').default('0').meta({ description: 'Of the whole attempt.', example: '0.25' })
const lease = {
  lease_token: z.uuid().meta({ example: '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161', description: 'From the claim.' }),
  attempt: z.int().min(1).meta({ example: 1 }),
}

const worker = nameField('translator-7', 100).optional().meta({
  description: 'One of the workers that share the key. Shown to people.',
  example: 'translator-7',
})

export const claimTaskBody = z
  .strictObject({
    queues: z
      .array(slugField('translate'))
      .min(1)
      .max(20)
      .meta({ example: ['translate'] }),
    worker,
    agent: nameField('Translator', 255)
      .optional()
      .meta({ description: 'The agent that does the work. It enters the roster.', example: 'Translator' }),
    wait_seconds: z
      .int()
      .min(0)
      .max(WAIT_SECONDS_MAX)
      .default(0)
      .meta({ description: 'How long to wait for a task.', example: 20 }),
  })
  .meta({ id: 'ClaimMissionTask', example: { queues: ['translate'], worker: 'translator-7', wait_seconds: 20 } })

export const startTaskBody = z
  .strictObject({ ...lease, model: nameField('gpt-mini', 255).optional().meta({ example: 'gpt-mini' }) })
  .meta({ id: 'StartMissionTask' })
export const keepTaskBody = z.strictObject(lease).meta({ id: 'KeepMissionTask' })
export const continueTaskBody = z.strictObject({ ...lease, tokens }).meta({ id: 'ContinueMissionTask' })
export const submitTaskBody = z
  .strictObject({
    ...lease,
    output: jsonObjectField()
      .default({})
      .meta({ description: 'The result. Other tasks refer to it.', example: { words: 120 } }),
    summary: textField(SUMMARY_SENT_MAX)
      .optional()
      .meta({ description: 'For people; cut to 2,000 characters.', example: '120 words.' }),
    artifact_id: idField('artifact')
      .optional()
      .meta({ example: exampleId('artifact') }),
    cost,
    tokens,
  })
  .meta({ id: 'SubmitMissionTask' })
export const failTaskBody = z
  .strictObject({
    ...lease,
    error: textField(SUMMARY_SENT_MAX, { charsMin: 1 }).meta({ example: 'The service did not answer.' }),
    retryable: z.boolean().default(true).meta({ description: 'Whether another attempt can succeed.', example: true }),
    cost,
    tokens,
  })
  .meta({ id: 'FailMissionTask' })

const attempt = lease.attempt
export const startVerificationBody = z
  .strictObject({ attempt, worker, model: nameField('gpt-mini', 255).optional() })
  .meta({ id: 'StartMissionVerification' })
export const verdictBody = z
  .strictObject({
    attempt,
    worker,
    output_checksum: textField(64, { charsMin: 1 }).meta({
      example: '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08',
      description: 'From the start of the verification. The verdict counts for this output alone.',
    }),
    verdict: z.enum(verdicts).meta({ example: 'pass' }),
    score: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .meta({ example: 0.9, description: 'The thresholds of the mission can make the verdict worse, never better.' }),
    feedback: textField(SUMMARY_SENT_MAX).optional().meta({
      example: 'The section about risks is missing.',
      description: 'The next attempt gets it; cut to 2,000 characters.',
    }),
  })
  .meta({ id: 'MissionVerdict' })

const state = z.enum(missionTaskStates)

export const heldTaskView = z
  .object({
    task_id: idView('mission_task'),
    mission_id: idView('mission'),
    state,
    attempt: z.int(),
    attempt_kind: z.enum(attemptKinds).meta({
      description: 'Whether the work begins, goes on after a stop with work left, or is done again.',
    }),
    continuation_count: z.int(),
    lease_until: timeView().nullable(),
    due_at: timeView().nullable().meta({ description: 'When an attempt that stopped with work left goes on.' }),
  })
  .meta({ id: 'HeldMissionTask' })

export const claimedTaskView = z
  .object({
    claimed: heldTaskView
      .extend({
        lease_token: z.string(),
        worker: z.string().meta({ description: 'The queue.' }),
        title: z.string(),
        description: z.string().nullable(),
        task_type: z.enum(missionTaskTypes),
        success_criteria: z.string().nullable(),
        tools_requested: z.array(z.string()).nullable(),
        model: z.string().nullable(),
        agent_id: z.int().nullable(),
        last_error: z.string().nullable().meta({ description: 'Why the attempt before failed.' }),
        failure_type: z.enum(failureTypes).nullable().meta({
          description: 'Of the attempt before. `quality`: its output was refused, and `last_error` says why.',
        }),
        input: z.record(z.string(), z.unknown()),
        upstream: z
          .array(
            z.object({
              task: z.string().meta({ description: 'Its `temp_id` in the plan.', example: 'notes' }),
              title: z.string(),
              output_summary: z.string().nullable(),
              output_ref: z.string().nullable(),
            }),
          )
          .meta({
            description: `What its data edges lead from, in the order of the plan; the first ${UPSTREAM_SHOWN}.`,
          }),
      })
      .meta({ id: 'ClaimedMissionTask' })
      .nullable()
      .meta({ description: 'Null: there is nothing to do now.' }),
  })
  .meta({ id: 'MissionTaskClaim' })

export const outputView = heldTaskView
  .extend({
    title: z.string(),
    success_criteria: z.string().nullable(),
    output: z.unknown().meta({ description: 'Without the values that its contract hides.' }),
    output_ref: z.string().nullable(),
    output_checksum: z.string().nullable(),
  })
  .meta({ id: 'MissionTaskOutput' })

export const toOutputView = ({ task, result }: TaskOutput): z.input<typeof outputView> => ({
  ...toHeldTaskView(task),
  title: task.title,
  success_criteria: task.success_criteria,
  output: result,
  output_ref: task.output_ref,
  output_checksum: task.output_checksum,
})

export function toHeldTaskView(task: StoredTask): z.input<typeof heldTaskView> {
  return {
    task_id: encodeId('mission_task', task.id),
    mission_id: encodeId('mission', task.run_id),
    state: task.state,
    attempt: task.attempt_number,
    attempt_kind: attemptKindOf(task.attempt_number, task.continuation_count),
    continuation_count: task.continuation_count,
    lease_until: orNull(task.lease_until, formatInstant),
    due_at: orNull(task.due_at, formatInstant),
  }
}

export function toClaimView(claimed: ClaimedTask | null): z.input<typeof claimedTaskView> {
  if (claimed === null) return { claimed: null }
  const { task, input, upstream, leaseToken } = claimed
  return {
    claimed: {
      ...toHeldTaskView(task),
      lease_token: leaseToken,
      worker: task.spec.run.worker ?? '',
      title: task.title,
      description: task.description,
      task_type: task.task_type,
      success_criteria: task.success_criteria,
      tools_requested: task.tools_requested === null ? null : [...task.tools_requested],
      model: task.model_override,
      agent_id: task.agent_id,
      last_error: task.error_message,
      failure_type: task.failure_type,
      input,
      upstream: upstream.map(({ temp_id, ...output }) => ({ task: temp_id, ...output })),
    },
  }
}
