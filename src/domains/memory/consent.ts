/** Consents: what a subject has agreed to have remembered, until it is revoked. No store sees them (M8). */
import type { Actor, Principal } from '#kernel/actor'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { defineTable, refuseConstraint, type Sql, statement } from '#store'
import type { MemoryDeps } from './deps.ts'
import { memoryLog } from './events.ts'
import type { StoredConsent, Subject } from './memory-record.ts'

export type ConsentTo = Pick<StoredConsent, keyof Subject | 'memory_type' | 'scope'>

const consents = defineTable<StoredConsent>()({
  name: 'concord.memory_consents',
  noun: 'memory_consent',
  id: 'memory_consent_id',
  tenant: 'workspace_id',
  log: memoryLog,
  links: ['workspace_id'],
})

/** Who reads: the rights alone decide what is seen. */
export type MemoryReader = Pick<Actor, 'id' | 'traceId'> & {
  readonly principal?: Pick<Principal, 'userId' | 'role' | 'orgRoles'> | undefined
}

/** The user who sees no private memory of others. Undefined for administrators, data owners and Concord itself, who see everything. */
export function viewerOf({ principal }: Pick<MemoryReader, 'principal'>): string | undefined {
  if (!principal || principal.role === 'admin' || principal.orgRoles.includes('data-owner')) return undefined
  return principal.userId
}

/** What is known about a user is private: only that user and those who see everything learn how much it is. */
export function seesSubject(actor: Pick<Actor, 'principal'>, { subject_type, subject_id }: Subject): boolean {
  const viewer = viewerOf(actor)
  return viewer === undefined || subject_type !== 'user' || subject_id === viewer
}

const findActive = statement<{ readonly memory_consent_id: string }>(
  'memory_find_consent',
  `select memory_consent_id from concord.memory_consents
where workspace_id = $1 and subject_type = $2 and subject_id = $3 and memory_type = $4 and scope = $5
  and revoked_at is null and (expires_at is null or expires_at > $6)`,
)

export async function hasConsent(sql: Sql, workspaceId: string, to: ConsentTo, at: Date): Promise<boolean> {
  const rows = await sql.run(findActive, [workspaceId, to.subject_type, to.subject_id, to.memory_type, to.scope, at])
  return rows.length > 0
}

/** Only the user or an administrator gives the consent of a user. Every writer records the consent of other subjects. */
function decideConsent(principal: Principal | undefined, { subject_type, subject_id }: Subject): Decision<null> {
  const isOther = subject_type === 'user' && subject_id !== principal?.userId
  if (!isOther || !principal || principal.role === 'admin') return accept(null)
  return refuse('memory.consent.not_yours', 'Only that user can grant or revoke this consent.', {
    hint: 'Ask them, or an administrator who has their consent in writing.',
  })
}

const insertConsent = statement<StoredConsent>(
  'memory_insert_consent',
  `insert into concord.memory_consents (memory_consent_id, workspace_id, subject_type, subject_id, memory_type, scope, granted_by, granted_at, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning *`,
)

/** An expired consent must not block a new one. */
const retireConsent = statement<never>(
  'memory_retire_consent',
  `update concord.memory_consents set revoked_at = $6, revoked_by = 'system'
where workspace_id = $1 and subject_type = $2 and subject_id = $3 and memory_type = $4 and scope = $5 and revoked_at is null and expires_at <= $6`,
)

export type GrantConsent = ConsentTo & { readonly workspaceId: string; readonly expires_at?: Date | undefined }

export async function grantConsent(
  { db, now, newId }: Pick<MemoryDeps, 'db' | 'now' | 'newId'>,
  actor: Actor,
  { workspaceId, subject_type, subject_id, memory_type, scope, expires_at }: GrantConsent,
): Promise<Decision<StoredConsent>> {
  const allowed = decideConsent(actor.principal, { subject_type, subject_id })
  if (!allowed.ok) return allowed
  const at = now()
  if (expires_at && expires_at <= at) return refuse('memory.expiry.past', 'The expiry time has already passed.')
  const to = [workspaceId, subject_type, subject_id, memory_type, scope]
  try {
    return await db.transaction(async (tx) => {
      await tx.run(retireConsent, [...to, at])
      const [row] = await tx.run(insertConsent, [newId(), ...to, actor.id, at, expires_at ?? null])
      if (!row) return refuseAbsent()
      const payload = { memory_type, scope }
      await consents.append(tx, row, actor, { type: 'memory_consent_granted', at, newId, payload })
      return accept(row)
    })
  } catch (error) {
    const reason = 'This consent is already active.'
    const known = refuseConstraint(error, { memory_consents_standing_uq: { code: 'row.conflict', reason } })
    if (known) return known
    throw error
  }
}

const refuseAbsent = () => refuse('memory.consent.not_found', 'There is no such consent, or it is already revoked.')

const revokeConsentSql = statement<StoredConsent>(
  'memory_revoke_consent',
  `update concord.memory_consents set revoked_at = $3, revoked_by = $4
where memory_consent_id = $1 and workspace_id = $2 and revoked_at is null returning *`,
)

export function revokeConsent(
  { db, now, newId }: Pick<MemoryDeps, 'db' | 'now' | 'newId'>,
  actor: Actor,
  { workspaceId, consentId }: { readonly workspaceId: string; readonly consentId: string },
): Promise<Decision<StoredConsent>> {
  return db.transaction(async (tx) => {
    const known = await consents.find(tx, workspaceId, consentId)
    if (!known) return refuseAbsent()
    const allowed = decideConsent(actor.principal, known)
    if (!allowed.ok) return allowed
    const at = now()
    const [row] = await tx.run(revokeConsentSql, [consentId, workspaceId, at, actor.id])
    if (!row) return refuseAbsent()
    await consents.append(tx, row, actor, { type: 'memory_consent_revoked', at, newId })
    return accept(row)
  })
}

const listConsentsSql = statement<StoredConsent>(
  'memory_list_consents',
  `select * from concord.memory_consents
where workspace_id = $1 and ($2::text is null or (subject_type = $2 and subject_id = $3))
  and ($5::text is null or subject_type <> 'user' or subject_id = $5 or granted_by = 'user:' || $5)
order by granted_at desc, memory_consent_id limit $4`,
)

export type ListConsents = {
  readonly workspaceId: string
  readonly subject?: Subject | undefined
  /** This user does not see the consents of other users (M6). */
  readonly viewer: string | undefined
  readonly limit: number
}

export function listConsents(
  sql: Sql,
  { workspaceId, subject, viewer, limit }: ListConsents,
): Promise<readonly StoredConsent[]> {
  const [type, id] = [subject?.subject_type ?? null, subject?.subject_id ?? null]
  return sql.run(listConsentsSql, [workspaceId, type, id, limit, viewer ?? null])
}
