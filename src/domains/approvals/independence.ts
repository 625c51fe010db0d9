/**
 * Whether somebody decides independently of the requester. A person whose credentials came through the hands of the requester could be the
 * requester, and counts as the requester. An org role that the requester granted after the request does not count. Pure.
 */
import { type Refusal, refuse } from '#kernel/refusal'
import { isAsked, type Person, personOf, roleSlug, showActor } from './approver.ts'
import type { StoredApproval } from './stored-approval.ts'

export type Request = Pick<
  StoredApproval,
  'requested_by' | 'approver' | 'approver_roles' | 'request_payload' | 'self_decision_allowed'
> & { readonly created_at?: Date }

type Dependence = 'is_requester' | 'issued_by_requester' | 'role_by_requester'

/** Undefined: the decision of the person counts, if the person is asked. */
export function findDependence(request: Request, person: Person): Dependence | undefined {
  const { contract, edits } = request.request_payload
  const isOwn = personOf(person) === request.requested_by
  if (isOwn && !request.self_decision_allowed) return 'is_requester'
  // After an edit the requester may confirm, and everybody else has to be independent as before.
  const isOpen = request.self_decision_allowed && edits?.author === undefined
  const isCounted = contract?.counts_invited === true
  if (!isOwn && !isOpen && !isCounted && isIssuedByRequester(request, person)) return 'issued_by_requester'
  const older = { ...person, orgRoles: rolesBefore(request, person) }
  return isAsked(request, person) && !isAsked(request, older) ? 'role_by_requester' : undefined
}

export function isIssuedByRequester({ requested_by }: Pick<Request, 'requested_by'>, { origins }: Person): boolean {
  return origins?.issuers.some((userId) => personOf({ userId }) === requested_by) === true
}

/** The org roles of the person without those that the requester granted after the request. */
function rolesBefore(request: Request, { orgRoles, origins }: Person): readonly string[] {
  const { requested_at } = request.request_payload
  const askedMs = requested_at === undefined ? request.created_at?.getTime() : Date.parse(requested_at)
  if (askedMs === undefined || !origins) return orgRoles
  const late = origins.grants
    .filter(
      ({ by, at }) => Date.parse(at) >= askedMs && by.some((userId) => personOf({ userId }) === request.requested_by),
    )
    .map(({ role }) => roleSlug(role))
  return orgRoles.filter((slug) => !late.includes(roleSlug(slug)))
}

const why = {
  is_requester: 'is the requester',
  issued_by_requester: 'has credentials that the requester issued',
  role_by_requester: 'got the role from the requester after the request',
} as const satisfies Record<Dependence, string>

export const sayDependence = (dependence: Dependence): string => why[dependence]

/** The ways to an independent decision, for hints. */
export const INDEPENDENT =
  'Somebody decides who signs in at the identity provider, or whom an administrator invited that the requester did not invite.'

export function refuseDependent(request: Request, dependence: Dependence): Refusal {
  const facts = { approver: showActor(request.approver) }
  switch (dependence) {
    case 'is_requester':
      return refuse('self_approval', 'You are the requester, so somebody else must decide.', { facts })
    case 'issued_by_requester':
      return refuse(
        'approvals.approver.issued_by_requester',
        'The requester issued your credentials, so your decision does not count here.',
        { hint: INDEPENDENT, facts },
      )
    case 'role_by_requester':
      return refuse(
        'approvals.approver.role_by_requester',
        'The requester granted you this role after the request, so it does not count here.',
        { hint: 'Somebody decides who had the role before, or got it from another administrator.', facts },
      )
  }
}
