/** How long signals are kept, and the statement that gives a signal to the waits. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestRoom, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { actingFor } from './deps.ts'
import { sendSignal, sweepSignals } from './signals.ts'

const DAY_MS = 86_400_000

describe('signals', () => {
  let room: TestRoom
  before(async () => {
    room = await openTestRoom()
  })
  after(() => room.close())

  const send = async (key: string, id?: string) => {
    const by = actingFor(room.tenant.people.writer.principal, TRACE)
    const workspaceId = room.tenant.workspace.id
    return accepted(
      await sendSignal(room.world, by, { workspaceId, name: 'a.b', key, payload: {}, id, ingress: 'user_request' }),
    )
  }
  const kept = async () =>
    (await room.rows<{ key: string }>('select key from concord.signals order by key')).map(({ key }) => key)

  test('a signal that no command waits for is deleted when its time is over, and its id is free again', async () => {
    const first = await send('old', 'evt-1')
    room.clock.travel(20 * DAY_MS)
    await send('young')
    assert.equal(await sweepSignals(room.world, 30 * DAY_MS), 0)
    room.clock.travel(11 * DAY_MS)
    assert.equal(await sweepSignals(room.world, 30 * DAY_MS), 1)
    assert.deepEqual(await kept(), ['young'])
    const again = await send('old', 'evt-1')
    assert.deepEqual([again.isNew, again.signalId === first.signalId], [true, false])
  })

  test('of twenty concurrent requests with one id one is a signal', async () => {
    const sent = await Promise.all(Array.from({ length: 20 }, () => send('many', 'evt-many')))
    assert.equal(sent.filter(({ isNew }) => isNew).length, 1)
    assert.equal(new Set(sent.map(({ signalId }) => signalId)).size, 1)
    const events = await room.rows(
      `select from concord.domain_events where event_type = 'signal_received' and payload->>'key' = 'many'`,
    )
    assert.equal(events.length, 1)
  })
})
