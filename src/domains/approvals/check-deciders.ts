/** Checks whether enough persons can decide an open approval now, and explains why not. */
import { type ActivePerson, listActive } from '#domains/identity'
import { bySystem } from '#kernel/actor'
import { accept, type Decision } from '#kernel/refusal'
import type { Sql } from '#store'
import { approvalTable, findDatabaseTime } from './approval.ts'
import type { ApprovalRequest, StoredApproval } from './stored-approval.ts'
import { resolveApprovers } from './request-approval.ts'
import { approverRef, isAgent, isAsked, isPersonRef, personIdsOf, personOf, roleRef, showActor } from './approver.ts'
import { requestContract } from './decide-vote.ts'
import { findDependence, INDEPENDENT, sayDependence } from './independence.ts'
import { type ApprovalTypes, contractOf } from './approval-type.ts'
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
type Asking = Pick<
  StoredApproval,
  | 'approver'
  | 'approver_roles'
  | 'request_payload'
  | 'domain_effect_id'
  | 'requested_by'
  | 'approved_by'
  | 'approvals_required'
  | 'self_decision_allowed'
> & { readonly created_at?: Date }

/** `persons` are those who may act in the workspace now. Returns undefined when enough of them can decide. */
export function checkDeciders(approval: Asking, persons: readonly ActivePerson[]): Blocked | undefined {
  const asked = persons.filter((person) => isAsked(approval, person))
  const able = asked.filter(
    (person) =>
      !isAgent(person) &&
      !approval.approved_by.includes(personOf(person)) &&
      findDependence(approval, person) === undefined,
  )
  const required = approval.approvals_required - approval.approved_by.length
  if (able.length >= required) return undefined
  const code = codeOf(approval, asked, able.length, listNotCounted(approval, persons).length > 0)
  const counts = { possible: able.length, required }
  return { code, reason: reasonOf(approval, code, counts), hint: hintOf(approval, code), ...counts }
}

/** Somebody who is asked, and whose decision does not count. */
export type NotCounted = { readonly userId: string; readonly name: string; readonly reason: string }

export function listNotCounted(approval: Asking, persons: readonly ActivePerson[]): readonly NotCounted[] {
  return persons.flatMap((person) => {
    const dependence = isAsked(approval, person) ? findDependence(approval, person) : undefined
    if (dependence === undefined || dependence === 'is_requester') return []
    return [{ userId: person.userId, name: person.externalId, reason: sayDependence(dependence) }]
  })
}

function codeOf(approval: Asking, asked: readonly ActivePerson[], able: number, areSomeNotCounted: boolean): BlockCode {
  if (areSomeNotCounted && able === 0) return 'approver_not_independent'
  if (able > 0 || approval.approved_by.length > 0) return 'quorum_unreachable'
  if (asked.some((person) => personOf(person) === approval.requested_by)) return 'approver_is_requester'
  return namedPersons(approval).length > 0 ? 'approver_gone' : 'role_without_members'
}

type Counts = Pick<Blocked, 'possible' | 'required'>

function reasonOf(approval: Asking, code: BlockCode, { possible, required }: Counts): string {
  const roles = namedRoles(approval).join(', ')
  switch (code) {
    case 'approver_is_requester':
      return `The only eligible approver is the requester, who may not approve their own request.`
    case 'approver_not_independent':
      return 'The requester issued the credentials of everybody who could decide, or granted them the role after the request.'
    case 'approver_gone':
      return `${namedPersons(approval).map(showActor).join(', ')} left, may not enter this workspace, or only reads here${roles === '' ? '' : `; nobody who may decide here has the role ${roles}`}.`
    case 'role_without_members':
      return `Nobody who may decide here has the role ${roles}.`
    case 'quorum_unreachable':
      return `${required} more must approve, and only ${possible} can.`
  }
}

function hintOf(approval: Asking, code: BlockCode): string {
  const [role] = namedRoles(approval)
  const { escalation } = requestContract(approval)
  const ways: string[] = code === 'approver_not_independent' ? [INDEPENDENT] : []
  if (code === 'approver_gone') {
    ways.push('Restore their access: concord people reactivate <name>, or concord people role <name> writer.')
  }
  if (role === undefined) ways.push('Cancel the command and submit it again with another approver.')
  else {
    ways.push(`Grant the role: concord people grant <name> ${role}.`)
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

export type Deciders = { readonly blocked: Blocked | undefined; readonly notCounted: readonly NotCounted[] }

/** By approval id, for open approvals. One query for all of them, since they belong to one workspace. */
export async function findDeciders(
  sql: Sql,
  approvals: readonly StoredApproval[],
): Promise<ReadonlyMap<string, Deciders>> {
  const open = approvals.filter(({ status }) => status === 'pending')
  const [first] = open
  if (!first) return new Map()
  const persons = await listAsked(sql, first.workspace_id, open)
  return new Map(
    open.map((approval) => [
      approval.approval_id,
      { blocked: checkDeciders(approval, persons), notCounted: listNotCounted(approval, persons) },
    ]),
  )
}

/** Those that cannot be decided now, by approval id. */
export async function findBlocked(
  sql: Sql,
  approvals: readonly StoredApproval[],
): Promise<ReadonlyMap<string, Blocked>> {
  const deciders = await findDeciders(sql, approvals)
  return new Map([...deciders].flatMap(([id, { blocked }]) => (blocked ? [[id, blocked]] : [])))
}

/** The same check for a request that is not stored yet; null when it could be decided. */
export async function findRequestBlocked(
  sql: Sql,
  types: ApprovalTypes,
  request: ApprovalRequest,
): Promise<Decision<Blocked | null>> {
  const type = types.find(request.approvalType)
  if (!type.ok) return type
  const asked = resolveApprovers(type.value, request)
  if (!asked.ok) return asked
  const { approver, approvers, roles, requestedBy, approvalsRequired, selfDecisionAllowed } = asked.value
  const asking: Asking = {
    approver,
    approver_roles: roles,
    request_payload: {
      ...request.content,
      approvers,
      contract: contractOf(type.value),
      ...(request.requestedAt === undefined ? {} : { requested_at: request.requestedAt.toISOString() }),
    },
    domain_effect_id: request.domainEffectId ?? null,
    requested_by: requestedBy,
    approved_by: [],
    approvals_required: approvalsRequired,
    self_decision_allowed: selfDecisionAllowed,
  }
  return accept(checkDeciders(asking, await listAsked(sql, request.workspaceId, [asking])) ?? null)
}

function listAsked(sql: Sql, workspaceId: string, asked: readonly Asking[]) {
  return listActive(sql, {
    workspaceId,
    userIds: personIdsOf(asked.flatMap(namedPersons)),
    orgRoles: asked.flatMap(namedRoles),
  })
}

/** Records the block once for each cause. Returns undefined when enough persons can decide. */
export async function noteBlocked(
  { db }: Pick<ApprovalDeps, 'db'>,
  approval: StoredApproval,
  traceId: string,
): Promise<BlockedNotice | undefined> {
  const blocked = (await findBlocked(db, [approval])).get(approval.approval_id)
  if (!blocked) return undefined
  const none = { userIds: [], orgRoles: [] }
  const active = await listActive(db, { workspaceId: approval.workspace_id, ...none, admins: true })
  const admins = active.map(({ userId }) => `user:${userId}`)
  const { code, reason, possible, required } = blocked
  const at = await findDatabaseTime(db)
  const payload = { code, reason, possible, required, admins }
  await approvalTable.append(db, approval, bySystem(traceId), { type: 'approval_blocked', at, payload, round: code })
  return { blocked, admins }
}
