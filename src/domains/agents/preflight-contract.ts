/** The body and the view of a pre-flight. */
import { z } from 'zod'
import { envelopeFields } from './envelope.ts'
import { previewCommandBody, previewView } from '#domains/commands'

export const preflightBody = previewCommandBody
  .extend({
    envelope: z
      .strictObject(envelopeFields)
      .optional()
      .meta({
        example: { calls: [{ tool: 'pay_supplier', calls_max: 3, arguments: { amount: { max: 100 } } }] },
        description:
          'Starts the task: a command asks for the approval of these calls once, and the agent then makes them without asking again.',
      }),
  })
  .meta({
    id: 'AskPreflight',
    description: 'A task with its payload, of which the needs are found out before it starts.',
  })

const { approvals, status, error, missing_fields, policy } = previewView.shape
const neededBy = z.string().meta({ example: 'Pay Invoice', description: 'The task, or the task of the tool.' })
const units = (description: string) => z.string().nullable().meta({ example: '12.500000', description })

export const preflightView = z
  .object({
    task_name: z.string(),
    kind: z.enum(['command', 'agent', 'swarm']),
    is_ready: z.boolean().meta({ description: 'Nothing is missing, and policy does not deny the task.' }),
    status,
    error,
    missing_fields,
    policy,
    approvals: z
      .array(
        approvals.element.extend({
          needed_by: neededBy,
          when: z.enum(['always', 'arguments', 'untrusted_content']).meta({
            description:
              'For every call, for some arguments, or only when untrusted content has reached the agent. The arguments are examples.',
          }),
        }),
      )
      .meta({ description: 'The approvals of the task itself, and those of calls of its tools.' }),
    spend: z
      .object({
        limit_units: units('The limit of cost; it holds in any case. Null: there is none.'),
        call_units: units('What one call of the most expensive model can cost.'),
        calls_max: z.int().meta({ example: 20, description: 'The limit of steps: each asks a model at most once.' }),
        worst_case_units: units('The lower of the limit and of all calls; a call whose answer is lost is paid too.'),
      })
      .nullable()
      .meta({ description: 'Null: the task runs no agent.' }),
    irreversible: z
      .array(
        z.object({
          needed_by: neededBy,
          effect_type: z.string(),
          effect_class: z.string().meta({ example: 'keyed' }),
          reason: z.string(),
        }),
      )
      .meta({ description: 'Effects outside that cannot be undone, or whose outcome may stay in doubt.' }),
    missing: z
      .array(
        z.object({
          kind: z.enum(['tool', 'model', 'approver']),
          name: z.string(),
          needed_by: z.string(),
          reason: z.string(),
        }),
      )
      .meta({ description: 'What the task cannot use today.' }),
    tools: z.array(z.object({ name: z.string(), agents: z.array(z.string()), risk_level: z.string() })),
    unknown: z
      .array(z.object({ what: z.string(), until: z.string().meta({ example: 'the agent calls them' }) }))
      .meta({ description: 'What depends on the agent, and when it is known.' }),
  })
  .meta({ id: 'Preflight', description: 'What a task will need before it starts; nothing is recorded.' })

export type Preflight = z.infer<typeof preflightView>
