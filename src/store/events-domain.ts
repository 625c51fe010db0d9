/**
 * The log of commands and everything they create: `concord.journal`. A row holds the events of one commit about one thing, in order;
 * the view `concord.domain_events` shows them one by one.
 */
import { KernelFault } from '#kernel/errors'
import { defineEventLog, type EventLog } from './events.ts'

export type EventPurpose = 'event' | 'audit' | 'agent_step'

/** An event as the journal holds it. */
export type JournalEvent = {
  readonly type: string
  /** Left out: `event`. */
  readonly purpose?: EventPurpose
  readonly actor: string
  readonly payload: Readonly<Record<string, unknown>>
}

/** The only list of event types and their purposes, so that one fact is written once. */
export function domainEventLog<const E extends string>(purposes: Readonly<Record<E, EventPurpose>>): EventLog<E> {
  const purposeOf = (type: string): { readonly purpose?: EventPurpose } => {
    if (!Object.hasOwn(purposes, type))
      throw new KernelFault('event.type.unknown', `No purpose is declared for ${type}.`)
    const purpose = purposes[type as E]
    return purpose === 'event' ? {} : { purpose }
  }
  return defineEventLog({
    table: 'concord.journal',
    types: Object.keys(purposes) as E[],
    id: 'entry_id',
    target: { column: 'events', path: '{0,payload,target_id}' },
    time: 'created_at',
    columns: [
      { name: 'entry_id', type: 'uuid', valueOf: (event) => event.eventId },
      { name: 'trace_id', type: 'text', valueOf: (event) => event.traceId },
      { name: 'created_at', type: 'timestamptz', valueOf: (event) => event.at },
      {
        name: 'events',
        type: 'json',
        valueOf: ({ type, actor, payload }): JournalEvent[] => [{ type, ...purposeOf(type), actor, payload }],
      },
    ],
    links: {
      workspace_id: 'uuid',
      command_id: 'uuid',
      agent_run_id: 'uuid',
      swarm_run_id: 'uuid',
      step_index: 'integer',
    },
  })
}
