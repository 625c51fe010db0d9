/**
 * The only way from a foreign text to a JSON value: size, then the scan, then JSON.parse. The result can be stored,
 * read back, hashed and audited without loss.
 */
import { scanJson } from './json-scan.ts'
import {
  checkSize,
  defaultJsonLimits,
  isJsonObject,
  type JsonLimits,
  type JsonObject,
  type JsonValue,
} from './json-value.ts'
import { accept, type Decision, refuse } from './refusal.ts'
import { utf8Size } from './utf8-size.ts'

export function parseGuardedJson(text: string, limits: JsonLimits = defaultJsonLimits): Decision<JsonValue> {
  // A text has at least as many bytes as UTF-16 units, so the cheap length check refuses most oversized texts.
  const size = checkSize(text.length > limits.bytesMax ? text.length : utf8Size(text), limits)
  if (!size.ok) return size
  if (/^[ \t\r\n]*$/.test(text))
    return refuse('body_missing', 'There is no JSON here.', { hint: 'Send a JSON object.' })
  const refusal = scanJson(text, limits)
  // The scan accepts exactly what JSON.parse accepts (a property of its test), so the result is a JSON value.
  return refusal ?? accept(JSON.parse(text) as JsonValue)
}

/** Works like `parseGuardedJson` but accepts only an object, as in every request body. */
export function parseGuardedObject(text: string, limits: JsonLimits = defaultJsonLimits): Decision<JsonObject> {
  const parsed = parseGuardedJson(text, limits)
  if (!parsed.ok) return parsed
  if (isJsonObject(parsed.value)) return accept(parsed.value)
  return refuse('json_not_object', 'The JSON is not an object.', { hint: 'Send a JSON object.' })
}
