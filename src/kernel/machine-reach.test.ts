/** A parent's required status is out of reach exactly when the table of commands says so. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineMachine, moves } from './machine.ts'
import { isStatusReachable } from './machine-graph.ts'

/** The 43 moves of a command, written out. */
const exits = {
  created: ['validated', 'failed', 'cancelled'],
  validated: ['waiting_for_input', 'waiting_for_approval', 'queued', 'running', 'failed', 'cancelled'],
  waiting_for_input: ['validated', 'cancelled', 'expired'],
  waiting_for_approval: ['approved', 'cancelled', 'expired', 'failed', 'waiting_for_input'],
  approved: ['queued', 'running', 'cancelled', 'waiting_for_approval'],
  queued: ['running', 'cancelled', 'failed'],
  running: ['succeeded', 'failed', 'cancelled', 'blocked', 'cancelling'],
  blocked: ['queued', 'running', 'failed', 'cancelled', 'cancelling'],
  failed: ['queued', 'compensating', 'cancelled'],
  cancelling: ['cancelled', 'compensating', 'failed'],
  compensating: ['compensated', 'failed'],
  compensated: ['cancelled'],
  succeeded: [],
  cancelled: [],
  expired: [],
} as const
type Status = keyof typeof exits
const statuses = Object.keys(exits) as Status[]

const command = defineMachine({
  name: 'command',
  title: 'a command',
  states: {
    created: 'pending',
    validated: 'pending',
    waiting_for_input: 'paused',
    waiting_for_approval: 'paused',
    approved: 'pending',
    queued: 'pending',
    running: 'running',
    blocked: 'paused',
    failed: 'terminal',
    cancelling: 'running',
    compensating: 'running',
    compensated: 'terminal',
    succeeded: 'terminal',
    cancelled: 'terminal',
    expired: 'terminal',
  },
  initial: 'created',
  moves: statuses.flatMap((from) => moves(from, [...exits[from]] as Status[], ['system'], [])),
  lock: 'from-state',
})

const canSucceed = (from: string, isRetryPending = false) =>
  isStatusReachable(command, from, 'succeeded', { isRetryPending })

test('[DEP-08] success is out of reach from the states that no path leads out of', () => {
  assert.equal(command.moves.length, 43)
  assert.deepEqual(
    statuses.filter((from) => !canSucceed(from)),
    ['failed', 'compensated', 'cancelled', 'expired'],
  )
})

test('[DEP-08] failed counts as unreachable only when no retry is pending', () => {
  assert.equal(canSucceed('failed', true), true)
  assert.equal(canSucceed('failed', false), false)
})

test('[DEP-08] what failed can do without a retry stays in reach', () => {
  for (const required of ['failed', 'compensating', 'compensated', 'cancelled'])
    assert.equal(isStatusReachable(command, 'failed', required, { isRetryPending: false }), true, required)
  assert.equal(isStatusReachable(command, 'failed', 'expired', { isRetryPending: false }), false)
  assert.equal(isStatusReachable(command, 'succeeded', 'succeeded', { isRetryPending: false }), true)
  assert.equal(isStatusReachable(command, 'unheard_of', 'succeeded', { isRetryPending: false }), false)
})
