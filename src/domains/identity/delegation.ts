/**
 * Stand-ins: a person decides in the place of another until a time. A delegation is on record, ends by itself, and passes nothing on: what a person
 * has by delegation cannot be delegated. Whether it counts for one request is decided with the vote.
 */
import type { PersonActor } from '#kernel/actor'
import { decodeId, isUuid } from '#kernel/ids'
import { checkInstant } from '#kernel/instant'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { type Paged, pageText, type Sql, type Tx } from '#store'
import type { Rows } from '#store/rows'
import type { IdentityDeps } from './deps.ts'
import { appendOrgEvent } from './events.ts'
import { decideAdministers, findPerson, handsOf, type StoredPerson } from './person.ts'
import { authorize, decideUnbound } from './principal.ts'
import { tellPeople } from './tell-people.ts'

export type StoredDelegation = Rows['identity.delegations'] & {
  readonly from_name: string
  readonly to_name: string
}

const DELEGATION = `d.*, f.external_id as from_name, t.external_id as to_name from identity.delegations d
     join identity.users f on f.org_id = d.org_id and f.id = d.from_user_id
     join identity.users t on t.org_id = d.org_id and t.id = d.to_user_id`

export type Delegate = {
  /** A user id, the subject at the identity provider, or the name behind `local:`. Omitted: the caller. */
  readonly from?: string | undefined
  readonly to: string
  readonly until: Date
}

const LONGEST_MS = 366 * 86_400_000

/** Everybody delegates for themselves. An administrator delegates for others, to somebody else. */
export async function delegate(
  deps: IdentityDeps,
  actor: PersonActor,
  { from: giver, to: taker, until }: Delegate,
): Promise<Decision<StoredDelegation>> {
  const { principal } = actor
  const allowed = decideMayDelegate(actor)
  if (!allowed.ok) return allowed
  const at = deps.now()
  const checked = checkInstant(until, { after: at, until: new Date(at.getTime() + LONGEST_MS) })
  if (!checked.ok) return { ...checked, path: 'until' }
  return deps.db.transaction(async (tx): Promise<Decision<StoredDelegation>> => {
    const from = await findNamed(tx, principal.orgId, giver ?? principal.userId, 'from')
    if (!from.ok) return from
    const to = await findNamed(tx, principal.orgId, taker, 'to')
    if (!to.ok) return to
    const fits = decideDelegation(actor, from.value, to.value)
    if (!fits.ok) return fits
    const id = deps.newId()
    await tx.query(
      `insert into identity.delegations (id, org_id, from_user_id, to_user_id, until, made_by, created_at)
       values ($1, $2, $3, $4, $5, $6, $7)`,
      [id, principal.orgId, from.value.id, to.value.id, until, await handsOf(tx, actor), at],
    )
    const payload = {
      delegation_id: id,
      from_user_id: from.value.id,
      to_user_id: to.value.id,
      until: until.toISOString(),
    }
    await appendOrgEvent(tx, deps, actor, { type: 'delegation_created', orgId: principal.orgId, payload })
    const others = [from.value.id, to.value.id].filter((userId) => userId !== principal.userId)
    await tellPeople(tx, deps, actor, {
      orgId: principal.orgId,
      userIds: others,
      subject: `${to.value.external_id} stands in for ${from.value.external_id}`,
      text: `Until ${until.toISOString()} ${to.value.external_id} decides approvals in the place of ${from.value.external_id}. \`concord people delegations\` lists it.`,
    })
    const made = await findDelegation(tx, principal.orgId, id)
    return made ? accept(made) : refuseDelegation()
  })
}

function decideMayDelegate({ principal }: PersonActor): Decision<null> {
  const allowed = authorize(principal, 'writer')
  return allowed.ok ? decideUnbound(principal) : allowed
}

/** Nobody takes over the decisions of another by their own hand. */
function decideDelegation({ principal }: PersonActor, from: StoredPerson, to: StoredPerson): Decision<null> {
  if (from.id === to.id) {
    return refuse('identity.delegation.self', 'A person does not stand in for themselves.', { path: 'to' })
  }
  for (const [path, { deactivated_at, external_id }] of [
    ['from', from],
    ['to', to],
  ] as const) {
    if (deactivated_at !== null)
      return refuse('identity.user.deactivated', `${quote(external_id)} has left.`, {
        path,
        hint: 'Name a person who is active.',
      })
  }
  if (from.id === principal.userId) return accept(null)
  const allowed = decideAdministers(principal)
  if (!allowed.ok) return allowed
  if (to.id !== principal.userId) return accept(null)
  return refuse('identity.delegation.to_maker', 'An administrator does not make themselves a stand-in.', {
    path: 'to',
    hint: 'The person delegates to you with their own key, or another administrator does.',
  })
}

async function findNamed(tx: Tx, orgId: string, who: string, path: 'from' | 'to'): Promise<Decision<StoredPerson>> {
  const decoded = decodeId('user', who)
  const id = decoded.ok ? decoded.value : who
  const [row] = isUuid(id)
    ? [{ id }]
    : await tx.query<{ id: string }>(
        `select id from identity.users where org_id = $1 and external_id in ($2, 'local:' || $2) order by external_id = $2 desc`,
        [orgId, who],
      )
  const person = row && (await findPerson(tx, orgId, row.id))
  if (person) return accept(person)
  return refuse('identity.user.not_found', `There is no person ${quote(who)}.`, {
    path,
    hint: 'Name a user id, the subject at the identity provider, or the name behind local:.',
  })
}

async function findDelegation(sql: Sql, orgId: string, id: string): Promise<StoredDelegation | undefined> {
  const [row] = await sql.query<StoredDelegation>(`select ${DELEGATION} where d.org_id = $1 and d.id = $2`, [orgId, id])
  return row
}

const refuseDelegation = () =>
  refuse('identity.delegation.not_found', 'There is no such delegation.', {
    hint: '`concord people delegations` lists those that concern you.',
  })

/** Both persons and administrators end it. A second end keeps the first time. */
export function endDelegation(
  deps: IdentityDeps,
  actor: PersonActor,
  delegationId: string,
): Promise<Decision<StoredDelegation>> {
  const { principal } = actor
  return deps.db.transaction(async (tx): Promise<Decision<StoredDelegation>> => {
    const found = await findDelegation(tx, principal.orgId, delegationId)
    const isTheirs = found?.from_user_id === principal.userId || found?.to_user_id === principal.userId
    // To anybody else it is unknown.
    if (!found || !(isTheirs || decideAdministers(principal).ok)) return refuseDelegation()
    const ended = await tx.query(
      'update identity.delegations set ended_at = $2 where id = $1 and ended_at is null returning id',
      [delegationId, deps.now()],
    )
    if (ended.length === 0) return accept(found)
    const { id, from_user_id, to_user_id } = found
    const payload = { delegation_id: id, from_user_id, to_user_id }
    await appendOrgEvent(tx, deps, actor, { type: 'delegation_ended', orgId: principal.orgId, payload })
    return accept({ ...found, ended_at: deps.now() })
  })
}

export type DelegationPage = { readonly beforeId: string | null; readonly limit: number }

/** Newest first: those of the caller, and for an administrator all of the organisation. */
export function listDelegations(
  deps: { readonly db: Sql },
  { principal }: PersonActor,
  { beforeId, limit }: DelegationPage,
): Promise<(StoredDelegation & Paged)[]> {
  return deps.db.query(
    pageText(`select ${DELEGATION}
      where d.org_id = $1 and ($2::uuid is null or $2 in (d.from_user_id, d.to_user_id)) and ($3::uuid is null or d.id < $3)
      order by d.id desc limit $4`),
    [principal.orgId, decideAdministers(principal).ok ? null : principal.userId, beforeId, limit],
  )
}
