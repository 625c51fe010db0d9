/** Removes secrets from JSON, by the shape of a text and by the name of its field. */
import type { JsonObject, JsonValue } from '../json-value.ts'
import { REDACTED, redactData } from '../secret-shapes.ts'
import {
  columnsFor,
  isNamedSecret,
  type ListPlace,
  nameOfField,
  nameOfItem,
  parseJson,
  TEXT_DEPTH_MAX,
} from './field-name.ts'

const OUTSIDE: ListPlace = { secretName: '', isInList: false, columns: [] }

/** Returns the value without secrets, also in names of fields; parts without secrets are not copied. */
export function redactValue(value: JsonValue): JsonValue {
  return redactAt(value, OUTSIDE, 0)
}

function redactAt(value: JsonValue, place: ListPlace, depth: number): JsonValue {
  if (isNamedSecret(place.secretName, value)) return REDACTED
  if (typeof value === 'string') return redactText(value, depth)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    const list = value as readonly JsonValue[]
    const items = list.map((item, at) =>
      redactAt(item, { ...place, secretName: nameOfItem(list, at, place), isInList: true }, depth),
    )
    return items.every((item, at) => item === list[at]) ? value : items
  }
  const object = value as JsonObject
  const entries = Object.entries(object).map(([name, inner]) => {
    const secretName = nameOfField(object, name, place.secretName)
    const field = { secretName, isInList: false, columns: columnsFor(object, name) }
    return [redactData(name), redactAt(inner, field, depth), name, inner] as const
  })
  return entries.every(([name, inner, oldName, old]) => name === oldName && inner === old)
    ? value
    : Object.fromEntries(entries.map(([name, inner]) => [name, inner]))
}

/** Also in a text that is JSON. */
function redactText(text: string, depth: number): string {
  const data = redactData(text)
  const inner = depth < TEXT_DEPTH_MAX ? parseJson(data) : undefined
  if (inner === undefined) return data
  const redacted = redactAt(inner, OUTSIDE, depth + 1)
  return redacted === inner ? data : JSON.stringify(redacted)
}
