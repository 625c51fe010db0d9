import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideMove, findMove } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { approvalMachine as approval } from './approval.ts'

test('[APR-02] approval: six statuses, all 6 × 6 pairs, only pending has exits', () => {
  const legal = {
    pending: ['approved', 'rejected', 'changes_requested', 'expired', 'cancelled'],
    approved: [],
    rejected: [],
    changes_requested: [],
    expired: [],
    cancelled: [],
  }
  assert.deepEqual(differingPairs(approval, legal), [])
})

test('approval: only an approver decides, and each way out has its event', () => {
  for (const decision of ['approved', 'rejected', 'changes_requested']) {
    assert.equal(decideMove(approval, 'pending', decision, 'approver').ok, true)
    for (const other of ['agent', 'worker', 'system', 'user', 'operator']) {
      assert.equal(decideMove(approval, 'pending', decision, other).ok, false, `${other} → ${decision}`)
    }
    assert.deepEqual(findMove(approval, 'pending', decision)?.emits, ['approval_decided'])
  }
  assert.deepEqual(findMove(approval, 'pending', 'expired')?.emits, ['approval_expired'])
  assert.deepEqual(findMove(approval, 'pending', 'cancelled')?.emits, ['approval_cancelled'])
})

test('approval: decided_at is the time of a person’s decision, not of the expiry', () => {
  assert.deepEqual(approval.stamps, [{ column: 'decided_at', on: ['approved', 'rejected', 'changes_requested'] }])
})
