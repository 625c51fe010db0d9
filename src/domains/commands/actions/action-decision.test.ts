/** The decision that an agent gets from the record of its command: every case of the table. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { policyDecisions } from '#kernel/policy/policy'
import { decideAnswer, type DecisionRecord, isDecided } from './action-decision.ts'

const record = (more: Partial<DecisionRecord>): DecisionRecord => ({
  status: 'validated',
  error: null,
  result: null,
  decision: null,
  reasons: null,
  missing: null,
  is_archived: false,
  ...more,
})
const gate = (status: string, approval_id = 'a1') => ({ approval_id, status, approver: 'role:data-owner' })

test('the answer is the decision of policy; an approval that the contract requires turns an allow into require_approval', () => {
  for (const decision of policyDecisions) {
    const answer = decideAnswer(record({ decision, reasons: ['Because.'] }), [])
    assert.deepEqual([answer.decision, answer.reasons, answer.approvalId], [decision, ['Because.'], null])
    const gated = decideAnswer(record({ decision }), [gate('pending')])
    const expected = decision === 'allow' || decision === 'route' ? 'require_approval' : decision
    assert.deepEqual([gated.decision, gated.approvalId], [expected, 'a1'])
  }
})

test('before policy is evaluated: a missing field needs input, an invalid payload is denied, everything else is undecided', () => {
  const early = (more: Partial<DecisionRecord>) => decideAnswer(record(more), [])
  const missing = early({ status: 'waiting_for_input', missing: ['date_range'] })
  assert.deepEqual([missing.decision, missing.message], ['require_more_input', 'Something is missing: date_range.'])
  const malformed = early({ status: 'failed', error: 'amount: a number' })
  assert.deepEqual([malformed.decision, malformed.reasons], ['deny', ['amount: a number']])
  for (const status of ['created', 'validated', 'cancelled', 'expired'] as const)
    assert.equal(early({ status }).decision, null, status)
  assert.deepEqual(
    [record({}), record({ status: 'created' }), record({ status: 'failed' }), record({ decision: 'delay' })].map(
      isDecided,
    ),
    [false, false, true, true],
  )
})

test('an open approval is listed before a decided one', () => {
  const gates = [gate('approved', 'first'), gate('pending', 'second')]
  const asked = decideAnswer(record({ decision: 'require_approval' }), gates)
  assert.deepEqual([asked.approvalId, asked.message], ['second', 'role:data-owner must agree. It is validated.'])
  const answered = decideAnswer(record({ decision: 'escalate', status: 'succeeded' }), [gate('approved')])
  assert.equal(answered.message, 'role:data-owner was asked. It has succeeded.')
  assert.equal(decideAnswer(record({ decision: 'require_approval' }), [gate('approved', 'first')]).approvalId, 'first')
})

test('a command with an archived decision is neither undecided nor denied', () => {
  const old = (more: Partial<DecisionRecord>) => decideAnswer(record({ is_archived: true, ...more }), [])
  const done = old({ status: 'succeeded', result: { sent: 1 } })
  assert.deepEqual([done.decision, done.output], [null, { sent: 1 }])
  assert.equal(done.message, 'Its decision is in the archive. It has succeeded.')
  const failed = old({ status: 'failed', error: 'the mail bounced' })
  assert.deepEqual([failed.decision, failed.reasons], [null, []])
  assert.equal(decideAnswer(record({ status: 'cancelled' }), []).message, 'It was never decided. It is cancelled.')
})
