/** Pre-flights: what a task will need, before it starts. */
import { type AgentDeps, preflightBody, preflightTask, preflightView, requestEnvelope } from '#domains/agents'
import { actingFor, submittedView, toSubmittedView } from '#domains/commands'
import type { JsonObject } from '#kernel/json-value'
import { Known, resource, routes, shown } from './resource.ts'

const { post } = resource<{ readonly agents: AgentDeps }>('agents')

export const preflightRoutes = routes({
  preflight: post('/preflights', {
    summary: 'Find out what a task will need: approvals, cost, irreversible effects, what is missing',
    description:
      'For an agentic task and a swarm every tool of every agent is previewed with examples of its arguments. Nothing is recorded. ' +
      'With `envelope` the answer is the command that asks for the approval of the calls, and then starts the task.',
    role: 'writer',
    body: [preflightBody, 'The task and its payload'],
    answers: {
      200: ['The pre-flight.', preflightView],
      202: ['The command of the envelope.', submittedView],
    },
    problems: [404, 409],
    async handle({
      deps,
      principal,
      workspaceId,
      traceId,
      requestId,
      body: { task_name: taskName, payload, envelope },
    }) {
      const by = actingFor(principal, traceId)
      const asked = { workspaceId, requestId, taskName, payload }
      // Nothing new is recorded: the answer is 200.
      if (!envelope) return shown(preflightTask(deps.agents, by, asked), (found) => new Known(found))
      // The body was parsed from JSON.
      return shown(
        requestEnvelope(deps.agents, by, { ...asked, envelope: envelope as unknown as JsonObject }),
        ({ command }) => toSubmittedView(command),
      )
    },
  }),
})
