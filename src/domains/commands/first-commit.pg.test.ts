/** What a submit decides before its first commit, and what it must leave until after it. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { openTestRoom, type TestRoom } from '#test/commands'
import { defineWork } from '#test/projects/define-work'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import type { InProcessTurns } from '#turns'
import { defineEffect } from './catalog/effect-definition.ts'
import type { HeldCommand } from './command-table.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { openCommandTurns } from './drive.ts'
import { submitCommand } from './submit.ts'

describe('the first commit of a command', () => {
  let room: TestRoom
  let turns: InProcessTurns<HeldCommand>
  let world: CommandDeps
  let running = 0
  let calls = 0
  let isFailing = false

  const payload = z.strictObject({ subject: z.string() })
  const look = defineEffect({
    effect_type: 'work.look',
    class: 'read',
    bounded: true,
    do: async () => {
      calls += 1
      if (isFailing) throw new Error('not now')
      return { calls }
    },
  })
  const put = defineEffect({
    effect_type: 'work.put',
    class: 'keyed',
    key_template: 'put:{subject}',
    do: async () => ({}),
  })
  const inline = { async_required: false, sync_allowed: true, policy_checks: ['permission'] as const }
  const plan = () => [{ effect_type: 'work.look', payload: {} }]

  before(async () => {
    room = await openTestRoom(undefined, () => [
      look,
      put,
      ...defineWork({
        name: 'Look',
        payload,
        plan,
        effects: ['work.look'],
        task: { ...inline, policy_checks: ['permission'] },
      }),
      ...defineWork({
        name: 'Rated',
        payload,
        plan,
        effects: ['work.look'],
        task: { policy_checks: ['permission', 'rate'], metadata: { commands_per_hour: 3 } },
      }),
      ...defineWork({
        name: 'Put',
        payload,
        plan: ({ subject }) => [{ effect_type: 'work.put', payload: { subject: subject ?? null } }],
        effects: ['work.put'],
        task: { policy_checks: ['permission'] },
      }),
    ])
    turns = openCommandTurns(room.world, () => {
      running += 1
      const leave = () => void (running -= 1)
      return { begin: () => leave, release: leave }
    })
    world = { ...room.world, turns }
  })
  after(async () => {
    await turns.close(1_000)
    await room.close()
  })

  const send = (taskName: string, body: object, more: object = {}) =>
    submitCommand(world, actingFor(room.tenant.people.writer.principal, TRACE), {
      workspaceId: room.tenant.workspace.id,
      taskName,
      payload: { ...body },
      ingress: 'user_request',
      requestId: 'req_first',
      ...more,
    })
  const idle = () => until(() => running === 0, 'the end of the turns')

  test('commands that are submitted together count each other: no burst passes an hourly limit', async () => {
    await Promise.all(Array.from({ length: 30 }, (_, n) => send('Rated', { subject: String(n) })))
    await idle()
    const [row] = await room.rows<{ count: number }>(
      `select count(*)::int as count from concord.commands where task_name = 'Rated' and status = 'succeeded'`,
    )
    assert.ok((row?.count ?? 0) <= 3, `${row?.count} of 30 ran`)
  })

  test('a plan may have thousands of events', async () => {
    const steps = Array.from({ length: 1_100 }, () => 'connector.hotel.book_a')
    const { command } = accepted(await send('Work', { subject: 's', steps }))
    const [row] = await room.rows<{ count: number }>(
      'select count(*)::int as count from concord.domain_events where command_id = $1',
      [command.command_id],
    )
    assert.ok((row?.count ?? 0) > 1_100)
  })

  test('a read that fails is called once in the request; the driver repeats it', async () => {
    isFailing = true
    calls = 0
    const { command } = accepted(await send('Look', { subject: 's' }))
    assert.deepEqual([calls, command.status], [1, 'created'])
    isFailing = false
    assert.equal(await room.settle(command.command_id), 'succeeded')
  })

  test('a read of a command with a follower is called once', async () => {
    calls = 0
    const follower = { kind: 'mission', id: room.clock.newId() }
    const { command } = accepted(await send('Look', { subject: 's' }, { follower }))
    assert.deepEqual([calls, command.status], [1, 'succeeded'])
  })

  test('an effect key that another transaction is writing does not refuse the command', async () => {
    const { command: first } = accepted(await send('Put', { subject: 'one' }))
    await idle()
    const [inserted, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const writing = room.db.transaction(async (tx) => {
      await tx.query(
        `insert into concord.domain_effects (domain_effect_id, command_id, workspace_id, effect_type, effect_payload, declaration_order, idempotency_key)
         values (gen_random_uuid(), $1, $2, 'work.put', '{}', 9, 'put:two')`,
        [first.command_id, first.workspace_id],
      )
      inserted.resolve()
      await held.promise
    })
    await inserted.promise
    const { command } = accepted(await send('Put', { subject: 'two' }))
    assert.equal(command.status, 'created')
    held.resolve()
    await writing
    await idle()
    assert.equal(await room.statusOf(command.command_id), 'failed')
  })

  test('an opaque effect does not begin with the insert, whose answer may be lost', async () => {
    const [tokens, offered] = [new Set<string>(), turns.offer.bind(turns)]
    const unstarted = {
      ...turns,
      offer: (queue: string) => {
        const offer = offered(queue)
        if (offer) tokens.add(offer.token)
        return offer && { ...offer, start: () => offer.release() }
      },
    }
    const by = actingFor(room.tenant.people.writer.principal, TRACE)
    const { command } = accepted(
      await submitCommand({ ...world, turns: unstarted }, by, {
        workspaceId: room.tenant.workspace.id,
        taskName: 'Work',
        payload: { subject: 's', steps: ['connector.mail.send'] },
        ingress: 'user_request',
        requestId: 'req_lost',
      }),
    )
    assert.equal(tokens.has(command.turn_token ?? ''), true)
    await room.rows(`update concord.commands set turn_until = now() - interval '1 s' where command_id = $1`, [
      command.command_id,
    ])
    assert.equal(await room.settle(command.command_id), 'succeeded')
  })
})
