/** The bodies and views of this room's HTTP API. They contain no runtime fields. */
import type { JsonObject } from '#kernel/json-value'
import { encodeId, handedOnIds, withShownIds, withShownTarget } from '#kernel/ids'
import { z } from 'zod'
import { exampleId, idField, idView, keyField, labelsView, orNull, textField, textView, timeView } from '#contract'
import type { Names } from '#domains/identity'
import { formatInstant } from '#kernel/instant'
import { statesOf } from '#kernel/machine'
import { type CommandState, commandMachine } from '#kernel/machines/command'
import { nameOfActor, showActor } from '#domains/approvals'
import { type CancellationMode, cancellationModes } from './catalog/definitions.ts'
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import type { CommandWithEffects, StoredCommand } from './command-table.ts'
import { redactPayload } from '#kernel/data-class'
import type { HistoryEvent } from './explain-command.ts'
import { describeProgress, nextMoves } from './progress.ts'
import type { RunStanding } from './run-waits.ts'
import type { Included, ListedEffect } from './read-commands.ts'
import { taskOf } from './tasks.ts'
import type { UndoLink } from './undo-plan.ts'

// The states of the machine in their order. Zod requires a non-empty list.
const states = statesOf(commandMachine) as [CommandState, ...CommandState[]]
export const commandStatus = z.enum(states).meta({ id: 'CommandStatus', example: 'succeeded' })

// Any JSON object. The guard has checked every value, and the task checks the shape.
const payload = z.record(z.string(), z.unknown()).transform((value) => value as JsonObject)

/** The refusal of a reserved mode says so, so the values are in the document only. */
const modeField = (example: CancellationMode) =>
  z
    .string()
    .optional()
    .meta({
      type: 'string',
      enum: [...cancellationModes],
      example,
      description:
        '`graceful` stops before the next effect. `compensate_then_stop` also undoes the effects that are done.',
    })

const dependency = {
  command_id: idField('command'),
  required_status: commandStatus.optional(),
  propagate_cancellation: z.boolean().optional().meta({
    example: true,
    description: 'When that status cannot be reached: true cancels this command, false fails it.',
  }),
}

export const submitCommandBody = z
  .strictObject({
    task_name: textField(200, { charsMin: 1 }).meta({
      example: 'Generate Report',
      description: 'Its name, or its command type where one task has it; GET /task-types lists them.',
    }),
    payload: payload.default({}).meta({ example: { report_type: 'monthly_revenue', date_range: '2026-05' } }),
    idempotency_key: keyField('generate_report:monthly_revenue:2026-05').optional(),
    cancellation_mode: modeField('graceful'),
    depends_on: z
      .array(z.strictObject(dependency))
      .max(100)
      .optional()
      .meta({
        example: [{ command_id: exampleId('command') }],
        description: 'Commands that must reach the required status before this one runs.',
      }),
  })
  .meta({ id: 'SubmitCommand', description: 'A request to run one task.' })

export const submittedView = z
  .object({
    command_id: idView('command'),
    status: commandStatus,
    trace_id: z.string().meta({ example: 'trace_4bf92f3577b34da6a3ce929d0e0e4736' }),
  })
  .meta({
    id: 'SubmittedCommand',
    description: 'The command that was recorded, or the one that the key had made before.',
  })

export const toSubmittedView = ({ command_id, status, context }: StoredCommand): z.infer<typeof submittedView> => ({
  command_id: encodeId('command', command_id),
  status,
  trace_id: context.trace_id,
})

const nextMoveView = z
  .object({ action: z.string().meta({ example: 'cancel' }), by: z.array(z.string()), what: z.string() })
  .meta({ id: 'NextMove', description: 'A possible next step, and who can take it.' })

export const commandView = z
  .object({
    command_id: idView('command'),
    command_type: z.string().meta({ example: 'generate_report' }),
    task_name: z.string().nullable(),
    status: commandStatus,
    requested_by: z.string(),
    requested_by_name: textView('local:dora', 'Their display names.').nullable(),
    ingress: z.string().meta({ example: 'user_request' }),
    payload: payload.meta({ description: 'Without card data; secrets are references.' }),
    result: z.unknown(),
    error: z.string().nullable(),
    error_class: z.string().nullable(),
    cancellation_mode: z.string(),
    cancellation_requested: z.boolean(),
    attempt: z.int(),
    current_step: z
      .string()
      .nullable()
      .meta({ example: 'connector.hotel_booking.book_hotel', description: 'The step that runs, or the next one.' }),
    waiting_reason: z
      .string()
      .nullable()
      .meta({ example: 'the decision of a person', description: 'What it waits for, in words.' }),
    labels: labelsView(),
    trace_id: z.string(),
    created_at: timeView('When it was recorded.'),
    updated_at: timeView('When it last changed.'),
    completed_at: timeView('When it ended.').nullable(),
    undo: z
      .object({ command_id: idView('command'), status: commandStatus })
      .nullable()
      .meta({ description: 'The last command that was asked to undo it.' }),
    next: z.array(nextMoveView),
  })
  .meta({ id: 'Command', description: 'A governed request and its present state.' })

/** Without what a list shows only when it is asked for. */
export const listedCommandView = commandView
  .partial({ payload: true, result: true })
  .meta({ id: 'ListedCommand', description: 'A command; `payload` and `result` only with `include`.' })

export const effectView = z
  .object({
    effect_id: z.string(),
    effect_type: z.string().meta({ example: 'connector.hotel_booking.book_hotel' }),
    status: z.enum(['planned', 'executing', 'succeeded', 'failed']),
    idempotency_key: z.string().nullable(),
    attempt: z.int(),
    max_attempts: z.int(),
    result: z.unknown().optional(),
    error: z.string().nullable(),
    error_class: z.string().nullable(),
    compensates_effect_id: z.string().nullable(),
    declared_compensation: z.string().nullable(),
    reversibility: z.string().nullable(),
    run_after: timeView('When a failed attempt is repeated.').nullable(),
    completed_at: timeView('When its outcome was recorded.').nullable(),
  })
  .meta({ id: 'Effect', description: 'One action on the outside world; `result` only with `include`.' })

export const eventView = z
  .object({
    event_id: z.string(),
    command_id: z.string().nullable(),
    event_type: z.string(),
    purpose: z.string(),
    actor: z.string(),
    trace_id: z.string(),
    payload: z.record(z.string(), z.unknown()),
    created_at: timeView('When it happened.'),
  })
  .meta({ id: 'DomainEvent', description: 'One fact, written with the change that made it.' })

const reason = textField(500).optional().meta({ example: 'No longer needed.', description: 'Goes into the record.' })
export const inputBody = z
  .strictObject({ input: payload.meta({ example: { date_range: '2026-05' } }) })
  .meta({ id: 'SupplyInput', description: 'The missing fields.' })
export const cancelBody = z
  .strictObject({
    reason,
    cancellation_mode: modeField('compensate_then_stop'),
    force: z.boolean().optional().meta({
      example: false,
      description: 'For administrators: end a command that no longer answers, or free the key of one that has ended.',
    }),
  })
  .meta({ id: 'CancelCommand' })
export const retryBody = z.strictObject({ reason }).meta({ id: 'RetryCommand' })
export const dependencyBody = z.strictObject(dependency).meta({
  id: 'AddDependency',
  description: 'The command that must reach the required status before this one runs.',
  example: { command_id: exampleId('command') },
})
export const cancelledView = commandView.extend({ changed: z.boolean() }).meta({ id: 'CancelledCommand' })

export const undoBody = z.strictObject({ reason }).meta({ id: 'UndoCommand' })

export type StoredEvent = HistoryEvent & {
  readonly command_id: string | null
  readonly purpose: string
  readonly trace_id: string
}

type ViewFacts = {
  readonly at: Date
  readonly names?: Names
  readonly undo?: UndoLink | undefined
  readonly standing?: RunStanding | undefined
}

export function toCommandView(
  catalog: Catalog,
  found: CommandWithEffects,
  { at, names = new Map(), undo, standing }: ViewFacts,
): z.infer<typeof commandView> {
  const { command } = found
  const task = taskOf(catalog, command)
  return {
    command_id: encodeId('command', command.command_id),
    command_type: command.command_type,
    task_name: command.task_name,
    status: command.status,
    requested_by: showActor(command.requested_by),
    requested_by_name: nameOfActor(command.requested_by, names),
    ingress: command.ingress,
    payload: redactPayload(command.payload, task?.type.fields ?? {}, 'pii'),
    result: withShownIds(command.result ?? null, handedOnIds),
    error: command.error,
    error_class: command.error_class,
    cancellation_mode: command.cancellation_mode,
    cancellation_requested: command.cancellation_requested,
    attempt: command.attempt,
    ...describeProgress(found, standing),
    labels: [...(command.labels ?? [])],
    trace_id: command.context.trace_id,
    created_at: formatInstant(command.created_at),
    updated_at: formatInstant(command.updated_at),
    completed_at: orNull(command.completed_at, formatInstant),
    undo: undo ? { ...undo, command_id: encodeId('command', undo.command_id) } : null,
    next: nextMoves(found, catalog, at, { undo, standing }),
  }
}

/** A list shows these fields only when it is asked for them. */
export function toListedView(
  { payload: shown, result, ...rest }: z.infer<typeof commandView>,
  include: Included,
): z.infer<typeof listedCommandView> {
  return {
    ...rest,
    ...(include.includes('payload') && { payload: shown }),
    ...(include.includes('result') && { result }),
  }
}

export function toEffectView(
  effect: Omit<ListedEffect, 'created_text'>,
  include: Included = [],
): z.infer<typeof effectView> {
  const of = effect.compensates_effect_id
  return {
    effect_id: encodeId('effect', effect.domain_effect_id),
    effect_type: effect.effect_type,
    status: effect.status,
    idempotency_key: effect.idempotency_key,
    attempt: effect.attempt,
    max_attempts: effect.max_attempts,
    ...(include.includes('result') && { result: withShownIds(effect.result ?? null, handedOnIds) }),
    error: effect.error,
    error_class: effect.error_class,
    compensates_effect_id: of === null ? null : encodeId('effect', of),
    declared_compensation: effect.declared_compensation,
    reversibility: effect.reversibility,
    run_after: orNull(effect.run_after, formatInstant),
    completed_at: orNull(effect.completed_at, formatInstant),
  }
}

export function toEventView(event: StoredEvent): z.infer<typeof eventView> {
  return {
    event_id: encodeId('event', event.event_id),
    command_id: event.command_id === null ? null : encodeId('command', event.command_id),
    event_type: event.event_type,
    purpose: event.purpose,
    actor: showActor(event.actor),
    trace_id: event.trace_id,
    payload: withShownTarget(event.payload),
    created_at: formatInstant(event.created_at),
  }
}

export const taskTypeView = z
  .object({
    task_name: z.string(),
    description: z.string(),
    command_type: z.string(),
    version: z.string(),
    risk_level: z.string(),
    ingress_types: z.array(z.string()),
    required_inputs: z.array(z.string()),
    policy_checks: z.array(z.string()),
    approval_required: z.boolean(),
    idempotency_required: z.boolean(),
    side_effects: z.array(z.string()),
    cancellable_by: z.array(z.string()),
    on_failure: z
      .string()
      .meta({ example: 'undo', description: 'keep, or undo: a run that fails undoes what it has done.' }),
    cancellation_mode: z.string().meta({ example: 'compensate_then_stop' }),
    can_be_undone: z.boolean(),
    key_template: z
      .string()
      .nullable()
      .meta({ example: 'refund:{order_id}', description: 'Makes the key of the thing done from the payload.' }),
    approver: z.string().meta({ example: 'role:approver', description: 'Who approves if no rule names somebody.' }),
    approval_expires_in_minutes: z.int().nullable(),
    connector_requirements: z.array(z.string()),
    error_classes: z.array(z.string()),
    audit: z.array(z.string()).meta({ description: 'Events that are recorded before it has succeeded.' }),
    primitives: z.array(z.string()),
    payload_schema: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'TaskType', description: 'A task that can be submitted, with its contract.' })

export function toTaskTypeView(
  { spec, type, policyNames }: CompiledTask,
  primitives: readonly string[],
): z.infer<typeof taskTypeView> {
  return {
    task_name: spec.name,
    description: spec.description,
    command_type: type.name,
    version: type.version,
    risk_level: spec.risk_level,
    ingress_types: [...spec.ingress_types],
    required_inputs: [...spec.required_inputs],
    policy_checks: [...policyNames],
    approval_required: spec.approval_required || type.approval.required,
    idempotency_required: type.idempotency.required,
    side_effects: [...type.side_effects],
    cancellable_by: [...type.cancellable_by],
    on_failure: type.on_failure,
    cancellation_mode: type.cancellation_mode,
    can_be_undone: type.compensation.supported,
    key_template: type.idempotency.key_template ?? null,
    approver: type.approval.approver,
    approval_expires_in_minutes: type.approval.expires_in_minutes,
    connector_requirements: [...spec.connector_requirements],
    error_classes: [...type.error_classes],
    audit: [...type.audit],
    primitives: [...primitives],
    payload_schema: z.toJSONSchema(type.payload, { io: 'input', unrepresentable: 'any' }),
  }
}
