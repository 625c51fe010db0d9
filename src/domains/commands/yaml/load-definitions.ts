/**
 * Reads the definitions of a YAML file: a task, schedules, a connector, an operation of one, a command type or an approval
 * type. Strict, and into the same objects as their code forms. JSON is YAML, so the same shape in JSON is read too. Pure.
 */
import { z } from 'zod'
import { type ApprovalType, decisionValues, defineApprovalType, resumeSteps } from '#domains/approvals'
import { type ConnectorDefinition, connectorForm, connectorOfForm, type ConnectorType } from '#domains/connectors'
import { errorClasses } from '#kernel/error-classes'
import { KernelFault } from '#kernel/errors'
import { formatPath } from '#kernel/json-value'
import { didYouMean } from '#kernel/nearest'
import { riskLevels } from '#kernel/policy/policy'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { misfirePolicies, overlapPolicies } from '#kernel/schedule'
import {
  cancellers,
  type CommandType,
  defineCommandType,
  defineConnectorOperation,
  defineSchedule,
  defineTask,
  type Definition,
  definitionName,
  executionModes,
  ingressTypes,
  type ScheduleSpec,
  type TaskDefinition,
} from '../catalog/definitions.ts'
import { findBrokenStep } from '../catalog/task-questions.ts'
import { checkShapes } from '../catalog/shape-checks.ts'
import { readYaml, type YamlFile } from './read-yaml.ts'

/** What the code of a project and its files can both define. */
export type Definitions = {
  readonly catalog: readonly Definition[]
  readonly connectors: readonly ConnectorDefinition[]
  readonly approvalTypes: readonly ApprovalType[]
}

/** One definition and where it stands, such as `concord/report.yaml:2`. */
export type PlacedDefinition = { readonly place: string } & (
  | { readonly kind: 'catalog'; readonly value: Definition }
  | { readonly kind: 'connector'; readonly value: ConnectorDefinition }
  | { readonly kind: 'approval_type'; readonly value: ApprovalType }
)

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

/** Reads one file; what it defines follows from its fields. */
export function loadDefinitions(file: string, bytes: Uint8Array): Decision<readonly PlacedDefinition[]> {
  const read = readYaml(file, bytes)
  if (!read.ok) return read
  const yaml = read.value
  const { value } = yaml
  const inCatalog = (made: Decision<Definition>, field: string) =>
    placed(made, (definition) => ({ kind: 'catalog', value: definition, place: placeOf(yaml, [field]) }))
  if ('task' in value) return inCatalog(taskOf(yaml), 'task')
  if ('schedules' in value) return schedulesOf(yaml)
  if ('operation' in value) return inCatalog(operationOf(yaml), 'operation')
  if ('connector' in value)
    return placed(connectorOf(yaml), (made) => ({
      kind: 'connector',
      value: made,
      place: placeOf(yaml, ['connector']),
    }))
  if ('execution' in value) return inCatalog(commandTypeOf(yaml), 'name')
  if ('expiration' in value)
    return placed(approvalTypeOf(yaml), (made) => ({
      kind: 'approval_type',
      value: made,
      place: placeOf(yaml, ['name']),
    }))
  return refuse('commands.definition.invalid', `${file}: defines nothing that Concord knows`, {
    path: file,
    hint: 'Begin with `task`, `schedules` or `connector`; a command type has `execution`, an approval type `expiration`.',
  })
}

/** The types are those of Concord unless a project has more. */
export function loadConnector(
  file: string,
  bytes: Uint8Array,
  types?: Readonly<Record<string, ConnectorType>>,
): Decision<ConnectorDefinition> {
  const read = readYaml(file, bytes)
  return read.ok ? connectorOf(read.value, types) : read
}

/** Adds the definitions of the files to those of the code; a name that is taken is refused with both places. */
export function mergeDefinitions(
  code: Definitions & { readonly place: string },
  files: readonly PlacedDefinition[],
): Decision<Definitions> {
  const shaped = checkShapes(code.catalog)
  if (!shaped.ok) return shaped
  const places = new Map<string, string>()
  for (const definition of code.catalog) places.set(labelOf('catalog', definition), code.place)
  for (const connector of code.connectors) places.set(labelOf('connector', connector), code.place)
  for (const type of code.approvalTypes) places.set(labelOf('approval_type', type), code.place)
  for (const definition of files) {
    const label = labelOf(definition.kind, definition.value)
    const taken = places.get(label)
    if (taken !== undefined)
      return refuse('commands.definition.invalid', `${definition.place}: the ${label} is defined in ${taken} too`, {
        path: definition.place,
        hint: 'Keep one of the two.',
        facts: { places: [taken, definition.place] },
      })
    places.set(label, definition.place)
  }
  return accept({
    catalog: [...code.catalog, ...files.flatMap((each) => (each.kind === 'catalog' ? [each.value] : []))],
    connectors: [...code.connectors, ...files.flatMap((each) => (each.kind === 'connector' ? [each.value] : []))],
    approvalTypes: [
      ...code.approvalTypes,
      ...files.flatMap((each) => (each.kind === 'approval_type' ? [each.value] : [])),
    ],
  })
}

function labelOf(kind: PlacedDefinition['kind'], value: Definition | { readonly name: string }): string {
  const own = 'kind' in value && kind === 'catalog' ? value : undefined
  const [what, called] = own ? [own.kind, definitionName(own)] : [kind, (value as { readonly name: string }).name]
  return `${what.replaceAll('_', ' ')} ${quote(called)}`
}

function placeOf({ file, lineOf }: YamlFile, steps: readonly (string | number)[]): string {
  return `${file}:${lineOf(steps)}`
}

function placed<T>(made: Decision<T>, place: (value: T) => PlacedDefinition): Decision<readonly PlacedDefinition[]> {
  return made.ok ? accept([place(made.value)]) : made
}

function refuseField(yaml: YamlFile, steps: readonly (string | number)[], reason: string) {
  const path = formatPath(steps)
  return refuse('commands.definition.invalid', `${placeOf(yaml, steps)}: ${reason}`, {
    ...(path === '' ? {} : { path }),
    facts: { file: yaml.file, line: yaml.lineOf(steps) },
  })
}

function taskOf(yaml: YamlFile): Decision<TaskDefinition> {
  const read = readForm(yaml, taskForm)
  if (!read.ok) return read
  const { execution, approval, outputs, policies, connectors, lifecycle, description, ...spec } = read.value.task
  const broken = findBrokenStep(lifecycle)
  if (broken !== undefined) return refuseField(yaml, ['task', 'lifecycle'], broken)
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

function schedulesOf(yaml: YamlFile): Decision<readonly PlacedDefinition[]> {
  const read = readForm(yaml, schedulesForm)
  if (!read.ok) return read
  // What was left out is absent, not undefined.
  const specs = read.value.schedules.map((spec) => Object.fromEntries(Object.entries(spec)) as ScheduleSpec)
  return accept(
    specs.map((spec, index) => ({
      kind: 'catalog',
      value: defineSchedule(spec),
      place: placeOf(yaml, ['schedules', index]),
    })),
  )
}

function operationOf(yaml: YamlFile): Decision<Definition> {
  const read = readForm(yaml, operationForm)
  return read.ok ? accept(defineConnectorOperation(read.value)) : read
}

function connectorOf(yaml: YamlFile, types?: Readonly<Record<string, ConnectorType>>): Decision<ConnectorDefinition> {
  const read = readForm(yaml, connectorForm)
  if (!read.ok) return read
  const made = connectorOfForm(read.value.connector, types)
  return made.ok ? made : { ...made, reason: `${placeOf(yaml, ['connector'])}: ${made.reason}` }
}

/** Side effects are what the operations and artifacts say; a plan with more is refused. */
function commandTypeOf(yaml: YamlFile): Decision<CommandType> {
  const read = readForm(yaml, commandTypeForm)
  if (!read.ok) return read
  const { execution, payload_schema, policies, approval, artifacts, connector_operations, ...form } = read.value
  const payload = payloadOf(yaml, payload_schema)
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

function payloadOf(yaml: YamlFile, schema: object): Decision<z.ZodType> {
  try {
    // What the form has checked is an object of JSON; what it says is judged by the library.
    return accept(z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]))
  } catch (error) {
    const why = error instanceof Error ? error.message : 'unknown'
    return refuseField(yaml, ['payload_schema'], `payload_schema: ${why}`)
  }
}

function approvalTypeOf(yaml: YamlFile): Decision<ApprovalType> {
  const read = readForm(yaml, approvalTypeForm)
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
    // In code a contract that cannot be kept ends the process; in a file it is refused with its place.
    if (error instanceof KernelFault) return refuseField(yaml, [], error.message)
    throw error
  }
}

function readForm<S extends z.ZodType>(yaml: YamlFile, form: S): Decision<z.infer<S>> {
  const parsed = form.safeParse(yaml.value)
  if (parsed.success) return accept(parsed.data)
  const [issue] = parsed.error.issues
  const steps = (issue?.path ?? []).map((step) => (typeof step === 'number' ? step : String(step)))
  if (issue?.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    const place = [...steps, key]
    const at = formatPath(steps) || 'the top'
    return refuse('unknown_field', `${placeOf(yaml, place)}: there is no field ${quote(key)} at ${at}`, {
      path: formatPath(place),
      facts: { file: yaml.file, line: yaml.lineOf(place) },
      ...didYouMean(key, siblings(form, steps)),
    })
  }
  return refuseField(yaml, steps, `${formatPath(steps)}: ${issue?.message ?? 'does not fit'}`)
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
