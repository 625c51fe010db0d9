/** Checks whether enough persons can decide an open approval now, and explains why not. */
import { type ActivePerson, findOrigins, listActive } from '#domains/identity'
import { accept, type Decision } from '#kernel/refusal'
import { type Db, type Sql, statement } from '#store'
import type { ApprovalRequest, StoredApproval } from './stored-approval.ts'
import { payloadOf, resolveApprovers } from './request-approval.ts'
import { approverRef, isAsked, isPersonRef, personIdsOf, personOf, roleRef, showActor } from './approver.ts'
import { isAuthor, listCounted, mayApprove, requestContract } from './decide-vote.ts'
import { findDependence, sayDependence, sayIndependent } from './independence.ts'
import type { ApprovalTypes } from './approval-type.ts'
import type { ApprovalDeps, BlockedNotice } from './deps.ts'

/** Stable, since programs read them. */
export const blockCodes = [
  'approver_is_requester',
  'approver_not_independent',
  'approver_gone',
  'role_without_members',
  'quorum_unreachable',
] as const
type BlockCode = (typeof blockCodes)[number]

/** Nobody, or too few people, can decide now. It is computed on every read, so it disappears with its cause. */
export type Blocked = {
  readonly code: BlockCode
  readonly reason: string
  readonly hint: string
  /** How many persons could still approve, and how many more approvals are needed. */
  readonly possible: number
  readonly required: number
}

/** The part of an approval that decides who may answer; a request that is not stored yet also has it. */
export type Asking = Pick<
  StoredApproval,
  | 'status'
  | 'approver'
  | 'approver_roles'
  | 'request_payload'
  | 'domain_effect_id'
  | 'requested_by'
  | 'approved_by'
  | 'approved_for'
  | 'approvals_required'
  | 'self_decision_allowed'
> & { readonly created_at?: Date }

/**
 * `persons` are those who may act in the workspace now, and `others` the other approvals of the command. Returns undefined when enough of
 * them can decide.
 */
export function checkDeciders(
  approval: Asking,
  persons: readonly ActivePerson[],
  others: readonly Asking[] = [],
): Blocked | undefined {
  const able = ableOf(approval, persons, others).length
  const required = missingOf(approval)
  if (able < required) {
    const asked = persons.filter((person) => isAsked(approval, person))
    const counted = listCounted(others)
    const isCounted = asked.some((person) => counted.includes(personOf(person)))
    const isDependent = listNotCounted(approval, persons).some(({ reason }) => reason !== WROTE)
    const code = isCounted ? 'quorum_unreachable' : codeOf(approval, asked, able, isDependent)
    const counts = { possible: able, required }
    return { code, reason: reasonOf(approval, code, counts), hint: hintOf(approval, code), ...counts }
  }
  const open = [approval, ...others.filter(({ status }) => status === 'pending')]
  const together = open.reduce((sum, each) => sum + missingOf(each), 0)
  const possible = countTogether(open, persons, [approval, ...others], together)
  if (possible >= together) return undefined
  const reason = `The approvals of this command need ${together} different people, and only ${possible} can approve: one person counts once.`
  return {
    code: 'quorum_unreachable',
    reason,
    hint: hintOf(approval, 'quorum_unreachable'),
    possible,
    required: together,
  }
}

function missingOf({ approvals_required, approved_by }: Asking): number {
  return approvals_required - approved_by.length
}

/** The persons whose approval would count now. */
function ableOf(
  approval: Asking,
  persons: readonly ActivePerson[],
  others: readonly Asking[],
): readonly ActivePerson[] {
  const counted = listCounted(others)
  return persons.filter((person) => mayApprove(approval, person, counted))
}

/** How many of the missing approvals can be given if each person gives one: a maximum matching of approvals and persons. */
function countTogether(
  open: readonly Asking[],
  persons: readonly ActivePerson[],
  all: readonly Asking[],
  together: number,
): number {
  const places = open.flatMap((approval) => {
    const others = all.filter((each) => each !== approval)
    // More persons than places change nothing: one of them is always left.
    const able = ableOf(approval, persons, others).slice(0, together).map(personOf)
    return Array.from({ length: missingOf(approval) }, () => able)
  })
  const placeOf = new Map<string, number>()
  const seat = (place: number, tried: Set<string>): boolean =>
    (places[place] ?? []).some((person) => {
      if (tried.has(person)) return false
      tried.add(person)
      const taken = placeOf.get(person)
      if (taken !== undefined && !seat(taken, tried)) return false
      placeOf.set(person, place)
      return true
    })
  return places.filter((_, place) => seat(place, new Set())).length
}

const WROTE = 'wrote a part of the request'

/** A person who is asked, and whose decision does not count. */
type NotCounted = { readonly userId: string; readonly name: string; readonly reason: string }

function listNotCounted(approval: Asking, persons: readonly ActivePerson[]): readonly NotCounted[] {
  return persons.flatMap((person) => {
    if (!isAsked(approval, person)) return []
    const { userId, externalId: name } = person
    if (isAuthor(approval, personOf(person))) return [{ userId, name, reason: WROTE }]
    const dependence = findDependence(approval, person)
    if (dependence === undefined || dependence.kind === 'is_requester') return []
    return [{ userId, name, reason: sayDependence(dependence) }]
  })
}

function codeOf(approval: Asking, asked: readonly ActivePerson[], able: number, areSomeNotCounted: boolean): BlockCode {
  if (areSomeNotCounted && able === 0) return 'approver_not_independent'
  if (able > 0 || approval.approved_by.length > 0) return 'quorum_unreachable'
  if (asked.map(personOf).some((person) => person === approval.requested_by || isAuthor(approval, person)))
    return 'approver_is_requester'
  return namedPersons(approval).length > 0 ? 'approver_gone' : 'role_without_members'
}

type Counts = Pick<Blocked, 'possible' | 'required'>

function reasonOf(approval: Asking, code: BlockCode, { possible, required }: Counts): string {
  const roles = namedRoles(approval).join(', ')
  switch (code) {
    case 'approver_is_requester':
      return `The only eligible approver is the requester, or wrote a part of the request, and may not approve it.`
    case 'approver_not_independent':
      return 'Nobody who is asked decides independently of the requester: credentials or roles came through the same hands.'
    case 'approver_gone':
      return `${namedPersons(approval).map(showActor).join(', ')} left, may not enter this workspace, or only reads here${roles === '' ? '' : `; nobody who may decide here has the role ${roles}`}.`
    case 'role_without_members':
      return `Nobody who may decide here has the role ${roles}.`
    case 'quorum_unreachable':
      return `${required} more must approve, and only ${possible} can: one person counts once per command.`
  }
}

function hintOf(approval: Asking, code: BlockCode): string {
  const [role] = namedRoles(approval)
  const { escalation } = requestContract(approval)
  const ways: string[] = code === 'approver_not_independent' ? [sayIndependent(approval)] : []
  if (code === 'approver_gone') {
    ways.push('Restore their access: concord people reactivate <name>, or concord people role <name> writer.')
  }
  if (role === undefined) ways.push('Cancel the command and submit it again with another approver.')
  else {
    ways.push(`Grant the role: concord people grant <name> ${role} --create.`)
    ways.push('Invite a person: concord people invite <name> --role writer.')
  }
  if (escalation !== null && !approval.approver_roles.includes(escalation.role)) {
    ways.push(`Or wait: after ${escalation.after_minutes} minutes the role ${escalation.role} may also decide.`)
  }
  return ways.join(' ')
}

/** The named persons, as `user:<uuid>`. */
function namedPersons({ approver, request_payload }: Asking): readonly string[] {
  const refs = [approver, ...(request_payload.approvers ?? [])].map(approverRef)
  return [...new Set(refs.filter((ref) => ref !== undefined && isPersonRef(ref)))] as readonly string[]
}

function namedRoles({ approver, approver_roles }: Asking): readonly string[] {
  const first = approverRef(approver)
  const refs = [first === undefined || isPersonRef(first) ? undefined : first, ...approver_roles.map(roleRef)]
  return [...new Set(refs.flatMap((ref) => (ref === undefined ? [] : [ref.slice('role:'.length)])))]
}

/** Of an open approval: who can decide it now. */
export type Standing = {
  readonly blocked: Blocked | undefined
  /** The names of the persons whose approval would count. */
  readonly could: readonly string[]
  /** The persons who have approved another approval of the command, and do not count here. */
  readonly elsewhere: readonly string[]
  /** The persons who are asked and do not decide independently of the requester. */
  readonly notCounted: readonly NotCounted[]
}

/** By approval id. */
export type Standings = ReadonlyMap<string, Standing>

/** $1 commands. */
const listSiblings = statement<StoredApproval>(
  'approvals.list_siblings',
  `select t.* from concord.approvals t
    where t.command_id = any ($1::uuid[]) and t.superseded_by is null and t.domain_effect_id is null
      and t.status in ('pending', 'approved')`,
)

/** Two queries for all of them, since they belong to one workspace. */
export async function findStanding(sql: Sql, approvals: readonly StoredApproval[]): Promise<Standings> {
  const open = approvals.filter(({ status }) => status === 'pending')
  const [first] = open
  if (!first) return new Map()
  const siblings = await sql.run(listSiblings, [[...new Set(open.map(({ command_id }) => command_id))]])
  const persons = await listAsked(sql, first.workspace_id, [...open, ...siblings])
  return new Map(
    open.map((approval) => {
      const { approval_id, command_id, domain_effect_id } = approval
      const others = siblings.filter(
        (each) => each.command_id === command_id && each.approval_id !== approval_id && domain_effect_id === null,
      )
      return [
        approval_id,
        {
          blocked: checkDeciders(approval, persons, others),
          could: ableOf(approval, persons, others).map(({ externalId }) => externalId),
          elsewhere: [...new Set(listCounted(others))],
          notCounted: listNotCounted(approval, persons),
        },
      ]
    }),
  )
}

const OPEN_MAX = 1_000

/** The blocked approvals of all workspaces, of the oldest thousand that are open. */
export async function listBlocked(db: Db): Promise<readonly (Blocked & { readonly approvalId: string })[]> {
  const open = await db.query<StoredApproval>(
    `select * from concord.approvals where status = 'pending' order by created_at limit ${OPEN_MAX}`,
  )
  const found: (Blocked & { readonly approvalId: string })[] = []
  for (const approvals of Map.groupBy(open, ({ workspace_id }) => workspace_id).values())
    for (const [approvalId, { blocked }] of await findStanding(db, approvals))
      if (blocked) found.push({ ...blocked, approvalId })
  return found
}

/** Who can decide a request that is not stored yet. */
export type RequestStanding = Omit<Standing, 'elsewhere'>

/** The same check for requests of one command that are not stored yet. With `among`, as if only these persons (`user:<uuid>`) existed. */
export async function findRequestStandings(
  sql: Sql,
  types: ApprovalTypes,
  workspaceId: string,
  requests: readonly ApprovalRequest[],
  among?: readonly string[],
): Promise<Decision<readonly RequestStanding[]>> {
  const asked: Asking[] = []
  for (const request of requests) {
    const asking = askingOf(types, request)
    if (!asking.ok) return asking
    asked.push(asking.value)
  }
  const active = await listAsked(sql, workspaceId, asked)
  const persons = among ? active.filter((person) => among.includes(personOf(person))) : active
  // All requests of one command have one requester. A stored approval keeps the issuers.
  const [requester = ''] = asked.map(({ requested_by }) => requested_by)
  const [userId] = personIdsOf([requester])
  const issuers = { [requester]: (userId && (await findOrigins(sql, userId, workspaceId))?.issuers) || [] }
  const known = asked.map((each) => ({ ...each, request_payload: { ...each.request_payload, issuers } }))
  return accept(
    known.map((each) => {
      const others = known.filter((other) => other !== each)
      return {
        blocked: checkDeciders(each, persons, others),
        could: ableOf(each, persons, others).map(({ externalId }) => externalId),
        notCounted: listNotCounted(each, persons),
      }
    }),
  )
}

function askingOf(types: ApprovalTypes, request: ApprovalRequest): Decision<Asking> {
  const type = types.find(request.approvalType)
  if (!type.ok) return type
  const asked = resolveApprovers(type.value, request)
  if (!asked.ok) return asked
  const { approver, roles, requestedBy, approvalsRequired, selfDecisionAllowed } = asked.value
  return accept({
    status: 'pending',
    approver,
    approver_roles: roles,
    request_payload: payloadOf(request, asked.value),
    domain_effect_id: request.domainEffectId ?? null,
    requested_by: requestedBy,
    approved_by: [],
    approved_for: [],
    approvals_required: approvalsRequired,
    self_decision_allowed: selfDecisionAllowed,
  })
}

function listAsked(sql: Sql, workspaceId: string, asked: readonly Asking[]) {
  return listActive(sql, {
    workspaceId,
    userIds: personIdsOf(asked.flatMap(namedPersons)),
    orgRoles: asked.flatMap(namedRoles),
  })
}

/** For the turns of an approval; `others` are the other approvals of its command. */
export async function findBlocked(
  { db }: Pick<ApprovalDeps, 'db'>,
  { approval, others }: { readonly approval: StoredApproval; readonly others: readonly Asking[] },
): Promise<BlockedNotice | undefined> {
  const persons = await listAsked(db, approval.workspace_id, [approval, ...others])
  const blocked = checkDeciders(approval, persons, others)
  if (!blocked) return undefined
  const none = { userIds: [], orgRoles: [] }
  const active = await listActive(db, { workspaceId: approval.workspace_id, ...none, admins: true })
  return { blocked, admins: active.map(({ userId }) => `user:${userId}`) }
}

/** The same cause is one event. */
export function blockedFact({ blocked, admins }: BlockedNotice, at: Date) {
  const { code, reason, possible, required } = blocked
  return { type: 'approval_blocked', at, payload: { code, reason, possible, required, admins }, round: code } as const
}
