/** `concord task-types`: lists the tasks that can be submitted, each with an example payload made from its JSON Schema. */
import type { taskTypeView } from '#domains/commands'
import { examplePayload } from '#kernel/example-payload'
import { listVerb, type ViewOf } from './noun.ts'

export const taskTypes = listVerb<ViewOf<typeof taskTypeView>, []>({
  description: 'list the tasks that can be submitted, and which of them agents may propose',
  examples: ['concord task-types'],
  at: () => '/task-types',
  none: () => 'This server has no tasks.',
  columns: {
    task: ({ task_name }) => task_name,
    risk: ({ risk_level }) => risk_level,
    // A policy may still ask for an approval where the contract does not.
    approval: ({ approval_required }) => (approval_required ? 'always' : 'by policy'),
    agents: ({ ingress_types }) => (ingress_types.includes('agent_action') ? 'may ask' : '-'),
    'example payload': ({ payload_schema, required_inputs }) =>
      JSON.stringify(examplePayload(payload_schema, required_inputs)),
  },
})
