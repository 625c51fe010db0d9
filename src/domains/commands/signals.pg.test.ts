/** Which wait gets a signal, also around a cancel and the death of a worker, and how long signals are kept. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import type { Db } from '#store'
import { openTestRoom, type TestRoom } from '#test/commands'
import { ProcessDied } from '#test/fake-providers'
import { accepted, TRACE } from '#test/tenant'
import { cancelCommand } from './cancel-command.ts'
import { defineCommand } from './catalog/define-command.ts'
import { allow } from './catalog/answers.ts'
import { sleepFor, waitFor } from './catalog/steps.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { sendSignal, sweepSignals } from './signals.ts'
import { waitDefinitions } from './wait-effects.ts'

const DAY_MS = 86_400_000

const input = z.object({ order_id: z.string() })
const listen = defineCommand('listen', {
  input,
  policy: () => allow(),
  steps: ({ order_id }) => [waitFor('a.b', { key: order_id, timeout: '14d' })],
})
const nap = defineCommand('nap', { input, policy: () => allow(), steps: () => [sleepFor('14d')] })

/** What happens around the begin of a wait: before its transaction, and before the write that records it. */
const hooks = { beforeWait: async () => {}, dies: false }

function mortal(world: CommandDeps): CommandDeps {
  const db: Db = new Proxy(world.db, {
    get: (target, name) =>
      name === 'transaction'
        ? async (...asked: Parameters<Db['transaction']>) => {
            await hooks.beforeWait()
            return target.transaction(...asked)
          }
        : Reflect.get(target, name, target),
  })
  const commit: CommandDeps['writes']['commit'] = async (write) => {
    const waits = write.events.some(({ event_type }) => event_type === 'wait_started')
    if (hooks.dies && waits) throw new ProcessDied('died before the record')
    return world.writes.commit(write)
  }
  return { ...world, db, writes: { ...world.writes, commit } }
}

describe('signals', () => {
  let room: TestRoom
  before(async () => {
    const waits = waitDefinitions(() => room.world)
    room = await openTestRoom(mortal, () => [...waits, ...listen.definitions, ...nap.definitions])
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

  const asked = (order_id: string, taskName = 'listen') => room.submit({ order_id }, { taskName })
  const waiting = async (order_id: string) => {
    const id = await asked(order_id)
    assert.equal(await room.settle(id), 'running')
    return id
  }
  const cancel = async (commandId: string) => {
    const by = actingFor(room.tenant.people.admin.principal, TRACE)
    accepted(
      await cancelCommand({ ...room.world, db: room.db }, by, { workspaceId: room.tenant.workspace.id, commandId }),
    )
  }
  const isTaken = async (order_id: string) => {
    assert.equal(await room.settle(await asked(order_id)), 'succeeded')
    await waiting(order_id)
  }

  for (const taskName of ['listen', 'nap'])
    test(`[CAN-07] a cancel ends ${taskName} at once, although its worker died before it recorded the wait`, async () => {
      const id = await asked(`dead-${taskName}`, taskName)
      hooks.dies = true
      await assert.rejects(room.settle(id), ProcessDied)
      hooks.dies = false
      const [effect] = await room.rows('select status, run_after from concord.domain_effects where command_id = $1', [
        id,
      ])
      assert.deepEqual(effect, { status: 'executing', run_after: null })
      await cancel(id)
      assert.equal(await room.settle(id), 'cancelled')
    })

  test('a wait that a cancel ends leaves its signal to the next wait, and only to that', async () => {
    const id = await waiting('given')
    assert.equal((await send('given')).woken, 1)
    await cancel(id)
    assert.equal(await room.settle(id), 'cancelled')
    await isTaken('given')
  })

  test('a signal that one of two waits has used is used, although a cancel ended the other', async () => {
    const [left, used] = [await waiting('both'), await waiting('both')]
    assert.equal((await send('both')).woken, 2)
    await cancel(left)
    assert.equal(await room.settle(used), 'succeeded')
    assert.equal(await room.settle(left), 'cancelled')
    await waiting('both')
  })

  test('a signal that a wait has and has not used yet goes to no other wait, unless that wait fails', async () => {
    const first = await waiting('held')
    await send('held')
    const second = await waiting('held')
    await cancel(first)
    assert.equal(await room.settle(first), 'cancelled')
    room.clock.travel(15 * DAY_MS)
    assert.equal(await room.settle(second), 'succeeded')
  })

  test('a command that is cancelled while its wait begins takes no kept signal', async () => {
    await send('begins')
    const id = await asked('begins')
    hooks.beforeWait = async () => {
      hooks.beforeWait = async () => {}
      await cancel(id)
    }
    assert.equal(await room.settle(id), 'cancelled')
    await isTaken('begins')
  })

  test('an id is that of its sender: another sender can use it for another signal', async () => {
    const first = await send('mine', 'evt-2')
    const by = actingFor(room.tenant.people.admin.principal, TRACE)
    const other = { workspaceId: room.tenant.workspace.id, name: 'a.b', key: 'other', payload: {}, id: 'evt-2' }
    const second = accepted(await sendSignal(room.world, by, { ...other, ingress: 'user_request' }))
    assert.deepEqual([second.isNew, second.signalId === first.signalId], [true, false])
  })
})
