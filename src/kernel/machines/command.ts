/**
 * The states of a command: 15 states, 42 moves.
 *
 * `failed` ends a run but can be left: it is terminal (nothing leaves it automatically, `completed_at` is set) and
 * its three exits are decisions after the end. `compensated` ends a compensation that followed a failure. When a
 * cancellation was requested, the last move to `cancelled` is still due, so there the column decides.
 */
import { afterEnd, defineMachine, moves } from '../machine.ts'
import type { ConcordActor } from '../actor.ts'

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
      'the plan is fast, low in risk and bounded: it runs inline',
    ),
    ...moves(
      'waiting_for_input',
      'validated',
      ['user', 'operator'],
      changed,
      'the missing input was supplied; policy runs again',
    ),
    ...moves(
      'waiting_for_approval',
      'approved',
      ['approver', 'system'],
      changed,
      'every required approval row says approved, for this very payload',
    ),
    ...moves('waiting_for_approval', 'failed', ['approver', 'system'], changed, 'one required approval was rejected'),
    ...moves(
      'waiting_for_approval',
      'waiting_for_input',
      ['approver', 'system'],
      changed,
      'an approver asked for changes',
    ),
    ...moves(
      ['waiting_for_input', 'waiting_for_approval'],
      'expired',
      ['system'],
      changed,
      'the waiting time is over; the expiry schedule decides',
    ),
    ...moves('approved', 'queued', ['system'], changed),
    ...moves('approved', 'running', ['system', 'worker'], changed),
    ...moves('queued', 'running', ['worker'], changed, 'every parent command has its required status'),
    ...moves(
      'queued',
      'failed',
      ['system', 'worker'],
      changed,
      'it could not be started, or a parent can no longer reach its required status',
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
      'no effect has run yet; one that was queued again after effects succeeded runs first, then goes through cancelling',
    ),
    ...moves('running', 'succeeded', ['worker'], changed),
    ...moves('running', 'failed', ['worker', 'system'], changed),
    ...moves('running', 'blocked', ['worker', 'system'], changed, 'a child command must end first'),
    ...moves('running', 'cancelling', cancellers, cancelRequested),
    ...moves(
      'running',
      'cancelled',
      ['operator'],
      cancelRequested,
      'its workflow no longer answers; ordinary cancelling goes through cancelling',
    ),
    ...moves('blocked', 'queued', ['system'], changed),
    ...moves('blocked', ['running', 'failed'], ['worker', 'system'], changed),
    ...moves('blocked', 'cancelled', cancellers, cancelRequested, 'no effect has run yet'),
    ...moves('blocked', 'cancelling', cancellers, cancelRequested, 'effects have already run'),
    ...moves('cancelling', 'cancelled', ['worker', 'system'], changed, 'the mode is graceful'),
    ...moves(
      'cancelling',
      'compensating',
      ['worker', 'system'],
      ['status_changed', 'compensation_started'],
      'the mode is compensate_then_stop',
    ),
    ...moves('cancelling', 'failed', ['worker', 'system'], changed, 'the exit itself broke'),
    ...moves('compensating', 'compensated', ['worker'], ['status_changed', 'compensation_completed']),
    ...moves(
      'compensating',
      'failed',
      ['worker', 'system'],
      ['status_changed', 'compensation_drift'],
      'one compensation failed after its retries; the chain halts and the drift row says how far it came',
    ),
    ...moves(
      'compensated',
      'cancelled',
      ['worker', 'system'],
      changed,
      'a cancellation was requested; compensation after a failure ends in compensated',
    ),
    ...afterEnd([
      ...moves(
        'failed',
        'queued',
        ['operator', 'user', 'system'],
        changed,
        'a person or a policy decided on another run; succeeded effects are kept',
      ),
      ...moves(
        'failed',
        'compensating',
        ['operator', 'system'],
        ['status_changed', 'compensation_started'],
        'a policy or an operator decided to undo what succeeded',
      ),
      ...moves('failed', 'cancelled', cancellers, cancelRequested, 'nobody will try it again'),
    ]),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['succeeded', 'failed', 'cancelled', 'expired', 'compensated'] }],
  clears: [{ column: 'completed_at', on: ['queued', 'compensating'] }],
  byFact: [{ state: 'compensated', column: 'cancellation_requested', is: 'false', type: 'terminal' }],
})

export type CommandState = keyof typeof commandMachine.states
