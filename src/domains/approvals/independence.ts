/**
 * Whether a person decides independently of the authors of a request: the requester, and the person who changed it. The issuer of a credential could
 * use it. So a person depends on an author if one of them issued the credentials of the other. An org role that an author granted after the request does
 * not count. In a strict installation the same holds if somebody issued the credentials of both, and for roles that an issuer of an author granted. Pure.
 */
import { type Refusal, refuse } from '#kernel/refusal'
import { isAsked, type Person, personOf, roleSlug, showActor } from './approver.ts'
import { coAuthorsOf, type StoredApproval } from './stored-approval.ts'

export type Request = Pick<
  StoredApproval,
  'requested_by' | 'approver' | 'approver_roles' | 'request_payload' | 'self_decision_allowed'
> & { readonly created_at?: Date }

type Dependence = {
  /** `requester` in a name also stands for the person who changed the request. */
  readonly kind: 'is_requester' | 'issued_by_requester' | 'issued_requester' | 'same_issuer' | 'role_by_requester'
  /** The person on whom the decider depends: the requester, or the person who changed the request. */
  readonly on: 'requester' | 'editor'
}

type Author = {
  readonly person: string
  readonly is: Dependence['on']
  /** Everybody through whose hands the credentials of the author came, when the request was made. */
  readonly issuers: readonly string[]
}

/** Undefined: the decision of the person counts, if the person is asked. */
export function findDependence(request: Request, person: Person): Dependence | undefined {
  const isOwn = personOf(person) === request.requested_by
  if (isOwn && !request.self_decision_allowed) return { kind: 'is_requester', on: 'requester' }
  return findTieThatMatters(request, person) ?? findLateRole(request, person)
}

/** The requester may decide, so everybody may. After an edit the requester only confirms, and everybody else has to be independent as before. */
const isOpen = ({ self_decision_allowed, request_payload }: Request) =>
  self_decision_allowed && coAuthorsOf(request_payload).length === 0

/** Whether everybody counts whom one person issued, as an identity provider makes possible. */
const isStrict = (request: Request) =>
  !isOpen(request) && request.request_payload.contract?.counts_same_issuer === false

/** Whose grants and delegations after the request do not count. */
const handsOf = (request: Request, { person, issuers }: Author) => [person, ...(isStrict(request) ? issuers : [])]

/**
 * In a team without an identity provider one administrator has invited everybody. So a common issuer is shown, and matters only in an installation that
 * says so.
 */
function findTieThatMatters(request: Request, person: Person): Dependence | undefined {
  const { contract } = request.request_payload
  const tie = contract?.counts_invited === true ? undefined : findTie(request, person)
  return tie?.kind === 'same_issuer' && !isStrict(request) ? undefined : tie
}

/** What ties the credentials of the person to those of an author, whether the installation minds it or not. */
export function findTie(request: Request, person: Person): Dependence | undefined {
  if (isOpen(request)) return undefined
  const own = personOf(person)
  const issuers = issuersOf(person)
  for (const author of authorsOf(request)) {
    const on = author.is
    if (author.person === own) continue
    if (issuers.includes(author.person)) return { kind: 'issued_by_requester', on }
    if (author.issuers.includes(own)) return { kind: 'issued_requester', on }
    if (issuers.some((each) => author.issuers.includes(each))) return { kind: 'same_issuer', on }
  }
  return undefined
}

const issuersOf = ({ origins }: Person) => (origins?.issuers ?? []).map((userId) => personOf({ userId }))

function authorsOf({ requested_by, request_payload }: Request): readonly Author[] {
  const { issuers = {} } = request_payload
  const of = (person: string, is: Author['is']): Author => ({
    person,
    is,
    issuers: (issuers[person] ?? []).map((userId) => personOf({ userId })),
  })
  return [of(requested_by, 'requester'), ...coAuthorsOf(request_payload).map((person) => of(person, 'editor'))]
}

/** Whether somebody arranged this who is an author, or an issuer of an author, after the request. */
function isArranged(request: Request, { by, at }: Arrangement, hands: readonly string[]): boolean {
  const { requested_at } = request.request_payload
  // A clock that was ahead and set back leaves the time of the request ahead. That of the approval is corrected.
  const times = [requested_at === undefined ? undefined : Date.parse(requested_at), request.created_at?.getTime()]
  const askedMs = Math.min(...times.filter((time) => time !== undefined))
  return Date.parse(at) >= askedMs && by.some((userId) => hands.includes(personOf({ userId })))
}

type Arrangement = { readonly by: readonly string[]; readonly at: string }
type StandIn = NonNullable<Person['origins']>['stands_for'][number]

/**
 * Whether the person may decide in the place of the represented one, who could decide. Neither an author nor a person who depends on an author stands in,
 * and nobody stands in for the requester. A delegation does not count if an author arranged it after the request. In a strict installation neither does
 * one that an issuer of an author arranged after the request, or one that somebody made for another person, to themselves or to a person whom they issued.
 */
export function mayStandIn(request: Request, person: Person, represented: StandIn): boolean {
  const own = personOf(person)
  const hands = authorsOf(request).flatMap((author) => handsOf(request, author))
  const isOfMaker =
    isStrict(request) &&
    represented.by[0] !== represented.user_id &&
    represented.by.some((userId) => [own, ...issuersOf(person)].includes(personOf({ userId })))
  return (
    !authorsOf(request).some((author) => author.person === own) &&
    personOf({ userId: represented.user_id }) !== request.requested_by &&
    !findTieThatMatters(request, person) &&
    !isArranged(request, represented, hands) &&
    !isOfMaker
  )
}

/** The person is asked only because of a role that came through the hands of an author after the request. */
function findLateRole(request: Request, person: Person): Dependence | undefined {
  if (!isAsked(request, person)) return undefined
  const grants = person.origins?.grants ?? []
  for (const author of authorsOf(request)) {
    const hands = handsOf(request, author)
    const slugs = grants.filter((grant) => isArranged(request, grant, hands)).map(({ role }) => roleSlug(role))
    const orgRoles = person.orgRoles.filter((slug) => !slugs.includes(roleSlug(slug)))
    if (!isAsked(request, { ...person, orgRoles })) return { kind: 'role_by_requester', on: author.is }
  }
  return undefined
}

const named = { requester: 'the requester', editor: 'the person who changed the request' } as const

export function sayDependence({ kind, on }: Dependence): string {
  switch (kind) {
    case 'is_requester':
      return 'is the requester'
    case 'issued_by_requester':
      return `has credentials that ${named[on]} issued`
    case 'issued_requester':
      return `issued the credentials of ${named[on]}`
    case 'same_issuer':
      return `has credentials of the same issuer as ${named[on]}`
    case 'role_by_requester':
      return `got the role from ${named[on]}, or an issuer of theirs, after the request`
  }
}

/** The ways to an independent decision, for hints. In a strict installation they do not advise to turn its rules off. */
export const sayIndependent = (request: Request): string =>
  isStrict(request)
    ? 'Somebody with no issuer in common decides, such as a person who signs in at the identity provider.'
    : 'A person who signs in at the identity provider decides. Or set CONCORD_COUNT_INVITED_APPROVERS=1 and ask again.'

export function refuseDependent(request: Request, dependence: Dependence): Refusal {
  const facts = { approver: showActor(request.approver) }
  const who = named[dependence.on]
  switch (dependence.kind) {
    case 'is_requester':
      return refuse('self_approval', 'You are the requester, so somebody else must decide.', { facts })
    case 'issued_by_requester':
    case 'issued_requester':
    case 'same_issuer': {
      const whose = {
        issued_by_requester: `Your credentials came through ${who}`,
        issued_requester: `You issued the credentials of ${who}`,
        same_issuer: `One person issued your credentials and those of ${who}`,
      }[dependence.kind]
      const reason = `${whose}, so your decision does not count here.`
      return refuse(`approvals.approver.${dependence.kind}`, reason, { hint: sayIndependent(request), facts })
    }
    case 'role_by_requester':
      return refuse(
        'approvals.approver.role_by_requester',
        `You got this role after the request from ${who} or an issuer of theirs, so it does not count here.`,
        { hint: 'Somebody decides who had the role before, or got it from an independent administrator.', facts },
      )
  }
}
