/** A tool as its server describes it: what is pinned, and what becomes the contract of the operation. Pure. */
import { z } from 'zod'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { ConnectorFailure } from '../connector.ts'
import type { ConnectorOperationContract } from '../define-connector.ts'

export type SaidTool = {
  readonly name: string
  readonly description?: string | undefined
  readonly inputSchema: unknown
  readonly outputSchema?: unknown
}

const DEFINITION_CHARS_MAX = 65_536

/** Name, description and schemas: everything that decides what a call means to those who make it. */
export function definitionOf({ name, description, inputSchema, outputSchema }: SaidTool): JsonObject {
  const said = { name, description: description ?? '', input_schema: inputSchema, output_schema: outputSchema ?? null }
  const text = JSON.stringify(said)
  // Nobody reads more than that before approving it.
  if (text.length > DEFINITION_CHARS_MAX)
    throw new ConnectorFailure(
      'permission_denied',
      `the server says more than ${DEFINITION_CHARS_MAX} characters about a tool`,
      'no',
    )
  // It came off the wire as JSON; this drops what only code can hold.
  return JSON.parse(text) as JsonObject
}

const content = z.array(z.looseObject({ type: z.string() }))

/** What every tool gives back; `structured` has a shape only where the server promises one. */
export const mcpOutput = z.object({ content, structured: z.unknown() })

/** Takes the approved texts and schemas; the terms stay those of the mount. */
export function contractOf(
  operation: ConnectorOperationContract,
  approved: JsonObject,
): Decision<ConnectorOperationContract> {
  const { description, input_schema, output_schema } = approved
  try {
    const input = shapeOf(input_schema, { type: 'object', additionalProperties: false })
    const shape = z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' })
    if (shape.type !== 'object' || shape.additionalProperties !== false) throw new TypeError('it is no object')
    const structured = output_schema === null ? z.unknown() : shapeOf(output_schema, {})
    return accept({
      ...operation,
      description: typeof description === 'string' && description.trim() !== '' ? description : operation.description,
      input,
      output: z.object({ content, structured }),
    })
  } catch (error) {
    const why = error instanceof Error ? error.message.slice(0, 200) : 'it is no schema'
    return refuse('connectors.definition.unreadable', `a schema of ${operation.name} cannot be read: ${why}`)
  }
}

function shapeOf(schema: JsonValue | undefined, more: JsonObject): z.ZodType {
  if (schema === undefined || schema === null || !isJsonObject(schema)) throw new TypeError('it is no object')
  return z.fromJSONSchema({ ...withoutPatterns(schema), ...more })
}

/** Keywords whose value is a map from names that people chose: a field may well be called `pattern`. */
const maps: readonly string[] = ['properties', '$defs', 'definitions', 'dependentSchemas']

/** A regular expression of a stranger is not run here: one of the wrong kind never ends. The server checks its own. */
function withoutPatterns(schema: JsonValue): JsonObject {
  const strip = (value: JsonValue): JsonValue => {
    if (Array.isArray(value)) return (value as readonly JsonValue[]).map(strip)
    if (value === null || typeof value !== 'object') return value
    const entries = Object.entries(value as JsonObject).filter(
      ([name]) => name !== 'pattern' && name !== 'patternProperties',
    )
    return Object.fromEntries(entries.map(([name, part]) => [name, maps.includes(name) ? stripMap(part) : strip(part)]))
  }
  const stripMap = (map: JsonValue): JsonValue =>
    map !== null && isJsonObject(map)
      ? Object.fromEntries(Object.entries(map).map(([name, part]) => [name, strip(part)]))
      : map
  // An object is stripped into an object.
  return strip(schema) as JsonObject
}
