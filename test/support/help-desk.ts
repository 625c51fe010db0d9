/** A help desk as a connector of its own, with the catalog that uses it. */
import { z } from 'zod'
import { defineCommandType, defineFunction, type Definition, defineTask } from '../../src/domains/commands/index.ts'
import {
  type ConnectorCall,
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorResult,
  defineConnector,
  succeeded,
} from '../../src/domains/connectors/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'

/** A help desk: keeps tickets by the key under which they were opened, and breaks where it is told to. */
export class Desk {
  readonly tickets = new Map<string, { id: string; open: boolean }>()
  readonly seen: ConnectorCall[] = []
  readonly troubles: ('lost_before' | 'lost_after')[] = []
  refusedTitle = ''

  async call(call: ConnectorCall): Promise<ConnectorResult> {
    this.seen.push(call)
    const { capability, input, context } = call
    if (capability === 'find_ticket') return succeeded({ ticket: this.tickets.get(input['key'] as string) ?? null })
    if (capability === 'close_ticket') {
      for (const ticket of this.tickets.values()) if (ticket.id === input['id']) ticket.open = false
      return succeeded({ closed: input['id'] ?? null })
    }
    const trouble = this.troubles.shift()
    if (input['title'] === this.refusedTitle) throw new ConnectorFailure('validation_error', 'no such queue', 'no')
    if (trouble === 'lost_before') throw new ConnectorFailure('transient_connector_error', 'connection lost', 'unknown')
    const key = context.idempotency_key ?? ''
    const ticket = { id: `T${this.tickets.size + 1}`, open: true }
    this.tickets.set(key, ticket)
    if (trouble === 'lost_after') throw new ConnectorFailure('transient_connector_error', 'connection lost', 'unknown')
    return succeeded({ id: ticket.id })
  }
}

export function deskConnector(desk: Desk): ConnectorDefinition {
  const ids = { input: z.strictObject({ id: z.string() }), output: z.looseObject({}) }
  return defineConnector({
    connector_type: 'desk',
    name: 'desk',
    description: 'A help desk.',
    operations: [
      {
        name: 'open_ticket',
        description: 'Opens a ticket.',
        input: z.strictObject({ title: z.string() }),
        output: z.strictObject({ id: z.string() }),
        side_effect_class: 'queryable',
        idempotency: { required: true, key_template: 'ticket:{title}' },
        read_back: { operation: 'find_ticket', input: { key: '{key}' }, found: 'ticket', result: 'ticket' },
        compensation: { operation: 'close_ticket', input: { id: '{output.id}' } },
        backoff_seconds: [0],
      },
      {
        name: 'find_ticket',
        description: 'Looks a ticket up.',
        input: z.strictObject({ key: z.string() }),
        output: z.strictObject({ ticket: z.nullable(z.strictObject({ id: z.string(), open: z.boolean() })) }),
        side_effect_class: 'none',
      },
      { name: 'close_ticket', description: 'Closes a ticket.', ...ids, side_effect_class: 'keyed' },
      {
        name: 'delete_ticket',
        description: 'Deletes a ticket.',
        ...ids,
        side_effect_class: 'opaque',
        approval_required: true,
      },
    ],
    open: () => ({
      name: 'desk',
      connector_type: 'desk',
      capabilities: () => ['open_ticket', 'find_ticket', 'close_ticket', 'delete_ticket'],
      call: (call) => desk.call(call),
    }),
  })
}

const contract = {
  error_classes: errorClasses,
  cancellable_by: ['requester', 'admin'] as const,
  audit: ['command_created', 'policy_evaluated'],
}

export function deskCatalog(): readonly Definition[] {
  const effects = ['open_ticket', 'delete_ticket'].map((name) => `connector.desk.${name}`)
  return [
    defineFunction({
      name: 'help',
      plan: ({ steps }) => steps as unknown as readonly { effect_type: string; payload: JsonObject }[],
    }),
    defineCommandType({
      name: 'help',
      description: 'Asks the help desk.',
      payload: z.strictObject({
        steps: z.array(z.strictObject({ effect_type: z.string(), payload: z.looseObject({}) })),
      }),
      side_effects: effects,
      cancellation_mode: 'compensate_then_stop',
      approval: { approver: 'role:approver' },
      ...contract,
    }),
    defineTask({
      name: 'Help',
      description: 'Help.',
      command_type: 'help',
      function_name: 'help',
      ingress_types: ['user_request'],
      async_required: true,
      connector_requirements: ['desk'],
      policy_checks: ['permission'],
    }),
  ]
}
