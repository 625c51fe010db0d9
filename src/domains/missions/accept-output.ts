/**
 * A person reviews the output of a task by a command: `Accept Task Output`. Approved: the task is completed. Changes requested: it runs again. Rejected: it has
 * failed. The mission moves the task when the command has ended.
 */
import { z } from 'zod'
import {
  type CommandPreview,
  defineCommand,
  defineEffect,
  definePolicy,
  type Definition,
  EffectFailure,
  previewCommand,
} from '#domains/commands'
import type { Actor } from '#kernel/actor'
import { cutText } from '#kernel/cut-text'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonValue } from '#kernel/json-value'
import type { PolicyInput } from '#kernel/policy/policy'
import { accept, type Decision } from '#kernel/refusal'
import { type Sql, statement } from '#store'
import { digestOutput } from './checks.ts'
import { decisionTerms, decisionTermsOf, askPeople, type MissionConfig, OPERATOR } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { outputArtifact } from './mission-task.ts'
import type { StoredMission, StoredTask } from './mission.ts'
import { attemptsOf, listStandingEffects } from './standing-effects.ts'
import { type Origin, submitFollowed } from './turn.ts'

const ACCEPT_TASK_OUTPUT = 'Accept Task Output'
const REVIEW = 'mission_review'
const SHOWN_MAX = 500
const PLANNED = 'The plan asks for a person.'
const EFFECTS_SHOWN = 20

const payload = z.object({
  mission_id: z.string(),
  task_id: z.string(),
  title: z.string(),
  attempt: z.int().min(1),
  /** Why a person is asked. */
  reason: z.string(),
  score: z.string().nullable(),
  output: z.string().nullable(),
  output_ref: z.string().nullable(),
  /** The decision is about the output with this digest. */
  output_checksum: z.string().nullable(),
  /** What another attempt would repeat. */
  effects: z.array(z.object({ effect_id: z.string(), effect_type: z.string() })),
  reviewer_role: z.string().nullable(),
  ...decisionTerms.shape,
})
type ReviewPayload = z.output<typeof payload>

/** $1 task, $2 workspace. Its row, with the output as it is now. */
export const findOutput = statement<
  StoredTask & { readonly result: JsonValue; readonly artifact_checksum: string | null }
>(
  'missions.find_output',
  `select t.*, c.result, a.checksum as artifact_checksum from missions.orchestration_tasks as t
  left join concord.commands as c on c.command_id = t.command_id
  left join concord.artifacts as a on a.workspace_id = t.workspace_id
    and a.artifact_id = ${outputArtifact('t')}
where t.id = $1::uuid and t.workspace_id = $2::uuid`,
)

/** The output is still the one that was submitted. */
export const isUnchanged = (task: Pick<StoredTask, 'output_checksum'>, result: JsonValue, artifact: string | null) =>
  task.output_checksum === null || task.output_checksum === digestOutput({ result: result ?? null, artifact })

export function acceptOutputDefinitions(deps: () => MissionDeps): readonly Definition[] {
  const acceptOutput = defineEffect('mission.accept_output', {
    input: payload,
    class: 'read',
    outward: false,
    async do({ input, workspaceId }) {
      const id = decodeId('mission_task', input.task_id)
      const [task] = id.ok ? await deps().commands.db.run(findOutput, [id.value, workspaceId]) : []
      if (task?.state !== 'awaiting_human' || task.attempt_number !== input.attempt)
        throw new EffectFailure('validation_error', 'The task no longer waits for this decision.', 'no')
      if (task.output_checksum !== input.output_checksum || !isUnchanged(task, task.result, task.artifact_checksum))
        throw new EffectFailure('validation_error', 'The output has changed since people were asked.', 'no')
      return { task_id: input.task_id, output_checksum: input.output_checksum }
    },
  })
  const rule = definePolicy({
    name: REVIEW,
    category: 'approval_requirement',
    actions: '*',
    // Only this room submits the task.
    decide: ({ command }: PolicyInput) => {
      const { reason, reviewer_role: role, ...terms } = command['payload'] as ReviewPayload
      return askPeople(reason, { role, requestedBy: String(command['requested_by']) }, terms)
    },
  })
  return [
    rule,
    ...defineCommand('accept_task_output', {
      description: 'Accepts the output of a task of a mission.',
      input: payload,
      policy: [REVIEW],
      steps: (input) => [acceptOutput(input)],
      uses: [acceptOutput],
      risk: 'medium',
      approval: {
        approver: `role:${OPERATOR}`,
        self_decision_allowed: true,
        edits_allowed: false,
        expires_in_minutes: null,
        resume: { on_request_changes: 'fail_command' },
        meanings: {
          approved: 'The task is completed, and other tasks use its output.',
          request_changes: 'The task runs again, with your reason.',
          rejected: 'The task has failed.',
        },
      },
      task: { name: ACCEPT_TASK_OUTPUT, ingress_types: ['system_event'], max_attempts: 1 },
    }).definitions,
  ]
}

/** The role that the check names, or else that of the mission. */
export function reviewerOf(
  { verify }: Pick<StoredTask['spec'], 'verify'>,
  { approver_role }: MissionConfig,
): string | null {
  const named = verify?.flatMap((check) => ('person' in check && check.person.role ? [check.person.role] : []))
  return named?.[0] ?? approver_role ?? null
}

type AskedReview = {
  readonly role: string | null
  readonly workspaceId: string
  readonly requestId: string
  readonly terms: ReturnType<typeof decisionTermsOf>
}

/** Who would have to review an output. Nothing is recorded. */
export function previewReview(
  { commands }: MissionDeps,
  by: Actor,
  { role, workspaceId, requestId, terms }: AskedReview,
): Promise<Decision<CommandPreview>> {
  const payload: ReviewPayload = {
    mission_id: '',
    task_id: '',
    title: '',
    attempt: 1,
    reason: PLANNED,
    score: null,
    output: null,
    output_ref: null,
    output_checksum: null,
    effects: [],
    reviewer_role: role,
    ...terms,
  }
  const ingress = 'system_event' as const
  return previewCommand(commands, by, { workspaceId, requestId, taskName: ACCEPT_TASK_OUTPUT, payload, ingress })
}

/** Submits the command that asks. Its key is the attempt, so a turn that is given again finds it. */
export async function submitReview(
  deps: MissionDeps,
  by: Actor,
  { run, task, origin, config }: { run: StoredMission; task: StoredTask; origin: Origin; config: MissionConfig },
): Promise<Decision<string>> {
  const idempotencyKey = `mission:${task.id}:${task.attempt_number}:accept`
  const { commands } = deps
  const known = await findSubmittedAs(commands.db, run.workspace_id, idempotencyKey)
  if (known !== undefined) return accept(known)
  const effects = await listStandingEffects(commands.db, commands.catalog, run.workspace_id, attemptsOf(task))
  const asked: ReviewPayload = {
    mission_id: encodeId('mission', run.id),
    task_id: encodeId('mission_task', task.id),
    title: task.title,
    attempt: task.attempt_number,
    reason: cutText(task.error_message ?? PLANNED, SHOWN_MAX),
    score: task.verifier_score,
    output: task.output_summary === null ? null : cutText(task.output_summary, SHOWN_MAX),
    output_ref: task.output_ref,
    output_checksum: task.output_checksum,
    effects: effects.slice(0, EFFECTS_SHOWN).map(({ effect_id, effect_type }) => ({ effect_id, effect_type })),
    reviewer_role: reviewerOf(task.spec, config),
    ...decisionTermsOf(config),
  }
  const ingress = 'system_event'
  return submitFollowed(
    deps,
    by,
    { run, origin },
    { taskName: ACCEPT_TASK_OUTPUT, payload: asked, idempotencyKey, ingress },
  )
}

/** $1 workspace, $2 key. */
const findCommandKeyed = statement<{ readonly command_id: string }>(
  'missions.find_keyed',
  `select c.command_id from concord.commands as c where c.workspace_id = $1::uuid and c.idempotency_key = $2`,
)
/** What a turn that died has submitted. */
export async function findSubmittedAs(sql: Sql, workspaceId: string, key: string): Promise<string | undefined> {
  const [row] = await sql.run(findCommandKeyed, [workspaceId, key])
  return row?.command_id
}

/** $1 workspace, $2 task, $3 attempt. A command can be several attempts, and its key has the first. */
const findCommandOf = statement<{ readonly command_id: string }>(
  'missions.find_attempt',
  `select c.command_id from generate_series(1, $3::int) as n
  join concord.commands as c on c.workspace_id = $1::uuid and c.idempotency_key = 'mission:' || $2 || ':' || n
order by n desc limit 1`,
)
/** The command of an attempt. Null: it has none. */
export async function findAttempt(
  sql: Sql,
  { id, workspace_id }: Pick<StoredTask, 'id' | 'workspace_id'>,
  attempt: number,
): Promise<string | null> {
  const [row] = await sql.run(findCommandOf, [workspace_id, id, attempt])
  return row?.command_id ?? null
}
