/** Decides whether a candidate is written at once, sent to a person, or refused. Pure. */
import type { DataClass } from '#kernel/data-class'
import { encodeId } from '#kernel/ids'
import type { RefusalCode } from '#kernel/refusal'
import type { MemoryScope, MemoryType } from './memory-record.ts'
import type { MemorySchema } from './memory-schema.ts'

/** A lower confidence needs an approval. */
const HIGH_CONFIDENCE = 0.8
const lowRiskTypes: readonly MemoryType[] = ['preference', 'workflow_preference']
/** Every other scope affects people other than the subject. */
const narrowScopes: readonly MemoryScope[] = ['user', 'project']

/** An active record with the same key. */
export type Conflict = {
  readonly memory_id: string
  readonly is_same: boolean
  readonly confidence: number | null
}

export type MemoryWriteFacts = {
  readonly memory_type: MemoryType
  readonly scope: MemoryScope
  readonly subject_type: string
  readonly sensitivity: DataClass
  readonly confidence: number | null
  readonly expires_at: Date | null
  readonly by_agent: boolean
  /** The subject has consented to this type and scope. */
  readonly has_consent: boolean
  readonly conflict: Conflict | null
  /** The record that the author wants to replace. */
  readonly supersedes: string | null
  readonly schema: MemorySchema | null
  readonly at: Date
}

export type MemoryWriteDecision =
  | { readonly t: 'write'; readonly supersedes: string | null }
  | { readonly t: 'known'; readonly memory_id: string }
  | { readonly t: 'ask'; readonly reasons: readonly string[] }
  | { readonly t: 'reject'; readonly code: RefusalCode; readonly reason: string }

export function decideMemoryWrite(facts: MemoryWriteFacts): MemoryWriteDecision {
  const refusal = findRefusal(facts)
  if (refusal) return refusal
  const { conflict, supersedes } = facts
  if (conflict?.is_same) return { t: 'known', memory_id: conflict.memory_id }
  const reasons = reasonsToAsk(facts)
  return reasons.length > 0 ? { t: 'ask', reasons } : { t: 'write', supersedes: conflict ? supersedes : null }
}

function findRefusal(facts: MemoryWriteFacts): Extract<MemoryWriteDecision, { t: 'reject' }> | undefined {
  const { sensitivity, expires_at, schema, at } = facts
  const no = (code: RefusalCode, reason: string) => ({ t: 'reject', code, reason }) as const
  if (sensitivity === 'secret') return no('memory.content.secret', 'A secret cannot be stored as a memory.')
  if (expires_at !== null && expires_at <= at) return no('memory.expiry.past', 'The expiry time has already passed.')
  if (!schema) return undefined
  if (schema.write_policy === 'forbidden')
    return no('memory.schema.mismatch', `The schema ${schema.name} accepts no new memories.`)
  const fits =
    schema.subject_type === facts.subject_type &&
    schema.memory_types.includes(facts.memory_type) &&
    schema.visibility.includes(facts.scope)
  if (!fits) return no('memory.schema.mismatch', `The subject, type or scope does not match the schema ${schema.name}.`)
  return lacksConsent(facts) ? no('memory.consent.missing', sayConsentMissing(schema)) : undefined
}

/** Where the schema requires consent, no approval replaces it. */
export function lacksConsent({ schema, has_consent }: Pick<MemoryWriteFacts, 'schema' | 'has_consent'>): boolean {
  return schema?.consent.required === true && !has_consent
}

export function sayConsentMissing({ name }: Pick<MemorySchema, 'name'>): string {
  return `The schema ${name} requires the consent of the subject, and there is none.`
}

/** Returns all reasons, so that the approver sees the whole case. */
function reasonsToAsk(facts: MemoryWriteFacts): readonly string[] {
  const { confidence, conflict, supersedes, schema } = facts
  const required = Math.max(HIGH_CONFIDENCE, schema?.confidence.direct_from ?? 0)
  const asks: readonly (readonly [boolean, string])[] = [
    [facts.by_agent, 'It was proposed by an agent.'],
    [!lowRiskTypes.includes(facts.memory_type), `A ${facts.memory_type} changes how work is done.`],
    [!narrowScopes.includes(facts.scope), `The scope ${facts.scope} reaches other people.`],
    [!['public', 'internal'].includes(facts.sensitivity), `Its data is ${facts.sensitivity}.`],
    [confidence === null || confidence < required, `Its confidence is below ${required}.`],
    [!facts.has_consent, 'Its subject has not consented.'],
    [schema?.write_policy === 'approval', `The schema ${schema?.name ?? ''} requires an approval.`],
    [conflict !== null && !mayReplace(conflict, supersedes, confidence, schema), sayContradicted(conflict)],
  ]
  return asks.flatMap(([isSo, reason]) => (isSo ? [reason] : []))
}

/** Names the record by id and never shows its content: the reader of the reason may not be allowed to read the memory. */
export function sayContradicted(conflict: Conflict | null): string {
  return conflict === null ? '' : `It contradicts the memory ${encodeId('memory', conflict.memory_id)}.`
}

/** Only a record that the author named may be replaced, and only with at least its confidence. */
function mayReplace(
  conflict: Conflict,
  supersedes: string | null,
  confidence: number | null,
  schema: MemorySchema | null,
): boolean {
  return (
    supersedes === conflict.memory_id &&
    schema?.supersession !== 'ask' &&
    (confidence ?? 0) >= (conflict.confidence ?? 0)
  )
}
