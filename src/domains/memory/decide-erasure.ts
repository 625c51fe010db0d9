/** Whether a subject may be erased now, and the certificate that remains of it. Pure. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { StoredHold } from './memory-row.ts'

/** One thing that knows the subject: its kind and id, never what it says. */
export type KnownItem = { readonly kind: string; readonly id: string; readonly isHeld?: boolean }

/** Of the subject itself, and of things that know it. */
export function countHolds(
  holds: readonly Pick<StoredHold, 'released_at'>[],
  items: readonly Pick<KnownItem, 'isHeld'>[],
): number {
  return holds.filter(({ released_at }) => released_at === null).length + items.filter(({ isHeld }) => isHeld).length
}

export function decideErasure(holds: readonly Pick<StoredHold, 'released_at'>[]): Decision<null> {
  const standing = countHolds(holds, [])
  if (standing === 0) return accept(null)
  return refuse(
    'memory.forget.held',
    `${standing === 1 ? 'A hold stands' : `${standing} holds stand`} on what would be erased.`,
    {
      hint: 'Whoever placed it releases it first: concord memory holds --subject … shows who.',
      facts: { holds: standing },
    },
  )
}

export type Certificate = {
  readonly document: JsonObject
  /** Stands in the audit too: an edited certificate shows. */
  readonly hash: string
}

export function writeCertificate(of: {
  readonly erasureId: string
  readonly subjectDigest: string
  readonly items: readonly KnownItem[]
  readonly at: Date
}): Certificate {
  const kinds = [...new Set(of.items.map(({ kind }) => kind))].toSorted()
  const idsOf = (kind: string) => of.items.filter((item) => item.kind === kind).map(({ id }) => id)
  const document: JsonObject = {
    memory_erasure_id: of.erasureId,
    subject_digest: of.subjectDigest,
    erased_at: of.at.toISOString(),
    counts: Object.fromEntries(kinds.map((kind) => [kind, idsOf(kind).length])),
    erased: Object.fromEntries(kinds.map((kind) => [kind, idsOf(kind).toSorted()])),
  }
  return { document, hash: hash('sha256', canonicalJson(document)) }
}
