/** The machines of missions and their tasks. */
import { defineMachine, moves } from '../machine.ts'

/**
 * The states of a mission: 9 states, 19 moves. `started_at` is not a stamp of this table: it is set when the first task begins,
 * together with `run_started`. Pausing changes no task; it only stops the dispatch of tasks.
 */
export const missionRunMachine = defineMachine({
  name: 'mission-run',
  title: 'One goal, from the request to its outcome.',
  states: {
    pending: 'pending',
    planning: 'pending',
    awaiting_approval: 'pending',
    running: 'running',
    paused: 'paused',
    budget_exceeded: 'paused',
    completed: 'terminal',
    failed: 'terminal',
    cancelled: 'terminal',
  },
  initial: 'pending',
  creation: { by: ['system', 'human'], emits: ['run_created'] },
  moves: [
    ...moves(
      'pending',
      'planning',
      ['coordinator'],
      ['run_planning_started'],
      'The coordinator takes the new mission.',
    ),
    ...moves(
      'planning',
      'awaiting_approval',
      ['coordinator'],
      ['run_plan_ready'],
      'The plan is complete and a human gate applies.',
    ),
    ...moves(
      'planning',
      'running',
      ['coordinator'],
      ['run_plan_ready', 'run_approved'],
      'The plan is complete and the autonomy level needs no human gate.',
    ),
    ...moves(
      'awaiting_approval',
      'running',
      ['human'],
      ['run_approved'],
      'A person approves the plan, possibly with edits.',
    ),
    ...moves('awaiting_approval', 'failed', ['human'], ['run_rejected'], 'A person rejects the plan.'),
    ...moves(
      'running',
      'completed',
      ['coordinator'],
      ['run_completed'],
      'Every task is terminal and every essential end task is completed.',
    ),
    ...moves('running', 'failed', ['coordinator'], ['run_failed'], 'A task failed and cannot be recovered.'),
    ...moves('running', 'paused', ['human'], ['run_paused']),
    ...moves('running', 'budget_exceeded', ['system'], ['run_budget_exceeded'], 'The cost is above the hard limit.'),
    ...moves('paused', 'running', ['human'], ['run_resumed']),
    ...moves(
      'budget_exceeded',
      'running',
      ['human'],
      ['run_budget_increased'],
      'The new hard limit is above the current cost.',
    ),
    ...moves(
      ['pending', 'planning'],
      'failed',
      ['coordinator'],
      ['run_failed'],
      'Planning failed because of an invalid plan, a cycle or a planner error.',
    ),
    ...moves(
      ['pending', 'planning', 'awaiting_approval', 'running', 'paused', 'budget_exceeded'],
      'cancelled',
      ['human'],
      ['run_cancelled'],
      'Every task that has not ended is cancelled with it.',
    ),
  ],
  lock: 'version',
  stamps: [{ column: 'completed_at', on: ['completed', 'failed', 'cancelled'] }],
})

export type MissionRunState = keyof typeof missionRunMachine.states
export const missionRunStates = Object.keys(missionRunMachine.states) as [MissionRunState, ...MissionRunState[]]

/**
 * The states of one mission task: 12 states, 26 moves. The events are chosen move by move: a crash that ends a task is
 * `task_crashed`, never `task_failed`, because consumers count failures under both names.
 */
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
    ...moves('pending', 'queued', ['coordinator'], ['task_queued'], 'The trigger rule is satisfied.'),
    ...moves('pending', 'skipped', ['coordinator'], ['task_skipped'], 'The trigger rule can no longer be satisfied.'),
    ...moves('queued', 'assigned', ['coordinator'], ['task_assigned'], 'An agent was chosen.'),
    ...moves(
      'assigned',
      'running',
      ['agent'],
      ['task_started'],
      'The first start in a run also sets started_at of the run and appends run_started.',
    ),
    ...moves('running', 'continuing', ['agent'], ['task_continuing'], 'The agent exited cleanly and work is left.'),
    ...moves('continuing', 'running', ['system'], ['task_resumed'], 'The time due_at has come.'),
    ...moves('running', 'verifying', ['agent'], ['task_output_submitted']),
    ...moves('verifying', 'completed', ['verifier'], ['task_verification_passed']),
    ...moves(
      'verifying',
      'awaiting_human',
      ['verifier', 'reconciler'],
      ['task_human_review_requested'],
      'The verifier is unsure, or gave no verdict in time. In the second case stall_detected is appended first.',
    ),
    ...moves(
      'verifying',
      'awaiting_retry',
      ['verifier'],
      ['task_verification_failed'],
      'The verifier rejected the result, and retries remain.',
    ),
    ...moves(
      'verifying',
      'failed',
      ['verifier'],
      ['task_failed'],
      'The verifier rejected the result, and no retry is left.',
    ),
    ...moves('awaiting_human', 'completed', ['human'], ['task_human_approved']),
    ...moves(
      'awaiting_human',
      'awaiting_retry',
      ['human'],
      ['task_human_rejected'],
      'The person requests another attempt, and retries remain.',
    ),
    ...moves(
      'awaiting_human',
      'failed',
      ['human'],
      ['task_human_rejected', 'task_failed'],
      'The person rejects the task finally, or no retry is left.',
    ),
    ...moves('awaiting_retry', 'assigned', ['system'], ['task_retrying'], 'The time due_at has come.'),
    ...moves(
      'running',
      'failed',
      ['reconciler', 'system'],
      ['task_crashed'],
      'The infrastructure failed, and no retry is left. After a stall, stall_detected is appended first.',
    ),
    ...moves(
      'running',
      'awaiting_retry',
      ['reconciler', 'system'],
      ['task_crashed'],
      'The infrastructure failed, and retries remain. After a stall, stall_detected is appended first.',
    ),
    ...moves(
      'assigned',
      'queued',
      ['reconciler'],
      ['stall_detected', 'task_queued'],
      'The task did not start in time.',
    ),
    ...moves(
      ['pending', 'queued', 'awaiting_retry', 'assigned', 'running', 'continuing', 'verifying', 'awaiting_human'],
      'cancelled',
      ['human', 'coordinator'],
      ['task_cancelled'],
      'A person cancels the task or its run, or the coordinator fails the run. The cascade keeps that actor.',
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
export const missionTaskStates = Object.keys(missionTaskMachine.states) as [MissionTaskState, ...MissionTaskState[]]

export const missionTaskTypes = [
  'research',
  'analysis',
  'writing',
  'coding',
  'verification',
  'review',
  'synthesis',
  'other',
] as const
