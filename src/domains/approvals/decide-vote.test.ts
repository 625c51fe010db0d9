import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { statesOf } from '#kernel/machine'
import { approvalMachine } from '#kernel/machines/approval'
import { contractOf, defineApprovalType } from './approval-type.ts'
import type { Person } from './approver.ts'
import { decideVote, nextStep, type Tally, tallyVote } from './decide-vote.ts'
import { type DecisionValue, decisionValues, type StoredApproval } from './stored-approval.ts'

const at = new Date('2026-05-01T10:00:00Z')
const uuid = (n: number) => `0197f3b2-c4d5-7a8e-9b0c-${String(n).padStart(12, '0')}`
const person = (n: number, more: Partial<Person> = {}) => ({
  keyId: null,
  userId: uuid(n),
  externalId: `local:${n}`,
  orgRoles: ['finance'],
  ...more,
})
const type = defineApprovalType({ name: 'x', version: '1', riskLevel: 'low', expirationMinutes: 60 })

function anApproval(more: Partial<StoredApproval> = {}): StoredApproval {
  const content = { arguments: {}, effects: [], policy_version: '1', command_version: '1' }
  return {
    approval_id: uuid(90),
    command_id: uuid(91),
    workspace_id: uuid(92),
    requested_by: `user:${uuid(0)}`,
    approver: 'role:finance',
    approval_type: 'x',
    request_payload: { ...content, approvers: [], contract: contractOf(type, 'low') },
    // The judgement does not look at the packet.
    review_packet: {} as StoredApproval['review_packet'],
    status: 'pending',
    expires_at: new Date(at.getTime() + 1),
    created_at: at,
    decided_at: null,
    decided_by: null,
    decision_reason: null,
    idempotency_key: null,
    payload_hash: 'h',
    self_decision_allowed: false,
    superseded_by: null,
    approvals_required: 1,
    approver_roles: [],
    approved_by: [],
    approved_for: [],
    domain_effect_id: null,
    ...more,
  }
}

const code = (approval: StoredApproval, decider: ReturnType<typeof person>, decision = 'approved', more = {}) => {
  const answer = decideVote(approval, decider, { decision, reason: 'r', ...more }, at, [])
  return answer.ok ? 'ok' : answer.code
}

describe('one answer', () => {
  test('[APR-12] only an open approval takes one, and its last moment is before the deadline', () => {
    const codes = statesOf(approvalMachine).map((status) => [status, code(anApproval({ status }), person(1))])
    assert.deepEqual(Object.fromEntries(codes), {
      pending: 'ok',
      approved: 'approval_decided',
      rejected: 'approval_decided',
      changes_requested: 'approval_decided',
      expired: 'approval_expired',
      cancelled: 'approvals.approval.cancelled',
    })
    assert.equal(code(anApproval({ expires_at: at }), person(1)), 'approval_expired')
    assert.equal(code(anApproval({ expires_at: null }), person(1)), 'ok')
    assert.equal(code(anApproval({ status: 'cancelled', superseded_by: uuid(5) }), person(1)), 'payload_changed')
  })

  test('[APR-13] agents first of all, then the requester, then people who were not asked', () => {
    assert.equal(code(anApproval({ status: 'approved' }), person(1, { externalId: 'agent:x' })), 'agents_cannot_decide')
    assert.equal(code(anApproval(), person(0)), 'self_approval')
    assert.equal(code(anApproval({ self_decision_allowed: true }), person(0)), 'ok')
    assert.equal(code(anApproval(), person(1, { orgRoles: [] })), 'approvals.approver.not_asked')
    assert.equal(
      code(anApproval({ self_decision_allowed: true }), person(0, { orgRoles: [] })),
      'approvals.approver.not_asked',
    )
  })

  test('a person who approved may still refuse, and may not approve twice', () => {
    const approval = anApproval({ approvals_required: 2, approved_by: [`user:${uuid(1)}`] })
    assert.equal(code(approval, person(1)), 'approvals.vote.repeated')
    assert.equal(code(approval, person(1), 'rejected'), 'ok')
  })
})

describe('bypass', () => {
  test('[APR-13] [APR-15] of 20,000 altered decisions exactly those get through that nobody could object to', () => {
    const decisions = fc.constantFrom(
      'approved',
      'rejected',
      'request_changes',
      'Approved',
      'approve',
      'maybe',
      '',
      'toString',
    )
    const alteration = fc.record({
      who: fc.constantFrom(0, 1, 2),
      orgRoles: fc.constantFrom(['finance'], [], ['admin'], ['financ'], ['Finance']),
      externalId: fc.constantFrom('local:1', 'local:1', 'agent:1'),
      decision: decisions,
      payloadHash: fc.constantFrom(undefined, 'h', 'h', 'H', '', 'h2'),
      lateMs: fc.constantFrom(-60_000, -1, 0, 1),
      status: fc.constantFrom(...statesOf(approvalMachine), 'pending' as const, 'pending' as const),
      self: fc.boolean(),
      reason: fc.constantFrom(undefined, '', 'r', 'r'),
    })
    // Too rare to be met by chance in a short run.
    const fine = {
      who: 1,
      orgRoles: ['finance'],
      externalId: 'local:1',
      decision: 'approved',
      payloadHash: 'h',
      lateMs: -1,
      status: 'pending',
      self: false,
      reason: undefined,
    } as const
    let through = 0
    fc.assert(
      fc.property(alteration, (it) => {
        const approval = anApproval({
          status: it.status,
          self_decision_allowed: it.self,
          expires_at: new Date(at.getTime() - it.lateMs),
        })
        const decider = person(it.who, { orgRoles: it.orgRoles, externalId: it.externalId })
        const isFine =
          it.externalId === 'local:1' &&
          decisionValues.some((value) => value === it.decision) &&
          it.status === 'pending' &&
          it.lateMs < 0 &&
          (it.who !== 0 || it.self) &&
          it.orgRoles[0] === 'finance' &&
          (it.payloadHash === undefined || it.payloadHash === 'h') &&
          (it.decision === 'approved' || it.reason === 'r')
        const answer = decideVote(approval, decider, it, at, [])
        assert.equal(answer.ok, isFine)
        if (answer.ok) through += 1
      }),
      { numRuns: 20_000, examples: [[fine]] },
    )
    assert.ok(through > 0)
  })
})

describe('the quorum', () => {
  const vote = fc.record({
    person: fc.nat({ max: 5 }).map((n) => `user:${uuid(n)}`),
    decision: fc.constantFrom<DecisionValue>(...decisionValues, 'approved', 'approved', 'approved'),
  })
  const votes = fc.array(vote, { maxLength: 12 })
  const required = fc.integer({ min: 1, max: 4 })
  const count = (list: readonly { person: string; decision: DecisionValue }[], approvals_required: number): Tally =>
    list.reduce<Tally>((tally, each) => (tally.status === 'pending' ? tallyVote(tally, each) : tally), {
      status: 'pending',
      approved_by: [],
      approvals_required,
    })

  test('it is approved exactly when enough distinct persons approved before anybody refused', () => {
    fc.assert(
      fc.property(votes, required, (list, needed) => {
        const tally = count(list, needed)
        const refusal = list.findIndex(({ decision }) => decision !== 'approved')
        const before = refusal === -1 ? list : list.slice(0, refusal)
        const persons = new Set(before.map((each) => each.person))
        const expected =
          persons.size >= needed
            ? 'approved'
            : refusal === -1
              ? 'pending'
              : list[refusal]?.decision === 'rejected'
                ? 'rejected'
                : 'changes_requested'
        assert.equal(tally.status, expected)
        assert.equal(new Set(tally.approved_by).size, tally.approved_by.length)
        assert.ok(tally.approved_by.length <= needed)
      }),
    )
  })

  test('repeating a vote changes nothing, and the order of approvals does not matter', () => {
    const approvals = votes.map((list) => list.map((each) => ({ ...each, decision: 'approved' as const })))
    fc.assert(
      fc.property(approvals, required, (list, needed) => {
        const doubled = list.flatMap((each) => [each, each])
        assert.deepEqual(count(doubled, needed), count(list, needed))
        assert.equal(count(list.toReversed(), needed).status, count(list, needed).status)
      }),
    )
  })

  test('one voter more never turns a yes into a no', () => {
    fc.assert(
      fc.property(votes, required, vote, (list, needed, more) => {
        const before = count(list, needed)
        const after = count([...list, more], needed)
        if (before.status !== 'pending') assert.deepEqual(after, before)
      }),
    )
  })
})

describe('what happens next', () => {
  const gate = (status: StoredApproval['status'], more: Partial<StoredApproval> = {}) => anApproval({ status, ...more })

  test('[APR-14] all must approve, for one content; one refusal ends it', () => {
    assert.equal(nextStep(gate('approved'), []), 'run_command')
    assert.equal(nextStep(gate('approved'), [gate('pending')]), 'wait')
    assert.equal(nextStep(gate('approved'), [gate('approved'), gate('approved')]), 'run_command')
    assert.equal(nextStep(gate('approved'), [gate('approved', { payload_hash: 'other' })]), 'wait')
    assert.equal(nextStep(gate('rejected'), [gate('approved'), gate('pending')]), 'fail_command')
    assert.equal(nextStep(gate('changes_requested'), [gate('pending')]), 'ask_for_input')
    assert.equal(nextStep(gate('expired'), [gate('approved')]), 'expire_command')
    assert.equal(nextStep(gate('pending'), []), 'wait')
  })

  test('no set of approvals runs a command unless every one says approved', () => {
    const status = fc.constantFrom(...statesOf(approvalMachine))
    fc.assert(
      fc.property(status, fc.array(status, { maxLength: 4 }), (own, others) => {
        const runs =
          nextStep(
            gate(own),
            others.map((each) => gate(each)),
          ) === 'run_command'
        assert.equal(
          runs,
          [own, ...others].every((each) => each === 'approved'),
        )
      }),
    )
  })

  test('a question about an effect stands alone: it happened, or it did not', () => {
    const contract = contractOf(
      defineApprovalType({ name: 'y', version: '1', about: 'effect', riskLevel: 'high', expirationMinutes: null }),
      'low',
    )
    const question = (status: StoredApproval['status']) =>
      gate(status, { domain_effect_id: uuid(7), request_payload: { ...anApproval().request_payload, contract } })
    assert.equal(nextStep(question('approved'), [gate('pending')]), 'effect_happened')
    assert.equal(nextStep(question('rejected'), []), 'effect_did_not_happen')
  })
})
