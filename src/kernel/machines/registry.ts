/** The machines of the registry: entities, their versions, bindings and evaluations. */
import { defineMachine, moves } from '../machine.ts'

/** The states of a registry entity. A name is never released, so archiving can be undone. */
export const registryEntityMachine = defineMachine({
  name: 'registry-entity',
  title: 'One named capability of the registry.',
  states: { active: 'running', archived: 'paused' },
  initial: 'active',
  creation: { by: ['user', 'operator', 'system'], emits: ['entity_created'] },
  moves: [
    ...moves('active', 'archived', ['user', 'operator'], ['entity_archived'], 'No version of it is bound.'),
    ...moves('archived', 'active', ['user', 'operator'], ['entity_restored']),
  ],
  lock: 'from-state',
})

export type RegistryEntityState = keyof typeof registryEntityMachine.states

/** The states of a registry version. From `published` on its content never changes; only its status and times do. */
export const registryVersionMachine = defineMachine({
  name: 'registry-version',
  title: 'One immutable contract, from draft to retirement.',
  states: {
    draft: 'pending',
    validated: 'pending',
    pending_approval: 'paused',
    approved: 'pending',
    published: 'running',
    deprecated: 'running',
    retired: 'terminal',
    rejected: 'terminal',
  },
  initial: 'draft',
  creation: { by: ['user', 'operator', 'system'], emits: ['version_created'] },
  moves: [
    ...moves(
      'draft',
      'validated',
      ['system', 'worker'],
      ['version_validated'],
      'The manifest, the relationships and the compatibility are valid.',
    ),
    ...moves(
      'draft',
      'rejected',
      ['user', 'operator', 'system'],
      ['version_rejected'],
      'It was abandoned. A failed validation alone leaves it a draft.',
    ),
    ...moves('validated', 'draft', ['user', 'operator'], ['version_edited'], 'Its manifest was edited.'),
    ...moves(
      'validated',
      'pending_approval',
      ['system', 'worker'],
      ['approval_requested'],
      'The change is high in risk.',
    ),
    ...moves(
      'validated',
      'published',
      ['worker', 'operator'],
      ['version_published'],
      'The change is not high in risk, and the blocking evaluations passed.',
    ),
    ...moves('pending_approval', 'approved', ['approver', 'system'], ['version_approved'], 'The approval decides.'),
    ...moves('pending_approval', 'rejected', ['approver', 'system'], ['version_rejected'], 'The approval decides.'),
    ...moves(
      'approved',
      'published',
      ['worker', 'operator'],
      ['version_published'],
      'The blocking evaluations passed.',
    ),
    ...moves('published', 'deprecated', ['user', 'operator'], ['version_deprecated']),
    ...moves(
      'published',
      'retired',
      ['operator', 'system'],
      ['emergency_retired'],
      'This is an emergency. New resolution and its bindings are blocked at once.',
    ),
    ...moves(
      'deprecated',
      'retired',
      ['user', 'operator', 'system'],
      ['version_retired'],
      'Its bindings are disabled or moved.',
    ),
    ...moves('deprecated', 'published', ['user', 'operator'], ['version_published'], 'The deprecation was withdrawn.'),
  ],
  lock: 'from-state',
  stamps: [
    { column: 'validated_at', on: ['validated'] },
    { column: 'approved_at', on: ['approved'] },
    { column: 'published_at', on: ['published'], once: true },
    { column: 'deprecated_at', on: ['deprecated'] },
    { column: 'retired_at', on: ['retired'] },
  ],
  clears: [
    { column: 'validated_at', on: ['draft'] },
    { column: 'deprecated_at', on: ['published'] },
  ],
})

export type RegistryVersionState = keyof typeof registryVersionMachine.states

/**
 * The states of a binding. Pointing it at another version changes its row, not its state; a rollback may reactivate a disabled
 * one.
 */
export const registryBindingMachine = defineMachine({
  name: 'registry-binding',
  title: 'The active version for one scope, target and environment.',
  states: { active: 'running', disabled: 'paused', superseded: 'terminal' },
  initial: 'active',
  creation: { by: ['worker', 'system'], emits: ['version_bound'] },
  moves: [
    ...moves(
      'active',
      'disabled',
      ['operator', 'worker', 'system'],
      ['binding_disabled'],
      'Its version was retired, or an operator switched it off.',
    ),
    ...moves(
      'disabled',
      'active',
      ['operator', 'worker'],
      ['binding_rolled_back'],
      'It was rolled back to a usable version.',
    ),
    ...moves(
      ['active', 'disabled'],
      'superseded',
      ['worker', 'system'],
      [],
      'A newer binding has the same entity, scope, target and environment. Its version_bound event names this binding.',
    ),
  ],
  lock: 'from-state',
})

export type RegistryBindingState = keyof typeof registryBindingMachine.states

/**
 * The states of one evaluation of a version. A repeated evaluation is a new row; `error` is not a verdict on the version. The row
 * is its own record: the registry's events record its consequences, not the measurement.
 */
export const registryEvaluationMachine = defineMachine({
  name: 'registry-evaluation',
  title: 'One evaluation of one version.',
  states: { pending: 'pending', running: 'running', passed: 'terminal', failed: 'terminal', error: 'terminal' },
  initial: 'pending',
  creation: { by: ['worker', 'system'], emits: [] },
  moves: [
    ...moves('pending', 'running', ['worker'], []),
    ...moves('running', ['passed', 'failed'], ['worker'], []),
    ...moves(['pending', 'running'], 'error', ['worker', 'system'], [], 'It could not run.'),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['passed', 'failed', 'error'] }],
})

export type RegistryEvaluationState = keyof typeof registryEvaluationMachine.states
