/** What can be asked for here, each with its contract and the schema of its payload. */
import { createRoute, z } from '@hono/zod-openapi'
import { type CommandDeps, mapTaskToPrimitives, taskTypeView, toTaskTypeView } from '#domains/commands'
import { needs } from './route-access.ts'
import { jsonAnswer, newRouter, problems, queryOf } from './route-kit.ts'

const getTaskTypes = createRoute({
  method: 'get',
  path: '/task-types',
  operationId: 'listTaskTypes',
  summary: 'The tasks that can be submitted, with their contracts',
  tags: ['commands'],
  ...needs('reader'),
  request: { query: queryOf({}) },
  responses: {
    200: jsonAnswer(z.object({ items: z.array(taskTypeView) }).meta({ id: 'TaskTypeList' }), 'The tasks.'),
    ...problems(422),
  },
})

export function taskTypeRoutes(world: Pick<CommandDeps, 'catalog'>) {
  const items = [...world.catalog.tasks.values()].map((task) => toTaskTypeView(task, mapTaskToPrimitives(task.spec)))
  items.sort((a, b) => (a.task_name < b.task_name ? -1 : 1))
  return newRouter().openapi(getTaskTypes, (c) => c.json({ items }, 200))
}
