/**
 * The states of a binding. Pointing it at another version changes its row, not its state; a rollback may reactivate a disabled
 * one.
 */
import { defineMachine, moves } from '../machine.ts'

export const registryBindingMachine = defineMachine({
  name: 'registry-binding',
  title: 'One version in force for one scope, target and environment.',
  states: { active: 'running', disabled: 'paused', superseded: 'terminal' },
  initial: 'active',
  creation: { by: ['worker', 'system'], emits: ['version_bound'] },
  moves: [
    ...moves(
      'active',
      'disabled',
      ['operator', 'worker', 'system'],
      ['binding_disabled'],
      'its version was retired, or an operator switched it off',
    ),
    ...moves(
      'disabled',
      'active',
      ['operator', 'worker'],
      ['binding_rolled_back'],
      'it was rolled back to a usable version',
    ),
    ...moves(
      ['active', 'disabled'],
      'superseded',
      ['worker', 'system'],
      [],
      'a newer binding has the same entity, scope, target and environment; its own version_bound names this one',
    ),
  ],
  lock: 'from-state',
})

export type RegistryBindingState = keyof typeof registryBindingMachine.states
