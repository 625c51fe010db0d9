/**
 * The states of one mission task: 12 states, 26 moves. The events are chosen move by move: a crash that ends a task
 * is `task_crashed`, never `task_failed`, because consumers count failures under both names.
 */
import { defineMachine, moves } from '../machine.ts'

export const missionTaskMachine = defineMachine({
  name: 'mission-task',
  title: 'One piece of work of a mission, from the plan to a verified result.',
  states: {
    pending: 'pending',
    queued: 'pending',
    awaiting_retry: 'pending',
    assigned: 'running',
    running: 'running',
    continuing: 'running',
    verifying: 'paused',
    awaiting_human: 'paused',
    completed: 'terminal',
    failed: 'terminal',
    cancelled: 'terminal',
    skipped: 'terminal',
  },
  initial: 'pending',
  creation: { by: ['coordinator', 'human'], emits: ['task_created'] },
  moves: [
    ...moves('pending', 'queued', ['coordinator'], ['task_queued'], 'the trigger rule is satisfied'),
    ...moves('pending', 'skipped', ['coordinator'], ['task_skipped'], 'the trigger rule can no longer be satisfied'),
    ...moves('queued', 'assigned', ['coordinator'], ['task_assigned'], 'an agent was chosen'),
    ...moves(
      'assigned',
      'running',
      ['agent'],
      ['task_started'],
      'the first start of a run also sets its started_at and appends run_started',
    ),
    ...moves('running', 'continuing', ['agent'], ['task_continuing'], 'a clean exit with work left'),
    ...moves('continuing', 'running', ['system'], ['task_resumed'], 'due_at has come'),
    ...moves('running', 'verifying', ['agent'], ['task_output_submitted']),
    ...moves('verifying', 'completed', ['verifier'], ['task_verification_passed']),
    ...moves(
      'verifying',
      'awaiting_human',
      ['verifier', 'reconciler'],
      ['task_human_review_requested'],
      'the verifier is unsure, or gave no verdict in time (then stall_detected comes first)',
    ),
    ...moves('verifying', 'awaiting_retry', ['verifier'], ['task_verification_failed'], 'refused, and retries remain'),
    ...moves('verifying', 'failed', ['verifier'], ['task_failed'], 'refused, and no retry is left'),
    ...moves('awaiting_human', 'completed', ['human'], ['task_human_approved']),
    ...moves(
      'awaiting_human',
      'awaiting_retry',
      ['human'],
      ['task_human_rejected'],
      'the person asks for another try, and retries remain',
    ),
    ...moves(
      'awaiting_human',
      'failed',
      ['human'],
      ['task_human_rejected', 'task_failed'],
      'the person refuses for good, or no retry is left',
    ),
    ...moves('awaiting_retry', 'assigned', ['system'], ['task_retrying'], 'due_at has come'),
    ...moves(
      'running',
      'failed',
      ['reconciler', 'system'],
      ['task_crashed'],
      'an infrastructure failure, and no retry is left (after a stall stall_detected comes first)',
    ),
    ...moves(
      'running',
      'awaiting_retry',
      ['reconciler', 'system'],
      ['task_crashed'],
      'an infrastructure failure, and retries remain (after a stall stall_detected comes first)',
    ),
    ...moves('assigned', 'queued', ['reconciler'], ['stall_detected', 'task_queued'], 'no start was seen in time'),
    ...moves(
      ['pending', 'queued', 'awaiting_retry', 'assigned', 'running', 'continuing', 'verifying', 'awaiting_human'],
      'cancelled',
      ['human', 'coordinator'],
      ['task_cancelled'],
      'a person cancels the task or its run, or the coordinator fails the run; the cascade keeps that actor',
    ),
  ],
  lock: 'version',
  stamps: [
    { column: 'started_at', on: ['running'], once: true },
    { column: 'completed_at', on: ['completed', 'failed', 'cancelled', 'skipped'] },
  ],
  clears: [
    { column: 'agent_id', on: ['queued'] },
    { column: 'agent_type', on: ['queued'] },
    { column: 'due_at', on: ['assigned', 'running', 'cancelled'] },
  ],
})

export type MissionTaskState = keyof typeof missionTaskMachine.states
