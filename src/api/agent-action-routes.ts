/** The door for agents: they propose, Concord decides, and the answer carries the decision. */
import { createRoute } from '@hono/zod-openapi'
import {
  actingFor,
  actionView,
  type CommandDeps,
  proposeAction,
  proposeActionBody,
  toActionView,
} from '#domains/commands'
import { principalOf, workspaceOf } from './request-context.ts'
import { needs } from './route-access.ts'
import { bodyProblems, jsonAnswer, jsonBody, newRouter, problems, queryOf, refused } from './route-kit.ts'

const postAction = createRoute({
  method: 'post',
  path: '/agent-actions',
  operationId: 'proposeAction',
  summary: 'Propose a tool call as an agent; the answer says what was decided about it',
  tags: ['commands'],
  ...needs('writer'),
  request: { query: queryOf({}), body: jsonBody(proposeActionBody, 'What the agent would like to do') },
  responses: {
    200: jsonAnswer(actionView, 'The decision about the proposal that this key had made before.'),
    202: jsonAnswer(actionView, 'The decision about the new proposal.'),
    ...problems(403, 404, 409, ...bodyProblems),
  },
})

export function agentActionRoutes(world: CommandDeps) {
  return newRouter().openapi(postAction, async (c) => {
    const body = c.req.valid('json')
    const principal = principalOf(c)
    const { requestId, traceId } = c.get('ids')
    const proposed = await proposeAction(
      world,
      { ...actingFor(principal, traceId), principal },
      {
        workspaceId: workspaceOf(c).id,
        toolName: body.tool_name,
        payload: body.payload,
        reason: body.reason,
        actionType: body.action_type,
        riskLevel: body.risk_level,
        idempotencyKey: body.idempotency_key,
        requestId,
        // Nobody waits for the answer of a request that its caller has given up.
        signal: c.req.raw.signal,
      },
    )
    if (!proposed.ok) return refused(c, proposed)
    return proposed.value.isNew ? c.json(toActionView(proposed.value), 202) : c.json(toActionView(proposed.value), 200)
  })
}
