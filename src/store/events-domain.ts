/** The log of commands and everything they create: `concord.domain_events`, one table for events, audit and agent steps. */
import { KernelFault } from '#kernel/errors'
import { defineEventLog, type EventLog } from './events.ts'

export type EventPurpose = 'event' | 'audit' | 'agent_step'

/** The only list of event types and their purposes, so that one fact is written once. */
export function domainEventLog<const E extends string>(purposes: Readonly<Record<E, EventPurpose>>): EventLog<E> {
  const purposeOf = (type: string): EventPurpose => {
    if (!Object.hasOwn(purposes, type))
      throw new KernelFault('event.type.unknown', `no purpose is declared for ${type}`)
    return purposes[type as E]
  }
  return defineEventLog({
    table: 'concord.domain_events',
    types: Object.keys(purposes) as E[],
    id: 'event_id',
    payload: 'payload',
    time: 'created_at',
    columns: [
      { name: 'event_id', type: 'uuid', valueOf: (event) => event.eventId },
      { name: 'purpose', type: 'text', valueOf: (event) => purposeOf(event.type) },
      { name: 'event_type', type: 'text', valueOf: (event) => event.type },
      { name: 'payload', type: 'jsonb', valueOf: (event) => event.payload },
      { name: 'actor', type: 'text', valueOf: (event) => event.actor },
      { name: 'trace_id', type: 'text', valueOf: (event) => event.traceId },
      { name: 'created_at', type: 'timestamptz', valueOf: (event) => event.at },
    ],
    links: {
      workspace_id: 'uuid',
      command_id: 'uuid',
      agent_run_id: 'uuid',
      swarm_run_id: 'uuid',
      step_index: 'integer',
      tool_name: 'text',
      latency_ms: 'integer',
      token_usage: 'jsonb',
      cost_units: 'numeric',
    },
  })
}
