/** The settings of a mission. Pure. */
import { z } from 'zod'
import { nameField, slugField, textField } from '#contract'
import { formatPath, type JsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { missionTaskTypes } from '#kernel/machines/mission'
import { type Money, parseMoney } from '#kernel/money'
import { nearest } from '#kernel/nearest'
import type { PolicyAnswer } from '#kernel/policy/policy'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { StoredTask } from './mission.ts'

/** Decides about what no person asked for. */
export const OPERATOR = 'operator'

export const autonomyLevels = ['approve', 'autonomous', 'full_auto'] as const

export const money = (example: string) =>
  z
    .string()
    .refine((text) => parseMoney(text).ok, 'Write an amount such as "4.50".')
    .meta({ example, pattern: '^(?:0|[1-9]\\d{0,8})(?:\\.\\d{1,6})?$' })
const score = z.number().min(0).max(1)
/** The highest cost that the row of a mission or task holds. */
export const COST_MAX = 9_999_999_999n as Money
const limit = (example: string) =>
  money(example).refine((text) => {
    const amount = parseMoney(text)
    return !amount.ok || (amount.value > 0n && amount.value <= COST_MAX)
  }, 'Write an amount above 0 and at most "9999.999999".')
const seconds = (most: number) => z.number().min(0).max(most)
const timeout = (fallback: number) => z.number().min(1).max(86_400).default(fallback)
const timeLimit = (description: string) => z.number().min(1).max(2_592_000).optional().meta({ description })
const model = nameField('small-1', 255).optional()
const WARNINGS_MAX = 20

export const priorities = ['low', 'medium', 'high', 'urgent'] as const
const noticeStates = ['completed', 'failed', 'cancelled', 'budget_exceeded'] as const

const hook = z
  .strictObject({
    task: textField(200, { charsMin: 1 }).meta({ example: 'Prepare Folder', description: 'A task of the catalog.' }),
    payload: (z.record(z.string(), z.unknown()) as unknown as z.ZodType<JsonObject, JsonObject>).default({}).meta({
      description: 'A value `{"$from": "attempt", "path": "/temp_id"}` is taken from the attempt.',
    }),
    max_cost: money('0.10')
      .optional()
      .meta({ description: 'What one run of it may cost. Default, under a hard limit: nothing.' }),
  })
  .optional()

/** Unknown settings are kept, so that a setting can be added without a migration. */
export const missionConfig = z
  .looseObject({
    autonomy: z.enum(autonomyLevels).default('approve'),
    auto_approve_threshold: money('5.00').default('0'),
    approver_role: slugField('release-manager').optional(),
    approval: z
      .strictObject({
        count: z.int().min(1).max(100).default(1).meta({
          description: 'How many different members of the role must approve. More than one needs a role.',
        }),
        expires_in_minutes: z.int().min(1).max(525_600).optional().meta({
          description:
            'After it a plan that nobody approved is cancelled, and an output that nobody accepted has failed.',
        }),
      })
      .prefault({})
      .meta({ description: 'The terms of the decisions about the plan and about outputs.' }),
    retry: z
      .strictObject({
        max_retries: z.int().min(0).max(100).default(3),
        base_seconds: seconds(86_400).default(10),
        cap_seconds: seconds(86_400).default(300),
        max_continuations: z.int().min(0).max(1_000).default(10).meta({
          description: 'How often an attempt of a worker may stop with work left, and go on.',
        }),
        continuation_delay_seconds: seconds(3_600).default(1),
      })
      .prefault({}),
    verification: z
      .strictObject({
        pass_threshold: score.default(0.8).meta({ description: 'An output with this score or more passes.' }),
        human_threshold: score.default(0.5).meta({ description: 'From here up to the other one a person decides.' }),
      })
      .refine(({ pass_threshold, human_threshold }) => human_threshold <= pass_threshold, {
        path: ['human_threshold'],
        error: 'at most pass_threshold',
      })
      .prefault({}),
    budget: z
      .strictObject({
        hard_limit: limit('10.00')
          .optional()
          .meta({ description: 'What the mission may cost. Nothing starts that does not fit.' }),
        soft_limit: limit('8.00').optional().meta({ description: 'A higher cost is reported once.' }),
        per_task_limit: limit('1.00')
          .optional()
          .meta({ description: 'What an attempt may cost at most, and the `max_cost` of tasks that have none.' }),
      })
      .optional(),
    priority: z.enum(priorities).optional(),
    model_preferences: z
      .strictObject({
        default: model,
        after_refusal: model.meta({ description: 'Of the attempts that follow a refused output.' }),
        ...Object.fromEntries(missionTaskTypes.map((type) => [type, model])),
      })
      .prefault({})
      .meta({ description: 'Models of tasks that name none, by type of task.', example: { default: 'small-1' } }),
    auto_accept: z
      .boolean()
      .default(false)
      .meta({ description: 'True: nobody has to accept the result. The card has the review mode `auto`.' }),
    notifications: z
      .array(z.enum(noticeStates))
      .max(noticeStates.length)
      .default([])
      .meta({ description: 'The states in which the requester gets a message in the app.' }),
    hooks: z
      .strictObject({
        before_run: hook.meta({ description: 'Before each attempt. If it fails, the attempt does not start.' }),
        after_run: hook.meta({ description: 'After each attempt. If it fails, that is recorded.' }),
      })
      .prefault({}),
    /** How long a task or a mission may stand still. */
    timeouts: z
      .strictObject({
        task_stall_seconds: timeout(300),
        task_assign_seconds: timeout(120),
        task_attempt_seconds: timeLimit('How long one attempt of a worker may take.'),
        task_deadline_seconds: timeLimit('How long a task may run, from its first start on, with all its attempts.'),
        verify_seconds: timeout(180),
        run_resolve_seconds: timeout(60),
      })
      .prefault({}),
  })
  .meta({ id: 'MissionConfig', example: { autonomy: 'approve' } })
export type MissionConfig = z.output<typeof missionConfig>

/** A task that names no model takes that of its mission; null: that of the agent. Another one may follow a refused output. */
export function chooseModel(
  { model_override, task_type, failure_type }: Pick<StoredTask, 'model_override' | 'task_type' | 'failure_type'>,
  { model_preferences: models }: Pick<MissionConfig, 'model_preferences'>,
): string | null {
  const named: Readonly<Record<string, string | undefined>> = models
  const other = failure_type === 'quality' ? models.after_refusal : undefined
  return other ?? model_override ?? named[task_type] ?? models.default ?? null
}

/** One sentence for each setting that has no effect: it may be misspelt. */
export function warnOfSettings(config: JsonObject): readonly string[] {
  const known = Object.keys(missionConfig.shape)
  const unknown = Object.keys(config).filter((name) => !known.includes(name))
  return unknown.slice(0, WARNINGS_MAX).map((name) => `${sayUnknown('setting', name, known)} It has no effect.`)
}

/** The number of persons that a decision needs, and the time that they have. */
export const decisionTerms = z.object({ approvals_required: z.int().min(1), expires_in_minutes: z.int().nullable() })
export const decisionTermsOf = ({ approval }: Pick<MissionConfig, 'approval'>): z.output<typeof decisionTerms> => ({
  approvals_required: approval.count,
  expires_in_minutes: approval.expires_in_minutes ?? null,
})

/** What a rule answers that asks people. The requester alone cannot be several. */
export function askPeople(
  reason: string,
  { role, requestedBy }: { readonly role: string | null; readonly requestedBy: string },
  { approvals_required, expires_in_minutes }: z.output<typeof decisionTerms>,
): PolicyAnswer {
  const required =
    role === null
      ? { role: requestedBy.startsWith('user:') ? requestedBy : OPERATOR, count: 1 }
      : { role, count: approvals_required }
  const metadata = expires_in_minutes === null ? {} : { expires_in_minutes }
  return { decision: 'require_approval', reasons: [reason], required_approvals: [required], metadata }
}

export function readMissionConfig(given: JsonValue): Decision<MissionConfig> {
  const parsed = missionConfig.safeParse(given)
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const path = formatPath(['config', ...((issue?.path ?? []) as JsonStep[])])
    return refuse('missions.config.invalid', `${path}: ${issue?.message ?? 'not a setting'}`, { path })
  }
  return accept(parsed.data)
}

export function sayUnknown(noun: string, name: string, known: Iterable<string>): string {
  const near = nearest(name, known)
  return `There is no ${noun} ${quote(name)}.${near === undefined ? '' : ` Did you mean ${quote(near)}?`}`
}
