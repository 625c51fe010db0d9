/** The machines of the colony: missions, their tasks, reviews and writeback proposals. */
import { defineMachine, moves } from '../machine.ts'

const missionChanged = ['mission_status_changed'] as const
const staged = ['planning', 'packaging', 'retrieving', 'executing', 'aggregating', 'reviewing'] as const

/**
 * The states of a colony mission: 11 states, 25 moves, one stage after the other. An operator's cancel is `rejected` with a
 * reason.
 */
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
    ...moves('accepted', 'planning', ['gateway'], missionChanged, 'The runtime took the mission.'),
    ...moves('planning', 'packaging', ['runtime'], missionChanged, 'The task graph is stored.'),
    ...moves(
      'packaging',
      'retrieving',
      ['runtime'],
      missionChanged,
      'The prompt packages are stored, and research was requested.',
    ),
    ...moves(
      'packaging',
      'executing',
      ['runtime'],
      missionChanged,
      'The prompt packages are stored, and no research was requested.',
    ),
    ...moves('retrieving', 'executing', ['runtime'], missionChanged, 'The passes and the research are stored.'),
    ...moves('executing', 'aggregating', ['runtime'], missionChanged, 'Every worker result has arrived.'),
    ...moves('aggregating', 'reviewing', ['runtime'], missionChanged, 'The aggregation packet is stored.'),
    ...moves(
      'reviewing',
      'completed',
      ['runtime', 'root'],
      missionChanged,
      'The review packet is stored and no proposal is open.',
    ),
    ...moves(
      'reviewing',
      'awaiting_approval',
      ['runtime', 'root'],
      missionChanged,
      'The review packet is stored and a proposal is open.',
    ),
    ...moves(
      'awaiting_approval',
      'completed',
      ['root', 'approver'],
      missionChanged,
      'No proposal is pending and an approved one was written.',
    ),
    ...moves(
      'awaiting_approval',
      'rejected',
      ['approver', 'policy', 'operator'],
      missionChanged,
      'Every proposal was rejected, or an operator cancels.',
    ),
    ...moves(staged, 'rejected', ['policy', 'operator'], missionChanged, 'Policy denies it, or an operator cancels.'),
    ...moves('accepted', 'failed', ['gateway', 'root'], missionChanged, 'The dispatch was abandoned.'),
    ...moves(
      staged,
      'failed',
      ['runtime', 'gateway', 'root'],
      missionChanged,
      'An error cannot be recovered, or a budget was exceeded.',
    ),
    ...moves('awaiting_approval', 'failed', ['root'], missionChanged, 'An approved write failed permanently.'),
  ],
  lock: 'version',
  stamps: [{ column: 'completed_at', on: ['completed', 'failed', 'rejected'] }],
})

export type ColonyMissionState = keyof typeof colonyMissionMachine.states

const taskChanged = ['task_status_changed'] as const

/** The states of one colony task: 6 states, 8 moves. */
export const colonyTaskMachine = defineMachine({
  name: 'colony-task',
  title: 'One piece of work for one role of the colony.',
  states: {
    pending: 'pending',
    ready: 'pending',
    running: 'running',
    completed: 'terminal',
    failed: 'terminal',
    skipped: 'terminal',
  },
  initial: 'pending',
  creation: { by: ['runtime', 'root'], emits: ['task_stored'] },
  moves: [
    ...moves('pending', 'ready', ['runtime', 'root'], taskChanged, 'Every task it depends on is completed.'),
    ...moves('ready', 'running', ['runtime'], taskChanged),
    ...moves('running', 'completed', ['runtime'], taskChanged, 'Its worker result is stored.'),
    ...moves(
      ['pending', 'ready'],
      'skipped',
      ['runtime', 'root'],
      taskChanged,
      'A task it depends on failed, or the mission has ended.',
    ),
    ...moves(['pending', 'ready', 'running'], 'failed', ['runtime', 'root'], taskChanged),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['completed', 'failed', 'skipped'] }],
})

export type ColonyTaskState = keyof typeof colonyTaskMachine.states

/** The review of a colony mission, kept in `colony_missions.review_status`; it moves with the mission's revision. */
export const colonyReviewMachine = defineMachine({
  name: 'colony-review',
  title: 'Whether a person must review a mission before it is released, and the result.',
  states: { not_required: 'pending', pending: 'paused', approved: 'terminal', rejected: 'terminal' },
  initial: 'not_required',
  creation: { by: ['root'], emits: [] },
  moves: [
    ...moves(
      'not_required',
      'pending',
      ['root', 'policy'],
      ['review_requested'],
      'The mission moves to awaiting_approval in the same transaction.',
    ),
    ...moves('pending', 'approved', ['approver', 'policy'], ['review_approved']),
    ...moves('pending', 'rejected', ['approver', 'policy', 'operator'], ['review_rejected']),
  ],
  lock: 'version',
})

export type ColonyReviewState = keyof typeof colonyReviewMachine.states

/** The states of a writeback proposal: 5 states, 4 moves, resolved once. A failing write keeps `approved` and its error. */
export const colonyProposalMachine = defineMachine({
  name: 'colony-proposal',
  title: 'One intended change of foreign data, stored before anyone may make it.',
  states: {
    pending: 'paused',
    approved: 'terminal',
    rejected: 'terminal',
    expired: 'terminal',
    superseded: 'terminal',
  },
  initial: 'pending',
  creation: { by: ['runtime', 'root'], emits: ['proposal_stored'] },
  moves: [
    ...moves(
      'pending',
      'approved',
      ['approver', 'policy'],
      ['proposal_approved'],
      'Policy decides alone only if the mission needs no approval.',
    ),
    ...moves('pending', 'rejected', ['approver', 'policy'], ['proposal_rejected']),
    ...moves('pending', 'expired', ['root'], ['proposal_expired'], 'The time expires_at has passed.'),
    ...moves(
      'pending',
      'superseded',
      ['root'],
      ['proposal_superseded'],
      'A newer proposal has the same target and action in the same mission.',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'resolved_at', on: ['approved', 'rejected', 'expired', 'superseded'] }],
})

export type ColonyProposalState = keyof typeof colonyProposalMachine.states
