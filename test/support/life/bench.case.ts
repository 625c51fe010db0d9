/** What the stories of a command's life share: one room, two people, and queries for rows and events. */
import type { Actor } from '#kernel/actor'
import assert from 'node:assert/strict'
import { decideApproval } from '#domains/approvals'
import { decider, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { cancelCommand } from '../../../src/domains/commands/cancel-command.ts'
import { defineFunction, defineTask } from '../../../src/domains/commands/catalog/definitions.ts'
import { actingFor } from '../../../src/domains/commands/deps.ts'
import { byPerson } from '#kernel/actor'

export const BOOK_A = 'connector.hotel.book_a'
export const BOOK_B = 'connector.hotel.book_b'
export const BOOK_C = 'connector.hotel.book_c'

/** Set by `openBench`. All stories of a run use one database, so that together they cover the whole machine. */
export let room: TestRoom
export let user: Actor
export let operator: Actor
export let workspaceId: string

/** Three effects that do not run in the order of the list. */
const woven = [
  defineFunction({
    name: 'woven',
    plan: () => [
      { effect_type: BOOK_A, payload: {}, after: [2] },
      { effect_type: BOOK_B, payload: {}, after: [] },
      { effect_type: BOOK_C, payload: {}, after: [1] },
    ],
  }),
  defineTask({
    name: 'Woven',
    description: 'Work in an order of its own.',
    command_type: 'work',
    function_name: 'woven',
    ingress_types: ['user_request'],
    required_inputs: ['subject'],
    async_required: true,
    connector_requirements: ['hotel', 'ticket', 'mail'],
    policy_checks: ['permission'],
  }),
]

/** The rate policy of every installation allows one such command an hour. */
const metered = defineTask({
  name: 'Metered',
  description: 'Work that a rate limit holds back.',
  command_type: 'work',
  function_name: 'work',
  ingress_types: ['user_request'],
  required_inputs: ['subject'],
  async_required: true,
  connector_requirements: ['hotel', 'ticket', 'mail'],
  policy_checks: ['permission', 'rate'],
  metadata: { commands_per_hour: 1 },
})

export async function openBench(): Promise<void> {
  room = await openTestRoom(undefined, () => [metered, ...woven])
  user = actingFor(room.tenant.people.writer.principal, TRACE)
  operator = actingFor(room.tenant.people.admin.principal, TRACE)
  workspaceId = room.tenant.workspace.id
}

const CHANGES = `from concord.domain_events where command_id = $1 and event_type = 'status_changed' and payload->>'target_type' = 'command'`

export async function pathOf(id: string): Promise<string> {
  const rows = await room.rows<{ to: string }>(`select payload->>'to' as to ${CHANGES} order by seq`, [id])
  return ['created', ...rows.map(({ to }) => to)].join(' ')
}

export async function typesOf(id: string): Promise<string[]> {
  const text = `select event_type from concord.domain_events where command_id = $1 order by seq`
  return (await room.rows<{ event_type: string }>(text, [id])).map(({ event_type }) => event_type)
}

export async function rowOf(id: string): Promise<Record<string, unknown>> {
  const [row] = await room.rows(`select * from concord.commands where command_id = $1`, [id])
  assert.ok(row)
  return row
}

export type EffectFacts = {
  readonly effect_type: string
  readonly status: string
  readonly attempt: number
  readonly error_class: string | null
  readonly idempotency_key: string
  readonly compensates_effect_id: string | null
}

export function effectsOf(id: string): Promise<EffectFacts[]> {
  return room.rows<EffectFacts>(
    `select * from concord.domain_effects where command_id = $1 order by declaration_order`,
    [id],
  )
}

export async function decide(id: string, decision: string, reason = 'because') {
  const approvalId = await pendingOf(room, id)
  return accepted(
    await decideApproval(room.approvals, byPerson(decider(room), TRACE), { workspaceId, approvalId, decision, reason }),
  )
}

export async function cancel(commandId: string, more: object = {}, by = user) {
  return accepted(await cancelCommand(room.world, by, { workspaceId, commandId, reason: 'enough', ...more }))
}
