/** Ids inside JSON as every other place shows them: `artifact_id` with a bare UUID becomes `art_…`. */
import { encodeId, type IdKind, idPrefixes } from '#kernel/ids'
import { isUuid } from '#kernel/uuid'

export function withShownIds(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withShownIds)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      name.endsWith('_id') && typeof inner === 'string' ? shownId(name.slice(0, -3), inner) : withShownIds(inner),
    ]),
  )
}

/** A kind without a prefix, and what is no UUID, stay as they are. */
export function shownId(kind: string, id: string): string {
  return isIdKind(kind) && isUuid(id) ? encodeId(kind, id) : id
}

function isIdKind(kind: string): kind is IdKind {
  return Object.hasOwn(idPrefixes, kind)
}
