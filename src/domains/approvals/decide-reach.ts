/** Whether enough persons can decide about an open approval today, and if not, why and what to do. Pure. */
import type { ActivePerson } from '#domains/identity'
import { askedContract } from './asked-contract.ts'
import { approverRef, isAgent, isAsked, isPersonRef, personOf, roleRef, showActor } from './approver.ts'
import type { StoredApproval } from './stored-approval.ts'

/** Stable: programs read them. */
export const blockCodes = [
  'approver_is_requester',
  'approver_gone',
  'role_without_members',
  'quorum_unreachable',
] as const
type BlockCode = (typeof blockCodes)[number]

/** Nobody, or too few, can decide as things are. It is worked out whenever it is asked for, so it goes with its cause. */
export type Blocked = {
  readonly code: BlockCode
  readonly reason: string
  readonly hint: string
  /** How many persons could still approve, and how many more approvals are needed. */
  readonly possible: number
  readonly required: number
}

/** The part of an approval that says who may decide; a question that is not asked yet has it too. */
export type Asking = Pick<
  StoredApproval,
  | 'approver'
  | 'approver_roles'
  | 'request_payload'
  | 'domain_effect_id'
  | 'requested_by'
  | 'approved_by'
  | 'approvals_required'
  | 'self_decision_allowed'
>

/** `persons` are those of the workspace who may act there today; undefined: it can be decided. */
export function decideReach(approval: Asking, persons: readonly ActivePerson[]): Blocked | undefined {
  const asked = persons.filter((person) => isAsked(approval, person))
  const able = asked.filter(
    (person) =>
      !isAgent(person) &&
      !approval.approved_by.includes(personOf(person)) &&
      (approval.self_decision_allowed || personOf(person) !== approval.requested_by),
  )
  const required = approval.approvals_required - approval.approved_by.length
  if (able.length >= required) return undefined
  const code = codeOf(approval, asked, able.length)
  const counts = { possible: able.length, required }
  return { code, reason: reasonOf(approval, code, counts), hint: hintOf(approval, code), ...counts }
}

function codeOf(approval: Asking, asked: readonly ActivePerson[], able: number): BlockCode {
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
  const { escalation } = askedContract(approval)
  const isLetIn = escalation !== null && approval.approver_roles.includes(escalation.role)
  const give = role === undefined ? undefined : `give somebody the role: concord people grant <name> ${role}`
  const back = 'let them in again: concord people reactivate <name>, or concord people role <name> writer'
  const ways = [
    code === 'approver_gone' ? back : undefined,
    give ?? 'cancel the command and ask for it again with another approver',
    role === undefined ? undefined : 'invite somebody: concord people invite <name> --role writer',
    escalation === null || isLetIn
      ? undefined
      : `or wait: after ${escalation.after_minutes} minutes the role ${escalation.role} may decide too`,
  ]
  return `${ways.filter((way) => way !== undefined).join('; ')}.`
}

/** The persons and the roles that an approval names, as `user:<uuid>` and as slugs. */
export function namedPersons({ approver, request_payload }: Asking): readonly string[] {
  const refs = [approver, ...(request_payload.approvers ?? [])].map(approverRef)
  return [...new Set(refs.filter((ref) => ref !== undefined && isPersonRef(ref)))] as readonly string[]
}

export function namedRoles({ approver, approver_roles }: Asking): readonly string[] {
  const first = approverRef(approver)
  const refs = [first === undefined || isPersonRef(first) ? undefined : first, ...approver_roles.map(roleRef)]
  return [...new Set(refs.flatMap((ref) => (ref === undefined ? [] : [ref.slice('role:'.length)])))]
}
