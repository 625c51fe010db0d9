/**
 * The states of one evaluation of a version. A repeated evaluation is a new row; `error` says nothing about the version. The row
 * is its own record: the registry's events record its consequences, not the measurement.
 */
import { defineMachine, moves } from '../machine.ts'

export const registryEvaluationMachine = defineMachine({
  name: 'registry-evaluation',
  title: 'One evaluation of one version.',
  states: { pending: 'pending', running: 'running', passed: 'terminal', failed: 'terminal', error: 'terminal' },
  initial: 'pending',
  creation: { by: ['worker', 'system'], emits: [] },
  moves: [
    ...moves('pending', 'running', ['worker'], []),
    ...moves('running', ['passed', 'failed'], ['worker'], []),
    ...moves(['pending', 'running'], 'error', ['worker', 'system'], [], 'it could not be carried out'),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['passed', 'failed', 'error'] }],
})

export type RegistryEvaluationState = keyof typeof registryEvaluationMachine.states
