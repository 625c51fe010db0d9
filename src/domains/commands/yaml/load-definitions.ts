/**
 * Reads the definitions of a YAML file: a task, schedules, a connector, a connector operation, a command type or an approval type. The
 * forms are strict and give the same objects as the define functions. JSON files work too, since JSON is YAML. Pure.
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
  connectorOperationForm,
  defineCommandType,
  defineConnectorOperation,
  defineSchedule,
  defineTask,
  type Definition,
  definitionName,
  executionModes,
  failureModes,
  ingressTypes,
} from '../catalog/definitions.ts'
import { findBrokenStep } from '../catalog/task-questions.ts'
import { checkShapes } from '../catalog/shape-checks.ts'
import { readYaml, type YamlFile } from './read-yaml.ts'

/** Everything that both the code of a project and its files can define. */
type Definitions = {
  readonly catalog: readonly Definition[]
  readonly connectors: readonly ConnectorDefinition[]
  readonly approvalTypes: readonly ApprovalType[]
}

/** Exactly one of the three. */
type OneDefinition = {
  readonly catalog?: Definition
  readonly connector?: ConnectorDefinition
  readonly approvalType?: ApprovalType
}

/** One definition and its place, such as `concord/report.yaml:2`. */
export type PlacedDefinition = OneDefinition & { readonly place: string }

type Path = readonly (string | number)[]

/** The definitions of a form, each with the path of its field. */
type Made = readonly (OneDefinition & { readonly at: Path })[]

/** Zod omits absent fields, but its types allow `undefined`. */
const exact = <T extends object>(value: T) => value as { [K in keyof T]: Exclude<T[K], undefined> }

function fail(ctx: z.RefinementCtx, message: string, ...path: (string | number)[]): never {
  ctx.addIssue({ code: 'custom', message, path })
  return z.NEVER
}

const name = z.string().min(1)
const names = z.array(name)

const taskForm = z
  .strictObject({
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
  .transform(({ task }, ctx): Made => {
    const { execution, approval, outputs, policies, connectors, lifecycle, description, ...spec } = task
    const broken = findBrokenStep(lifecycle)
    if (broken !== undefined) return fail(ctx, broken, 'task', 'lifecycle')
    const definition = defineTask({
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
      metadata: { ...(lifecycle && { lifecycle }), outputs },
    })
    return [{ catalog: definition, at: ['task'] }]
  })

const schedulesForm = z
  .strictObject({
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
  .transform(
    ({ schedules }): Made =>
      schedules.map((spec, index) => ({ catalog: defineSchedule(exact(spec)), at: ['schedules', index] })),
  )

const operationForm = connectorOperationForm.transform(
  (operation): Made => [{ catalog: defineConnectorOperation(operation), at: ['operation'] }],
)

const version = z.string().regex(/^\d+\.\d+\.\d+$/, 'three numbers, such as 1.0.0')
const workflows = ['run_command', 'run_agent', 'run_swarm'] as const

const commandTypeForm = z
  .strictObject({
    name,
    version,
    description: name,
    risk_level: z.enum(riskLevels).default('low'),
    execution: z.strictObject({
      mode: z.enum(executionModes),
      runtime_workflow: z.enum(workflows).default('run_command'),
    }),
    /** The JSON Schema of an object without additional fields. */
    payload_schema: z.looseObject({ type: z.literal('object'), additionalProperties: z.literal(false) }),
    policies: z.strictObject({ required: names }).default({ required: [] }),
    approval: z
      .strictObject({
        required: z.boolean().default(false),
        approval_type: name.optional(),
        approver: name.optional(),
        quorum: z.int().optional(),
        editor_may_approve: z.boolean().optional(),
        edits_allowed: z.boolean().optional(),
      })
      .default({ required: false }),
    artifacts: z.strictObject({ produces: names }).default({ produces: [] }),
    connector_operations: names.default([]),
    idempotency: z.strictObject({ required: z.boolean(), key_template: name.optional() }).default({ required: false }),
    compensation: z
      .strictObject({ supported: z.boolean(), command_type: name.optional() })
      .default({ supported: false }),
    on_failure: z.enum(failureModes).default('keep'),
    error_classes: z
      .array(z.enum(errorClasses))
      .min(1)
      .default([...errorClasses]),
    cancellable_by: z.array(z.enum(cancellers)).min(1).default(['requester', 'admin']),
    audit: names.min(1).default(['command_created', 'policy_evaluated']),
  })
  .transform((value, ctx): Made => {
    const { execution, payload_schema, policies, approval, artifacts, connector_operations, ...form } = value
    let payload: z.ZodType
    try {
      // The form has checked that it is JSON; the library checks that it is a JSON Schema.
      payload = z.fromJSONSchema(payload_schema)
    } catch (error) {
      return fail(ctx, error instanceof Error ? error.message : 'it is not a JSON Schema', 'payload_schema')
    }
    const type = defineCommandType({
      ...form,
      payload,
      // The plan may contain only these effects.
      side_effects: [
        ...connector_operations.map((operation) => `connector.${operation}`),
        ...artifacts.produces.map((artifact) => `artifact.${artifact}`),
      ],
      policies: policies.required,
      approval: exact({ ...approval, required: approval.required || execution.mode === 'approval_gated_async' }),
      idempotency: exact(form.idempotency),
      compensation: exact(form.compensation),
      execution_mode: execution.mode,
    })
    return [{ catalog: type, at: ['name'] }]
  })

const approvalTypeForm = z
  .strictObject({
    name,
    version,
    risk_level: z.enum(riskLevels),
    required_fields: names.default([]),
    quorum: z.int().default(1),
    editor_may_approve: z.boolean().nullable().default(null),
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
  .transform((value, ctx): Made => {
    const { risk_level, required_fields, decision_values, editor_may_approve, expiration, resume, ...form } = value
    try {
      const type = defineApprovalType({
        ...exact(form),
        riskLevel: risk_level,
        requiredFields: required_fields,
        decisionValues: decision_values,
        editorMayApprove: editor_may_approve,
        reasonRequired: decision_values.filter((decision) => decision !== 'approved'),
        expirationMinutes: expiration.default_minutes,
        resume: exact(resume),
      })
      return [{ approvalType: type, at: ['name'] }]
    } catch (error) {
      // In code an invalid approval type ends the process; in a file it is refused with its place.
      if (error instanceof KernelFault) return fail(ctx, error.message)
      throw error
    }
  })

/** The forms by the field that identifies them. */
const forms: readonly (readonly [field: string, form: z.ZodType<Made>])[] = [
  ['task', taskForm],
  ['schedules', schedulesForm],
  ['operation', operationForm],
  ['execution', commandTypeForm],
  ['expiration', approvalTypeForm],
]

export function loadDefinitions(file: string, bytes: Uint8Array): Decision<readonly PlacedDefinition[]> {
  const read = readYaml(file, bytes)
  if (!read.ok) return read
  const yaml = read.value
  const form = forms.find(([field]) => field in yaml.value)?.[1]
  if (form) {
    const made = readForm(yaml, form)
    return made.ok ? accept(made.value.map(({ at, ...one }) => ({ ...one, place: placeOf(yaml, at) }))) : made
  }
  if ('connector' in yaml.value) {
    const connector = connectorOf(yaml)
    return connector.ok ? accept([{ connector: connector.value, place: placeOf(yaml, ['connector']) }]) : connector
  }
  return refuse('commands.definition.invalid', `${file}: does not contain a definition.`, {
    path: file,
    hint: 'Begin with `task`, `schedules`, `connector` or `agent_workflow`; others have `execution`, `expiration` or `join_strategy`.',
  })
}

/** For the forms of other rooms. Undefined: the file has no such field. */
export function readYamlForm<S extends z.ZodType>(
  file: string,
  bytes: Uint8Array,
  field: string,
  form: S,
): Decision<z.infer<S> | undefined> {
  const read = readYaml(file, bytes)
  if (!read.ok) return read
  return field in read.value.value ? readForm(read.value, form) : accept(undefined)
}

/** `types` are the connector types of a project. Default: those of Concord. */
export function loadConnector(
  file: string,
  bytes: Uint8Array,
  types?: Readonly<Record<string, ConnectorType>>,
): Decision<ConnectorDefinition> {
  const read = readYaml(file, bytes)
  return read.ok ? connectorOf(read.value, types) : read
}

function connectorOf(yaml: YamlFile, types?: Readonly<Record<string, ConnectorType>>): Decision<ConnectorDefinition> {
  const read = readForm(yaml, connectorForm)
  if (!read.ok) return read
  const made = connectorOfForm(read.value.connector, types)
  return made.ok ? made : { ...made, reason: `${placeOf(yaml, ['connector'])}: ${made.reason}` }
}

/** Adds the definitions of the files to those of the code. Refuses a name that is defined twice and reports both places. */
export function mergeDefinitions(
  { catalog, connectors, approvalTypes, place }: Definitions & { readonly place: string },
  files: readonly PlacedDefinition[],
): Decision<Definitions> {
  const shaped = checkShapes(catalog)
  if (!shaped.ok) return shaped
  const places = new Map<string, string>()
  for (const definition of catalog) places.set(labelOf({ catalog: definition }), place)
  for (const connector of connectors) places.set(labelOf({ connector }), place)
  for (const approvalType of approvalTypes) places.set(labelOf({ approvalType }), place)
  for (const definition of files) {
    const label = labelOf(definition)
    const taken = places.get(label)
    if (taken !== undefined)
      return refuse('commands.definition.invalid', `${definition.place}: the ${label} is defined in ${taken} too.`, {
        path: definition.place,
        hint: 'Keep one of the two.',
        facts: { places: [taken, definition.place] },
      })
    places.set(label, definition.place)
  }
  return accept({
    catalog: [...catalog, ...files.flatMap((file) => file.catalog ?? [])],
    connectors: [...connectors, ...files.flatMap((file) => file.connector ?? [])],
    approvalTypes: [...approvalTypes, ...files.flatMap((file) => file.approvalType ?? [])],
  })
}

function labelOf({ catalog, connector, approvalType }: OneDefinition): string {
  if (catalog) return `${catalog.kind.replaceAll('_', ' ')} ${quote(definitionName(catalog))}`
  return connector ? `connector ${quote(connector.name)}` : `approval type ${quote(approvalType?.name ?? '')}`
}

function placeOf({ file, lineOf }: YamlFile, path: Path): string {
  return `${file}:${lineOf(path)}`
}

function readForm<S extends z.ZodType>(yaml: YamlFile, form: S): Decision<z.infer<S>> {
  const parsed = form.safeParse(yaml.value)
  if (parsed.success) return accept(parsed.data)
  const { issues } = parsed.error
  // A mistyped name of a required field is also a missing field. The name that was written says more.
  const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0]
  const path = (issue?.path ?? []).map((step) => (typeof step === 'number' ? step : String(step)))
  const shown = formatPath(path)
  if (issue?.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    const keyPath = [...path, key]
    return refuse(
      'unknown_field',
      `${placeOf(yaml, keyPath)}: ${shown || 'the top level'} has no field ${quote(key)}.`,
      {
        path: formatPath(keyPath),
        facts: { file: yaml.file, line: yaml.lineOf(keyPath) },
        ...didYouMean(key, fieldsAt(form, path)),
      },
    )
  }
  const problem = `${shown === '' ? '' : `${shown}: `}${issue?.message ?? 'is invalid'}`
  return refuse('commands.definition.invalid', `${placeOf(yaml, path)}: ${problem}`, {
    ...(shown !== '' && { path: shown }),
    facts: { file: yaml.file, line: yaml.lineOf(path) },
  })
}

/** The field names of the form at a path, for the hint. */
export function fieldsAt(form: z.ZodType, path: Path): readonly string[] {
  let at: unknown = form instanceof z.ZodPipe ? form.in : form
  for (const step of path) {
    at = withoutDefault(at)
    if (at instanceof z.ZodArray) at = at.element
    else if (at instanceof z.ZodObject) at = (at.shape as Record<string, unknown>)[String(step)]
  }
  at = withoutDefault(at)
  return at instanceof z.ZodObject ? Object.keys(at.shape) : []
}

function withoutDefault(at: unknown): unknown {
  return at instanceof z.ZodDefault || at instanceof z.ZodPrefault ? at.unwrap() : at
}
