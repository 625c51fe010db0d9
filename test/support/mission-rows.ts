/** Rows of missions that the schema accepts. */
import { randomUUID } from 'node:crypto'
import type { Row, StoreRows } from './store-rows.ts'

export const missionRows = {
  'missions.agents': ({ workspace }: StoreRows) => ({
    workspace_id: workspace,
    name: randomUUID(),
    adapter: 'process',
  }),
  'missions.board_tasks': ({ workspace }: StoreRows) => ({
    workspace_id: workspace,
    title: 'Mission: Release 2.4',
    created_by_id: 'user:ada',
  }),
  'missions.agent_reports': ({ workspace }: StoreRows) => ({
    workspace_id: workspace,
    report_type: 'summary',
    title: 'Release 2.4',
  }),
  'missions.workflow_recipes': ({ workspace }: StoreRows) => ({
    workspace_id: workspace,
    name: 'Release',
    created_by: 'user:ada',
  }),
  // Of the command without a mission: a command opens one.
  'missions.orchestration_runs': ({ workspace, parent }: StoreRows) => ({
    id: randomUUID(),
    workspace_id: workspace,
    title: 'Release 2.4',
    goal: 'Release 2.4',
    created_by: 'user:ada',
    command_id: parent,
  }),
  'missions.orchestration_tasks': ({ workspace, mission }: StoreRows) => ({
    id: randomUUID(),
    run_id: mission,
    workspace_id: workspace,
    sequence_number: 2,
    title: 'Notes',
    task_type: 'writing',
    spec: {},
    remaining: 0,
  }),
  'missions.orchestration_events': ({ mission, task }: StoreRows) => ({
    run_id: mission,
    task_id: task,
    event_type: 'task_queued',
  }),
} as const

/** A row in every table of missions. */
export async function putMissionRows(
  put: (table: keyof typeof missionRows, row?: Row) => Promise<unknown>,
  world: StoreRows,
): Promise<void> {
  await put('missions.agents')
  await put('missions.board_tasks')
  await put('missions.agent_reports')
  await put('missions.workflow_recipes')
  await put('missions.orchestration_runs', { id: world.mission, command_id: world.command })
  await put('missions.orchestration_tasks', { id: world.task, sequence_number: 1 })
  await put('missions.orchestration_events')
}
