/**
 * The states of an artifact. An artifact that is complete when it is written enters as `draft` and becomes `ready` in the same
 * transaction; retention moves unused artifacts to `archived`.
 */
import { afterEnd, defineMachine, moves } from '../machine.ts'

const changed = ['status_changed'] as const

export const artifactMachine = defineMachine({
  name: 'artifact',
  title: 'An output of work, from draft to archive.',
  states: {
    draft: 'pending',
    ready: 'pending',
    published: 'running',
    unpublished: 'paused',
    superseded: 'terminal',
    cancelled: 'terminal',
    archived: 'terminal',
  },
  initial: 'draft',
  creation: { by: ['worker', 'system', 'user'], emits: ['artifact_created'] },
  moves: [
    ...moves('draft', 'ready', ['worker', 'system', 'user'], changed),
    ...moves(
      ['draft', 'ready'],
      'cancelled',
      ['worker', 'system', 'user', 'operator'],
      changed,
      'It is compensated, or its command was cancelled.',
    ),
    ...moves(
      ['ready', 'unpublished'],
      'published',
      ['worker', 'system', 'operator'],
      ['artifact_published'],
      'Data safety, the external-sharing policy and, where the policy requires one, an approval allow it.',
    ),
    ...moves('published', 'unpublished', ['worker', 'system', 'operator'], changed, 'It is compensated or withdrawn.'),
    ...moves(
      ['draft', 'ready', 'published', 'unpublished'],
      'superseded',
      ['worker', 'system', 'operator'],
      changed,
      'A newer version replaces it.',
    ),
    ...moves(['ready', 'unpublished'], 'archived', ['system', 'operator'], changed, 'Its retention time has passed.'),
    ...afterEnd(
      moves(['superseded', 'cancelled'], 'archived', ['system', 'operator'], changed, 'Its retention time has passed.'),
    ),
  ],
  lock: 'from-state',
})

export type ArtifactState = keyof typeof artifactMachine.states
