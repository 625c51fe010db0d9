/** The fields that every room's contract is built from: a value that a kernel parser refuses keeps the parser's code, hint and facts. */
import { z } from 'zod'
import { decodeId, type IdKind, idPrefixes } from '#kernel/ids'
import { parseInstant } from '#kernel/instant'
import { isJsonObject, type JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, parsePageLimit } from '#kernel/page-limit'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import { findSecret, sayFinding } from '#kernel/secrets/find-secret'
import { showLine } from '#kernel/visible-text'

function parsed<In, Out>(input: z.ZodType<In, In>, parse: (value: In) => Decision<Out>) {
  return input.transform((value, context): Out => {
    const decision = parse(value)
    if (decision.ok) return decision.value
    context.addIssue({ code: 'custom', message: decision.reason, params: { refusal: decision } })
    return z.NEVER
  })
}

/** A text field whose value is the result of `parse`. */
export function parsedField<T>(parse: (text: string) => Decision<T>) {
  return parsed(z.string(), parse)
}

/** Returns the refusal that a parser stored in a zod issue. */
export function refusalOfIssue(issue: { readonly code: string }): Refusal | undefined {
  if (issue.code !== 'custom') return undefined
  const params = (issue as { params?: { refusal?: Refusal } }).params
  return params?.refusal
}

/** The example id that the documents use for this kind. */
export function exampleId(kind: IdKind): string {
  return `${idPrefixes[kind]}_0197f3b2c4d57a8e9b0c1d2e3f405161`
}

/** An id of one kind, prefixed or as a UUID; the parsed value is the UUID. `noun` is what callers call it, if not by its kind. */
export function idField(kind: IdKind, noun?: string) {
  const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
  const pattern = `^(?:${idPrefixes[kind]}_[0-9a-f]{32}|${uuid})$`
  const decode = (text: string) => {
    const id = decodeId(kind, text)
    return id.ok || noun === undefined ? id : { ...id, reason: `${quote(text)} is not the id of a ${noun}.` }
  }
  return parsedField(decode).meta({ type: 'string', pattern, example: exampleId(kind) })
}

/** An id as shown to callers. */
export function idView(kind: IdKind, description?: string) {
  return textView(exampleId(kind), description)
}

export function textView(example: string, description?: string) {
  return z.string().meta({ example, ...(description === undefined ? {} : { description }) })
}

/** A time sent by a caller. */
export function instantField(example = '2026-05-01T10:00:00Z') {
  return parsedField((text) => parseInstant(text)).meta({ type: 'string', format: 'date-time', example })
}

/** A time as shown to callers. */
export function timeView(description?: string) {
  return textView('2026-05-01T10:00:00.000Z', description).meta({ format: 'date-time' })
}

/** A nullable column in a response. */
export function orNull<T, V>(value: T | null, show: (value: T) => V): V | null {
  return value === null ? null : show(value)
}

const SLUG = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

export function isSlug(text: string): boolean {
  return SLUG.test(text)
}

export function parseSlug(text: string): Decision<string> {
  if (SLUG.test(text)) return accept(text)
  return refuse('api.field.value', `${quote(text)} is not a short name.`, {
    hint: 'Use 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends.',
  })
}

export function slugField(example: string) {
  const range = { minLength: 1, maxLength: 63, pattern: SLUG.source }
  return parsedField(parseSlug).meta({ type: 'string', ...range, example, description: 'Short name.' })
}

/** A display name: visible (hidden characters make two names look alike), in Unicode's composed form, without surrounding spaces. */
export function parseName(text: string, charsMax = 200): Decision<string> {
  const name = text.normalize('NFC')
  if (hasSecretShape(name)) return refuseSecret('The name looks like a key, a token or a password.')
  if (name.length > 0 && name.length <= charsMax && name === name.trim() && showLine(name) === name) return accept(name)
  return refuse('api.field.value', `${quote(text)} cannot be used as a name.`, {
    hint: `Use 1 to ${charsMax} visible characters without leading or trailing spaces.`,
  })
}

export function nameField(example: string, charsMax = 200) {
  const range = { minLength: 1, maxLength: charsMax }
  return parsedField((text) => parseName(text, charsMax)).meta({ type: 'string', ...range, example })
}

/** Says what is wrong with a value that is a secret, and never shows it. */
export function refuseSecret(reason: string, path?: string): Refusal {
  return refuse('api.field.secret', reason, path === undefined ? {} : { path })
}

/** An object that can be stored, hashed and read back: at most 1 MiB, 32 levels, no NUL, no secret. `isSchema`: its names describe other values. */
export function jsonObjectField({ isSchema = false } = {}) {
  return parsed(z.custom<unknown>(), (value): Decision<JsonObject> => {
    const guarded = guardValue(value)
    if (!guarded.ok) return guarded
    if (!isJsonObject(guarded.value))
      return refuse('json_not_object', 'The value is not a JSON object.', { hint: 'Send a JSON object.' })
    const found = findSecret(guarded.value, () => isSchema)
    if (found) return refuseSecret(`\`${found.path}\` ${sayFinding(found)}.`, found.path)
    return accept(guarded.value)
  }).meta({ type: 'object', additionalProperties: true, example: { month: '2026-05' } })
}

/** The query parameters of every list. */
export const pageFields = {
  limit: parsedField(parsePageLimit).optional().meta({
    type: 'integer',
    minimum: 1,
    maximum: PAGE_LIMIT_MAX,
    default: PAGE_LIMIT_DEFAULT,
    example: PAGE_LIMIT_DEFAULT,
    description: 'Rows of a page. A page ends earlier at 4 MiB.',
  }),
  cursor: z.string().optional().meta({ description: '`next_cursor` of the page before.' }),
}

/** A list of names with commas between them, such as `payload,result`. */
export function includeField<const N extends string>(names: readonly N[]) {
  const parse = (text: string): Decision<readonly N[]> => {
    const asked = text.split(',')
    const wrong = asked.find((name) => !(names as readonly string[]).includes(name))
    if (wrong === undefined) return accept(names.filter((name) => asked.includes(name)))
    return refuse('api.field.value', `${quote(wrong)} cannot be included.`, {
      hint: `Send ${names.join(' or ')}, or several with commas between them.`,
    })
  }
  const one = `(?:${names.join('|')})`
  return parsedField(parse)
    .optional()
    .meta({
      type: 'string',
      pattern: `^${one}(?:,${one})*$`,
      example: names.join(','),
      description: 'Large fields that the rows of the list shall have.',
    })
}

/** The response of every list. */
export function pageView<S extends z.ZodType>(item: S, id: string) {
  return z
    .object({
      items: z.array(item),
      next_cursor: z.string().nullable().meta({ description: 'Null on the last page.' }),
    })
    .meta({ id, description: 'One page.' })
}

/** Callers who write JSON know zod's record as an object. */
export function nameOfType(expected: string): string {
  return expected === 'record' ? 'object' : expected
}
