/** The states of a writeback proposal: 5 states, 4 moves, resolved once. A failing write keeps `approved` and its error. */
import { defineMachine, moves } from '../machine.ts'

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
      'policy alone only where the mission needs no approval',
    ),
    ...moves('pending', 'rejected', ['approver', 'policy'], ['proposal_rejected']),
    ...moves('pending', 'expired', ['root'], ['proposal_expired'], 'expires_at has passed'),
    ...moves(
      'pending',
      'superseded',
      ['root'],
      ['proposal_superseded'],
      'a newer proposal has the same target and action in the same mission',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'resolved_at', on: ['approved', 'rejected', 'expired', 'superseded'] }],
})

export type ColonyProposalState = keyof typeof colonyProposalMachine.states
