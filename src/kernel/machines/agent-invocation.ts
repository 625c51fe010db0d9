/** The states of an invocation: a parent's request to a child. It follows the child's run and has no waits of its own. */
import { defineMachine, moves } from '../machine.ts'

const changed = ['status_changed'] as const

export const agentInvocationMachine = defineMachine({
  name: 'agent-invocation',
  title: 'One request of a parent agent to a child agent.',
  states: {
    created: 'pending',
    running: 'running',
    succeeded: 'terminal',
    failed: 'terminal',
    cancelled: 'terminal',
    expired: 'terminal',
  },
  initial: 'created',
  creation: { by: ['system', 'worker'], emits: ['subagent_spawned'] },
  moves: [
    ...moves('created', 'running', ['worker', 'system'], changed, "the child's run has started"),
    ...moves('running', 'succeeded', ['worker', 'system'], changed, "the child's run has succeeded"),
    ...moves(
      ['created', 'running'],
      ['failed', 'cancelled', 'expired'],
      ['worker', 'system'],
      changed,
      "the child's run has ended so",
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['succeeded', 'failed', 'cancelled', 'expired'] }],
})

export type AgentInvocationState = keyof typeof agentInvocationMachine.states
