/** A room of commands with the stop of agents, and a tool of several effects that agents may propose. */
import { z } from 'zod'
import { type Definition, stopDefinitions, submitCommand } from '../../src/domains/commands/index.ts'
import { createApiKey } from '../../src/domains/identity/api-key.ts'
import type { Principal } from '../../src/domains/identity/index.ts'
import { byPerson } from '../../src/kernel/actor.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import { openTestRoom, type TestRoom, type WrapDeps } from './commands.ts'
import { agentTools } from './projects/commands.ts'
import { defineWork } from './projects/define-work.ts'
import { accepted, TRACE } from './tenant.ts'

const BOOKINGS = ['connector.hotel.book_a', 'connector.hotel.book_b', 'connector.hotel.book_c'] as const

/** Books as often as `count` says. */
const trip: readonly Definition[] = defineWork({
  name: 'Trip',
  payload: z.strictObject({ subject: z.string(), count: z.int().min(1).max(3).default(2) }),
  plan: ({ subject = null, count }) =>
    BOOKINGS.slice(0, Number(count)).map((effect_type) => ({ effect_type, payload: { subject } })),
  effects: [...BOOKINGS],
  task: {
    ingress_types: ['user_request', 'agent_action'],
    connector_requirements: ['hotel'],
    policy_checks: ['permission', 'data_safety'],
  },
})

export type StoppableRoom = TestRoom & {
  /** Submits a trip as an agent with a key, or as a run. */
  trip(
    subject: string,
    of: { readonly agent?: string; readonly runId?: string; readonly count?: number },
  ): Promise<string>
  /** Submits as the administrator and settles. */
  admin(taskName: string, payload: JsonObject): Promise<{ readonly commandId: string; readonly status: string }>
}

export async function openStoppableRoom(wrap?: WrapDeps): Promise<StoppableRoom> {
  const room: TestRoom = await openTestRoom(wrap, () => [
    ...agentTools(),
    ...trip,
    ...stopDefinitions(() => room.world),
  ])
  const { writer, admin } = room.tenant.people
  const workspaceId = room.tenant.workspace.id
  // A key of an agent that is gone makes its commands wait for an operator.
  const known = new Set<string>()
  const giveKey = async (agent: string) => {
    if (known.has(agent)) return
    known.add(agent)
    const key = { name: agent, role: 'writer' as const, agent: { name: agent, tools: ['Trip'] } }
    accepted(await createApiKey(room.clock, byPerson(writer.principal, TRACE), key))
  }
  return {
    ...room,
    async trip(subject, { agent, runId, count = 2 }) {
      if (agent !== undefined) await giveKey(agent)
      const principal = {
        ...writer.principal,
        ...(agent === undefined ? {} : { agent: { name: agent, tools: ['Trip'] } }),
      }
      const by = {
        id: `user:${principal.userId}`,
        kind: 'user' as const,
        traceId: TRACE,
        principal: principal as Principal,
      }
      const request = { workspaceId, taskName: 'Trip', payload: { subject, count }, requestId: 'r' }
      const as = {
        ingress: 'agent_action' as const,
        runAs: 'agent' as const,
        run: runId === undefined ? undefined : { agentRunId: runId, swarmRunId: null },
      }
      return accepted(await submitCommand(room.world, by, { ...request, ...as })).command.command_id
    },
    async admin(taskName, payload) {
      const { principal } = admin
      const by = { id: `user:${principal.userId}`, kind: 'operator' as const, traceId: TRACE, principal }
      const request = { workspaceId, taskName, payload, requestId: 'r', ingress: 'user_request' as const }
      const { command } = accepted(await submitCommand(room.world, by, request))
      return { commandId: command.command_id, status: await room.settle(command.command_id) }
    },
  }
}
