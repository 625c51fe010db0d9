/** The machines of swarms, agent runs and invocations. */
import { defineMachine, moves } from '../machine.ts'

const changed = ['status_changed'] as const
const cancellers = ['user', 'operator', 'system'] as const

/** The states of a swarm: children run, their artifacts are joined, the join decides the outcome. */
export const swarmRunMachine = defineMachine({
  name: 'swarm-run',
  title: 'Several agents on one objective, joined into one outcome.',
  states: {
    created: 'pending',
    running: 'running',
    waiting_for_approval: 'paused',
    joining: 'running',
    cancelling: 'running',
    succeeded: 'terminal',
    partially_succeeded: 'terminal',
    failed: 'terminal',
    cancelled: 'terminal',
    expired: 'terminal',
  },
  initial: 'created',
  creation: { by: ['system', 'worker'], emits: [] },
  moves: [
    ...moves('created', 'running', ['worker'], changed),
    ...moves('created', 'failed', ['worker', 'system'], changed),
    ...moves('created', 'cancelled', cancellers, changed, 'No child has started.'),
    ...moves(
      'running',
      'joining',
      ['worker'],
      changed,
      'The children have ended, or the join strategy needs no more of them.',
    ),
    ...moves('running', 'waiting_for_approval', ['worker', 'system'], changed),
    ...moves(
      'waiting_for_approval',
      ['running', 'joining'],
      ['approver', 'worker', 'system'],
      changed,
      'The approval decides.',
    ),
    ...moves('joining', 'succeeded', ['worker'], changed),
    ...moves('joining', 'partially_succeeded', ['worker'], changed, 'Required output exists although a child failed.'),
    ...moves('joining', 'waiting_for_approval', ['worker'], changed, 'The join strategy requires human review.'),
    ...moves(
      ['running', 'waiting_for_approval', 'joining'],
      'failed',
      ['worker', 'system'],
      changed,
      'The join failed or a hard limit was reached.',
    ),
    ...moves(['running', 'waiting_for_approval', 'joining'], 'cancelling', cancellers, changed),
    ...moves(
      ['created', 'running', 'waiting_for_approval'],
      'expired',
      ['system'],
      changed,
      'The wall-clock limit has passed.',
    ),
    ...moves('cancelling', 'cancelled', ['worker', 'system'], changed, 'Every child has ended.'),
    ...moves('cancelling', 'failed', ['worker', 'system'], changed, 'The cancellation itself failed.'),
  ],
  lock: 'from-state',
  stamps: [
    { column: 'started_at', on: ['running'], once: true },
    { column: 'completed_at', on: ['succeeded', 'partially_succeeded', 'failed', 'cancelled', 'expired'] },
    { column: 'cancelled_at', on: ['cancelled'] },
  ],
})

export type SwarmRunState = keyof typeof swarmRunMachine.states

/** The strategies by which a swarm joins many results into one, as stored on its row. */
export const joinStrategies = [
  'all_success',
  'first_success',
  'quorum',
  'coordinator_synthesis',
  'evaluator_selection',
  'human_review',
  'best_of_n',
  'map_reduce',
  'consensus',
  'ranked_review',
] as const

const waits = ['waiting_for_tool', 'waiting_for_approval', 'waiting_for_input', 'waiting_for_children'] as const

/** The states of an agent run: it works, waits for decisions of Concord, and ends. */
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
    ...moves(['created', 'queued'], 'cancelled', cancellers, changed, 'No step has run.'),
    ...moves('running', waits, ['worker'], changed),
    ...moves(waits, 'running', ['worker'], changed, 'The awaited result has arrived and becomes the next observation.'),
    ...moves('running', 'succeeded', ['worker'], changed, 'The final answer was created.'),
    ...moves(
      ['created', 'queued', 'running', ...waits],
      'failed',
      ['worker', 'system'],
      changed,
      'It failed, policy denied it, or max_steps was reached.',
    ),
    ...moves(['running', ...waits], 'cancelling', cancellers, changed),
    ...moves(['created', 'queued', 'running', ...waits], 'expired', ['system'], changed, 'Its time limit has passed.'),
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

/** The states of an invocation: a parent's request to a child. It follows the child's run and never waits by itself. */
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
    ...moves('created', 'running', ['worker', 'system'], changed, "The child's run has started."),
    ...moves('running', 'succeeded', ['worker', 'system'], changed, "The child's run has succeeded."),
    ...moves(
      ['created', 'running'],
      ['failed', 'cancelled', 'expired'],
      ['worker', 'system'],
      changed,
      "The child's run has ended in this state.",
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['succeeded', 'failed', 'cancelled', 'expired'] }],
})

export type AgentInvocationState = keyof typeof agentInvocationMachine.states
