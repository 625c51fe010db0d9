/** The states of an agent run: it works, waits for decisions of Concord, and ends. */
import { defineMachine, moves } from '../machine.ts'

const changed = ['status_changed'] as const
const cancellers = ['user', 'operator', 'system'] as const
const waits = ['waiting_for_tool', 'waiting_for_approval', 'waiting_for_input', 'waiting_for_children'] as const

export const agentRunMachine = defineMachine({
  name: 'agent-run',
  title: 'One agent at work on one goal, within bounds.',
  states: {
    created: 'pending',
    queued: 'pending',
    running: 'running',
    waiting_for_tool: 'paused',
    waiting_for_approval: 'paused',
    waiting_for_input: 'paused',
    waiting_for_children: 'paused',
    cancelling: 'running',
    succeeded: 'terminal',
    failed: 'terminal',
    cancelled: 'terminal',
    expired: 'terminal',
  },
  initial: 'created',
  creation: { by: ['system', 'worker'], emits: [] },
  moves: [
    ...moves('created', 'queued', ['system', 'worker'], changed),
    ...moves(['created', 'queued'], 'running', ['worker'], changed),
    ...moves(['created', 'queued'], 'cancelled', cancellers, changed, 'no step has run'),
    ...moves('running', waits, ['worker'], changed),
    ...moves(waits, 'running', ['worker'], changed, 'what it waited for is there and becomes its next observation'),
    ...moves('running', 'succeeded', ['worker'], changed, 'the final answer was created'),
    ...moves(
      ['created', 'queued', 'running', ...waits],
      'failed',
      ['worker', 'system'],
      changed,
      'it broke, policy denied it, or max_steps is reached',
    ),
    ...moves(['running', ...waits], 'cancelling', cancellers, changed),
    ...moves(['created', 'queued', 'running', ...waits], 'expired', ['system'], changed, 'its time limit has passed'),
    ...moves('cancelling', ['cancelled', 'failed'], ['worker', 'system'], changed),
  ],
  lock: 'from-state',
  stamps: [
    { column: 'started_at', on: ['running'], once: true },
    { column: 'completed_at', on: ['succeeded', 'failed', 'cancelled', 'expired'] },
    { column: 'cancelled_at', on: ['cancelled'] },
  ],
})

export type AgentRunState = keyof typeof agentRunMachine.states
