/** The states of a memory: in force, then kept but never retrieved again; every state allows erasure. */
import { afterEnd, defineMachine, moves } from '../machine.ts'

const changed = ['status_changed'] as const

export const memoryRecordMachine = defineMachine({
  name: 'memory-record',
  title: 'Something remembered, as long as it is in force.',
  states: { active: 'running', superseded: 'terminal', expired: 'terminal', deleted: 'terminal' },
  initial: 'active',
  creation: { by: ['system', 'worker'], emits: ['memory_written'] },
  moves: [
    ...moves(
      'active',
      'superseded',
      ['system', 'user', 'operator'],
      changed,
      'a newer record takes its place and is linked',
    ),
    ...moves('active', 'expired', ['system'], changed, 'expires_at has passed'),
    ...moves('active', 'deleted', ['user', 'operator', 'system'], changed),
    ...afterEnd(
      moves(
        ['superseded', 'expired'],
        'deleted',
        ['user', 'operator', 'system'],
        changed,
        'the subject or retention asks for erasure',
      ),
    ),
  ],
  lock: 'from-state',
})

export type MemoryRecordState = keyof typeof memoryRecordMachine.states
