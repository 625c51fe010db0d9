/** The review of a colony mission, kept in `colony_missions.review_status`; it moves with the mission's revision. */
import { defineMachine, moves } from '../machine.ts'

export const colonyReviewMachine = defineMachine({
  name: 'colony-review',
  title: 'Whether a person must look at a mission before it is released, and what they said.',
  states: { not_required: 'pending', pending: 'paused', approved: 'terminal', rejected: 'terminal' },
  initial: 'not_required',
  creation: { by: ['root'], emits: [] },
  moves: [
    ...moves(
      'not_required',
      'pending',
      ['root', 'policy'],
      ['review_requested'],
      'together with awaiting_approval of the mission',
    ),
    ...moves('pending', 'approved', ['approver', 'policy'], ['review_approved']),
    ...moves('pending', 'rejected', ['approver', 'policy', 'operator'], ['review_rejected']),
  ],
  lock: 'version',
})

export type ColonyReviewState = keyof typeof colonyReviewMachine.states
