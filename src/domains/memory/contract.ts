/** The API shapes of this room: proposals, memories, candidates, consents, holds and erasures. */
import { z } from 'zod'
import {
  exampleId,
  idField,
  idView,
  instantField,
  keyField,
  labelsView,
  orNull,
  parsedField,
  textField,
  textView,
  timeView,
} from '#contract'
import { encodeId, type IdKind } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { JsonObject } from '#kernel/json-value'
import { statesOf } from '#kernel/machine'
import { memoryCandidateMachine, memoryRecordMachine } from '#kernel/machines/memory'
import type { ForgetPreview } from './deps.ts'
import { factKeyForm, parseFactKey, parseSubject, showSubject, subjectForm } from './memory-content.ts'
import {
  memoryScopes,
  memorySensitivities,
  memoryTypes,
  type StoredCandidate,
  type StoredConsent,
  type StoredErasure,
  type StoredHold,
  type StoredMemory,
  type Subject,
} from './memory-record.ts'
import type { FoundMemory } from './memory-store.ts'

const MEMORY_ID = exampleId('memory')
const SUBJECT = 'customer:4711'

const label = (example: string, description: string) =>
  textField(200, { charsMin: 1 }).optional().meta({ example, description })
const instant = (description: string) => instantField('2027-01-31T00:00:00Z').optional().meta({ description })

const memoryScope = z.enum(memoryScopes).meta({ id: 'MemoryScope', example: 'user' })
export const memoryType = z.enum(memoryTypes).meta({ id: 'MemoryType', example: 'preference' })
const memorySensitivity = z.enum(memorySensitivities).meta({ id: 'MemorySensitivity', example: 'internal' })
const memoryStatus = z.enum(statesOf(memoryRecordMachine)).meta({ id: 'MemoryStatus', example: 'active' })
export const candidateStatus = z
  .enum(statesOf(memoryCandidateMachine))
  .meta({ id: 'MemoryCandidateStatus', example: 'awaiting_approval' })

export const subjectField = () =>
  parsedField(parseSubject).meta({
    type: 'string',
    ...subjectForm,
    example: SUBJECT,
    description: 'The subject, as kind:id.',
  })

export const proposeMemoryBody = z
  .strictObject({
    subject: subjectField(),
    scope: memoryScope,
    memory_type: memoryType,
    content: z
      .record(z.string(), z.unknown())
      .meta({ minProperties: 1, example: { seat: 'aisle' }, description: 'What to remember.' }),
    fact_key: parsedField(parseFactKey).optional().meta({
      type: 'string',
      pattern: factKeyForm.source,
      example: 'travel.seat',
      description: 'What it is about: of two memories with one key only one is in force.',
    }),
    confidence: z
      .number()
      .min(0)
      .max(1)
      .optional()
      .meta({ example: 0.95, description: 'The confidence, from 0 to 1.' }),
    expires_at: instant('When it ends.'),
    temporary: z.boolean().optional().meta({ example: false, description: 'A temporary memory needs `expires_at`.' }),
    sensitivity: memorySensitivity.optional(),
    schema_name: label('user.travel_preferences', 'The memory schema it follows.'),
    task_type: label('book_trip', 'The kind of task that should find it.'),
    connector: label('hotel_booking', 'The connector it helps with.'),
    derived_from: z
      .array(idField('memory'))
      .max(100)
      .optional()
      .meta({ example: [MEMORY_ID], description: 'The memories it was made from; they are forgotten together.' }),
    idempotency_key: keyField('crm-4711-seat').optional(),
    supersedes: idField('memory').optional().meta({ description: 'The memory that it replaces.' }),
  })
  .meta({ id: 'ProposeMemoryBody', description: 'Something to remember.' })

export type ProposedMemory = Omit<z.infer<typeof proposeMemoryBody>, 'subject' | 'content' | 'idempotency_key'> &
  Subject & { readonly content: JsonObject }

const common = {
  subject: textView(SUBJECT, 'The subject.'),
  scope: memoryScope,
  memory_type: memoryType,
  content: z.record(z.string(), z.unknown()).meta({ example: { seat: 'aisle' }, description: 'Empty: it was erased.' }),
  fact_key: textView('travel.seat', 'What it is about.'),
  confidence: z.number().nullable().meta({ example: 0.95, description: 'The confidence, from 0 to 1.' }),
  sensitivity: memorySensitivity,
  schema_name: textView('user.travel_preferences', 'Its memory schema.').nullable(),
  task_type: textView('book_trip', 'The kind of task it is for.').nullable(),
  connector: textView('hotel_booking', 'The connector it helps with.').nullable(),
  expires_at: timeView('When it ends.').nullable(),
  created_by: idView('user', 'Who proposed it.'),
  created_at: timeView('Since when.'),
  labels: labelsView(),
}

export const memoryView = z
  .object({
    memory_id: idView('memory', 'The memory.'),
    status: memoryStatus,
    ...common,
    superseded_by: idView('memory', 'The memory that replaced it.').nullable(),
    command_id: idView('command', 'The command that wrote it.').nullable(),
    updated_at: timeView('When it last changed or was confirmed.'),
    score: z.number().nullable().meta({ example: 0.6, description: 'How well it matches the search text.' }),
  })
  .meta({ id: 'Memory', description: 'One memory.' })

export const memoryListView = z
  .object({
    items: z.array(memoryView),
    truncated: z.boolean().meta({
      description: 'The list ended at 4 MiB, before its limit. Narrow the search, or read single memories by id.',
    }),
  })
  .meta({ id: 'MemoryList', description: 'The memories found, best match first. The search is recorded.' })

export const candidateView = z
  .object({
    memory_candidate_id: idView('memory_candidate', 'The candidate.'),
    status: candidateStatus,
    ...common,
    command_id: idView('command', 'The command that decides it.'),
    agent_run_id: idView('agent_run', 'The run that proposed it.').nullable(),
    approval_id: idView('approval', 'The approval of it.').nullable(),
    memory_id: idView('memory', 'The memory it became.').nullable(),
    supersedes: idView('memory', 'The memory that it would replace.').nullable(),
    derived_from: z.array(z.string()).meta({ example: [MEMORY_ID], description: 'What it was made from.' }),
    decided_at: timeView('When it was decided.').nullable(),
  })
  .meta({ id: 'MemoryCandidate', description: 'Something proposed for memory.' })

export const proposedView = candidateView
  .extend({ is_new: z.boolean().meta({ description: 'False: this key was used before, for the same.' }) })
  .meta({ id: 'ProposedMemory', description: 'The candidate with its present status.' })

export const grantConsentBody = z
  .strictObject({
    subject: subjectField(),
    memory_type: memoryType,
    scope: memoryScope,
    expires_at: instant('When it ends.'),
  })
  .meta({ id: 'GrantConsentBody', description: 'What may be remembered about whom.' })

export const consentView = z
  .object({
    memory_consent_id: idView('memory_consent', 'The consent.'),
    subject: textView(SUBJECT, 'The subject who gave it.'),
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
    reason: textField(500, { filled: true }).meta({
      example: 'Case 2026-17',
      description: 'Why the data must be kept.',
    }),
  })
  .meta({ id: 'PlaceHoldBody', description: 'What must not be forgotten.' })

export const holdView = z
  .object({
    memory_hold_id: idView('memory_hold', 'The hold.'),
    subject: textView(SUBJECT, 'The subject.'),
    reason: textView(
      'Case 2026-17',
      'Why it must be kept; null for everybody but administrators and data owners.',
    ).nullable(),
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
    idempotency_key: keyField('forget-4711').optional(),
  })
  .meta({ id: 'ForgetBody', description: 'The subject to forget.' })

export const previewForgetBody = z
  .strictObject({ subject: subjectField() })
  .meta({ id: 'PreviewForgetBody', description: 'The subject to preview.' })

export const decideCandidateBody = z
  .strictObject({ reason: textField(2_000).optional().meta({ example: 'She told me so.', description: 'Why.' }) })
  .meta({ id: 'DecideCandidateBody', description: 'The reason for the decision.' })

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
    subject: textView(SUBJECT, 'The subject.'),
    is_shown: z
      .boolean()
      .meta({ description: 'False: only the person, data owners and administrators see what there is.' }),
    may_erase: z.boolean().meta({ description: 'False: a hold stands, on the subject or on something made from it.' }),
    counts: z.record(z.string(), z.int()).meta({ example: { memory: 3 }, description: 'How many of each kind.' }),
    items: z
      .array(knownItem)
      .meta({ description: 'Everything that would be erased. Payloads of commands stay, with the subjects in them.' }),
    consents: z.array(consentView),
    holds: z.array(holdView),
  })
  .meta({ id: 'ForgetPreview', description: 'What is known about a subject, by lineage, without what it says.' })

export const erasureView = z
  .object({
    memory_erasure_id: idView('memory_erasure', 'The erasure.'),
    command_id: idView('command', 'The command that carries it out.'),
    subject: textView(SUBJECT, 'The subject; null once the erasure is closed.').nullable(),
    subject_digest: textView('9f86d081884c7d65', 'SHA-256 over the erasure, the kind and the id.'),
    requested_by: idView('user', 'Who asked.'),
    requested_at: timeView('When.'),
    outcome: z
      .enum(['erased', 'dropped'])
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

const idOf = (kind: IdKind, uuid: string | null) => orNull(uuid, (id) => encodeId(kind, id))

/** Shows `user:<uuid>` as the public id of the user. */
function showAuthor(actor: string): string {
  const [kind, id] = actor.split(':')
  return kind === 'user' && id !== undefined && /^[0-9a-f-]{36}$/.test(id) ? encodeId('user', id) : actor
}

function toCommonView(memory: StoredMemory | StoredCandidate) {
  const { scope, memory_type, content, fact_key, confidence, sensitivity, schema_name, task_type, connector } = memory
  return {
    subject: showSubject(memory),
    scope,
    memory_type,
    // Typed as open JSON: the exact recursive type is too deep for the types of the routes.
    content: content as Record<string, unknown>,
    fact_key,
    confidence,
    sensitivity,
    schema_name,
    task_type,
    connector,
    expires_at: orNull(memory.expires_at, formatInstant),
    created_by: showAuthor(memory.created_by),
    created_at: formatInstant(memory.created_at),
    labels: [...(memory.labels ?? [])],
  }
}

export function toMemoryView(memory: StoredMemory | FoundMemory) {
  return {
    memory_id: encodeId('memory', memory.memory_id),
    status: memory.status,
    ...toCommonView(memory),
    superseded_by: idOf('memory', memory.superseded_by),
    command_id: idOf('command', memory.command_id),
    updated_at: formatInstant(memory.updated_at),
    score: 'score' in memory ? memory.score : null,
  }
}

export function toCandidateView(candidate: StoredCandidate) {
  return {
    memory_candidate_id: encodeId('memory_candidate', candidate.memory_candidate_id),
    status: candidate.status,
    ...toCommonView(candidate),
    command_id: encodeId('command', candidate.command_id),
    agent_run_id: idOf('agent_run', candidate.agent_run_id),
    approval_id: idOf('approval', candidate.approval_id),
    memory_id: idOf('memory', candidate.memory_id),
    supersedes: idOf('memory', candidate.supersedes),
    derived_from: candidate.derived_from.map((id) => encodeId('memory', id)),
    decided_at: orNull(candidate.decided_at, formatInstant),
  }
}
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

export function toHoldView(hold: StoredHold, seesReason: boolean) {
  return {
    memory_hold_id: encodeId('memory_hold', hold.memory_hold_id),
    subject: showSubject(hold),
    reason: seesReason ? hold.reason : null,
    placed_by: showAuthor(hold.placed_by),
    placed_at: formatInstant(hold.placed_at),
    released_at: orNull(hold.released_at, formatInstant),
    released_by: orNull(hold.released_by, showAuthor),
  }
}

/** What the caller may learn: everything about the subject, and the reasons of holds. */
export type PreviewRights = { readonly seesSubject: boolean; readonly seesReason: boolean }

export function toForgetPreviewView(subject: Subject, preview: ForgetPreview, rights: PreviewRights) {
  const mayErase = preview.hold_count === 0
  if (!rights.seesSubject)
    return {
      subject: showSubject(subject),
      is_shown: false,
      may_erase: mayErase,
      counts: {},
      items: [],
      consents: [],
      holds: [],
    }
  const kinds = Map.groupBy(preview.items, ({ kind }) => kind)
  return {
    subject: showSubject(subject),
    is_shown: true,
    may_erase: mayErase,
    counts: Object.fromEntries([...kinds].map(([kind, items]) => [kind, items.length])),
    items: preview.items.map(({ kind, id, isHeld = false }) => ({ kind, id, is_held: isHeld })),
    consents: preview.consents.map(toConsentView),
    holds: preview.holds.map((hold) => toHoldView(hold, rights.seesReason)),
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
