/**
 * The states of a command: 15 states, 43 moves.
 *
 * `failed` ends a run but can be left: it is terminal (nothing leaves it automatically, `completed_at` is set) and
 * its three exits are decisions after the end. `compensated` ends a compensation that followed a failure. When a
 * cancellation was requested, the last move to `cancelled` is still due, so there the column decides.
 */
import type { ConcordActor } from '../actor.ts'
import { afterEnd, defineMachine, moves } from '../machine.ts'

const cancellers = ['user', 'operator', 'system'] as const satisfies readonly ConcordActor[]
const changed = ['status_changed'] as const
const cancelRequested = ['status_changed', 'cancellation_requested'] as const

export const commandMachine = defineMachine({
  name: 'command',
  title: 'One governed request, from its record to its outcome.',
  states: {
    created: 'pending',
    validated: 'pending',
    waiting_for_input: 'paused',
    waiting_for_approval: 'paused',
    approved: 'pending',
    queued: 'pending',
    running: 'running',
    blocked: 'paused',
    succeeded: 'terminal',
    failed: 'terminal',
    cancelled: 'terminal',
    expired: 'terminal',
    compensating: 'running',
    compensated: 'running',
    cancelling: 'running',
  },
  initial: 'created',
  creation: { by: ['user', 'operator', 'system'], emits: ['command_created'] },
  moves: [
    ...moves('created', ['validated', 'failed'], ['system'], changed),
    ...moves('validated', ['waiting_for_input', 'waiting_for_approval', 'queued', 'failed'], ['system'], changed),
    ...moves(
      'validated',
      'running',
      ['system', 'worker'],
      changed,
      'The plan is fast, low in risk and bounded, so it runs inline.',
    ),
    ...moves(
      'waiting_for_input',
      'validated',
      ['user', 'operator'],
      changed,
      'The missing input was supplied. The policy is evaluated again.',
    ),
    ...moves(
      'waiting_for_approval',
      'approved',
      ['approver', 'system'],
      changed,
      'Every required approval is approved for exactly this payload.',
    ),
    ...moves('waiting_for_approval', 'failed', ['approver', 'system'], changed, 'A required approval was rejected.'),
    ...moves(
      'waiting_for_approval',
      'waiting_for_input',
      ['approver', 'system'],
      changed,
      'An approver asked for changes.',
    ),
    ...moves(
      ['waiting_for_input', 'waiting_for_approval'],
      'expired',
      ['system'],
      changed,
      'The waiting time has passed. The expiry schedule decides.',
    ),
    ...moves(
      'approved',
      'waiting_for_approval',
      ['system'],
      changed,
      'What would run is no longer what was approved, so people are asked again.',
    ),
    ...moves('approved', 'queued', ['system'], changed),
    ...moves('approved', 'running', ['system', 'worker'], changed),
    ...moves('queued', 'running', ['worker'], changed, 'Every parent command has its required status.'),
    ...moves(
      'queued',
      'failed',
      ['system', 'worker'],
      changed,
      'It could not start, or a parent can no longer reach its required status.',
    ),
    ...moves(
      ['created', 'validated', 'waiting_for_input', 'waiting_for_approval', 'approved'],
      'cancelled',
      cancellers,
      cancelRequested,
    ),
    ...moves(
      'queued',
      'cancelled',
      cancellers,
      cancelRequested,
      'No effect has run yet. A command that was queued again after effects succeeded moves to running first, then to cancelling.',
    ),
    ...moves('running', 'succeeded', ['worker'], changed),
    ...moves('running', 'failed', ['worker', 'system'], changed),
    ...moves('running', 'blocked', ['worker', 'system'], changed, 'A child command must end first.'),
    ...moves('running', 'cancelling', cancellers, cancelRequested),
    ...moves(
      'running',
      'cancelled',
      ['operator'],
      cancelRequested,
      'Its workflow no longer responds. An ordinary cancellation passes through cancelling.',
    ),
    ...moves('blocked', 'queued', ['system'], changed),
    ...moves('blocked', ['running', 'failed'], ['worker', 'system'], changed),
    ...moves('blocked', 'cancelled', cancellers, cancelRequested, 'No effect has run yet.'),
    ...moves('blocked', 'cancelling', cancellers, cancelRequested, 'Effects have already run.'),
    ...moves('cancelling', 'cancelled', ['worker', 'system'], changed, 'The mode is graceful.'),
    ...moves(
      'cancelling',
      'compensating',
      ['worker', 'system'],
      ['status_changed', 'compensation_started'],
      'The mode is compensate_then_stop.',
    ),
    ...moves('cancelling', 'failed', ['worker', 'system'], changed, 'The cancellation itself failed.'),
    ...moves('compensating', 'compensated', ['worker'], ['status_changed', 'compensation_completed']),
    ...moves(
      'compensating',
      'failed',
      ['worker', 'system'],
      ['status_changed', 'compensation_drift'],
      'A compensation failed after its retries. The chain halts, and the drift event records how far it got.',
    ),
    ...moves(
      'compensated',
      'cancelled',
      ['worker', 'system'],
      changed,
      'A cancellation was requested. A compensation after a failure ends in compensated.',
    ),
    ...afterEnd([
      ...moves(
        'failed',
        'queued',
        ['operator', 'user', 'system'],
        changed,
        'A person or a policy decided to run it again. Succeeded effects are kept.',
      ),
      ...moves(
        'failed',
        'compensating',
        cancellers,
        ['status_changed', 'compensation_started'],
        'Its effects are undone: its contract says so, an undo was decided, or a cancel in the mode compensate_then_stop.',
      ),
      ...moves(
        'failed',
        'cancelled',
        cancellers,
        cancelRequested,
        'It will not be retried, and there is nothing to undo or the mode is graceful.',
      ),
    ]),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['succeeded', 'failed', 'cancelled', 'expired', 'compensated'] }],
  clears: [{ column: 'completed_at', on: ['queued', 'compensating'] }],
  byFact: [{ state: 'compensated', column: 'cancellation_requested', is: 'false', type: 'terminal' }],
})

export type CommandState = keyof typeof commandMachine.states

/**
 * The states of an effect. A compensation has its own row, so a succeeded effect keeps its status. An effect that a cancel
 * skips stays `planned`. An effect with an unknown outcome stays `executing` until a person has checked it.
 */
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
      'The step saw the outcome. An operator needs a decided reconcile_effect approval.',
    ),
    ...moves(
      'executing',
      'failed',
      ['worker', 'operator'],
      ['effect_failed'],
      'No retry is left, or the error is not retryable. An operator needs a decided reconcile_effect approval.',
    ),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['succeeded', 'failed'] }],
})

export type EffectState = keyof typeof effectMachine.states
