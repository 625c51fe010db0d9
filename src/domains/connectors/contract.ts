/** The shapes that cross the edge of this room: what people and machines see of connectors and their calls. No reference to a secret among them. */
import { z } from 'zod'
import { dataClasses } from '#kernel/data-class'
import { idView, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { riskLevels } from '#kernel/policy/policy'
import { authModes, type ConnectorDefinition, sideEffectClasses } from './define-connector.ts'
import type { StoredInvocation } from './invocation.ts'
import { toolView, toolsOf } from './tool.ts'

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

export const connectorDetailView = connectorView
  .extend({
    settings: z.record(z.string(), z.unknown()),
    operations: z.array(
      z
        .object({
          ...toolView.shape,
          side_effect_class: z.enum(sideEffectClasses),
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

export function toConnectorDetailView(
  definition: ConnectorDefinition,
  isOpen: boolean,
): z.infer<typeof connectorDetailView> {
  const tools = toolsOf(definition)
  return {
    ...toConnectorView(definition, isOpen),
    settings: { ...definition.settings },
    operations: definition.operations.flatMap((operation, at) => {
      const tool = tools[at]
      return tool === undefined
        ? []
        : [
            {
              ...tool,
              side_effect_class: operation.side_effect_class,
              idempotency_required: operation.idempotency.required,
              idempotency_key_template: operation.idempotency.key_template,
              compensation: operation.compensation?.operation ?? null,
              read_back: operation.read_back?.operation ?? null,
              scopes: [...operation.scopes],
              data_classes: { ...operation.input_classes },
              timeout_ms: operation.timeout_ms,
            },
          ]
    }),
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
