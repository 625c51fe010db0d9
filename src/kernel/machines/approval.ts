/** The states of an approval: one decision, by a person, once. Only `pending` has exits; agents never decide. */
import { defineMachine, moves } from '../machine.ts'

export const approvalMachine = defineMachine({
  name: 'approval',
  title: 'One question to a person, answered once.',
  states: {
    pending: 'paused',
    approved: 'terminal',
    rejected: 'terminal',
    changes_requested: 'terminal',
    expired: 'terminal',
    cancelled: 'terminal',
  },
  initial: 'pending',
  creation: { by: ['system', 'worker'], emits: ['approval_requested'] },
  moves: [
    ...moves(
      'pending',
      ['approved', 'rejected', 'changes_requested'],
      ['approver'],
      ['approval_decided'],
      'The resolved approver, or a holder of the required role, decides before expires_at.',
    ),
    ...moves('pending', 'expired', ['system'], ['approval_expired'], 'The time expires_at has passed.'),
    ...moves(
      'pending',
      'cancelled',
      ['user', 'operator', 'system'],
      ['approval_cancelled'],
      'Its command was cancelled, or the payload changed.',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'decided_at', on: ['approved', 'rejected', 'changes_requested'] }],
})

export type ApprovalState = keyof typeof approvalMachine.states
