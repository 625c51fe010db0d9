/** Commands that are done and undone over HTTP: the API, a room with Undo Command, and the steps of a story. */
import assert from 'node:assert/strict'
import { z } from 'zod'
import { decideApproval } from '../../src/domains/approvals/index.ts'
import { type CommandDeps, defineEffect, undoDefinitions } from '../../src/domains/commands/index.ts'
import { byPerson } from '../../src/kernel/actor.ts'
import { call, openTestApi } from './api.ts'
import { decider, openRoomOn, pendingOf, type TestRoom } from './commands.ts'
import { defineWork } from './projects/define-work.ts'
import { accepted, TRACE } from './tenant.ts'

export const [A, B, C] = ['connector.hotel.book_a', 'connector.hotel.book_b', 'connector.hotel.book_c']
export const TICKET = 'connector.ticket.open'
export const [LIMITED, OPAQUE, READ] = ['tour.limited', 'tour.opaque', 'work.echo']

export type View = {
  readonly command_id: string
  readonly status: string
  readonly error: string | null
  readonly undo: { readonly command_id: string; readonly status: string } | null
  readonly next: readonly { readonly action: string; readonly what: string }[]
}
type Line = { readonly effect_type: string; readonly why?: string; readonly undo?: string }
export type Preview = {
  readonly refused: { readonly code: string } | null
  readonly undone: readonly Line[]
  readonly kept: readonly Line[]
  readonly request: {
    readonly policy: { readonly decision: string; readonly reasons: readonly string[] }
    readonly approvals: readonly { readonly approver: string }[]
    readonly effects: readonly { readonly effect_type: string; readonly effect_class: string }[]
  } | null
}

export async function openUndoStory() {
  const api = await openTestApi()
  const undoing = (name: string, more: object) => ({
    name,
    do: async (made: Parameters<TestRoom['provider']['call']>[1] & { emit: (name: string) => void }) => {
      made.emit(name)
      return room.provider.call(name, made, true)
    },
    ...more,
  })
  const definitions = () => [
    defineEffect({
      effect_type: LIMITED,
      class: 'keyed',
      do: (made) => room.provider.call('limited', made, true),
      undo: undoing('tour.unlimited', { within_ms: 60_000 }),
    }),
    defineEffect({
      effect_type: OPAQUE,
      class: 'opaque',
      do: (made) => room.provider.call('opaque', made, false),
      undo: undoing('tour.unopaque', { class: 'opaque' }),
    }),
    ...defineWork({
      name: 'Tour',
      payload: z.strictObject({ steps: z.array(z.string()), decide: z.string().default('allow') }),
      plan: ({ steps }) => (steps as string[]).map((effect_type) => ({ effect_type, payload: { subject: 's' } })),
      effects: [A, B, C, TICKET, LIMITED, OPAQUE, READ],
      type: { risk_level: 'high' },
      task: {
        ingress_types: ['user_request', 'agent_action'],
        policy_checks: ['permission', 'data_safety', 'scripted'],
        connector_requirements: ['hotel', 'ticket'],
      },
    }),
    ...undoDefinitions(() => world),
  ]
  let world: CommandDeps
  const keep = (given: CommandDeps) => {
    world = given
    return given
  }
  const room: TestRoom = openRoomOn(api.world, api.ours, keep, definitions)
  const app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
  const [writer, admin] = [() => api.ours.people.writer.key, () => api.ours.people.admin.key]
  const uuidOf = (id: string) => id.slice(4).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')
  const get = <T = View>(path: string, key = writer()) =>
    call(app, path, { key, headers: { 'x-workspace': 'main' } }).then((answer) => answer.json() as Promise<T>)
  const post = (path: string, body: object, key = writer()) =>
    call(app, path, { method: 'POST', key, body, headers: { 'x-workspace': 'main' } })
  const settle = (id: string) => room.settle(uuidOf(id))
  const calls = () => room.provider.calls.map((made) => made.split(' ')[0] ?? '')

  /** A command that has carried out its steps. */
  async function done(steps: readonly string[], decide = 'allow', key = writer()): Promise<string> {
    const { command_id } = (await (
      await post('/commands', { task_name: 'Tour', payload: { steps, decide } }, key)
    ).json()) as View
    await settle(command_id)
    if (decide === 'require_approval') {
      await answer(command_id, 'approved')
      await settle(command_id)
    }
    assert.equal((await get(`/commands/${command_id}`)).status, 'succeeded')
    room.provider.calls.length = 0
    return command_id
  }
  async function answer(id: string, decision: string): Promise<void> {
    const approvalId = await pendingOf(room, uuidOf(id))
    const given = { workspaceId: api.ours.workspace.id, approvalId, decision, reason: 'so', traceId: TRACE }
    accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), given))
  }
  async function undo(id: string, key = admin()): Promise<string> {
    const asked = await post(`/commands/${id}/undo`, { reason: 'wrong month' }, key)
    const view = (await asked.json()) as View
    assert.equal(asked.status, 202, JSON.stringify(view))
    await settle(view.command_id)
    return view.command_id
  }
  const textsOf = async (id: string) =>
    (await get<{ summary: string; chain: { text: string }[] }>(`/commands/${id}/explanation`)).chain.map(
      ({ text }) => text,
    )

  async function close(): Promise<void> {
    await room.close()
    await api.close()
  }
  return { api, room, writer, admin, uuidOf, get, post, settle, calls, done, answer, undo, textsOf, close }
}
