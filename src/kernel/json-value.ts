/** The JSON that Concord handles: its type, its limits, and the notation for a path in it. */
import { accept, type Decision, quote, refuse } from './refusal.ts'

export type JsonValue = null | boolean | number | string | readonly JsonValue[] | JsonObject
export type JsonObject = { readonly [key: string]: JsonValue }

export type JsonLimits = {
  /** Size of the UTF-8 form. */
  readonly bytesMax: number
  /** `{}` and `[]` are one level. */
  readonly depthMax: number
  /** Total over all objects. */
  readonly keysMax: number
}

/** JSON.stringify overflows its stack somewhere between 1,000 and 5,000 levels; 32 is far below that and enough for real payloads. */
export const defaultJsonLimits: JsonLimits = { bytesMax: 1_048_576, depthMax: 32, keysMax: 10_000 }

/** Keys that would change the prototype of an object they are copied onto. */
export function isForbiddenKey(key: string): boolean {
  return key === '__proto__' || key === 'constructor' || key === 'prototype'
}

export function isJsonObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** True for an object made by a literal, JSON.parse or Object.create(null): JSON.stringify writes it unchanged. */
export function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** Without the fields that are undefined: they must not replace a default. */
export function defined<T extends object>(fields: T): T {
  // A copy without some optional fields has the same type.
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T
}

/** Keys and array indexes from the root down. */
export type JsonStep = string | number

const PLAIN_KEY = /^[A-Za-z_$][\w$-]{0,63}$/

/** Writes `payload.items[2].price`; a key that is not a plain word is quoted and truncated: `payload["two words"]`. */
export function formatPath(steps: readonly JsonStep[]): string {
  let path = ''
  for (const step of steps) {
    if (typeof step === 'number') path += `[${step}]`
    else if (PLAIN_KEY.test(step)) path += path === '' ? step : `.${step}`
    else path += `[${quote(step)}]`
  }
  return path
}

/** For callers that still have bytes: the check before reading and decoding. */
export function checkSize(sizeBytes: number, limits: JsonLimits = defaultJsonLimits): Decision<number> {
  if (sizeBytes <= limits.bytesMax) return accept(sizeBytes)
  return refuse('body_too_large', `The limit is ${limits.bytesMax} bytes.`, { facts: { limitBytes: limits.bytesMax } })
}

/** Counts the UTF-8 size of a text without encoding it; a lone surrogate counts as the three bytes of its replacement. */
export function utf8Size(text: string): number {
  let size = text.length
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit < 0x80) continue
    size += 1
    if (unit < 0x800) continue
    size += 1
    // Both halves of a pair together take four bytes: two units plus the two just added.
    const isPair = unit >= 0xd800 && unit <= 0xdbff && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00
    if (isPair) at += 1
  }
  return size
}
