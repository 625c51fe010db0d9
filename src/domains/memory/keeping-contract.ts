/** The shapes of consents, holds and forgetting at the edge of this room. */
import { z } from 'zod'
import { idView, instantField, orNull, textView, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { candidateView, memoryScope, memoryType, showAuthor, subjectField } from './contract.ts'
import type { ForgetPreview } from './forget-subject.ts'
import { memoryErasureOutcomes, type StoredConsent, type StoredErasure, type StoredHold } from './memory-repository.ts'
import { showSubject } from './memory-content.ts'

const SUBJECT = 'customer:4711'

export const grantConsentBody = z
  .strictObject({
    subject: subjectField(),
    memory_type: memoryType,
    scope: memoryScope,
    expires_at: instantField('2027-01-31T00:00:00Z').optional().meta({ description: 'When it ends.' }),
  })
  .meta({ id: 'GrantConsentBody', description: 'What may be remembered about whom.' })

export const consentView = z
  .object({
    memory_consent_id: idView('memory_consent', 'The consent.'),
    subject: textView(SUBJECT, 'Whose it is.'),
    memory_type: memoryType,
    scope: memoryScope,
    granted_by: idView('user', 'Who gave or recorded it.'),
    granted_at: timeView('Since when.'),
    expires_at: timeView('When it ends.').nullable(),
    revoked_at: timeView('When it was taken back.').nullable(),
    revoked_by: idView('user', 'Who took it back.').nullable(),
  })
  .meta({ id: 'MemoryConsent', description: 'A consent; it can be taken back at any time.' })

export const candidateDetailView = candidateView
  .extend({
    consents: z.array(consentView).meta({ description: 'What its subject agreed to, for this type and scope.' }),
  })
  .meta({ id: 'MemoryCandidateDetail', description: 'A candidate with what its subject agreed to.' })

export const placeHoldBody = z
  .strictObject({
    subject: subjectField(),
    reason: z.string().trim().min(1).max(500).meta({ example: 'Case 2026-17', description: 'Why it must be kept.' }),
  })
  .meta({ id: 'PlaceHoldBody', description: 'What must not be forgotten.' })

export const holdView = z
  .object({
    memory_hold_id: idView('memory_hold', 'The hold.'),
    subject: textView(SUBJECT, 'Whom it is about.'),
    reason: textView('Case 2026-17', 'Why it must be kept.'),
    placed_by: idView('user', 'Who placed it.'),
    placed_at: timeView('Since when.'),
    released_at: timeView('When it was released.').nullable(),
    released_by: idView('user', 'Who released it.').nullable(),
  })
  .meta({ id: 'MemoryHold', description: 'A hold: what is known about the subject stays.' })

export const holdListView = z
  .object({ items: z.array(holdView) })
  .meta({ id: 'MemoryHoldList', description: 'Holds, newest first.' })

export const forgetBody = z
  .strictObject({
    subject: subjectField(),
    idempotency_key: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .meta({ example: 'forget-4711', description: 'The same key again is the same request.' }),
  })
  .meta({ id: 'ForgetBody', description: 'Whom to forget.' })

export const previewForgetBody = z
  .strictObject({ subject: subjectField() })
  .meta({ id: 'PreviewForgetBody', description: 'Whom it would be about.' })

export const decideCandidateBody = z
  .strictObject({ reason: z.string().max(2_000).optional().meta({ example: 'She told me so.', description: 'Why.' }) })
  .meta({ id: 'DecideCandidateBody', description: 'The reason for a yes or a no.' })

export const consentListView = z
  .object({ items: z.array(consentView) })
  .meta({ id: 'MemoryConsentList', description: 'Consents, newest first.' })

const knownItem = z.object({
  kind: textView(
    'memory',
    'memory, derived_memory, memory_candidate, embedding, memory_consent, artifact, or what a project keeps.',
  ),
  id: textView('0197f3b2-c4d5-7a8e-9b0c-1d2e3f405167', 'Which one.'),
  is_held: z.boolean().meta({ description: 'True: a hold stands on it, and nothing is erased before it is released.' }),
})

export const forgetPreviewView = z
  .object({
    subject: textView(SUBJECT, 'Whom it is about.'),
    may_erase: z.boolean().meta({ description: 'False: a hold stands, on the subject or on something made from it.' }),
    counts: z.record(z.string(), z.int()).meta({ example: { memory: 3 }, description: 'How many of each kind.' }),
    items: z.array(knownItem).meta({ description: 'Everything that would be erased.' }),
    consents: z.array(consentView),
    holds: z.array(holdView),
  })
  .meta({ id: 'ForgetPreview', description: 'What is known about a subject, by lineage, without what it says.' })

export const erasureView = z
  .object({
    memory_erasure_id: idView('memory_erasure', 'The erasure.'),
    command_id: idView('command', 'The command that carries it out.'),
    subject: textView(SUBJECT, 'Whom it is about; null once it is closed.').nullable(),
    subject_digest: textView('9f86d081884c7d65', 'SHA-256 over the erasure, the kind and the id.'),
    requested_by: idView('user', 'Who asked.'),
    requested_at: timeView('When.'),
    outcome: z
      .enum(memoryErasureOutcomes)
      .nullable()
      .meta({ example: 'erased', description: 'Null while it is open.' }),
    closed_at: timeView('When it was carried out or dropped.').nullable(),
    certificate: z
      .record(z.string(), z.unknown())
      .nullable()
      .meta({ description: 'What was erased: ids and counts, never content.' }),
    certificate_hash: textView('6b86b273ff34fce1', 'SHA-256 of the certificate; the audit has it too.').nullable(),
  })
  .meta({ id: 'MemoryErasure', description: 'A request to forget a subject, and its certificate.' })

export function toConsentView(consent: StoredConsent) {
  return {
    memory_consent_id: encodeId('memory_consent', consent.memory_consent_id),
    subject: showSubject(consent),
    memory_type: consent.memory_type,
    scope: consent.scope,
    granted_by: showAuthor(consent.granted_by),
    granted_at: formatInstant(consent.granted_at),
    expires_at: orNull(consent.expires_at, formatInstant),
    revoked_at: orNull(consent.revoked_at, formatInstant),
    revoked_by: orNull(consent.revoked_by, showAuthor),
  }
}

export function toHoldView(hold: StoredHold) {
  return {
    memory_hold_id: encodeId('memory_hold', hold.memory_hold_id),
    subject: showSubject(hold),
    reason: hold.reason,
    placed_by: showAuthor(hold.placed_by),
    placed_at: formatInstant(hold.placed_at),
    released_at: orNull(hold.released_at, formatInstant),
    released_by: orNull(hold.released_by, showAuthor),
  }
}

export function toForgetPreviewView(subject: Parameters<typeof showSubject>[0], preview: ForgetPreview) {
  const kinds = Map.groupBy(preview.items, ({ kind }) => kind)
  return {
    subject: showSubject(subject),
    may_erase: preview.may_erase,
    counts: Object.fromEntries([...kinds].map(([kind, items]) => [kind, items.length])),
    items: preview.items.map(({ kind, id, isHeld = false }) => ({ kind, id, is_held: isHeld })),
    consents: preview.consents.map(toConsentView),
    holds: preview.holds.map(toHoldView),
  }
}

export function toErasureView(erasure: StoredErasure) {
  const { subject_type, subject_id } = erasure
  return {
    memory_erasure_id: encodeId('memory_erasure', erasure.memory_erasure_id),
    command_id: encodeId('command', erasure.command_id),
    subject: subject_id === null ? null : showSubject({ subject_type, subject_id }),
    subject_digest: erasure.subject_digest,
    requested_by: showAuthor(erasure.requested_by),
    requested_at: formatInstant(erasure.requested_at),
    outcome: erasure.outcome,
    closed_at: orNull(erasure.closed_at, formatInstant),
    certificate: erasure.certificate as Record<string, unknown> | null,
    certificate_hash: erasure.certificate_hash,
  }
}
