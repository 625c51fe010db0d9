/** The shapes that cross the edge of this room: what is proposed, and what a person sees of memories and candidates. */
import { z } from 'zod'
import { exampleId, idField, idView, instantField, orNull, parsedField, textView, timeView } from '#contract'
import { encodeId, type IdKind } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { statesOf } from '#kernel/machine'
import { memoryCandidateMachine, memoryRecordMachine } from '#kernel/machines/memory'
import { parseFactKey, parseSubject, showSubject } from './memory-content.ts'
import {
  type MemoryContent,
  memoryScopes,
  memorySensitivities,
  memoryTypes,
  type StoredCandidate,
  type StoredMemory,
} from './memory-repository.ts'
import type { FoundMemory } from './memory-store.ts'

const MEMORY_ID = exampleId('memory')
const SUBJECT = 'customer:4711'

const label = (example: string, description: string) =>
  z.string().min(1).max(200).optional().meta({ example, description })
const instant = (description: string) => instantField('2027-01-31T00:00:00Z').optional().meta({ description })

export const memoryScope = z.enum(memoryScopes).meta({ id: 'MemoryScope', example: 'user' })
export const memoryType = z.enum(memoryTypes).meta({ id: 'MemoryType', example: 'preference' })
const memorySensitivity = z.enum(memorySensitivities).meta({ id: 'MemorySensitivity', example: 'internal' })
const memoryStatus = z.enum(statesOf(memoryRecordMachine)).meta({ id: 'MemoryStatus', example: 'active' })
export const candidateStatus = z
  .enum(statesOf(memoryCandidateMachine))
  .meta({ id: 'MemoryCandidateStatus', example: 'awaiting_approval' })

export const subjectField = () =>
  parsedField(parseSubject).meta({ type: 'string', example: SUBJECT, description: 'Whom it is about, as kind:id.' })

export const proposeMemoryBody = z
  .strictObject({
    subject: subjectField(),
    scope: memoryScope,
    memory_type: memoryType,
    content: z.record(z.string(), z.unknown()).meta({ example: { seat: 'aisle' }, description: 'What to remember.' }),
    fact_key: parsedField(parseFactKey).optional().meta({
      type: 'string',
      example: 'travel.seat',
      description: 'What it is about: of two memories with one key only one is in force.',
    }),
    confidence: z.number().min(0).max(1).optional().meta({ example: 0.95, description: 'How sure it is.' }),
    expires_at: instant('When it ends.'),
    temporary: z.boolean().optional().meta({ example: false, description: 'It needs an end.' }),
    sensitivity: memorySensitivity.optional(),
    schema_name: label('user.travel_preferences', 'The memory schema it follows.'),
    task_type: label('book_trip', 'The kind of task that should find it.'),
    connector: label('hotel_booking', 'The connector it helps with.'),
    derived_from: z
      .array(idField('memory'))
      .max(100)
      .optional()
      .meta({ example: [MEMORY_ID], description: 'The memories it was made from; they are forgotten together.' }),
    idempotency_key: z
      .string()
      .min(1)
      .max(200)
      .optional()
      .meta({ example: 'crm-4711-seat', description: 'The same key again is the same request.' }),
    supersedes: idField('memory').optional().meta({ description: 'What it replaces.' }),
  })
  .meta({ id: 'ProposeMemoryBody', description: 'Something to remember.' })

const said = {
  subject: textView(SUBJECT, 'Whom it is about.'),
  scope: memoryScope,
  memory_type: memoryType,
  content: z.record(z.string(), z.unknown()).meta({ example: { seat: 'aisle' }, description: 'Empty: it was erased.' }),
  fact_key: textView('travel.seat', 'What it is about.'),
  confidence: z.number().nullable().meta({ example: 0.95, description: 'How sure it is.' }),
  sensitivity: memorySensitivity,
  schema_name: textView('user.travel_preferences', 'Its memory schema.').nullable(),
  task_type: textView('book_trip', 'The kind of task it is for.').nullable(),
  connector: textView('hotel_booking', 'The connector it helps with.').nullable(),
  expires_at: timeView('When it ends.').nullable(),
  created_by: idView('user', 'Who proposed it.'),
  created_at: timeView('Since when.'),
}

export const memoryView = z
  .object({
    memory_id: idView('memory', 'The memory.'),
    status: memoryStatus,
    ...said,
    superseded_by: idView('memory', 'What took its place.').nullable(),
    command_id: idView('command', 'The command that wrote it.').nullable(),
    updated_at: timeView('When it last changed or was confirmed.'),
    score: z.number().nullable().meta({ example: 0.6, description: 'How well it fits the text that was asked for.' }),
  })
  .meta({ id: 'Memory', description: 'One memory.' })

export const memoryListView = z
  .object({ items: z.array(memoryView) })
  .meta({ id: 'MemoryList', description: 'What was found, best first; the read is on record.' })

export const candidateView = z
  .object({
    memory_candidate_id: idView('memory_candidate', 'The candidate.'),
    status: candidateStatus,
    ...said,
    command_id: idView('command', 'The command that decides it.'),
    agent_run_id: idView('agent_run', 'The run that proposed it.').nullable(),
    approval_id: idView('approval', 'The question about it.').nullable(),
    memory_id: idView('memory', 'The memory it became.').nullable(),
    supersedes: idView('memory', 'What it would replace.').nullable(),
    derived_from: z.array(z.string()).meta({ example: [MEMORY_ID], description: 'What it was made from.' }),
    decided_at: timeView('When it was decided.').nullable(),
  })
  .meta({ id: 'MemoryCandidate', description: 'Something proposed for memory.' })

export const proposedView = candidateView
  .extend({ is_new: z.boolean().meta({ description: 'False: this key was used before, for the same.' }) })
  .meta({ id: 'ProposedMemory', description: 'The candidate, and by its status what became of it so far.' })

const idOf = (kind: IdKind, uuid: string | null) => orNull(uuid, (id) => encodeId(kind, id))

/** `user:<uuid>` as the id that people know. */
export function showAuthor(actor: string): string {
  const [kind, id] = actor.split(':')
  return kind === 'user' && id !== undefined && /^[0-9a-f-]{36}$/.test(id) ? encodeId('user', id) : actor
}

function toSaid(memory: MemoryContent & { readonly created_at: Date }) {
  const { scope, memory_type, content, fact_key, confidence, sensitivity, schema_name, task_type, connector } = memory
  return {
    subject: showSubject(memory),
    scope,
    memory_type,
    // Said as open JSON: the exact recursive type is too deep for the routes' types.
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
  }
}

export function toMemoryView(memory: StoredMemory | FoundMemory) {
  return {
    memory_id: encodeId('memory', memory.memory_id),
    status: memory.status,
    ...toSaid(memory),
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
    ...toSaid(candidate),
    command_id: encodeId('command', candidate.command_id),
    agent_run_id: idOf('agent_run', candidate.agent_run_id),
    approval_id: idOf('approval', candidate.approval_id),
    memory_id: idOf('memory', candidate.memory_id),
    supersedes: idOf('memory', candidate.supersedes),
    derived_from: candidate.derived_from.map((id) => encodeId('memory', id)),
    decided_at: orNull(candidate.decided_at, formatInstant),
  }
}
