/**
 * The only function that turns foreign text into a JSON value: checks the size, scans the text, then calls JSON.parse. The result can be stored,
 * read back, hashed and audited without loss.
 */
import { scanJson } from './json-scan.ts'
import {
  checkSize,
  defaultJsonLimits,
  formatPath,
  isForbiddenKey,
  isJsonObject,
  isPlainObject,
  type JsonLimits,
  type JsonObject,
  type JsonStep,
  type JsonValue,
  utf8Size,
} from './json-value.ts'
import { accept, type Decision, quote, type Refusal, type RefusalCode, refuse } from './refusal.ts'

export function parseGuardedJson(text: string, limits: JsonLimits = defaultJsonLimits): Decision<JsonValue> {
  // A text has at least as many bytes as UTF-16 units, so the cheap length check refuses most oversized texts.
  const size = checkSize(text.length > limits.bytesMax ? text.length : utf8Size(text), limits)
  if (!size.ok) return size
  if (/^[ \t\r\n]*$/.test(text)) return refuse('body_missing', 'The JSON is empty.', { hint: 'Send a JSON object.' })
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

/** An open container: its keys (none for an array) and the next position. */
type Frame = { readonly holder: object; readonly keys: readonly string[] | undefined; next: number }

/**
 * Applies the same rules to values that never were text: library callers, connector results, model output. Walks with its own stack
 * and stops at the limits, so it ends on cycles and on values that share parts a million times.
 */
export function guardValue(value: unknown, limits: JsonLimits = defaultJsonLimits): Decision<JsonValue> {
  const refusal = new Walk(limits).run(value)
  // Every part has been checked against the grammar of JSON.
  return refusal ?? accept(value as JsonValue)
}

class Walk {
  readonly #limits: JsonLimits
  readonly #frames: Frame[] = []
  /** The size of the JSON text as it would be written. */
  #bytes = 0
  #keyCount = 0

  constructor(limits: JsonLimits) {
    this.#limits = limits
  }

  run(root: unknown): Refusal | undefined {
    const refusal = this.#enter(root)
    if (refusal) return refusal
    for (let frame = this.#frames.at(-1); frame; frame = this.#frames.at(-1)) {
      const wrong = this.#advance(frame)
      if (wrong) return wrong
    }
    return undefined
  }

  #advance(frame: Frame): Refusal | undefined {
    const size = frame.keys?.length ?? (Array.isArray(frame.holder) ? frame.holder.length : 0)
    if (frame.next >= size) {
      this.#frames.pop()
      return undefined
    }
    const key = frame.keys?.[frame.next]
    frame.next += 1
    const comma = frame.next > 1 ? this.#count(1) : undefined
    return comma ?? (key === undefined ? undefined : this.#key(key)) ?? this.#enter(childOf(frame, key))
  }

  #key(key: string): Refusal | undefined {
    this.#keyCount += 1
    if (this.#keyCount > this.#limits.keysMax) {
      return this.#refuse('json_too_many_keys', `There are more than ${this.#limits.keysMax} keys.`)
    }
    if (isForbiddenKey(key)) return this.#refuse('key_forbidden', `The key ${quote(key)} is not allowed.`)
    return this.#text(key) ?? this.#count(1)
  }

  #enter(value: unknown): Refusal | undefined {
    switch (typeof value) {
      case 'string':
        return this.#text(value)
      case 'boolean':
        return this.#count(value ? 4 : 5)
      case 'number':
        if (!Number.isFinite(value)) return this.#refuse('number_out_of_range', `${value} is not a JSON number.`)
        return this.#count(String(value).length)
      case 'bigint':
        return this.#refuse('number_out_of_range', 'A bigint is not a JSON number. Send it as a string.')
      case 'object':
        return value === null ? this.#count(4) : this.#open(value)
      default:
        return this.#refuse(
          'json_syntax',
          `A value of type ${typeof value} is not JSON.`,
          'Leave the key out, or send null.',
        )
    }
  }

  #open(holder: object): Refusal | undefined {
    if (this.#frames.some((frame) => frame.holder === holder)) {
      return this.#refuse('json_too_deep', 'The value contains itself.')
    }
    if (this.#frames.length >= this.#limits.depthMax) {
      return this.#refuse('json_too_deep', `The nesting is deeper than the limit of ${this.#limits.depthMax} levels.`)
    }
    if (!Array.isArray(holder) && !isPlainObject(holder)) {
      return this.#refuse('json_syntax', 'A class instance is not a JSON value.', 'Send a plain object or a string.')
    }
    const refusal = this.#count(2)
    if (!refusal) this.#frames.push({ holder, keys: Array.isArray(holder) ? undefined : Object.keys(holder), next: 0 })
    return refusal
  }

  #text(text: string): Refusal | undefined {
    // Checked first: a string of 500 MB is refused for its length alone.
    if (text.length > this.#limits.bytesMax) return this.#count(text.length)
    if (text.includes('\0'))
      return this.#refuse('nul_character', 'A string contains the character NUL, which Postgres cannot store.')
    if (!text.isWellFormed()) return this.#refuse('invalid_unicode', 'A string contains half of a surrogate pair.')
    return this.#count(utf8Size(JSON.stringify(text)))
  }

  #count(bytes: number): Refusal | undefined {
    this.#bytes += bytes
    if (this.#bytes <= this.#limits.bytesMax) return undefined
    return refuse('body_too_large', `The limit is ${this.#limits.bytesMax} bytes.`, {
      facts: { limitBytes: this.#limits.bytesMax },
    })
  }

  #refuse(code: RefusalCode, reason: string, hint?: string): Refusal {
    const path = formatPath(this.#frames.map(stepOf))
    return refuse(code, reason, { ...(path && { path }), ...(hint && { hint }) })
  }
}

function stepOf(frame: Frame): JsonStep {
  return frame.keys?.[frame.next - 1] ?? frame.next - 1
}

function childOf(frame: Frame, key: string | undefined): unknown {
  const holder = frame.holder as Readonly<Record<JsonStep, unknown>>
  return holder[key ?? frame.next - 1]
}
