/** Fields of the room's own bodies, and the one way from foreign input to a checked value. */
import { z } from 'zod'
import { decodeId, type IdKind, idPrefixes } from '#kernel/ids'
import { parseInstant } from '#kernel/instant'
import { formatPath, isJsonObject, type JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-value-guard'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'

/** What a parser of the kernel refuses keeps the parser's own code and hint. */
function parsed<In, Out>(input: z.ZodType<In, In>, parse: (value: In) => Decision<Out>) {
  return input.transform((value, context): Out => {
    const decision = parse(value)
    if (decision.ok) return decision.value
    context.addIssue({ code: 'custom', message: decision.reason, params: { refusal: decision } })
    return z.NEVER
  })
}

/** `job_…` or the UUID; what comes out is the UUID. */
export function idField(kind: IdKind) {
  return parsed(z.string(), (text) => decodeId(kind, text)).meta({
    type: 'string',
    example: `${idPrefixes[kind]}_0197f3b2c4d57a8e9b0c1d2e3f405161`,
  })
}

export function instantField() {
  return parsed(z.string(), (text) => parseInstant(text)).meta({
    type: 'string',
    format: 'date-time',
    example: '2026-05-01T10:00:00Z',
  })
}

export function parsedField<T>(parse: (text: string) => Decision<T>) {
  return parsed(z.string(), parse)
}

/** An object that can be stored, hashed and read back: at most 1 MiB, 32 levels, no NUL. */
export function jsonObjectField() {
  return parsed(z.custom<unknown>(), (value): Decision<JsonObject> => {
    const guarded = guardValue(value)
    if (!guarded.ok) return guarded
    if (isJsonObject(guarded.value)) return accept(guarded.value)
    return refuse('json_not_object', 'this is not a JSON object', { hint: 'Send a JSON object.' })
  }).meta({ type: 'object', additionalProperties: true, example: { month: '2026-05' } })
}

// Control characters, zero-width marks and direction overrides make two names look like one.
const HIDDEN = /[\p{Cc}\p{Cs}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/u

/** A name for people: visible, in Unicode's composed form, without blanks at the ends. */
export function nameField() {
  return parsed(z.string(), (text) => {
    const name = text.normalize('NFC')
    if (name.length > 0 && name.length <= 200 && name === name.trim() && !HIDDEN.test(name)) return accept(name)
    return refuse('api.field.value', `${quote(text)} cannot be used as a name`, {
      hint: 'Use 1 to 200 visible characters without blanks at the ends.',
    })
  }).meta({ type: 'string', minLength: 1, maxLength: 200, example: 'nightly report' })
}

/** Reads a body; the first thing that is wrong is the refusal. */
export function parseInput<T extends z.ZodType>(schema: T, input: unknown): Decision<z.output<T>> {
  const result = schema.safeParse(input)
  if (result.success) return accept(result.data)
  const [issue] = result.error.issues
  return issue ? explain(issue, knownFields(schema)) : refuse('api.field.value', 'the input is not allowed')
}

function explain(issue: z.core.$ZodIssue, known: readonly string[]): Refusal {
  const path = formatPath(issue.path.map((step) => (typeof step === 'number' ? step : String(step))))
  const at = path === '' ? {} : { path }
  if (issue.code === 'custom') {
    const refusal = (issue.params as { refusal?: Refusal } | undefined)?.refusal
    const inner = [path, refusal?.path].filter(Boolean).join('.')
    return refusal ? { ...refusal, ...(inner && { path: inner }) } : refuse('api.field.value', issue.message, at)
  }
  if (issue.code === 'unrecognized_keys') {
    const [key = ''] = issue.keys
    return refuse('unknown_field', `there is no field ${quote(key)} here`, {
      path: [path, quote(key).slice(1, -1)].filter(Boolean).join('.'),
      ...didYouMean(key, known),
    })
  }
  if (issue.code === 'invalid_type') {
    const isMissing = issue.message.endsWith('received undefined')
    return isMissing
      ? refuse('api.field.missing', `\`${path}\` is missing`, at)
      : refuse(
          'api.field.type',
          `\`${path}\` is not of the type ${issue.expected === 'record' ? 'object' : issue.expected}`,
          at,
        )
  }
  return refuse('api.field.value', `\`${path}\` is not allowed: ${issue.message}`, at)
}

function knownFields(schema: z.ZodType): readonly string[] {
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
}
