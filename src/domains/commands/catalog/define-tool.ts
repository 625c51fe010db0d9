/** Makes a task of an operation of a connector, for agents and people: command type, function, policy and effect. */
import { z } from 'zod'
import type { ConnectorDefinition } from '#domains/connectors'
import type { JsonObject } from '#kernel/json-value'
import { makeOperation } from '#kernel/step'
import { type CommandDefinition, defineCommand } from './define-command.ts'
import type { CommandType, TaskSpec } from './definitions.ts'
import { checkFields } from './place.ts'

type ToolSpec = {
  readonly connector: ConnectorDefinition
  readonly operation: string
  /** The name that agents call it by. Default: that of the operation. */
  readonly name?: string
  readonly description?: string
  /** Default: that of the operation. A server that describes its own tools needs it, since its schema is known only after its approval. */
  readonly input?: z.ZodObject
  /** Rules that decide in addition to `permission` and `data_safety`. Default: access to the connector, and an approval above medium risk. */
  readonly policy?: readonly string[]
  readonly approval?: Partial<CommandType['approval']>
  /** Overrides of the derived task. */
  readonly task?: Partial<Omit<TaskSpec, 'command_type' | 'function_name'>>
}

const FIELDS: readonly (keyof ToolSpec)[] = [
  ...(['connector', 'operation', 'name', 'description', 'input', 'policy', 'approval', 'task'] as const),
]
const POLICY = ['connector_scope', 'risk']

/** The input, its data classes, the risk and the approval are those of the operation. */
export function defineTool(spec: ToolSpec): CommandDefinition {
  const { connector, operation, name = operation, policy = POLICY, approval, task } = spec
  checkFields(name, spec, FIELDS)
  const contract = connector.operations.find((each) => each.name === operation)
  if (!contract) throw new TypeError(`The connector ${connector.name} has no operation ${operation}`)
  const input = spec.input ?? (connector.pinned ? undefined : contract.input)
  if (!input) throw new TypeError(`The tool ${name} needs its input: ${connector.name} describes its operations itself`)
  if (!(input instanceof z.ZodObject))
    throw new TypeError(`The input of ${connector.name}.${operation} is not an object, so it cannot be a tool`)
  const call = makeOperation<JsonObject, unknown>(`connector.${connector.name}.${operation}`, connector)
  return defineCommand(name, {
    input,
    description: spec.description ?? contract.description,
    policy,
    uses: [call],
    // The payload has passed the schema.
    steps: (payload) => [call(payload as JsonObject)],
    ...(approval && { approval }),
    type: { fields: contract.input_classes },
    task: { ingress_types: ['user_request', 'agent_action'], ...task },
  })
}
