/**
 * The states of a colony mission: 11 states, 25 moves, one stage after the other. An operator's cancel is `rejected` with a
 * reason.
 */
import { defineMachine, moves } from '../machine.ts'

const changed = ['mission_status_changed'] as const
const staged = ['planning', 'packaging', 'retrieving', 'executing', 'aggregating', 'reviewing'] as const

export const colonyMissionMachine = defineMachine({
  name: 'colony-mission',
  title: 'One request for advice, through the stages of the colony to a released answer.',
  states: {
    accepted: 'pending',
    planning: 'running',
    packaging: 'running',
    retrieving: 'running',
    executing: 'running',
    aggregating: 'running',
    reviewing: 'running',
    awaiting_approval: 'paused',
    completed: 'terminal',
    failed: 'terminal',
    rejected: 'terminal',
  },
  initial: 'accepted',
  creation: { by: ['root'], emits: ['mission_accepted'] },
  moves: [
    ...moves('accepted', 'planning', ['gateway'], changed, 'the runtime took the mission'),
    ...moves('planning', 'packaging', ['runtime'], changed, 'the task graph is stored'),
    ...moves('packaging', 'retrieving', ['runtime'], changed, 'the prompt packages are stored and research is wanted'),
    ...moves(
      'packaging',
      'executing',
      ['runtime'],
      changed,
      'the prompt packages are stored and no research is wanted',
    ),
    ...moves('retrieving', 'executing', ['runtime'], changed, 'the passes and the research are stored'),
    ...moves('executing', 'aggregating', ['runtime'], changed, 'every worker result is there'),
    ...moves('aggregating', 'reviewing', ['runtime'], changed, 'the aggregation packet is stored'),
    ...moves(
      'reviewing',
      'completed',
      ['runtime', 'root'],
      changed,
      'the review packet is stored and no proposal is open',
    ),
    ...moves(
      'reviewing',
      'awaiting_approval',
      ['runtime', 'root'],
      changed,
      'the review packet is stored and a proposal is open',
    ),
    ...moves(
      'awaiting_approval',
      'completed',
      ['root', 'approver'],
      changed,
      'no proposal is pending and an approved one was written',
    ),
    ...moves(
      'awaiting_approval',
      'rejected',
      ['approver', 'policy', 'operator'],
      changed,
      'every proposal was refused, or an operator cancels',
    ),
    ...moves(staged, 'rejected', ['policy', 'operator'], changed, 'policy denies it, or an operator cancels'),
    ...moves('accepted', 'failed', ['gateway', 'root'], changed, 'dispatch was given up'),
    ...moves(
      staged,
      'failed',
      ['runtime', 'gateway', 'root'],
      changed,
      'an error that cannot be recovered, or a budget was passed',
    ),
    ...moves('awaiting_approval', 'failed', ['root'], changed, 'an approved write failed for good'),
  ],
  lock: 'version',
  stamps: [{ column: 'completed_at', on: ['completed', 'failed', 'rejected'] }],
})

export type ColonyMissionState = keyof typeof colonyMissionMachine.states
