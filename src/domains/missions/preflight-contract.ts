/** The body and the view of the pre-flight of a mission. */
import { z } from 'zod'
import { previewView } from '#domains/commands'
import { missionConfig } from './config.ts'
import { missionPlan } from './plan.ts'

export const missionPreflightBody = z
  .strictObject({ plan: missionPlan, config: missionConfig.optional() })
  .meta({ id: 'AskMissionPreflight', description: 'A plan of which the needs are found out before it is a mission.' })

const tasks = z.array(z.string()).meta({ example: ['send'], description: 'Temporary ids. Empty: the whole mission.' })
const amount = (description: string) => z.string().meta({ example: '12.500000', description })

export const missionPreflightView = z
  .object({
    is_ready: z.boolean().meta({ description: 'Nothing is missing.' }),
    tasks: z.int().meta({ description: 'Tasks that have not ended.' }),
    approvals: z
      .array(
        previewView.shape.approvals.element.extend({
          tasks,
          when: z.enum(['always', 'arguments']).meta({
            description: 'In any case, or for some results of other tasks. Those are examples.',
          }),
        }),
      )
      .meta({ description: 'The approval of the plan, and those of its tasks.' }),
    spend: z.object({
      limit: amount('The hard limit. Null: there is none.').nullable(),
      spent: amount('What the mission has cost.'),
      first_attempts: amount('What one attempt of each task may cost.'),
      all_attempts: amount('With every retry that the settings allow.'),
      worst_case: amount('The lower of the limit and of all attempts. Null: nothing bounds it.').nullable(),
    }),
    irreversible: z
      .array(
        z.object({
          tasks,
          effect_type: z.string(),
          effect_class: z.string().meta({ example: 'keyed' }),
          reason: z.string(),
        }),
      )
      .meta({ description: 'Effects outside that cannot be undone, or whose outcome may stay in doubt.' }),
    missing: z
      .array(
        z.object({
          kind: z.enum(['task', 'approver', 'connector', 'policy', 'budget']),
          name: z.string(),
          tasks,
          reason: z.string(),
        }),
      )
      .meta({ description: 'Why tasks cannot run today.' }),
    unknown: z
      .array(z.object({ tasks, what: z.string(), until: z.string().meta({ example: 'notes ends' }) }))
      .meta({ description: 'What depends on other tasks or on people, and when it is known.' }),
  })
  .meta({ id: 'MissionPreflight', description: 'What a mission will need; nothing is recorded.' })

export type MissionPreflight = z.infer<typeof missionPreflightView>
