/** Shows ids inside JSON as everywhere else: `artifact_id` with a bare UUID becomes `art_…`. Pure. */
import { encodeId, type IdKind, idPrefixes } from './ids.ts'
import { isUuid } from './uuid.ts'

/** The id kinds that effects receive from Concord and return in their results; any other UUID there is foreign and stays unchanged. */
export const handedOnIds: ReadonlySet<string> = new Set(['artifact', 'command', 'approval', 'domain_effect', 'memory'])

/** The column of an effect has a longer name than its kind, that of a command schedule a shorter one. */
const kindOfName: Readonly<Record<string, IdKind>> = { domain_effect: 'effect', schedule: 'command_schedule' }

/** Converts all kinds, for values that Concord wrote, or only the listed ones. */
export function withShownIds(value: unknown, kinds?: ReadonlySet<string>): unknown {
  if (Array.isArray(value)) return value.map((inner) => withShownIds(inner, kinds))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shownField(name, inner, kinds)]))
}

function shownField(name: string, inner: unknown, kinds?: ReadonlySet<string>): unknown {
  if (!name.endsWith('_id') || typeof inner !== 'string') return withShownIds(inner, kinds)
  const kind = name.slice(0, -3)
  return kinds === undefined || kinds.has(kind) ? shownId(kind, inner) : inner
}

/** For the payload of an event of ours, which names the type of its target. */
export function withShownTarget(payload: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { target_type: type, target_id: id } = payload
  const shown = Object.entries(payload).map(([name, inner]) => [name, shownField(name, inner)])
  if (typeof type === 'string' && typeof id === 'string') shown.push(['target_id', shownId(type, id)])
  return Object.fromEntries(shown)
}

/** A kind without a prefix, and a value that is not a UUID, stay unchanged. */
export function shownId(kind: string, id: string): string {
  const known = kindOfName[kind] ?? kind
  return isIdKind(known) && isUuid(id) ? encodeId(known, id) : id
}

function isIdKind(kind: string): kind is IdKind {
  return Object.hasOwn(idPrefixes, kind)
}
