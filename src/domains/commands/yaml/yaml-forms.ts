/** The YAML forms of tasks, schedules, connectors and their operations: strict, and read into the same objects as their code forms. Pure. */
import { z } from 'zod'
import { type ConnectorDefinition, connectorForm, connectorOfForm, type ConnectorType } from '#domains/connectors'
import { formatPath } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { riskLevels } from '#kernel/policy/risk'
import { misfirePolicies, overlapPolicies } from '#kernel/schedule'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { ingressTypes } from '../catalog/closed-lists.ts'
import {
  defineConnectorOperation,
  defineSchedule,
  type OperationDefinition,
  type ScheduleDefinition,
  type ScheduleSpec,
} from '../catalog/definitions.ts'
import { findBrokenStep } from '../catalog/mapping-lint.ts'
import { defineTask, type TaskDefinition } from '../catalog/task-spec.ts'
import { readYaml } from './read-yaml.ts'

const name = z.string().min(1)
const names = z.array(name)

const taskForm = z.strictObject({
  task: z.strictObject({
    name,
    description: z.string().default(''),
    command_type: name,
    ingress_types: z.array(z.enum(ingressTypes)).default([]),
    required_inputs: names.default([]),
    execution: z.strictObject({ mode: z.enum(['sync', 'async', 'approval_gated_async']), function_name: name }),
    policies: names.default([]),
    connectors: names.default([]),
    approval: z.strictObject({ required: z.boolean() }).default({ required: false }),
    outputs: z
      .strictObject({ artifacts: names.default([]), memory: names.default([]), notifications: names.default([]) })
      .default({ artifacts: [], memory: [], notifications: [] }),
    lifecycle: names.optional(),
    risk_level: z.enum(riskLevels).default('low'),
    max_attempts: z.int().min(1).max(100).default(3),
  }),
})

const schedulesForm = z.strictObject({
  schedules: z
    .array(
      z.strictObject({
        name,
        command_type: name,
        cron: name,
        queue: name,
        time_zone: name.optional(),
        overlap: z.enum(overlapPolicies).optional(),
        misfire: z.enum(misfirePolicies).optional(),
        jitter_ms: z.int().min(0).optional(),
        payload: z.record(z.string(), z.json()).optional(),
        workspace: name.optional(),
      }),
    )
    .min(1),
})

const operationForm = z.strictObject({
  connector: name,
  operation: name,
  side_effect: z.boolean(),
  idempotency_required: z.boolean().default(false),
  idempotency_key_template: name.nullable().default(null),
  approval_required: z.boolean().default(false),
})

export function loadTask(file: string, bytes: Uint8Array): Decision<TaskDefinition> {
  const read = readForm(file, bytes, taskForm)
  if (!read.ok) return read
  const { execution, approval, outputs, policies, connectors, lifecycle, description, ...spec } = read.value.task
  const broken = findBrokenStep(lifecycle)
  if (broken !== undefined)
    return refuse('commands.definition.invalid', `${file}: ${broken}`, { path: 'task.lifecycle' })
  return accept(
    defineTask({
      ...spec,
      description: description === '' ? spec.name : description,
      function_name: execution.function_name,
      sync_allowed: execution.mode === 'sync',
      async_required: execution.mode !== 'sync',
      approval_required: approval.required || execution.mode === 'approval_gated_async',
      artifact_output_possible: outputs.artifacts.length > 0,
      memory_write_possible: outputs.memory.length > 0,
      notification_required: outputs.notifications.length > 0,
      policy_checks: policies,
      connector_requirements: connectors,
      metadata: { ...(lifecycle === undefined ? {} : { lifecycle }), outputs },
    }),
  )
}

export function loadSchedules(file: string, bytes: Uint8Array): Decision<readonly ScheduleDefinition[]> {
  const read = readForm(file, bytes, schedulesForm)
  if (!read.ok) return read
  // What was left out is absent, not undefined.
  const specs = read.value.schedules.map((spec) => Object.fromEntries(Object.entries(spec)) as ScheduleSpec)
  return accept(specs.map(defineSchedule))
}

export function loadOperation(file: string, bytes: Uint8Array): Decision<OperationDefinition> {
  const read = readForm(file, bytes, operationForm)
  return read.ok ? accept(defineConnectorOperation(read.value)) : read
}

/** The types are those of Concord unless a project has more. */
export function loadConnector(
  file: string,
  bytes: Uint8Array,
  types?: Readonly<Record<string, ConnectorType>>,
): Decision<ConnectorDefinition> {
  const read = readForm(file, bytes, connectorForm)
  if (!read.ok) return read
  const made = connectorOfForm(read.value.connector, types)
  return made.ok ? made : { ...made, reason: `${file}: ${made.reason}` }
}

/** JSON is YAML, so the same shape in JSON is read too. */
export function readForm<S extends z.ZodType>(file: string, bytes: Uint8Array, form: S): Decision<z.infer<S>> {
  const read = readYaml(file, bytes)
  if (!read.ok) return read
  const parsed = form.safeParse(read.value)
  if (parsed.success) return accept(parsed.data)
  const [issue] = parsed.error.issues
  const steps = (issue?.path ?? []).map((step) => (typeof step === 'number' ? step : String(step)))
  if (issue?.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    const path = formatPath([...steps, key])
    return refuse('unknown_field', `${file}: there is no field ${quote(key)} at ${formatPath(steps) || 'the top'}`, {
      path,
      ...didYouMean(key, siblings(form, steps)),
    })
  }
  return refuse('commands.definition.invalid', `${file}: ${formatPath(steps)}: ${issue?.message ?? 'does not fit'}`, {
    path: formatPath(steps),
  })
}

/** The names that the form knows at a place, for a better hint. */
function siblings(form: z.ZodType, steps: readonly (string | number)[]): readonly string[] {
  let at: unknown = form
  for (const step of steps) {
    if (at instanceof z.ZodDefault) at = at.unwrap()
    if (at instanceof z.ZodArray) at = at.element
    else if (at instanceof z.ZodObject) at = (at.shape as Record<string, unknown>)[String(step)]
  }
  if (at instanceof z.ZodDefault) at = at.unwrap()
  return at instanceof z.ZodObject ? Object.keys(at.shape) : []
}
