/** How values of Postgres become JSON: what JSON can hold exactly as itself, everything else as the text that Postgres prints. Pure. */
import type { JsonValue } from '#kernel/json-value'

const asNumber = new Set([21, 23, 26, 700, 701])
const BOOLEAN = 16
const asJson = new Set([114, 3802])

export function readValue(typeOid: number, text: string): JsonValue {
  if (typeOid === BOOLEAN) return text === 't'
  if (asNumber.has(typeOid)) {
    const value = Number(text)
    return Number.isFinite(value) ? value : text
  }
  if (asJson.has(typeOid)) {
    try {
      return JSON.parse(text) as JsonValue
    } catch {
      return text
    }
  }
  return text
}
