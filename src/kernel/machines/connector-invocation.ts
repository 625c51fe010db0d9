/** The states of a connector call: a record, written at the start and completed by its own id; never a queue. */
import { defineMachine, moves } from '../machine.ts'

export const connectorInvocationMachine = defineMachine({
  name: 'connector-invocation',
  title: 'One call to an external system.',
  states: { started: 'running', succeeded: 'terminal', failed: 'terminal' },
  initial: 'started',
  creation: { by: ['worker'], emits: [] },
  moves: [
    ...moves('started', 'succeeded', ['worker'], ['connector_called']),
    ...moves(
      'started',
      'failed',
      ['worker', 'system'],
      ['connector_called'],
      'The system makes this move when the time limit has passed and the process has ended.',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['succeeded', 'failed'] }],
})

export type ConnectorInvocationState = keyof typeof connectorInvocationMachine.states
