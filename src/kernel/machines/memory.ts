/** The machines of memory candidates and memory records. */
import { afterEnd, defineMachine, moves } from '../machine.ts'

const changed = ['status_changed'] as const

/** The states of a memory candidate: nothing becomes memory before policy, and approval where policy requires it. */
export const memoryCandidateMachine = defineMachine({
  name: 'memory-candidate',
  title: 'A proposed memory, until it is written or refused.',
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
    ...moves(
      'proposed',
      'accepted',
      ['system'],
      changed,
      'The confidence is high, the risk is low, and consent exists.',
    ),
    ...moves(
      'proposed',
      'awaiting_approval',
      ['system'],
      changed,
      'It is sensitive, broad, or in conflict with an existing memory.',
    ),
    ...moves('proposed', 'rejected', ['system'], changed, 'Policy, data safety or missing consent forbids it.'),
    ...moves('awaiting_approval', ['accepted', 'rejected'], ['approver', 'system'], changed, 'The approval decides.'),
    ...moves(['proposed', 'awaiting_approval'], 'expired', ['system'], changed, 'No decision was made in time.'),
  ],
  lock: 'from-state',
  stamps: [{ column: 'decided_at', on: ['accepted', 'rejected'] }],
})

export type MemoryCandidateState = keyof typeof memoryCandidateMachine.states

/** The states of a memory: active, then kept but never retrieved again; every state allows erasure. */
export const memoryRecordMachine = defineMachine({
  name: 'memory-record',
  title: 'A stored fact, until it is superseded, expires or is erased.',
  states: { active: 'running', superseded: 'terminal', expired: 'terminal', deleted: 'terminal' },
  initial: 'active',
  creation: { by: ['system', 'worker'], emits: ['memory_written'] },
  moves: [
    ...moves(
      'active',
      'superseded',
      ['system', 'user', 'operator'],
      changed,
      'A newer record replaces it and is linked.',
    ),
    ...moves('active', 'expired', ['system'], changed, 'The time expires_at has passed.'),
    ...moves('active', 'deleted', ['user', 'operator', 'system'], changed),
    ...afterEnd(
      moves(
        ['superseded', 'expired'],
        'deleted',
        ['user', 'operator', 'system'],
        changed,
        'The subject or the retention rule requires erasure.',
      ),
    ),
  ],
  lock: 'from-state',
})

export type MemoryRecordState = keyof typeof memoryRecordMachine.states
