/** Consents: who agreed that what kind of memory is kept about whom, until revoked. Kept here and shown to no store (M8). */
import type { Principal } from '#domains/identity'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { refuseConstraint, type Sql, statement } from '#store'
import type { MemoryDeps } from './deps.ts'
import { type Act, tellMemory } from './events.ts'
import type { MemoryScope, MemoryType, StoredConsent, Subject } from './memory-repository.ts'

export type ConsentTo = Subject & { readonly memory_type: MemoryType; readonly scope: MemoryScope }

const findStanding = statement<{ readonly memory_consent_id: string }>(
  'memory_find_consent',
  `select memory_consent_id from concord.memory_consents
where workspace_id = $1 and subject_type = $2 and subject_id = $3 and memory_type = $4 and scope = $5
  and revoked_at is null and (expires_at is null or expires_at > $6)`,
)

export async function hasConsent(sql: Sql, workspaceId: string, to: ConsentTo, at: Date): Promise<boolean> {
  const rows = await sql.run(findStanding, [workspaceId, to.subject_type, to.subject_id, to.memory_type, to.scope, at])
  return rows.length > 0
}

/** A user's consent is the user's to give; an administrator may record it, and so may anybody who writes for other subjects. */
export function decideConsent(principal: Pick<Principal, 'userId' | 'role'>, subject: Subject): Decision<null> {
  const isOwn = subject.subject_type === 'user' && subject.subject_id === principal.userId
  if (isOwn || subject.subject_type !== 'user' || principal.role === 'admin') return accept(null)
  return refuse('memory.consent.not_yours', 'The consent of a user is given or taken back by that user.', {
    hint: 'Ask them, or an administrator who has it in writing.',
  })
}

const insertConsent = statement<StoredConsent>(
  'memory_insert_consent',
  `insert into concord.memory_consents (memory_consent_id, workspace_id, subject_type, subject_id, memory_type, scope, granted_by, granted_at, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning *`,
)

/** One whose time is over makes room for the next. */
const retireConsent = statement<never>(
  'memory_retire_consent',
  `update concord.memory_consents set revoked_at = $6, revoked_by = 'system'
where workspace_id = $1 and subject_type = $2 and subject_id = $3 and memory_type = $4 and scope = $5 and revoked_at is null and expires_at <= $6`,
)

export async function grantConsent(
  deps: Pick<MemoryDeps, 'db' | 'newId'>,
  act: Act,
  input: ConsentTo & { readonly workspaceId: string; readonly expires_at?: Date | undefined },
): Promise<Decision<StoredConsent>> {
  const { workspaceId, subject_type, subject_id, memory_type, scope, expires_at } = input
  if (expires_at && expires_at <= act.at) return refuse('memory.expiry.past', 'It would have ended already.')
  try {
    return await deps.db.transaction(async (tx) => {
      await tx.run(retireConsent, [workspaceId, subject_type, subject_id, memory_type, scope, act.at])
      const id = deps.newId()
      const end = expires_at ?? null
      const values = [id, workspaceId, subject_type, subject_id, memory_type, scope, act.actor, act.at, end]
      const [row] = await tx.run(insertConsent, values)
      await tellMemory(tx, deps.newId, act, [
        {
          type: 'memory_consent_granted',
          workspaceId,
          target: 'memory_consent',
          targetId: id,
          payload: { memory_type, scope },
        },
      ])
      return row ? accept(row) : refuseAbsent()
    })
  } catch (error) {
    const reason = 'This consent stands already.'
    const known = refuseConstraint(error, { memory_consents_standing_uq: { code: 'row.conflict', reason } })
    if (known) return known
    throw error
  }
}

const refuseAbsent = () => refuse('memory.consent.not_found', 'There is no such consent, or it was taken back before.')

const findConsentSql = statement<StoredConsent>(
  'memory_get_consent',
  `select * from concord.memory_consents where memory_consent_id = $1 and workspace_id = $2`,
)

export async function getConsent(sql: Sql, workspaceId: string, id: string): Promise<Decision<StoredConsent>> {
  const [row] = await sql.run(findConsentSql, [id, workspaceId])
  return row ? accept(row) : refuseAbsent()
}

const revokeConsentSql = statement<StoredConsent>(
  'memory_revoke_consent',
  `update concord.memory_consents set revoked_at = $3, revoked_by = $4
where memory_consent_id = $1 and workspace_id = $2 and revoked_at is null returning *`,
)

export function revokeConsent(
  deps: Pick<MemoryDeps, 'db' | 'newId'>,
  act: Act,
  { workspaceId, consentId }: { readonly workspaceId: string; readonly consentId: string },
): Promise<Decision<StoredConsent>> {
  return deps.db.transaction(async (tx) => {
    const [row] = await tx.run(revokeConsentSql, [consentId, workspaceId, act.at, act.actor])
    if (!row) return refuseAbsent()
    await tellMemory(tx, deps.newId, act, [
      { type: 'memory_consent_revoked', workspaceId, target: 'memory_consent', targetId: consentId },
    ])
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

export function listConsents(
  sql: Sql,
  {
    workspaceId,
    subject,
    viewer,
    limit,
  }: {
    readonly workspaceId: string
    readonly subject?: Subject | undefined
    /** Who looks, unless they look after everybody's memory: of another user's consents they learn nothing (M6). */
    readonly viewer: string | undefined
    readonly limit: number
  },
): Promise<readonly StoredConsent[]> {
  const [type, id] = [subject?.subject_type ?? null, subject?.subject_id ?? null]
  return sql.run(listConsentsSql, [workspaceId, type, id, limit, viewer ?? null])
}
