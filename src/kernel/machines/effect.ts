/**
 * The states of an effect. A compensation is a row of its own, so a succeeded effect keeps its status. An effect that a
 * cancel skips stays `planned`. An effect with an unknown outcome stays `executing` until a person has checked it.
 */
import { defineMachine, moves } from '../machine.ts'

export const effectMachine = defineMachine({
  name: 'effect',
  title: 'One planned action on the outside world, recorded before it happens.',
  states: { planned: 'pending', executing: 'running', succeeded: 'terminal', failed: 'terminal' },
  initial: 'planned',
  creation: { by: ['system', 'worker'], emits: ['effect_planned'] },
  moves: [
    ...moves('planned', 'executing', ['worker'], ['status_changed']),
    ...moves(
      'executing',
      'succeeded',
      ['worker', 'operator'],
      ['effect_executed'],
      'the step saw the outcome; an operator only through a decided reconcile_effect approval',
    ),
    ...moves(
      'executing',
      'failed',
      ['worker', 'operator'],
      ['effect_failed'],
      'retries are used up or the error is not retryable; an operator only through a decided reconcile_effect approval',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['succeeded', 'failed'] }],
})

export type EffectState = keyof typeof effectMachine.states
