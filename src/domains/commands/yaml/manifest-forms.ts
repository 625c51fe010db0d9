/** The YAML forms of command types and approval types: strict, and read into the same contracts as their code forms. Pure. */
import { z } from 'zod'
import { type ApprovalType, decisionValues, defineApprovalType, resumeSteps } from '#domains/approvals'
import { errorClasses } from '#kernel/error-classes'
import { KernelFault } from '#kernel/errors'
import { riskLevels } from '#kernel/policy/risk'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { cancellers, type CommandType, defineCommandType, executionModes } from '../catalog/definitions.ts'
import { readForm } from './yaml-forms.ts'

const name = z.string().min(1)
const names = z.array(name)
const version = z.string().regex(/^\d+\.\d+\.\d+$/, 'three numbers, such as 1.0.0')
/** The kinds of processes that a command can be. */
const workflows = ['run_command', 'run_agent', 'run_swarm'] as const

const commandTypeForm = z.strictObject({
  name,
  version,
  description: name,
  risk_level: z.enum(riskLevels).default('low'),
  execution: z.strictObject({
    mode: z.enum(executionModes),
    runtime_workflow: z.enum(workflows).default('run_command'),
  }),
  /** JSON Schema of an object that knows its fields. */
  payload_schema: z.looseObject({ type: z.literal('object'), additionalProperties: z.literal(false) }),
  policies: z.strictObject({ required: names }).default({ required: [] }),
  approval: z.strictObject({ required: z.boolean(), approval_type: name.optional() }).default({ required: false }),
  artifacts: z.strictObject({ produces: names }).default({ produces: [] }),
  connector_operations: names.default([]),
  idempotency: z.strictObject({ required: z.boolean(), key_template: name.optional() }).default({ required: false }),
  compensation: z.strictObject({ supported: z.boolean(), command_type: name.optional() }).default({ supported: false }),
  error_classes: z
    .array(z.enum(errorClasses))
    .min(1)
    .default([...errorClasses]),
  cancellable_by: z.array(z.enum(cancellers)).min(1).default(['requester', 'admin']),
  audit: names.min(1).default(['command_created', 'policy_evaluated']),
})

/** Side effects are what the operations and artifacts say; whoever does more is refused when it is planned. */
export function loadCommandType(file: string, bytes: Uint8Array): Decision<CommandType> {
  const read = readForm(file, bytes, commandTypeForm)
  if (!read.ok) return read
  const { execution, payload_schema, policies, approval, artifacts, connector_operations, ...form } = read.value
  const payload = payloadOf(file, payload_schema)
  if (!payload.ok) return payload
  const { key_template } = form.idempotency
  const { command_type } = form.compensation
  return accept(
    defineCommandType({
      ...form,
      payload: payload.value,
      side_effects: [
        ...connector_operations.map((operation) => `connector.${operation}`),
        ...artifacts.produces.map((artifact) => `artifact.${artifact}`),
      ],
      policies: policies.required,
      approval: {
        required: approval.required || execution.mode === 'approval_gated_async',
        ...(approval.approval_type === undefined ? {} : { approval_type: approval.approval_type }),
      },
      idempotency: { required: form.idempotency.required, ...(key_template === undefined ? {} : { key_template }) },
      compensation: { supported: form.compensation.supported, ...(command_type === undefined ? {} : { command_type }) },
      execution_mode: execution.mode,
    }),
  )
}

function payloadOf(file: string, schema: object): Decision<z.ZodType> {
  try {
    // What the form has checked is an object of JSON; what it says is judged by the library.
    return accept(z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]))
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown'
    return refuse('commands.definition.invalid', `${file}: payload_schema: ${why}`, { path: 'payload_schema' })
  }
}

const approvalTypeForm = z.strictObject({
  name,
  version,
  risk_level: z.enum(riskLevels),
  required_fields: names.default([]),
  decision_values: z
    .array(z.enum(decisionValues))
    .min(2)
    .default([...decisionValues]),
  expiration: z.strictObject({ default_minutes: z.int().min(1) }),
  ui: z.strictObject({ template: name }).optional(),
  resume: z
    .strictObject({ on_approved: z.enum(resumeSteps).optional(), on_rejected: z.enum(resumeSteps).optional() })
    .default({}),
})

export function loadApprovalType(file: string, bytes: Uint8Array): Decision<ApprovalType> {
  const read = readForm(file, bytes, approvalTypeForm)
  if (!read.ok) return read
  const { risk_level, required_fields, decision_values, expiration, ui, resume, ...named } = read.value
  const { on_approved, on_rejected } = resume
  try {
    return accept(
      defineApprovalType({
        ...named,
        riskLevel: risk_level,
        requiredFields: required_fields,
        decisionValues: decision_values,
        reasonRequired: decision_values.filter((value) => value !== 'approved'),
        expirationMinutes: expiration.default_minutes,
        ...(ui === undefined ? {} : { ui }),
        resume: {
          ...(on_approved === undefined ? {} : { on_approved }),
          ...(on_rejected === undefined ? {} : { on_rejected }),
        },
      }),
    )
  } catch (error) {
    // In code a contract that cannot be kept ends the process; in a file it is told with the file.
    if (error instanceof KernelFault) return refuse('commands.definition.invalid', `${file}: ${error.message}`)
    throw error
  }
}
