/** A contract with `on_failure: undo`: a run that fails for good undoes what it has done, by itself. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { findBrokenInvariants } from '#domains/commands'
import { call, openTestApi, type TestApi } from '#test/api'
import { historyFaults, openRoomOn, type TestRoom } from '#test/commands'
import { defineWork } from '#test/projects/define-work'
import type { Api } from './api.ts'
import { commandRoutes } from './command-routes.ts'
import { openPageCursors } from './page-cursor.ts'

const [A, B, C] = ['connector.hotel.book_a', 'connector.hotel.book_b', 'connector.hotel.book_c']
const TICKET = 'connector.ticket.open'

describe('on_failure: undo', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  before(async () => {
    api = await openTestApi()
    const trip = defineWork({
      name: 'Fragile Trip',
      payload: z.strictObject({ steps: z.array(z.string()) }),
      plan: ({ steps }) => (steps as string[]).map((effect_type) => ({ effect_type, payload: { subject: 's' } })),
      effects: [A, B, C, TICKET],
      type: { on_failure: 'undo' },
      task: { connector_requirements: ['hotel', 'ticket'] },
    })
    room = openRoomOn(api.world, api.ours, undefined, () => trip)
    app = api.with({
      extraRoutes: (router) => {
        const deps = { ...api.deps, commands: room.world }
        router.route('/', commandRoutes.mount(deps, openPageCursors(api.deps.cursorKey)))
      },
    })
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const ask = async (path: string, body?: object) => {
    const asked = { key: api.ours.people.writer.key, headers: { 'x-workspace': 'main' } }
    const answer = await call(app, path, body === undefined ? asked : { ...asked, method: 'POST', body })
    return (await answer.json()) as Record<string, unknown>
  }
  const uuidOf = (id: string) => id.slice(4).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')
  async function run(steps: readonly string[], ...modes: TestRoom['provider']['modes']): Promise<string> {
    const { command_id } = await ask('/commands', { task_name: 'Fragile Trip', payload: { steps } })
    room.provider.modes.push(...modes)
    room.provider.calls.length = 0
    await room.settle(uuidOf(String(command_id)))
    return String(command_id)
  }
  const calls = () => room.provider.calls.map((made) => made.split(' ')[0])
  const pathOf = async (id: string) =>
    (
      await room.rows<{ to: string }>(
        `select payload->>'to' as to from concord.domain_events
         where command_id = $1 and event_type = 'status_changed' and payload->>'target_type' = 'command' order by seq`,
        [uuidOf(id)],
      )
    ).map(({ to }) => to)

  test('[D12] [EFF-23] [EFF-26] a run that fails for good undoes what it did, last effect first, and keeps its error', async () => {
    const id = await run([A, B, C], 'ok', 'ok', 'refuse')
    assert.deepEqual(calls(), ['book_a', 'book_b', 'book_c', 'hotel.cancel_b', 'hotel.cancel_a'])
    const path = await pathOf(id)
    assert.deepEqual(path.slice(-4), ['running', 'failed', 'compensating', 'compensated'])
    const view = await ask(`/commands/${id}`)
    assert.deepEqual([view['status'], view['error']], ['compensated', 'the provider says no'])
    assert.deepEqual(
      (view['next'] as { action: string }[]).map(({ action }) => action),
      ['submit_again'],
    )
    const { chain } = (await ask(`/commands/${id}/explanation`)) as { chain: { text: string }[] }
    assert.ok(
      chain.some(({ text }) => text === 'Compensation began, last effect first, because: its contract says so.'),
    )
  })

  test('[D12] retries come first: only a failure that is final is undone', async () => {
    const id = await run([A, B], 'ok', 'fail_before')
    assert.equal((await ask(`/commands/${id}`))['status'], 'running')
    room.provider.modes.push('fail_before', 'fail_before')
    for (const ms of [30_000, 120_000]) {
      assert.equal(calls().includes('hotel.cancel_a'), false)
      room.clock.travel(ms)
      await room.settle(uuidOf(id))
    }
    assert.deepEqual([(await ask(`/commands/${id}`))['status'], calls().at(-1)], ['compensated', 'hotel.cancel_a'])
  })

  test('[D12] [EFF-24] an undo that fails leaves the command failed, once, and a person goes on from there', async () => {
    const id = await run([A, B, C], 'ok', 'ok', 'refuse', 'ok', 'refuse')
    assert.deepEqual(calls(), ['book_a', 'book_b', 'book_c', 'hotel.cancel_b', 'hotel.cancel_a'])
    assert.equal((await ask(`/commands/${id}`))['status'], 'failed')
    await room.settle(uuidOf(id))
    assert.equal(calls().length, 5, 'it does not begin again by itself')
    await ask(`/commands/${id}/cancel`, { cancellation_mode: 'compensate_then_stop' })
    assert.equal(await room.settle(uuidOf(id)), 'cancelled')
    assert.equal(calls().at(-1), 'hotel.cancel_a')
  })

  test('[D12] a failure with nothing to undo stays a failure', async () => {
    for (const [steps, modes] of [
      [[A], ['refuse']],
      [
        [TICKET, A],
        ['ok', 'refuse'],
      ],
    ] as const) {
      const id = await run(steps, ...modes)
      assert.equal((await ask(`/commands/${id}`))['status'], 'failed')
    }
  })

  test('[D12] what happened breaks no promise of the room', async () => {
    assert.deepEqual(await findBrokenInvariants(room.db), [])
    assert.deepEqual(await historyFaults(room), [])
  })
})
