/** The states of a memory candidate: nothing becomes memory before policy, and approval where policy requires it. */
import { defineMachine, moves } from '../machine.ts'

const changed = ['status_changed'] as const

export const memoryCandidateMachine = defineMachine({
  name: 'memory-candidate',
  title: 'Something proposed for memory, until it is written or refused.',
  states: {
    proposed: 'pending',
    awaiting_approval: 'paused',
    accepted: 'terminal',
    rejected: 'terminal',
    expired: 'terminal',
  },
  initial: 'proposed',
  creation: { by: ['user', 'system', 'worker'], emits: ['memory_candidate_created'] },
  moves: [
    ...moves('proposed', 'accepted', ['system'], changed, 'high confidence, low risk, and consent exists'),
    ...moves(
      'proposed',
      'awaiting_approval',
      ['system'],
      changed,
      'sensitive, broad, or in conflict with what is known',
    ),
    ...moves('proposed', 'rejected', ['system'], changed, 'policy, data safety or missing consent forbids it'),
    ...moves(
      'awaiting_approval',
      ['accepted', 'rejected'],
      ['approver', 'system'],
      changed,
      'the approval row decides',
    ),
    ...moves(['proposed', 'awaiting_approval'], 'expired', ['system'], changed, 'nobody decided in time'),
  ],
  lock: 'from-state',
  stamps: [{ column: 'decided_at', on: ['accepted', 'rejected'] }],
})

export type MemoryCandidateState = keyof typeof memoryCandidateMachine.states
