/** Whether a candidate is written at once, put to a person, or turned away. Pure: the four write rules and what stands around them. */
import { encodeId } from '#kernel/ids'
import type { RefusalCode } from '#kernel/refusal'
import type { MemoryScope, MemoryType } from './memory-repository.ts'
import type { ContentClass } from './memory-content.ts'
import type { MemorySchema } from './memory-schema.ts'

/** Below this nobody is sure enough to skip the question. */
const HIGH_CONFIDENCE = 0.8
const lowRiskTypes: readonly MemoryType[] = ['preference', 'workflow_preference']
/** Everything else reaches people beside the subject. */
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
  readonly sensitivity: ContentClass
  readonly confidence: number | null
  readonly expires_at: Date | null
  readonly is_temporary: boolean
  readonly by_agent: boolean
  /** A consent of the subject stands, for this type and scope. */
  readonly has_consent: boolean
  readonly conflict: Conflict | null
  /** The record that the author means to replace. */
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
  const { sensitivity, expires_at, is_temporary, schema, at } = facts
  const no = (code: RefusalCode, reason: string) => ({ t: 'reject', code, reason }) as const
  if (sensitivity === 'secret') return no('memory.content.secret', 'A secret is not remembered.')
  if (is_temporary && expires_at === null) return no('memory.expiry.missing', 'A temporary memory needs an end.')
  if (expires_at !== null && expires_at <= at) return no('memory.expiry.past', 'It would have ended already.')
  if (!schema) return undefined
  if (schema.write_policy === 'forbidden') return no('memory.schema.mismatch', `${schema.name} takes no new memories.`)
  const fits =
    schema.subject_type === facts.subject_type &&
    schema.memory_types.includes(facts.memory_type) &&
    schema.visibility.includes(facts.scope)
  if (!fits) return no('memory.schema.mismatch', `Subject, type or scope do not fit ${schema.name}.`)
  return lacksConsent(facts) ? no('memory.consent.missing', sayConsentMissing(schema)) : undefined
}

/** Where the schema requires it, nobody's yes stands in for the subject's own. */
export function lacksConsent({ schema, has_consent }: Pick<MemoryWriteFacts, 'schema' | 'has_consent'>): boolean {
  return schema?.consent.required === true && !has_consent
}

export function sayConsentMissing({ name }: Pick<MemorySchema, 'name'>): string {
  return `${name} is kept by consent only, and none of its subject stands.`
}

/** All of them, so that a person sees the whole case. */
function reasonsToAsk(facts: MemoryWriteFacts): readonly string[] {
  const { confidence, conflict, supersedes, schema } = facts
  const surest = Math.max(HIGH_CONFIDENCE, schema?.confidence.direct_from ?? 0)
  const asks: readonly (readonly [boolean, string])[] = [
    [facts.by_agent, 'It was proposed by an agent.'],
    [!lowRiskTypes.includes(facts.memory_type), `A ${facts.memory_type} changes how work is done.`],
    [!narrowScopes.includes(facts.scope), `The scope ${facts.scope} reaches others.`],
    [!['public', 'internal'].includes(facts.sensitivity), `Its data is ${facts.sensitivity}.`],
    [confidence === null || confidence < surest, `It is not sure enough (from ${surest}).`],
    [!facts.has_consent, 'No consent of its subject stands.'],
    [schema?.write_policy === 'approval', `${schema?.name ?? ''} asks for an approval.`],
    [conflict !== null && !mayReplace(conflict, supersedes, confidence, schema), sayContradicted(conflict)],
  ]
  return asks.flatMap(([isSo, reason]) => (isSo ? [reason] : []))
}

/** By its id and never its content: who reads the reason may not be allowed to read the memory. */
export function sayContradicted(conflict: Conflict | null): string {
  return conflict === null ? '' : `It contradicts what is known: ${encodeId('memory', conflict.memory_id)}.`
}

/** Only what its author saw and named, and only by something at least as sure. */
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
