/** How a column becomes what callers see: prefixed ids, UTC text, JSON. */
import { z } from 'zod'
import { encodeId, type IdKind } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'

export const objectView = z.record(z.string(), z.unknown())

export function showTime(ms: number): string {
  return formatInstant(new Date(ms))
}

export function showTimeOrNull(ms: number | null): string | null {
  return ms === null ? null : showTime(ms)
}

export function showIdOrNull(kind: IdKind, id: string | null): string | null {
  return id === null ? null : encodeId(kind, id)
}

/** Text of our own columns, guarded on its way in. */
export function readObject(text: string): Record<string, unknown> {
  return JSON.parse(text) as Record<string, unknown>
}

export function readTexts(text: string): string[] {
  return JSON.parse(text) as string[]
}
