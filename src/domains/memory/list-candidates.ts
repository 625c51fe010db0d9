/** What was proposed for memory, and one proposal with the consents that stand for it. */
import { accept, type Decision } from '#kernel/refusal'
import type { MemoryCandidateState } from '#kernel/machines/memory-candidate'
import { type Sql, statement } from '#store'
import { type CandidateRef, refuseNoCandidate } from './assess-candidate.ts'
import { listConsents } from './consent.ts'
import { findCandidate } from './memory-repository.ts'
import { candidateColumns, type StoredCandidate, type StoredConsent } from './memory-row.ts'

export type CandidatePage = { readonly items: readonly StoredCandidate[]; readonly next: readonly string[] | undefined }

const listSql = statement<StoredCandidate>(
  'memory_list_candidates',
  `select ${candidateColumns} from concord.memory_candidates
where workspace_id = $1 and ($2::text[] is null or status = any ($2))
  and ($6::text is null or scope <> 'user' or subject_type <> 'user' or subject_id = $6 or created_by = 'user:' || $6) and ($3::timestamptz is null or (created_at, memory_candidate_id) < ($3, $4))
order by created_at desc, memory_candidate_id desc limit $5`,
)

export async function listCandidates(
  sql: Sql,
  input: {
    readonly workspaceId: string
    readonly status?: readonly MemoryCandidateState[] | undefined
    readonly after?: readonly string[] | undefined
    /** A user who sees of others' own matters only what that user proposed. */
    readonly viewer?: string | undefined
    readonly limit: number
  },
): Promise<CandidatePage> {
  const [at = null, id = null] = input.after ?? []
  const rows = await sql.run(listSql, [
    input.workspaceId,
    input.status ?? null,
    at,
    id,
    input.limit + 1,
    input.viewer ?? null,
  ])
  const items = rows.slice(0, input.limit)
  const last = rows.length > input.limit ? items.at(-1) : undefined
  return { items, next: last && [last.created_at.toISOString(), last.memory_candidate_id] }
}

export type ShownCandidate = { readonly candidate: StoredCandidate; readonly consents: readonly StoredConsent[] }

const CONSENTS_MAX = 50

/** A candidate is shown together with what its subject agreed to, standing or taken back. */
export async function getCandidate(
  sql: Sql,
  { workspaceId, candidateId, viewer }: CandidateRef & { readonly viewer?: string | undefined },
): Promise<Decision<ShownCandidate>> {
  const candidate = await findCandidate(sql, workspaceId, candidateId)
  if (!candidate || !isShown(candidate, viewer)) return refuseNoCandidate()
  const consents = await listConsents(sql, { workspaceId, subject: candidate, viewer: undefined, limit: CONSENTS_MAX })
  const { memory_type, scope } = candidate
  return accept({
    candidate,
    consents: consents.filter((each) => each.memory_type === memory_type && each.scope === scope),
  })
}

function isShown(
  { scope, subject_type, subject_id, created_by }: StoredCandidate,
  viewer: string | undefined,
): boolean {
  const isPrivate = scope === 'user' && subject_type === 'user'
  return !isPrivate || viewer === undefined || subject_id === viewer || created_by === `user:${viewer}`
}
