/** The fields that every room's contract is built from: a value that a kernel parser refuses keeps the parser's code, hint and facts. */
import { z } from 'zod'
import { CRON_CHARS_MAX, parseCron, parseTimeZone, TIME_ZONE_CHARS_MAX, timeZoneForm } from '#kernel/cron'
import { type DurationMs, durationForm, parseDuration } from '#kernel/duration'
import { KEY_CHARACTERS_MAX } from '#kernel/idempotency-key'
import { decodeId, type IdKind, idPrefixes, isTextId } from '#kernel/ids'
import { parseInstant } from '#kernel/instant'
import { isJsonObject, type JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX, parsePageLimit } from '#kernel/page-limit'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import { findSecret, sayFinding } from '#kernel/secrets/find-secret'
import { countChars, isVisibleLine } from '#kernel/visible-text'

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

/** A text whose form the document states. What the form cannot state, only the parser refuses. */
function formField<T>(parse: (text: string) => Decision<T>, form: Readonly<Record<string, unknown>>) {
  return parsedField(parse).meta({ type: 'string', ...form })
}

/** The form that names, keys and subjects share: it is long, so the document has it once. */
export const visibleLine = { allOf: [{ $ref: '#/components/schemas/VisibleLine' }] }

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

const UUID = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}'
const idForm = (kind: IdKind) => ({
  pattern: `^(?:${idPrefixes[kind]}_[0-9a-f]{32}|${UUID})$`,
  example: exampleId(kind),
})

/** For the header, which the guard of the workspace reads before any field. */
export const workspaceIdForm = idForm('workspace')

/** An id of one kind, prefixed or as a UUID; the parsed value is the UUID. `noun` is what callers call it, if not by its kind. */
export function idField(kind: IdKind, noun?: string) {
  const decode = (text: string) => {
    const id = decodeId(kind, text)
    return id.ok || noun === undefined ? id : { ...id, reason: `${quote(text)} is not the id of a ${noun}.` }
  }
  return formField(decode, idForm(kind))
}

/** Several ids with commas between them. */
export function idListField(kind: IdKind, countMax: number) {
  const parse = (text: string): Decision<readonly string[]> => {
    const ids = text.split(',').map((id) => decodeId(kind, id))
    const wrong = ids.find((id) => !id.ok)
    if (wrong) return wrong
    if (ids.length <= countMax) return accept(ids.flatMap((id) => (id.ok ? id.value : [])))
    return refuse('api.field.value', `These are ${ids.length} ids.`, { hint: `Send at most ${countMax}.` })
  }
  const { pattern, example } = idForm(kind)
  const one = pattern.slice(1, -1)
  return formField(parse, { pattern: `^${one}(?:,${one}){0,${countMax - 1}}$`, example })
}

/** A trace id of a command. */
export function traceField() {
  const parse = (text: string): Decision<string> =>
    isTextId('trace', text)
      ? accept(text)
      : refuse('id_format', `${quote(text)} is not a trace id.`, {
          hint: 'Send trace_ and up to 64 letters, digits, hyphens and underscores.',
        })
  return formField(parse, { pattern: '^trace_[0-9A-Za-z_-]{1,64}$', example: 'trace_4bf92f3577b34da6a3ce929d0e0e4736' })
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
  return formField((text) => parseInstant(text), { format: 'date-time', example })
}

/** A time as shown to callers. */
export function timeView(description?: string) {
  return textView('2026-05-01T10:00:00.000Z', description).meta({ format: 'date-time' })
}

/** The untrusted sources of something, each with the way from there. */
export function labelsView() {
  return z.array(z.string()).meta({
    example: ['untrusted:web.fetch>inv_0193b8d2>cmd_0193b8d3'],
    description: 'The untrusted sources that it has read from, and the way from each.',
  })
}

/** A nullable column in a response. */
export function orNull<T, V>(value: T | null, show: (value: T) => V): V | null {
  return value === null ? null : show(value)
}

const SLUG = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

export const slugForm = { minLength: 1, maxLength: 63, pattern: SLUG.source }

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
  return formField(parseSlug, { ...slugForm, example, description: 'Short name.' })
}

/** A display name: visible (hidden characters make two names look alike), in Unicode's composed form, without surrounding spaces. */
export function parseName(text: string, charsMax = 200): Decision<string> {
  const name = text.normalize('NFC')
  if (hasSecretShape(name)) return refuseSecret('The name looks like a key, a token or a password.')
  if (isVisibleLine(name, charsMax)) return accept(name)
  return refuse('api.field.value', `${quote(text)} cannot be used as a name.`, {
    hint: `Use 1 to ${charsMax} visible characters without leading or trailing spaces.`,
  })
}

export function nameField(example: string, charsMax = 200) {
  const form = { ...visibleLine, minLength: 1, maxLength: charsMax, example }
  return formField((text) => parseName(text, charsMax), form)
}

/** Free text. JSON Schema and Postgres count characters, zod counts UTF-16 units. `filled`: more than spaces. */
export function textField(charsMax: number, { charsMin = 0, filled = false } = {}) {
  const input = filled ? z.string().trim() : z.string()
  return input
    .superRefine((text, context) => {
      const chars = countChars(text)
      const least = filled ? 1 : charsMin
      const issue = { origin: 'string', inclusive: true, input: text } as const
      if (chars < least) context.addIssue({ ...issue, code: 'too_small', minimum: least })
      if (chars > charsMax) context.addIssue({ ...issue, code: 'too_big', maximum: charsMax })
    })
    .meta({
      type: 'string',
      ...(filled || charsMin > 0 ? { minLength: Math.max(1, charsMin) } : {}),
      maxLength: charsMax,
      // Postgres cannot store NUL.
      pattern: filled ? '^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$' : '^[^\\u0000]*$',
    })
}

/** An idempotency key. The room parses it, because the refusal of a command is on record. */
export function keyField(example: string) {
  const form = { ...visibleLine, minLength: 1, maxLength: KEY_CHARACTERS_MAX, example }
  return z.string().meta({ ...form, description: 'The same request with the same key is done once.' })
}

/** Validated, then kept as text. */
export function cronField() {
  const parse = (text: string) => {
    const fields = parseCron(text)
    return fields.ok ? accept(text) : fields
  }
  return formField(parse, {
    allOf: [{ $ref: '#/components/schemas/CronExpression' }],
    maxLength: CRON_CHARS_MAX,
    example: '30 2 * * *',
    description:
      'Minute, hour, day of month, month, day of week. A time skipped or repeated by daylight saving fires once.',
  })
}

export function timeZoneField() {
  const form = { maxLength: TIME_ZONE_CHARS_MAX, pattern: timeZoneForm.source, example: 'Europe/Berlin' }
  return formField(parseTimeZone, { ...form, description: 'An IANA name.' })
}

/** A number and a unit, at most `max`. */
export function durationField(example: string, max?: { readonly ms: number; readonly refuse: () => Refusal }) {
  const parse = (text: string): Decision<DurationMs> => {
    const duration = parseDuration(text)
    return max && duration.ok && duration.value > max.ms ? max.refuse() : duration
  }
  return formField(parse, { pattern: durationForm(max?.ms), example })
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

/** The list that made a cursor refuses every other. */
const cursorForm = { pattern: '^[A-Za-z0-9_-]{23,1024}$' }

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
  cursor: z
    .string()
    .optional()
    .meta({ ...cursorForm, description: '`next_cursor` of the page before.' }),
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
  return formField(parse, {
    pattern: `^${one}(?:,${one})*$`,
    example: names.join(','),
    description: 'Large fields that the rows of the list include.',
  }).optional()
}

/** The response of every list. */
export function pageView<S extends z.ZodType>(item: S, id: string) {
  return z
    .object({
      items: z.array(item),
      next_cursor: z
        .string()
        .nullable()
        .meta({ ...cursorForm, description: 'Null on the last page.' }),
    })
    .meta({ id, description: 'One page.' })
}

/** Callers who write JSON know zod's record as an object. */
export function nameOfType(expected: string): string {
  return expected === 'record' ? 'object' : expected
}
