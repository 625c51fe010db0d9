/** The states of a registry entity. A name is never released, so archiving can be undone. */
import { defineMachine, moves } from '../machine.ts'

export const registryEntityMachine = defineMachine({
  name: 'registry-entity',
  title: 'One named capability of the registry.',
  states: { active: 'running', archived: 'paused' },
  initial: 'active',
  creation: { by: ['user', 'operator', 'system'], emits: ['entity_created'] },
  moves: [
    ...moves('active', 'archived', ['user', 'operator'], ['entity_archived'], 'no version of it is bound any more'),
    ...moves('archived', 'active', ['user', 'operator'], ['entity_restored']),
  ],
  lock: 'from-state',
})

export type RegistryEntityState = keyof typeof registryEntityMachine.states
