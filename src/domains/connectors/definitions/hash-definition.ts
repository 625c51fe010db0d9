/** One hash per definition, whoever wrote its keys in which order; and what differs between two of them, in words. */
import { createHash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import { formatPath, isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'

export function hashDefinition(definition: JsonObject): string {
  return `sha256:${createHash('sha256').update(canonicalJson(definition)).digest('hex')}`
}

export type DefinitionChange = {
  /** `input_schema.properties.path.type`. */
  readonly path: string
  /** Null: it was not there, or is not there any more. JSON null is the text `null`. */
  readonly was: string | null
  readonly is: string | null
}

/** The smallest parts that differ, in the order of their paths. All of them and all of each: whoever approves must see what he approves. */
export function diffDefinitions(was: JsonObject | null, is: JsonObject): readonly DefinitionChange[] {
  return differences(was ?? {}, is, [])
}

function differences(
  was: JsonValue | undefined,
  is: JsonValue | undefined,
  path: readonly string[],
): readonly DefinitionChange[] {
  if (isNamed(was) && isNamed(is)) {
    const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].toSorted()
    return names.flatMap((name) => differences(own(was, name), own(is, name), [...path, name]))
  }
  const [before, after] = [textOf(was), textOf(is)]
  if (before === after) return []
  return [{ path: formatPath(path) || 'definition', was: before, is: after }]
}

function own(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined
}

function isNamed(value: JsonValue | undefined): value is JsonObject {
  return value !== undefined && value !== null && isJsonObject(value)
}

function textOf(value: JsonValue | undefined): string | null {
  return value === undefined ? null : canonicalJson(value)
}

const LINE_CHARS_MAX = 90
const LINES_MAX = 2

/** Short enough for the error of a call; the whole of it is in the list of definitions. */
export function sayChanges(changes: readonly DefinitionChange[]): string {
  const lines = changes.slice(0, LINES_MAX).map(({ path, was, is }) => {
    if (was === null) return `${path} is new: ${short(is)}`
    return is === null ? `${path} is gone` : `${path} was ${short(was)} and is ${short(is)}`
  })
  const more = changes.length - lines.length
  return more > 0 ? `${lines.join('; ')}; and ${more} more` : lines.join('; ')
}

function short(text: string | null): string {
  const plain = text ?? ''
  return plain.length <= LINE_CHARS_MAX ? plain : `${plain.slice(0, LINE_CHARS_MAX)}…`
}
