/** Every operation of a connector is a tool: the metadata that people, agents and registries go by. Pure. */
import { z } from 'zod'
import { riskLevels } from '#kernel/policy/policy'
import type { ConnectorDefinition, ConnectorOperationContract } from './define-connector.ts'

const toolExecutionModes = ['sync', 'async', 'approval_gated_async'] as const
type ToolExecutionMode = (typeof toolExecutionModes)[number]

const schema = z.record(z.string(), z.unknown())

export const toolView = z
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
export type Tool = z.infer<typeof toolView>

export function toolsOf(definition: ConnectorDefinition): readonly Tool[] {
  return definition.operations.map((operation) => ({
    name: operation.name,
    description: operation.description,
    input_schema: z.toJSONSchema(operation.input, { io: 'input', unrepresentable: 'any' }),
    output_schema: z.toJSONSchema(operation.output, { unrepresentable: 'any' }),
    execution_mode: modeOf(operation),
    risk_level: operation.risk_level,
    requires_approval: operation.approval_required,
    connector: definition.name,
    function_name: `connector.${definition.name}.${operation.name}`,
  }))
}

/** Whatever leaves the organisation waits for an answer of unknown length: no call is made inside a request. */
function modeOf({ approval_required }: ConnectorOperationContract): ToolExecutionMode {
  return approval_required ? 'approval_gated_async' : 'async'
}
