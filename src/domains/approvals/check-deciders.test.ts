/** Who could decide today: every way in which nobody can, and the end of each. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ActivePerson } from '#domains/identity'
import { contractOf, defineApprovalType } from './approval-type.ts'
import { checkDeciders } from './check-deciders.ts'
import type { StoredApproval } from './stored-approval.ts'

const [ada, bob, eve] = ['a', 'b', 'e'].map((digit) => `0197f3b2-c4d5-7a8e-9b0c-1d2e3f40516${digit}`) as [
  string,
  string,
  string,
]
const person = (userId: string, orgRoles: readonly string[] = [], externalId = 'local:x'): ActivePerson => ({
  userId,
  externalId,
  role: 'writer',
  orgRoles,
  origins: { issuers: [], grants: [], stands_for: [] },
})

function anApproval(more: Partial<StoredApproval> & { readonly approvers?: readonly string[] }): StoredApproval {
  const type = defineApprovalType({
    name: 'x',
    version: '1',
    riskLevel: 'low',
    expirationMinutes: 90,
    escalation: { afterMinutes: 30, role: 'board' },
  })
  const { approvers = [], ...row } = more
  // What is left out here is not looked at.
  return {
    requested_by: `user:${ada}`,
    approver: 'role:finance',
    approver_roles: [],
    approved_by: [],
    approved_for: [],
    approvals_required: 1,
    self_decision_allowed: false,
    request_payload: { approvers, contract: contractOf(type, 'low') },
    ...row,
  } as unknown as StoredApproval
}

const codeOf = (approval: StoredApproval, ...persons: ActivePerson[]) => checkDeciders(approval, persons)?.code

test('a role without members, one whose only member asked, a person who left, and too few for the quorum are noticed', () => {
  const role = anApproval({})
  assert.equal(codeOf(role), 'role_without_members')
  assert.equal(codeOf(role, person(bob, ['sales'])), 'role_without_members')
  assert.equal(codeOf(role, person(ada, ['finance'])), 'approver_is_requester')
  assert.equal(codeOf(role, person(bob, ['finance'], 'agent:bot')), 'role_without_members')
  assert.equal(codeOf(anApproval({ approver: `user:${bob}` })), 'approver_gone')
  assert.equal(codeOf(anApproval({ approver: `user:${ada}` }), person(ada)), 'approver_is_requester')
  const two = anApproval({ approvals_required: 2 })
  assert.equal(codeOf(two, person(bob, ['finance'])), 'quorum_unreachable')
  assert.equal(codeOf(two, person(ada, ['finance']), person(bob, ['finance'])), 'quorum_unreachable')
  assert.equal(codeOf({ ...two, approved_by: [`user:${bob}`] }, person(bob, ['finance'])), 'quorum_unreachable')
})

test('it clears as soon as somebody can: by role, by name, by the next role, by a vote that is in', () => {
  assert.equal(codeOf(anApproval({}), person(bob, ['finance'])), undefined)
  assert.equal(codeOf(anApproval({ approver: `user:${bob}` }), person(bob)), undefined)
  assert.equal(codeOf(anApproval({ approver: `user:${eve}`, approvers: [`user:${bob}`] }), person(bob)), undefined)
  assert.equal(codeOf(anApproval({ approver_roles: ['board'] }), person(bob, ['board'])), undefined)
  const own = anApproval({ approver: `user:${ada}`, self_decision_allowed: true })
  assert.equal(codeOf(own, person(ada)), undefined)
  const two = anApproval({ approvals_required: 2, approved_by: [`user:${eve}`] })
  assert.equal(codeOf(two, person(bob, ['finance'])), undefined)
})

test('it says what is wrong and what to do, and that the next role comes, until it has come', () => {
  const blocked = checkDeciders(anApproval({}), [])
  assert.equal(blocked?.reason, 'Nobody who may decide here has the role finance.')
  assert.match(
    blocked?.hint ?? '',
    /concord people grant <name> finance --create\. .*after 30 minutes the role board may also decide\.$/,
  )
  assert.deepEqual([blocked?.possible, blocked?.required], [0, 1])
  assert.doesNotMatch(checkDeciders(anApproval({ approver_roles: ['board'] }), [])?.hint ?? '', /or wait/)
  const gone = checkDeciders(anApproval({ approver: `user:${bob}` }), [])
  assert.match(gone?.reason ?? '', /^user_0197\w+ left, may not enter/)
  assert.match(gone?.hint ?? '', /concord people reactivate/)
})
