/** What may be proposed at all: checked and filled in before anything is stored. Pure. */
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { MemoryScope, MemorySensitivity, MemoryType } from './memory-row.ts'
import { classifyContent, type ContentClass } from './content-class.ts'
import { factKeyOf, isSameContent } from './fact-key.ts'
import type { MemoryContent, StoredCandidate, Subject } from './memory-row.ts'
import type { MemorySchema, MemorySchemas } from './memory-schema.ts'

export type ProposedMemory = Subject & {
  readonly scope: MemoryScope
  readonly memory_type: MemoryType
  readonly content: JsonObject
  readonly confidence?: number | undefined
  readonly expires_at?: Date | undefined
  readonly temporary?: boolean | undefined
  readonly fact_key?: string | undefined
  readonly sensitivity?: MemorySensitivity | undefined
  readonly schema_name?: string | undefined
  readonly task_type?: string | undefined
  readonly connector?: string | undefined
  readonly derived_from?: readonly string[] | undefined
  readonly supersedes?: string | undefined
}

/** A proposal that may be stored, with everything that was left open filled in. */
export type CheckedMemory = Omit<MemoryContent, 'created_by'> & Pick<StoredCandidate, 'derived_from' | 'supersedes'>

const DAY_MS = 86_400_000

export function checkProposal(schemas: MemorySchemas, proposed: ProposedMemory, at: Date): Decision<CheckedMemory> {
  const { content, schema_name: name, expires_at: asked, temporary } = proposed
  if (Object.keys(content).length === 0)
    return refuse('memory.content.empty', 'There is nothing to remember.', { path: 'content' })
  const schema = name === undefined ? undefined : schemas.find(name)
  if (name !== undefined && !schema) {
    const hint = schemas.names.length > 0 ? `There are ${schemas.names.join(', ')}.` : 'This installation has none.'
    return refuse('memory.schema.unknown', 'There is no such memory schema.', { path: 'schema_name', hint })
  }
  const expiresAt = endOf(schema, asked, at)
  if (temporary === true && expiresAt === null)
    return refuse('memory.expiry.missing', 'A temporary memory needs an end.', { path: 'expires_at' })
  if (expiresAt !== null && expiresAt <= at)
    return refuse('memory.expiry.past', 'It would have ended already.', { path: 'expires_at' })
  const found = classifyContent(content, proposed.sensitivity ?? schema?.sensitivity)
  if (isSecret(found.class)) {
    const secret = found.findings.find((each) => each.class === 'secret')
    return refuse('memory.content.secret', 'A secret is not remembered.', {
      path: `content.${secret?.path ?? ''}`,
      hint: 'Remember where it is kept, such as vault://team/name.',
    })
  }
  return accept({
    subject_type: proposed.subject_type,
    subject_id: proposed.subject_id,
    scope: proposed.scope,
    memory_type: proposed.memory_type,
    content,
    confidence: proposed.confidence ?? null,
    expires_at: expiresAt,
    fact_key: factKeyOf(proposed.fact_key, content),
    sensitivity: found.class,
    schema_name: name ?? null,
    task_type: proposed.task_type ?? null,
    connector: proposed.connector ?? null,
    derived_from: [...new Set(proposed.derived_from ?? [])],
    supersedes: proposed.supersedes ?? null,
  })
}

const isSecret = (found: ContentClass): found is 'secret' => found === 'secret'

/** The earlier of what was asked and what the schema allows at most. */
function endOf(schema: MemorySchema | undefined, asked: Date | undefined, at: Date): Date | null {
  const days = schema?.expiration.after_days ?? null
  const latest = days === null ? undefined : new Date(at.getTime() + days * DAY_MS)
  if (asked && latest) return asked < latest ? asked : latest
  return asked ?? latest ?? null
}

/** A repeated key with another content is another request. */
export function isSameProposal(stored: StoredCandidate, memory: CheckedMemory): boolean {
  const parts = [
    'subject_type',
    'subject_id',
    'scope',
    'memory_type',
    'fact_key',
    'schema_name',
    'task_type',
    'connector',
  ] as const
  return parts.every((part) => stored[part] === memory[part]) && isSameContent(stored.content, memory.content)
}
