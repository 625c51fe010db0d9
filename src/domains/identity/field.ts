/** Brings the kernel's parsers into zod: a field that a parser refuses keeps the parser's own code, hint and facts. */
import { z } from 'zod'
import { decodeId, type IdKind } from '#kernel/ids'
import { parseInstant } from '#kernel/instant'
import type { Decision, Refusal } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { accept, quote, refuse } from '#kernel/refusal'

/** A text field that becomes what `parse` makes of it. */
export function parsedField<T>(parse: (text: string) => Decision<T>) {
  return z.string().transform((text, context): T => {
    const decision = parse(text)
    if (decision.ok) return decision.value
    context.addIssue({ code: 'custom', message: decision.reason, params: { refusal: decision } })
    return z.NEVER
  })
}

/** The refusal that a parser left in a zod issue. */
export function refusalOfIssue(issue: { readonly code: string }): Refusal | undefined {
  if (issue.code !== 'custom') return undefined
  const params = (issue as { params?: { refusal?: Refusal } }).params
  return params?.refusal
}

/** An id of one kind; what comes out is the UUID. */
export function idField(kind: IdKind) {
  return parsedField((text) => decodeId(kind, text))
}

export function instantField() {
  return parsedField((text) => parseInstant(text))
}

const SLUG = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

export function isSlug(text: string): boolean {
  return SLUG.test(text)
}

export function parseSlug(text: string): Decision<string> {
  if (SLUG.test(text)) return accept(text)
  return refuse('api.field.value', `${quote(text)} is not a short name`, {
    hint: 'Use 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends.',
  })
}

/** A name for people: visible (hidden characters make two names look like one), in Unicode's composed form, without blanks at the ends. */
export function parseName(text: string, charsMax = 200): Decision<string> {
  const name = text.normalize('NFC')
  if (name.length > 0 && name.length <= charsMax && name === name.trim() && showLine(name) === name) return accept(name)
  return refuse('api.field.value', `${quote(text)} cannot be used as a name`, {
    hint: `Use 1 to ${charsMax} visible characters without blanks at the ends.`,
  })
}

/** What zod calls a record is an object to everybody who writes JSON. */
export function nameOfType(expected: string): string {
  return expected === 'record' ? 'object' : expected
}
