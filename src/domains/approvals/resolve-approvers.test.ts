import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApprovalRequest } from './stored-approval.ts'
import { resolveApprovers } from './request-approval.ts'
import { type ApprovalTypeInput, defineApprovalType } from './approval-type.ts'
import { approverRef, roleRef, showActor } from './approver.ts'

const [ada, bob, eve] = ['a', 'b', 'e'].map((digit) => `0197f3b2-c4d5-7a8e-9b0c-1d2e3f40516${digit}`) as [
  string,
  string,
  string,
]

function resolve(type: Partial<ApprovalTypeInput>, request: Partial<ApprovalRequest>) {
  const declared = defineApprovalType({ name: 'x', version: '1', riskLevel: 'low', expirationMinutes: 5, ...type })
  const words = { requestedAction: '', why: '', affected: [], policy: '', afterApproval: '' }
  const content = { arguments: { owner: eve }, effects: [], policy_version: '1', command_version: '1' }
  const answer = resolveApprovers(declared, {
    workspaceId: '',
    commandId: '',
    approvalType: 'x',
    requestedBy: ada,
    content,
    packet: words,
    ...request,
  })
  return answer.ok ? answer.value : answer.code
}

test('[APR-13] the approver comes from the request, the requester, a role or a function of the request', () => {
  const asked = (type: Partial<ApprovalTypeInput>, request: Partial<ApprovalRequest> = {}) => {
    const answer = resolve(type, request)
    return typeof answer === 'string' ? answer : answer.approver
  }
  assert.equal(asked({}, { approver: bob }), `user:${bob}`)
  assert.equal(asked({}, { approver: 'data_owner' }), 'role:data-owner')
  assert.equal(asked({ approver: 'requester', selfDecision: true }), `user:${ada}`)
  assert.equal(asked({ approver: { role: 'cfo' } }, { approver: bob }), 'role:cfo')
  assert.equal(
    asked({ approver: ({ content }) => ({ approver: JSON.stringify(content.arguments['owner']).slice(1, -1) }) }),
    `user:${eve}`,
  )
  assert.equal(asked({ approver: () => ({ approver: 'agent:7' }) }), 'approvals.approver.unresolved')
})

test('nobody else is taken for a person or a role', () => {
  for (const text of [
    '',
    'user:bob',
    'agent:7',
    'Role',
    'role:',
    'role:a b',
    'user:',
    'a\u200bb',
    `user:${bob.toUpperCase()}`,
  ]) {
    assert.equal(approverRef(text), undefined, text)
  }
  assert.equal(roleRef('role:data_owner'), 'role:data-owner')
  assert.equal(showActor(`user:${bob}`), `user_${bob.replaceAll('-', '')}`)
  assert.equal(showActor('system'), 'system')
})

test('a quorum of named persons must be possible without the requester', () => {
  assert.equal(resolve({ quorum: 2 }, { approver: bob }), 'approvals.quorum.unreachable')
  assert.equal(resolve({ quorum: 2 }, { approver: bob, approvers: [bob, ada] }), 'approvals.quorum.unreachable')
  assert.notEqual(typeof resolve({ quorum: 2 }, { approver: bob, approvers: [eve] }), 'string')
  assert.notEqual(typeof resolve({ quorum: 2, selfDecision: true }, { approver: bob, approvers: [ada] }), 'string')
  assert.notEqual(typeof resolve({ quorum: 2 }, { approver: bob, approverRoles: ['cfo'] }), 'string')
  assert.equal(resolve({}, { approver: bob, approvers: ['role:cfo'] }), 'approvals.approver.unresolved')
})
