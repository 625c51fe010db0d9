/** Fills the input of a follow-up operation (an undo, a look-up) from the recorded effect. Pure. */
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'

type TemplateFacts = { readonly input: JsonValue; readonly output: JsonValue; readonly key: string }

const PLACE = /\{(key|(?:input|output)(?:\.[A-Za-z0-9_-]+)*)\}/g

export function fillTemplate(template: JsonObject, facts: TemplateFacts): Decision<JsonObject> {
  const filled = fill(template, facts)
  if (!filled.ok) return filled
  // Filling placeholders does not change the type: an object stays an object.
  return accept(filled.value as JsonObject)
}

/** Lists the placeholders of a template, for the check at start-up. */
export function placesOf(template: JsonValue): readonly string[] {
  if (typeof template === 'string') return [...template.matchAll(PLACE)].map(([, place = '']) => place)
  if (typeof template !== 'object' || template === null) return []
  return Object.values(template).flatMap((part: JsonValue) => placesOf(part))
}

function fill(template: JsonValue, facts: TemplateFacts): Decision<JsonValue> {
  if (typeof template === 'string') return fillText(template, facts)
  if (typeof template !== 'object' || template === null) return accept(template)
  if (Array.isArray(template)) {
    const items: JsonValue[] = []
    for (const part of template as readonly JsonValue[]) {
      const item = fill(part, facts)
      if (!item.ok) return item
      items.push(item.value)
    }
    return accept(items)
  }
  const object: Record<string, JsonValue> = {}
  for (const [name, part] of Object.entries(template as JsonObject)) {
    const item = fill(part, facts)
    if (!item.ok) return item
    object[name] = item.value
  }
  return accept(object)
}

function fillText(text: string, facts: TemplateFacts): Decision<JsonValue> {
  const [only] = text.matchAll(PLACE)
  if (only && only[0] === text) {
    const value = valueAt(facts, only[1] ?? '')
    return value === undefined ? unfilled(only[1] ?? '') : accept(value)
  }
  let missing: string | undefined
  const filled = text.replace(PLACE, (_whole, place: string) => {
    const value = valueAt(facts, place)
    const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    if (!isPlain) missing ??= place
    return isPlain ? String(value) : ''
  })
  return missing === undefined ? accept(filled) : unfilled(missing)
}

/** `input.items.0.id` descends into objects and lists. */
function valueAt(facts: TemplateFacts, place: string): JsonValue | undefined {
  const [root = '', ...names] = place.split('.')
  if (root === 'key') return facts.key
  return valueIn(root === 'input' ? facts.input : facts.output, names)
}

export function valueIn(value: JsonValue, names: readonly string[]): JsonValue | undefined {
  let at: JsonValue | undefined = value
  for (const name of names) {
    if (at === undefined || at === null) return undefined
    if (Array.isArray(at)) at = /^\d{1,6}$/.test(name) ? (at as readonly JsonValue[])[Number(name)] : undefined
    else at = isJsonObject(at) && Object.hasOwn(at, name) ? at[name] : undefined
  }
  return at
}

function unfilled(place: string): Refusal {
  return refuse('connectors.template.unfilled', `There is no value for ${quote(`{${place}}`)}.`, { path: place })
}
