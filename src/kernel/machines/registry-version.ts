/** The states of a registry version. From `published` on its content never changes; only its status and times do. */
import { defineMachine, moves } from '../machine.ts'

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
      'manifest, relationships and compatibility are sound',
    ),
    ...moves(
      'draft',
      'rejected',
      ['user', 'operator', 'system'],
      ['version_rejected'],
      'given up; a failed validation alone leaves it a draft',
    ),
    ...moves('validated', 'draft', ['user', 'operator'], ['version_edited'], 'its manifest was edited'),
    ...moves(
      'validated',
      'pending_approval',
      ['system', 'worker'],
      ['approval_requested'],
      'the change is high in risk',
    ),
    ...moves(
      'validated',
      'published',
      ['worker', 'operator'],
      ['version_published'],
      'the change is not high in risk and blocking evaluations passed',
    ),
    ...moves('pending_approval', 'approved', ['approver', 'system'], ['version_approved'], 'the approval row decides'),
    ...moves('pending_approval', 'rejected', ['approver', 'system'], ['version_rejected'], 'the approval row decides'),
    ...moves('approved', 'published', ['worker', 'operator'], ['version_published'], 'blocking evaluations passed'),
    ...moves('published', 'deprecated', ['user', 'operator'], ['version_deprecated']),
    ...moves(
      'published',
      'retired',
      ['operator', 'system'],
      ['emergency_retired'],
      'emergency: it blocks new resolution and its bindings at once',
    ),
    ...moves(
      'deprecated',
      'retired',
      ['user', 'operator', 'system'],
      ['version_retired'],
      'its bindings are disabled or moved',
    ),
    ...moves('deprecated', 'published', ['user', 'operator'], ['version_published'], 'the deprecation is taken back'),
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
