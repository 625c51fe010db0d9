/** The graph of a mission as people see it: its tasks with their states, and the edges between them. */
import { z } from 'zod'
import { idView } from '#contract'
import { missionTaskStates } from '#kernel/machines/mission'
import { encodeId } from '#kernel/ids'
import type { MissionDetail } from './contract.ts'
import { dependencyTypes } from './plan.ts'

export const missionGraphView = z
  .object({
    nodes: z.array(
      z.object({
        id: idView('mission_task'),
        temp_id: z.string().meta({ example: 'notes' }),
        label: z.string().meta({ example: 'Write the notes' }),
        status: z.enum(missionTaskStates),
      }),
    ),
    edges: z.array(
      z.object({ from: idView('mission_task'), to: idView('mission_task'), how: z.enum(dependencyTypes) }),
    ),
  })
  .meta({
    id: 'MissionGraph',
    description: 'In the order of the plan. An edge goes from a task to one that waits for it.',
  })

export function toMissionGraphView({
  tasks,
  edges,
}: Pick<MissionDetail, 'tasks' | 'edges'>): z.infer<typeof missionGraphView> {
  return {
    nodes: tasks.map(({ id, spec, title, state }) => ({
      id: encodeId('mission_task', id),
      temp_id: spec.temp_id,
      label: title,
      status: state,
    })),
    edges: edges.map(({ task_id, depends_on_id, dependency_type }) => ({
      from: encodeId('mission_task', depends_on_id),
      to: encodeId('mission_task', task_id),
      how: dependency_type,
    })),
  }
}
