/**
 * The states of a mission: 9 states, 19 moves. `started_at` is not a stamp of this table: it is set when the first
 * task begins, together with `run_started`. Pausing changes no task; it only stops the dispatch of tasks.
 */
import { defineMachine, moves } from '../machine.ts'

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
    ...moves('pending', 'planning', ['coordinator'], ['run_planning_started'], 'the coordinator takes the new mission'),
    ...moves(
      'planning',
      'awaiting_approval',
      ['coordinator'],
      ['run_plan_ready'],
      'the plan is complete and a human gate applies',
    ),
    ...moves(
      'planning',
      'running',
      ['coordinator'],
      ['run_plan_ready', 'run_approved'],
      'the plan is complete and the autonomy level needs no human gate',
    ),
    ...moves(
      'awaiting_approval',
      'running',
      ['human'],
      ['run_approved'],
      'a person approves the plan, possibly with edits',
    ),
    ...moves('awaiting_approval', 'failed', ['human'], ['run_rejected'], 'a person rejects the plan'),
    ...moves(
      'running',
      'completed',
      ['coordinator'],
      ['run_completed'],
      'every task is terminal and every essential end task is completed',
    ),
    ...moves('running', 'failed', ['coordinator'], ['run_failed'], 'a task failed that cannot be recovered'),
    ...moves('running', 'paused', ['human'], ['run_paused']),
    ...moves('running', 'budget_exceeded', ['system'], ['run_budget_exceeded'], 'the cost is above the hard limit'),
    ...moves('paused', 'running', ['human'], ['run_resumed']),
    ...moves(
      'budget_exceeded',
      'running',
      ['human'],
      ['run_budget_increased'],
      'the new hard limit is above the present cost',
    ),
    ...moves(
      ['pending', 'planning'],
      'failed',
      ['coordinator'],
      ['run_failed'],
      'planning itself broke: invalid plan, cycle or planner error',
    ),
    ...moves(
      ['pending', 'planning', 'awaiting_approval', 'running', 'paused', 'budget_exceeded'],
      'cancelled',
      ['human'],
      ['run_cancelled'],
      'every task that has not ended is cancelled with it',
    ),
  ],
  lock: 'version',
  stamps: [{ column: 'completed_at', on: ['completed', 'failed', 'cancelled'] }],
})

export type MissionRunState = keyof typeof missionRunMachine.states
