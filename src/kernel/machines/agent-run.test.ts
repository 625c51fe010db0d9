import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statesOf, typeOf } from '../machine.ts'
import { differingPairs } from '../machine-graph.ts'
import { agentRunMachine as run } from './agent.ts'

test('[ST-22] agent run: twelve states, all 12 × 12 pairs, 35 of them legal', () => {
  const legal = {
    created: ['queued', 'running', 'failed', 'cancelled', 'expired'],
    queued: ['running', 'failed', 'cancelled', 'expired'],
    running: [
      'waiting_for_tool',
      'waiting_for_approval',
      'waiting_for_input',
      'waiting_for_children',
      'succeeded',
      'failed',
      'cancelling',
      'expired',
    ],
    waiting_for_tool: ['running', 'failed', 'cancelling', 'expired'],
    waiting_for_approval: ['running', 'failed', 'cancelling', 'expired'],
    waiting_for_input: ['running', 'failed', 'cancelling', 'expired'],
    waiting_for_children: ['running', 'failed', 'cancelling', 'expired'],
    cancelling: ['cancelled', 'failed'],
    succeeded: [],
    failed: [],
    cancelled: [],
    expired: [],
  }
  assert.deepEqual(differingPairs(run, legal), [])
  assert.equal(run.moves.length, 35)
  const terminal = statesOf(run).filter((state) => typeOf(run, state) === 'terminal')
  assert.deepEqual(terminal.sort(), ['cancelled', 'expired', 'failed', 'succeeded'])
})
