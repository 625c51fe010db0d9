/** When two memories speak of the same thing: by the key their author gave, otherwise only when they say the same. Pure. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Subject } from './memory-row.ts'

const KEY = /^[a-z0-9][a-z0-9_.:-]{0,199}$/
/** Behind this prefix stands what a memory says, not what it is about. */
const SAID = 'says:'

export function parseFactKey(text: string): Decision<string> {
  if (KEY.test(text) && !text.startsWith(SAID)) return accept(text)
  return refuse('api.field.value', `${quote(text)} cannot be used as the key of a fact`, {
    hint: 'Use 1 to 200 lower-case letters, digits and . _ : - such as travel.seat, and do not begin with says:',
  })
}

/** Without a key nobody can tell a contradiction; the same words twice are still one fact. */
export function factKeyOf(key: string | undefined, content: JsonObject): string {
  return key ?? SAID + hash('sha256', canonicalJson(content))
}

export function isSameContent(one: JsonObject, other: JsonObject): boolean {
  return canonicalJson(one) === canonicalJson(other)
}

/** Tells later whether a certificate is about a subject, to somebody who names the subject; the certificate's id is the salt. */
export function subjectDigest(erasureId: string, { subject_type, subject_id }: Subject): string {
  return hash('sha256', canonicalJson([erasureId, subject_type, subject_id]))
}
