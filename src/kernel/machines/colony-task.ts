/** The states of one colony task: 6 states, 8 moves. */
import { defineMachine, moves } from '../machine.ts'

const changed = ['task_status_changed'] as const

export const colonyTaskMachine = defineMachine({
  name: 'colony-task',
  title: 'One piece of work for one role of the colony.',
  states: {
    pending: 'pending',
    ready: 'pending',
    running: 'running',
    completed: 'terminal',
    failed: 'terminal',
    skipped: 'terminal',
  },
  initial: 'pending',
  creation: { by: ['runtime', 'root'], emits: ['task_stored'] },
  moves: [
    ...moves('pending', 'ready', ['runtime', 'root'], changed, 'every task it depends on is completed'),
    ...moves('ready', 'running', ['runtime'], changed),
    ...moves('running', 'completed', ['runtime'], changed, 'its worker result is stored'),
    ...moves(
      ['pending', 'ready'],
      'skipped',
      ['runtime', 'root'],
      changed,
      'a task it depends on failed, or the mission has ended',
    ),
    ...moves(['pending', 'ready', 'running'], 'failed', ['runtime', 'root'], changed),
  ],
  lock: 'from-state',
  stamps: [{ column: 'completed_at', on: ['completed', 'failed', 'skipped'] }],
})

export type ColonyTaskState = keyof typeof colonyTaskMachine.states
