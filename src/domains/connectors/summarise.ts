/** What of an answer is kept on the row of its call: all of it where it is short, else size, hash and names. */
import { createHash } from 'node:crypto'
import { redactPayload } from '#kernel/data-class'
import { isJsonObject, type JsonObject, type JsonValue } from '#kernel/json-value'
import { utf8Size } from '#kernel/utf8-size'
import type { ConnectorOperationContract } from './define-connector.ts'

const WHOLE_BYTES_MAX = 2_048
const NAMES_MAX = 20

export function summarise({ output_classes }: ConnectorOperationContract, output: JsonValue): JsonObject {
  const paths = Object.fromEntries(Object.entries(output_classes).map(([path, of]) => [`output.${path}`, of]))
  const shown = redactPayload({ output }, paths, 'confidential')['output'] ?? null
  const text = JSON.stringify(shown)
  const size_bytes = utf8Size(text)
  if (size_bytes <= WHOLE_BYTES_MAX) return { output: shown }
  const sha256 = createHash('sha256').update(text).digest('hex')
  if (Array.isArray(shown)) return { size_bytes, sha256, items: shown.length }
  return { size_bytes, sha256, ...(isNamed(shown) ? { fields: Object.keys(shown).slice(0, NAMES_MAX) } : {}) }
}

function isNamed(value: JsonValue): value is JsonObject {
  return value !== null && isJsonObject(value)
}
