/**
 * The key that makes two requests one: 1 to 255 visible characters in one Unicode form, so that keys which look the same
 * are the same. A longer key would also exceed the limit of the index.
 */
import { isJsonObject, type JsonValue } from './json-value.ts'
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'
import { countChars, isVisibleLine } from './visible-text.ts'

export const KEY_CHARACTERS_MAX = 255

/** Accepts a key exactly as sent. Trimming or repairing would make one key out of two. */
export function parseIdempotencyKey(text: string): Decision<string> {
  if (text === '') return badCharacters('The idempotency key is empty.')
  if (text.length > 2 * KEY_CHARACTERS_MAX || countChars(text) > KEY_CHARACTERS_MAX) {
    return refuse('key_too_long', `The idempotency key must have 1 to ${KEY_CHARACTERS_MAX} characters.`, {
      facts: { charactersMax: KEY_CHARACTERS_MAX },
    })
  }
  if (text.trim() !== text) return badCharacters(`The idempotency key ${quote(text)} has leading or trailing spaces.`)
  if (!isVisibleLine(text, KEY_CHARACTERS_MAX))
    return badCharacters(`The idempotency key ${quote(text)} has invisible characters.`)
  if (text.normalize('NFC') !== text)
    return badCharacters(`The idempotency key ${quote(text)} is not in the Unicode form NFC.`)
  return accept(text)
}

function badCharacters(reason: string): Refusal {
  return refuse('key_characters', reason, { hint: 'Use letters, digits and signs such as : - _ . in NFC.' })
}

/** The key rules in the contract of a command type. */
export type KeyContract = { readonly required: boolean; readonly template?: KeyTemplate }

/**
 * The key of the thing done, which the contract's template makes from the payload. Undefined: there is no template, or the payload lacks
 * a field of it and the contract does not require a key.
 */
export function renderContractKey(
  { required, template }: KeyContract,
  payload: JsonValue,
): Decision<string | undefined> {
  if (!template) return accept(undefined)
  const made = renderKey(template, payload)
  if (!made.ok) return required ? made : accept(undefined)
  const key = parseIdempotencyKey(made.value)
  if (key.ok) return key
  return {
    ...key,
    reason: `${key.reason} The contract makes the key from ${template.text}.`,
    hint: 'Change the fields that the key is made of.',
  }
}

/** The caller's key names the request, the contract's key the thing done. Both hold. */
export type RequestKeys = { readonly caller: string | undefined; readonly contract: string | undefined }

export function decideKeys(contract: KeyContract, sent: string | undefined, payload: JsonValue): Decision<RequestKeys> {
  const made = renderContractKey(contract, payload)
  if (!made.ok) return made
  const caller = sent === undefined ? accept(undefined) : parseIdempotencyKey(sent)
  if (!caller.ok) return { ...caller, path: 'idempotency_key' }
  if (!contract.required || made.value !== undefined || caller.value !== undefined)
    return accept({ caller: caller.value, contract: made.value })
  return refuse('idempotency.key.required', 'This command type needs an idempotency key.', {
    hint: 'Send idempotency_key, with the same value for every repetition of this request.',
  })
}

// Keys built from parts, such as `book_hotel:{booking_draft_id}`: equal parts give the same key and different parts give different
// keys, even when a part contains the separator.

/** Fixed texts and fields in turn; `stop` is the character after a field that its value must not contain. */
export type KeyTemplate = { readonly text: string; readonly parts: readonly KeyPart[] }
export type KeyPart = string | { readonly field: string; readonly stop: string }

const FIELD = /^[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*)*$/

/** Parses a template once, at registration. Refuses two adjacent fields, since the end of the first would be ambiguous. */
export function parseKeyTemplate(text: string): Decision<KeyTemplate> {
  if (text === '' || text.length > 255) return badTemplate(text, 'does not have 1 to 255 characters')
  const parts: KeyPart[] = []
  let at = 0
  while (at < text.length) {
    const open = text.indexOf('{', at)
    const fixed = text.slice(at, open === -1 ? text.length : open)
    if (fixed.includes('}')) return badTemplate(text, 'has a } without {')
    if (fixed !== '') parts.push(fixed)
    if (open === -1) break
    if (open > 0 && fixed === '') return badTemplate(text, 'has two fields with nothing between them')
    const close = text.indexOf('}', open)
    const field = close === -1 ? '' : text.slice(open + 1, close)
    if (!FIELD.test(field)) return badTemplate(text, `has no field name after character ${open + 1}`)
    at = close + 1
    // A field's own % is written as %25, so a % after the field would be ambiguous.
    if (text.charAt(at) === '%') return badTemplate(text, 'has a % right after a field')
    parts.push({ field, stop: text.charAt(at) })
  }
  return accept({ text, parts })
}

/** Fills a template from a payload; `{a.b}` looks into objects. Strings, booleans and safe integers can be part of a key. */
export function renderKey(template: KeyTemplate, payload: JsonValue): Decision<string> {
  let key = ''
  for (const part of template.parts) {
    if (typeof part === 'string') {
      key += part
      continue
    }
    const value = textAt(payload, part.field)
    if (value === undefined) {
      return refuse('idempotency.field.missing', `The key ${quote(template.text)} needs the field ${part.field}.`, {
        path: part.field,
        hint: 'Send it as a string, a boolean or a number below 2^53.',
      })
    }
    key += escapeUntil(value, part.stop)
  }
  return accept(key)
}

function textAt(payload: JsonValue, field: string): string | undefined {
  let value: JsonValue | undefined = payload
  for (const name of field.split('.')) {
    value = value !== undefined && isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined
  }
  if (typeof value === 'string') return value === '' ? undefined : value
  if (typeof value === 'boolean') return String(value)
  // A whole number above 2^53 could be two numbers of the request.
  return typeof value === 'number' && (Number.isSafeInteger(value) || !Number.isInteger(value))
    ? String(value)
    : undefined
}

/** Percent-encodes the character that ends the field, and the percent sign itself; the last field stays unchanged. */
function escapeUntil(value: string, stop: string): string {
  if (stop === '') return value
  const code = (char: string) => `%${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(2, '0')}`
  return Array.from(value, (char) => (char === '%' || char.startsWith(stop) ? code(char) : char)).join('')
}

/** `webhook:{provider}:{event_id}`: one command per event of a provider, however often the event is delivered. */
export function webhookKey(provider: string, eventId: string): string {
  return `webhook:${escapeUntil(provider, ':')}:${eventId}`
}

/** `schedule:{name}:{fire_time}`: one command per due time, however many schedulers fire it. */
export function scheduleKey(name: string, dueAt: Date): string {
  return `schedule:${escapeUntil(name, ':')}:${dueAt.toISOString()}`
}

/** `cron:{job}:{due time}`: one flow task per due time of a source. */
export function cronKey(job: string, dueAt: Date): string {
  return `cron:${escapeUntil(job, ':')}:${dueAt.toISOString()}`
}

/** `agent:{agent_run_id}:{step_index}`: one command per step of an agent, even when the step is repeated. */
export function agentKey(agentRunId: string, stepIndex: number): string {
  return `agent:${escapeUntil(agentRunId, ':')}:${stepIndex}`
}

/**
 * `agent:action:{key}`: an action that an agent proposes outside a run. A run's id is never `action`, so it cannot take a step's
 * key.
 */
export function actionKey(key: string): string {
  return `agent:action:${key}`
}

/** Each prefix above belongs to one entry point: another sender could claim the key of a later command. */
const ownedPrefixes = [
  ['webhook:', 'webhook'],
  ['schedule:', 'scheduled_trigger'],
  ['agent:', 'agent_action'],
] as const

/** These belong to the kind of process that follows the command. */
const followedPrefixes = [
  ['mission:', 'mission'],
  ['colony:', 'colony_mission'],
  ['flow:', 'flow_task'],
  ['envelope:', 'command'],
] as const

/** `follower` is the kind of the process that follows the command, which only Concord names. */
export function decideKeyOwner(key: string, ingress: string, follower?: string): Decision<null> {
  const isForeign =
    (owner: string | undefined) =>
    ([prefix, owned]: readonly [string, string]) =>
      key.startsWith(prefix) && owned !== owner
  const owned = ownedPrefixes.find(isForeign(ingress)) ?? followedPrefixes.find(isForeign(follower))
  if (!owned) return accept(null)
  return refuse('key_reserved', `Keys that begin with ${owned[0]} are reserved for Concord.`, {
    hint: 'Use a key with another prefix.',
    facts: { prefix: owned[0] },
  })
}

function badTemplate(text: string, what: string): Refusal {
  return refuse('idempotency.template.invalid', `The key template ${quote(text)} ${what}.`, {
    hint: 'Write fixed text and {field}, such as book_hotel:{booking_draft_id}.',
  })
}
