/** The request bodies of the scheduler. Services validate raw input against them and refuse what does not match. */
import { z } from 'zod'
import { failureClasses } from '#kernel/error-classes'
import { misfirePolicies } from '#kernel/schedule'
import {
  cronField,
  durationField,
  idField,
  instantField,
  jsonObjectField,
  keyField,
  nameField,
  timeZoneField,
} from '#contract'
import { groupFailureRules, groupModes, scheduleOverlapPolicies } from './stored-rows.ts'

const PRIORITY_MAX = 1_000_000
/** One transaction writes a whole group; 10,000 jobs take about a second. */
const GROUP_JOBS_MAX = 10_000
const DELAY_MAX_MS = 30 * 86_400_000

const priority = z
  .int()
  .min(-PRIORITY_MAX)
  .max(PRIORITY_MAX)
  .meta({ example: 10, description: 'Higher priorities run first.' })
const jobType = z
  .string()
  .regex(/^[a-z][a-z0-9_.-]{0,63}$/)
  .meta({ example: 'report', description: 'A registered job type.' })
const delayMs = z.int().min(0).max(DELAY_MAX_MS)

/** How a job type retries failed work. Default: three immediate retries, for every exit code. */
export const retryPolicyBody = z.strictObject({
  max_retries: z.int().min(0).max(100).default(3),
  delay: z
    .discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('none') }),
      z.strictObject({ kind: z.literal('fixed'), ms: delayMs }),
      z.strictObject({ kind: z.literal('list'), ms: z.array(delayMs).min(1).max(100) }),
      z.strictObject({
        kind: z.literal('exponential'),
        baseMs: delayMs,
        factor: z.number().min(1).max(10),
        capMs: delayMs,
      }),
    ])
    .default({ kind: 'none' }),
  jitter: z.number().min(0).max(1).default(0),
  /** Null allows every exit code. A run without an exit code is judged by its error class alone. */
  exit_codes: z.array(z.int().min(-255).max(255)).max(256).nullable().default(null),
  error_classes: z.array(z.enum(failureClasses)).default(['work_failed', 'timeout', 'infrastructure']),
})
export type RetryPolicyBody = z.output<typeof retryPolicyBody>

export const jobTypeBody = z.strictObject({
  job_type: jobType,
  retry_policy: retryPolicyBody.prefault({}),
  concurrency_limit: z.int().min(1).max(1_000).nullable().default(null),
  runner: jsonObjectField().nullable().default(null),
})

const newJob = {
  job_type: jobType.optional(),
  template_id: idField('job_template').optional(),
  params: jsonObjectField().optional(),
  priority: priority.optional(),
  not_before: instantField().optional(),
}

/** A job needs one of them. With both, the type of the template counts. */
const anyWork = { anyOf: [{ required: ['job_type'] }, { required: ['template_id'] }] }
const idempotencyKey = keyField('nightly:2026-05-01').optional()

export const submitJobBody = z
  .strictObject({
    ...newJob,
    group_id: idField('job_group').optional(),
    idempotency_key: idempotencyKey,
  })
  .meta({
    id: 'SubmitSchedulerJob',
    ...anyWork,
    description: 'A job: a type with params, or a template with params that override its own.',
  })
export const submitGroupBody = z
  .strictObject({
    name: nameField('nightly report').optional(),
    mode: z.enum(groupModes).meta({ example: 'sequential' }),
    on_failure: z
      .enum(groupFailureRules)
      .default('stop')
      .meta({ example: 'stop', description: 'What happens to the members that are still queued.' }),
    jobs: z
      .array(z.strictObject(newJob).meta(anyWork))
      .min(1)
      .max(GROUP_JOBS_MAX)
      .meta({ example: [{ job_type: 'report' }] }),
    idempotency_key: idempotencyKey,
  })
  .meta({ id: 'SubmitSchedulerGroup', description: 'Jobs that belong together. All of them are queued, or none.' })

export const changeJobBody = z
  .strictObject({ params: jsonObjectField().optional(), priority: priority.optional() })
  .meta({ id: 'ChangeSchedulerJob', description: 'Omitted fields stay unchanged.' })
/** Every move stays within the job's own priority. */
export const moveJobBody = z.union([
  z.strictObject({ to: z.enum(['front', 'back']) }),
  z.strictObject({ before: idField('job') }),
  z.strictObject({ after: idField('job') }),
])

/** The same with a change of priority, as one body: a place in the job's own priority, or the end of another. */
export const placeJobBody = z
  .strictObject({
    to: z.enum(['front', 'back']).optional().meta({ example: 'front' }),
    before: idField('job').optional(),
    after: idField('job').optional(),
    priority: priority.optional(),
  })
  .meta({
    id: 'PlaceSchedulerJob',
    minProperties: 1,
    maxProperties: 1,
    description: 'Set exactly one of the four fields.',
  })

const paramsSchema = jsonObjectField({ isSchema: true })
  .nullable()
  .meta({
    type: ['object', 'null'],
    example: { type: 'object', properties: { month: { type: 'string' } }, required: ['month'] },
    description: 'A JSON Schema that the params must match.',
  })

export const templateBody = z
  .strictObject({
    name: nameField('nightly report'),
    job_type: jobType,
    params: jsonObjectField().prefault({}),
    params_schema: paramsSchema.default(null),
    priority: priority.default(0),
  })
  .meta({ id: 'CreateSchedulerTemplate', description: 'A named job type with params and a priority.' })
export const changeTemplateBody = z
  .strictObject({
    name: nameField('nightly report').optional(),
    params: jsonObjectField().optional(),
    params_schema: paramsSchema.optional(),
    priority: priority.optional(),
  })
  .meta({ id: 'ChangeSchedulerTemplate', description: 'Omitted fields stay unchanged.' })

const schedule = {
  template_id: idField('job_template'),
  name: nameField('nightly report'),
  cron_expression: cronField(),
  timezone: timeZoneField(),
  enabled: z.boolean().meta({ example: true }),
  param_overrides: jsonObjectField()
    .nullable()
    .meta({
      type: ['object', 'null'],
      example: { month: '2026-05' },
      description: 'Override the params of the template.',
    }),
  priority: priority.nullable(),
  misfire_policy: z
    .enum(misfirePolicies)
    .meta({ example: 'last', description: 'What happens to due times missed while the scheduler was down.' }),
  overlap_policy: z
    .enum(scheduleOverlapPolicies)
    .meta({ example: 'queue', description: 'What happens to a due time while the previous job is still open.' }),
}
export const scheduleBody = z
  .strictObject({
    ...schedule,
    timezone: schedule.timezone.prefault('UTC'),
    enabled: schedule.enabled.default(true),
    param_overrides: schedule.param_overrides.default(null),
    priority: schedule.priority.default(null),
    misfire_policy: schedule.misfire_policy.default('last'),
    overlap_policy: schedule.overlap_policy.default('queue'),
  })
  .meta({ id: 'CreateSchedulerSchedule', description: 'A cron expression, a time zone and a template.' })
export const changeScheduleBody = z
  .strictObject(schedule)
  .partial()
  .meta({ id: 'ChangeSchedulerSchedule', description: 'Omitted fields stay unchanged.' })

export const reserveBody = z.strictObject({
  reserved_by: nameField('nightly report'),
  expires_in: durationField('10m')
    .optional()
    .meta({ description: 'The lifetime without a renewal. Five minutes by default.' }),
})

/** A direct execution runs outside the queue, so it has no priority and no start time. */
export const directJobBody = z
  .strictObject({
    job_type: jobType.optional(),
    template_id: idField('job_template').optional(),
    params: jsonObjectField().optional(),
    idempotency_key: idempotencyKey,
  })
  .meta(anyWork)
