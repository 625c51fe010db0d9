/** The API shapes of this room: connectors, their operations as tools, their calls and their definitions. None shows a reference to a secret. */
import { z } from 'zod'
import { idView, timeView } from '#contract'
import { dataClasses } from '#kernel/data-class'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { riskLevels } from '#kernel/policy/policy'
import {
  authModes,
  type ConnectorDefinition,
  type ConnectorOperationContract,
  outputTrusts,
  sideEffectClasses,
} from './connector.ts'
import { diffDefinitions, type StoredDefinition } from './definitions.ts'
import type { StoredInvocation } from './invocation.ts'

export const connectorView = z
  .object({
    connector_id: z.string().meta({ example: 'hotel_booking' }),
    connector_type: z.string().meta({ example: 'http' }),
    name: z.string(),
    description: z.string(),
    capabilities: z.array(z.string()).meta({ example: ['book_hotel'] }),
    auth: z.object({ mode: z.enum(authModes), scopes: z.array(z.string()) }),
    read_scopes: z.array(z.string()),
    write_scopes: z.array(z.string()),
    rate_limits: z.object({ requests_per_minute: z.int().nullable(), concurrent: z.int().nullable() }),
    risk_level: z.enum(riskLevels),
    data_class_max: z.enum(dataClasses),
    is_open: z.boolean().meta({ description: 'False while the process that answers sends nobody there.' }),
  })
  .meta({ id: 'Connector', description: 'A door to a system outside.' })

const toolExecutionModes = ['sync', 'async', 'approval_gated_async'] as const
const schema = z.record(z.string(), z.unknown())

const toolView = z
  .object({
    name: z.string().meta({ example: 'book_hotel' }),
    description: z.string(),
    input_schema: schema,
    output_schema: schema,
    execution_mode: z.enum(toolExecutionModes),
    risk_level: z.enum(riskLevels),
    requires_approval: z.boolean(),
    connector: z.string().meta({ example: 'hotel_booking' }),
    function_name: z
      .string()
      .meta({ example: 'connector.hotel_booking.book_hotel', description: 'The effect it becomes.' }),
  })
  .meta({ id: 'Tool', description: 'A governed capability: checked, decided by policy, recorded.' })
export const connectorDetailView = connectorView
  .extend({
    settings: z.record(z.string(), z.unknown()),
    operations: z.array(
      z
        .object({
          ...toolView.shape,
          side_effect_class: z.enum(sideEffectClasses),
          output_trust: z.enum(outputTrusts),
          idempotency_required: z.boolean(),
          idempotency_key_template: z.string().nullable(),
          compensation: z.string().nullable(),
          read_back: z.string().nullable(),
          scopes: z.array(z.string()),
          data_classes: z.record(z.string(), z.enum(dataClasses)),
          timeout_ms: z.int(),
        })
        .meta({ id: 'ConnectorOperation' }),
    ),
  })
  .meta({ id: 'ConnectorDetail', description: 'A connector with the contract of every operation.' })

export const invocationView = z
  .object({
    connector_invocation_id: idView('connector_invocation'),
    connector_name: z.string(),
    operation: z.string(),
    status: z.enum(['started', 'succeeded', 'failed']),
    side_effect: z.boolean(),
    command_id: z.string(),
    effect_id: z.string().nullable(),
    idempotency_key: z.string().nullable(),
    attempt: z.int().nullable(),
    request_payload: z.record(z.string(), z.unknown()).meta({ description: 'Without personal data and secrets.' }),
    response_payload: z.unknown().meta({ description: 'The answer where it is short, else its size and hash.' }),
    error: z.string().nullable(),
    error_class: z.string().nullable(),
    latency_ms: z.int().nullable(),
    trace_id: z.string().nullable(),
    created_at: timeView('When it was begun.'),
    completed_at: timeView('When it ended.').nullable(),
  })
  .meta({ id: 'ConnectorInvocation', description: 'One call to a system outside.' })

export function toConnectorView(definition: ConnectorDefinition, isOpen: boolean): z.infer<typeof connectorView> {
  const { connector_id, connector_type, name, description, auth, rate_limits, risk_level, data_class_max } = definition
  return {
    connector_id,
    connector_type,
    name,
    description,
    capabilities: definition.operations.map((operation) => operation.name),
    auth: { mode: auth.mode, scopes: [...auth.scopes] },
    read_scopes: [...definition.read_scopes],
    write_scopes: [...definition.write_scopes],
    rate_limits: { ...rate_limits },
    risk_level,
    data_class_max,
    is_open: isOpen,
  }
}

/** Every operation of a connector is a tool, described for people, agents and registries. */
export function toolsOf(definition: ConnectorDefinition): readonly z.infer<typeof toolView>[] {
  return definition.operations.map((operation) => toolOf(definition.name, operation))
}

function toolOf(connector: string, operation: ConnectorOperationContract): z.infer<typeof toolView> {
  return {
    name: operation.name,
    description: operation.description,
    input_schema: z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' }),
    output_schema: z.toJSONSchema(operation.output, { unrepresentable: 'any' }),
    // A provider may take any time to answer: no call is made inside a request.
    execution_mode: operation.approval_required ? 'approval_gated_async' : 'async',
    risk_level: operation.risk_level,
    requires_approval: operation.approval_required,
    connector,
    function_name: `connector.${connector}.${operation.name}`,
  }
}

export function toConnectorDetailView(
  definition: ConnectorDefinition,
  isOpen: boolean,
): z.infer<typeof connectorDetailView> {
  return {
    ...toConnectorView(definition, isOpen),
    settings: { ...definition.settings },
    operations: definition.operations.map((operation) => ({
      ...toolOf(definition.name, operation),
      side_effect_class: operation.side_effect_class,
      output_trust: operation.output_trust,
      idempotency_required: operation.idempotency.required,
      idempotency_key_template: operation.idempotency.key_template,
      compensation: operation.compensation?.operation ?? null,
      read_back: operation.read_back?.operation ?? null,
      scopes: [...operation.scopes],
      data_classes: { ...operation.input_classes },
      timeout_ms: operation.timeout_ms,
    })),
  }
}

export function toInvocationView(row: StoredInvocation): z.infer<typeof invocationView> {
  const {
    connector_invocation_id: id,
    command_id,
    domain_effect_id,
    created_at,
    completed_at,
    workspace_id: _,
    ...rest
  } = row
  return {
    ...rest,
    connector_invocation_id: encodeId('connector_invocation', id),
    command_id: encodeId('command', command_id),
    effect_id: domain_effect_id === null ? null : encodeId('effect', domain_effect_id),
    request_payload: { ...row.request_payload },
    created_at: formatInstant(created_at),
    completed_at: completed_at === null ? null : formatInstant(completed_at),
  }
}

const text = z.string().nullable()

export const definitionView = z
  .object({
    operation: z.string().meta({ example: 'search' }),
    status: z.enum(['approved', 'quarantined']).meta({ description: 'Quarantined: calls are refused.' }),
    seen_hash: z.string().meta({ example: 'sha256:9f86…', description: 'What an approval names.' }),
    seen_definition: z.record(z.string(), z.unknown()),
    seen_at: z.string().meta({ format: 'date-time' }),
    approved_hash: text,
    approved_by: text,
    approved_at: text,
    changes: z
      .array(z.object({ path: z.string(), was: text, is: text }))
      .meta({ description: 'From what was approved to what was seen; all of it where nothing was approved.' }),
  })
  .meta({ id: 'ConnectorOperationDefinition', description: 'What a provider says about one of its operations.' })

export function toDefinitionView(row: StoredDefinition): z.infer<typeof definitionView> {
  return {
    operation: row.operation,
    status: row.seen_hash === row.approved_hash ? 'approved' : 'quarantined',
    seen_hash: row.seen_hash,
    seen_definition: { ...row.seen_definition },
    seen_at: formatInstant(row.seen_at),
    approved_hash: row.approved_hash,
    approved_by: row.approved_by === null ? null : encodeId('user', row.approved_by),
    approved_at: row.approved_at === null ? null : formatInstant(row.approved_at),
    changes: diffDefinitions(row.approved_definition, row.seen_definition).map((change) => ({ ...change })),
  }
}
