/** What the server says about memory, as far as the command line reads it, and how it is shown to a person. */
import { decodeId, type IdKind } from '#kernel/ids'
import { accept, type Decision, quote } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { shortJson, wordsOf } from './command-view.ts'
import { listOf } from './next-hint.ts'
import { colorsOf, type Terminal } from './terminal.ts'

type Said = {
  readonly subject: string
  readonly scope: string
  readonly memory_type: string
  readonly content: unknown
  readonly fact_key: string
  readonly confidence: number | null
  readonly sensitivity: string
  readonly expires_at: string | null
  readonly created_by: string
  readonly created_at: string
  readonly command_id: string | null
}

export type MemoryView = Said & {
  readonly memory_id: string
  readonly status: string
  readonly superseded_by: string | null
  readonly updated_at: string
}

export type ConsentView = {
  readonly memory_consent_id: string
  readonly subject: string
  readonly memory_type: string
  readonly scope: string
  readonly granted_by: string
  readonly granted_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
}

export type HoldView = {
  readonly memory_hold_id: string
  readonly subject: string
  readonly reason: string
  readonly placed_by: string
  readonly placed_at: string
  readonly released_at: string | null
}

export type CandidateView = Said & {
  readonly memory_candidate_id: string
  readonly status: string
  readonly memory_id: string | null
  readonly supersedes: string | null
  readonly consents?: readonly ConsentView[]
}

export type PreviewView = {
  readonly subject: string
  readonly may_erase: boolean
  readonly counts: Readonly<Record<string, number>>
  readonly items: readonly { readonly kind: string; readonly id: string; readonly is_held: boolean }[]
  readonly consents: readonly ConsentView[]
  readonly holds: readonly HoldView[]
}

export type ErasureView = {
  readonly memory_erasure_id: string
  readonly command_id: string
  readonly subject: string | null
  readonly outcome: string | null
  readonly closed_at: string | null
  readonly certificate: { readonly counts?: Readonly<Record<string, number>> } | null
  readonly certificate_hash: string | null
}

const facts = (lines: readonly (readonly [string, string | null])[]) =>
  lines.map(([name, text]) => (text === null ? '' : `  ${name.padEnd(10)}  ${showLine(text)}\n`)).join('')

export function formatMemory(terminal: Terminal, memory: MemoryView): string {
  const bold = colorsOf(terminal).bold
  return `${bold(shortJson(memory.content, 2_000))}  ${memory.memory_id}\n${facts([
    ['about', memory.subject],
    ['kind', `${wordsOf(memory.memory_type)}, scope ${wordsOf(memory.scope)}, ${memory.sensitivity}`],
    ['key', memory.fact_key],
    ['state', wordsOf(memory.status)],
    ['sure', memory.confidence === null ? null : String(memory.confidence)],
    ['until', memory.expires_at],
    ['replaced by', memory.superseded_by],
    ['from', `${memory.created_by}, ${memory.created_at}`],
    ['command', memory.command_id],
  ])}`
}

export function formatCandidate(terminal: Terminal, candidate: CandidateView): string {
  const { memory_candidate_id: id, status, consents } = candidate
  const standing = consents?.filter(({ revoked_at }) => revoked_at === null).length
  return `${colorsOf(terminal).bold(shortJson(candidate.content, 2_000))}  ${id}\n${facts([
    ['about', candidate.subject],
    ['kind', `${wordsOf(candidate.memory_type)}, scope ${wordsOf(candidate.scope)}, ${candidate.sensitivity}`],
    ['key', candidate.fact_key],
    ['state', wordsOf(status)],
    ['consent', standing === undefined ? null : standing > 0 ? 'stands' : 'none'],
    ['replaces', candidate.supersedes],
    ['became', candidate.memory_id],
    ['from', `${candidate.created_by}, ${candidate.created_at}`],
    ['command', candidate.command_id],
    [
      'next',
      status === 'awaiting_approval'
        ? `another person than ${candidate.created_by} decides: concord memory approve ${id} | concord memory reject ${id} --reason "…"`
        : null,
    ],
  ])}`
}

export function formatCounts(counts: Readonly<Record<string, number>>): string {
  const kinds = Object.entries(counts)
  if (kinds.length === 0) return '  nothing\n'
  return kinds.map(([kind, count]) => `  ${String(count).padStart(6)}  ${wordsOf(kind)}\n`).join('')
}

/** The path of one thing of memory, if what was typed can be its id at all. */
export function memoryPath(kind: IdKind, place: string, id: string, verb = ''): Decision<string> {
  const decoded = decodeId(kind, id)
  if (decoded.ok) return accept(`/memory/${place}/${encodeURIComponent(id)}${verb}`)
  const hint = listOf(`/memory/${place}`) ?? 'The request to forget gave it.'
  return { ...decoded, reason: `${quote(id)} is not the id of a ${kind.replaceAll('_', ' ')}`, path: '<id>', hint }
}
