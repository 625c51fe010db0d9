/** Whether the declaration of one operation fits together. Pure. */
import { z } from 'zod'
import { dataClasses } from '#kernel/data-class'
import { parseKeyTemplate } from '#kernel/key-template'
import type { ConnectorDefinition, ConnectorOperationContract, Followup } from './define-connector.ts'
import { placesOf } from './fill-template.ts'
import { type ConnectorFinding, finding } from './finding.ts'

const NAME = /^[a-z][a-z0-9_]{0,62}$/
export const TIMEOUT_MAX_MS = 600_000
/** A result is stored on its effect, whose limit this is. */
const OUTPUT_MAX_BYTES = 1_048_576

export function isConnectorName(text: string): boolean {
  return NAME.test(text)
}

export function checkOperation(
  definition: ConnectorDefinition,
  operation: ConnectorOperationContract,
): readonly ConnectorFinding[] {
  const subject = `${definition.name}.${operation.name}`
  const findings: ConnectorFinding[] = []
  const flaw = (rule: string, message: string) => void findings.push(finding(rule, subject, message))

  if (!NAME.test(operation.name)) flaw('name', 'its name is not lower-case letters, digits and _')
  if (operation.description.trim() === '') flaw('description', 'it does not say what it does')
  if (!isWithin(operation.timeout_ms, TIMEOUT_MAX_MS)) flaw('timeout', 'timeout_ms is not between 1 and 600000')
  if (!isWithin(operation.output_max_bytes, OUTPUT_MAX_BYTES))
    flaw('size', 'output_max_bytes is not between 1 and 1048576')
  if (!isWithin(operation.attempts_max, 100)) flaw('attempts', 'attempts_max is not between 1 and 100')
  checkShapes(operation, flaw)
  checkKey(operation, flaw)
  checkFollowups(definition, operation, flaw)
  checkScopes(definition, operation, flaw)
  checkClasses(definition, operation, flaw)
  return findings
}

type Flaw = (rule: string, message: string) => void

function isWithin(value: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= 1 && value <= max
}

/** An input that takes fields nobody declared would carry data that nobody classed. */
function checkShapes({ input, output }: ConnectorOperationContract, flaw: Flaw): void {
  const shape = schemaOf(input)
  if (shape === undefined) flaw('input_schema', 'its input schema is no schema')
  else if (shape['type'] !== 'object') flaw('input_schema', 'its input is not an object')
  else if (shape['additionalProperties'] !== false) flaw('input_schema', 'its input takes fields that are not declared')
  if (schemaOf(output) === undefined) flaw('output_schema', 'its output schema is no schema')
}

function schemaOf(schema: z.ZodType): Readonly<Record<string, unknown>> | undefined {
  try {
    return z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' })
  } catch {
    return undefined
  }
}

function checkKey({ side_effect_class: kind, idempotency, input }: ConnectorOperationContract, flaw: Flaw): void {
  if (kind === 'keyed' && !idempotency.required) flaw('key', 'is keyed and does not require a key')
  if (kind === 'opaque' && idempotency.required) flaw('key', 'requires a key that its provider does not take')
  if (idempotency.key_template === null) return
  const parsed = parseKeyTemplate(idempotency.key_template)
  if (!parsed.ok) return flaw('key_template', parsed.reason)
  const fields = Object.keys((schemaOf(input)?.['properties'] as object | undefined) ?? {})
  for (const part of parsed.value.parts) {
    const [name = ''] = typeof part === 'string' ? [] : part.field.split('.')
    if (typeof part !== 'string' && !fields.includes(name))
      flaw('key_template', `its key names ${part.field}, which its input does not have`)
  }
}

function checkFollowups(
  { operations }: ConnectorDefinition,
  { side_effect_class: kind, compensation, read_back }: ConnectorOperationContract,
  flaw: Flaw,
): void {
  const other = (followup: Followup, rule: string, mayName: readonly string[]) => {
    const named = operations.find(({ name }) => name === followup.operation)
    if (!named) flaw(rule, `names ${followup.operation}, which is none of its operations`)
    const strange = placesOf(followup.input).filter((place) => !mayName.includes(place.split('.')[0] ?? ''))
    for (const place of strange) flaw(rule, `its input names {${place}}, which is not known then`)
    return named
  }
  if (kind === 'queryable' && !read_back) flaw('read_back', 'is queryable and says no read_back')
  // Asked when no answer came: there is no output yet.
  const asked = read_back && other(read_back, 'read_back', ['input', 'key'])
  if (asked && asked.side_effect_class !== 'none')
    flaw('read_back', 'is read back by an operation that changes something')
  if (compensation && kind === 'none') flaw('compensation', 'changes nothing and says how to undo it')
  const undone = compensation && other(compensation, 'compensation', ['input', 'output', 'key'])
  if (undone && undone.side_effect_class === 'none')
    flaw('compensation', 'is undone by an operation that changes nothing')
}

function checkScopes(definition: ConnectorDefinition, operation: ConnectorOperationContract, flaw: Flaw): void {
  const { read_scopes, write_scopes } = definition
  for (const scope of operation.scopes) {
    if (!read_scopes.includes(scope) && !write_scopes.includes(scope))
      flaw('scope', `needs the scope ${scope}, which its connector does not have`)
    else if (operation.side_effect_class === 'none' && !read_scopes.includes(scope))
      flaw('scope', `changes nothing and needs the write scope ${scope}`)
  }
}

function checkClasses(definition: ConnectorDefinition, operation: ConnectorOperationContract, flaw: Flaw): void {
  const max = dataClasses.indexOf(definition.data_class_max)
  for (const [field, dataClass] of Object.entries(operation.input_classes)) {
    // A secret travels as a reference, so its class says nothing about what is sent.
    if (dataClass !== 'secret' && dataClasses.indexOf(dataClass) > max)
      flaw(
        'data_class',
        `takes ${dataClass} data in ${field}; its connector carries ${definition.data_class_max} at most`,
      )
  }
}
