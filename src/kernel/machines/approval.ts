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
      'before expires_at, by the resolved approver or a holder of the required role',
    ),
    ...moves('pending', 'expired', ['system'], ['approval_expired'], 'expires_at has passed'),
    ...moves(
      'pending',
      'cancelled',
      ['user', 'operator', 'system'],
      ['approval_cancelled'],
      'its command was cancelled or its payload changed',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'decided_at', on: ['approved', 'rejected', 'changes_requested'] }],
})

export type ApprovalState = keyof typeof approvalMachine.states
