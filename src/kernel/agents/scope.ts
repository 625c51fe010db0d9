/**
 * Compares two scopes. A scope is JSON in which every part is a permission: a list names what is permitted, a number is a limit, `true` permits, a
 * text names one subject. A part that is left out permits nothing.
 */
import type { JsonObject, JsonValue } from '../json-value.ts'

/** Returns the path of the first part of the child that exceeds its parent, or null if the parent contains the child. */
export function findWider(parent: JsonValue | undefined, child: JsonValue, path: string): string | null {
  if (isObject(child)) {
    const has = isObject(parent) ? parent : {}
    for (const [key, part] of Object.entries(child)) {
      const wide = findWider(Object.hasOwn(has, key) ? has[key] : undefined, part, `${path}.${key}`)
      if (wide !== null) return wide
    }
    return null
  }
  return isPartWithin(parent, child) ? null : path
}

function isPartWithin(parent: JsonValue | undefined, child: JsonValue): boolean {
  if (child === false || child === null) return true
  if (Array.isArray(child)) {
    const has: readonly JsonValue[] = Array.isArray(parent) ? parent : []
    return child.every((each) => has.includes(each))
  }
  if (typeof child === 'number') return typeof parent === 'number' && child <= parent
  return child === parent
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
