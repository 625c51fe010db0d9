/** The states of a swarm: children run, their artifacts are joined, the join decides the outcome. */
import { defineMachine, moves } from '../machine.ts'

const changed = ['status_changed'] as const
const cancellers = ['user', 'operator', 'system'] as const

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
    ...moves('created', 'cancelled', cancellers, changed, 'no child has started'),
    ...moves(
      'running',
      'joining',
      ['worker'],
      changed,
      'the children have ended, or the join strategy needs no more of them',
    ),
    ...moves('running', 'waiting_for_approval', ['worker', 'system'], changed),
    ...moves(
      'waiting_for_approval',
      ['running', 'joining'],
      ['approver', 'worker', 'system'],
      changed,
      'the approval row decides',
    ),
    ...moves('joining', 'succeeded', ['worker'], changed),
    ...moves('joining', 'partially_succeeded', ['worker'], changed, 'required output exists although a child failed'),
    ...moves('joining', 'waiting_for_approval', ['worker'], changed, 'the join strategy asks for human review'),
    ...moves(
      ['running', 'waiting_for_approval', 'joining'],
      'failed',
      ['worker', 'system'],
      changed,
      'the join failed or a hard limit was reached',
    ),
    ...moves(['running', 'waiting_for_approval', 'joining'], 'cancelling', cancellers, changed),
    ...moves(
      ['created', 'running', 'waiting_for_approval'],
      'expired',
      ['system'],
      changed,
      'the wall-clock limit has passed',
    ),
    ...moves('cancelling', 'cancelled', ['worker', 'system'], changed, 'every child has ended'),
    ...moves('cancelling', 'failed', ['worker', 'system'], changed, 'the exit itself broke'),
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
