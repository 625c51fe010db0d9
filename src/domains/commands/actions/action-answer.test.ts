/** The decision that an agent is told, from what stands on record: every case of the table. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { policyDecisions } from '#kernel/policy/policy'
import { decideAnswer } from './action-answer.ts'
import { isDecided, type Standing } from './find-decision.ts'

const standing = (more: Partial<Standing>): Standing => ({
  status: 'validated',
  error: null,
  error_class: null,
  result: null,
  decision: null,
  reasons: null,
  missing: null,
  is_archived: false,
  ...more,
})
const gate = (status: string, approval_id = 'a1') => ({ approval_id, status, approver: 'role:data-owner' })

test('what policy said is what is told; a gate of the contract makes an allow a question', () => {
  for (const decision of policyDecisions) {
    const told = decideAnswer(standing({ decision, reasons: ['Because.'] }), [])
    assert.deepEqual([told.decision, told.reasons, told.approvalId], [decision, ['Because.'], null])
    const gated = decideAnswer(standing({ decision }), [gate('pending')])
    const expected = decision === 'allow' || decision === 'route' ? 'require_approval' : decision
    assert.deepEqual([gated.decision, gated.approvalId], [expected, 'a1'])
  }
})

test('before policy is asked: what lacks something needs input, what makes no sense is denied, all else is open', () => {
  const early = (more: Partial<Standing>) => decideAnswer(standing(more), [])
  const missing = early({ status: 'waiting_for_input', missing: ['date_range'] })
  assert.deepEqual([missing.decision, missing.message], ['require_more_input', 'Something is missing: date_range.'])
  const malformed = early({ status: 'failed', error_class: 'malformed_payload', error: 'amount: a number' })
  assert.deepEqual([malformed.decision, malformed.reasons], ['deny', ['amount: a number']])
  for (const status of ['created', 'validated', 'cancelled', 'expired'] as const)
    assert.equal(early({ status }).decision, null, status)
  assert.deepEqual(
    [
      standing({}),
      standing({ status: 'created' }),
      standing({ status: 'failed' }),
      standing({ decision: 'delay' }),
    ].map(isDecided),
    [false, false, true, true],
  )
})

test('an open question goes before one that is answered', () => {
  const gates = [gate('approved', 'first'), gate('pending', 'second')]
  const asked = decideAnswer(standing({ decision: 'require_approval' }), gates)
  assert.deepEqual([asked.approvalId, asked.message], ['second', 'role:data-owner must agree. It is validated.'])
  const answered = decideAnswer(standing({ decision: 'escalate', status: 'succeeded' }), [gate('approved')])
  assert.equal(answered.message, 'role:data-owner was asked. It has succeeded.')
  assert.equal(
    decideAnswer(standing({ decision: 'require_approval' }), [gate('approved', 'first')]).approvalId,
    'first',
  )
})

test('what was decided so long ago that it is archived is neither open nor denied', () => {
  const old = (more: Partial<Standing>) => decideAnswer(standing({ is_archived: true, ...more }), [])
  const done = old({ status: 'succeeded', result: { sent: 1 } })
  assert.deepEqual([done.decision, done.output], [null, { sent: 1 }])
  assert.equal(done.message, 'What was decided about it is in the archive. It has succeeded.')
  const failed = old({ status: 'failed', error_class: 'provider_error' as never, error: 'the mail bounced' })
  assert.deepEqual([failed.decision, failed.reasons], [null, []])
  assert.equal(decideAnswer(standing({ status: 'cancelled' }), []).message, 'It was never decided. It is cancelled.')
})
