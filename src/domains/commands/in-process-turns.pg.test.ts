/** In-process turns: begun where they were asked for, fenced like any other, and found by others when their process dies. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { decider, historyFaults, nextFence, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { inProcessToken, type InProcessTurns, isInProcessToken } from '#turns'
import { openApprovalOwner } from './answer-approval.ts'
import type { HeldCommand } from './command-table.ts'
import { openCommandTurns, openDrive, reconcileCommands } from './drive.ts'
import { retryCommand, supplyInput } from './change-command.ts'
import { submitCommand } from './submit.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { byPerson } from '#kernel/actor'

describe('in-process turns', () => {
  let room: TestRoom
  let turns: InProcessTurns<HeldCommand>
  let world: CommandDeps
  let [free, taken] = [0, 0]
  before(async () => {
    room = await openTestRoom()
    turns = openCommandTurns(room.world, () => {
      if (free <= 0) return undefined
      free -= 1
      const leave = () => void (free += 1)
      return { begin: () => ((taken += 1), leave), release: leave }
    })
    world = { ...room.world, turns }
  })
  after(async () => {
    await turns.close(1_000)
    await room.close()
  })
  afterEach(() => {
    room.woken.length = 0
    taken = 0
  })

  async function submit(payload: Record<string, unknown>, more: object = {}): Promise<string> {
    const by = actingFor(room.tenant.people.writer.principal, TRACE)
    const { command } = accepted(
      await submitCommand(world, by, {
        workspaceId: room.tenant.workspace.id,
        taskName: 'Work',
        payload: payload as never,
        ingress: 'user_request',
        requestId: 'req_turn',
        ...more,
      }),
    )
    return command.command_id
  }
  const becomes = (id: string, status: string) => until(async () => (await room.statusOf(id)) === status)
  const rowOf = async (id: string) =>
    (
      await room.rows<{ turn_token: string | null; turn_until: Date | null; is_alive: boolean }>(
        `select turn_token, turn_until, turn_until > now() as is_alive from concord.commands where command_id = $1`,
        [id],
      )
    )[0]

  test('[CMD-20] a command goes to its end without a wake, and gives its place back', async () => {
    free = 1
    const id = await submit({ subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] })
    await becomes(id, 'succeeded')
    assert.deepEqual([room.woken, taken], [[], 1])
    await until(async () => free === 1)
    assert.deepEqual(await rowOf(id), { turn_token: null, turn_until: null, is_alive: null })
    assert.deepEqual(await historyFaults(room), [])
  })

  test('without a place, or with commands before it, it is woken as ever', async () => {
    free = 0
    const first = await submit({ subject: 's', steps: ['connector.hotel.book_a'] })
    assert.deepEqual(room.woken, [first])
    free = 1
    const child = await submit({ subject: 's' }, { dependsOn: [{ commandId: first }] })
    assert.deepEqual([room.woken.at(-1), taken, free], [child, 0, 1])
    for (const id of [first, child]) await room.settle(id)
  })

  test('what cannot be taken in gives its place back: a payload of the wrong shape, a key that is taken', async () => {
    free = 2
    const id = await submit({ subject: 5 })
    assert.equal(await room.statusOf(id), 'failed')
    const again = { idempotencyKey: 'turn-1' }
    const same = await submit({ subject: 's' }, again)
    await becomes(same, 'succeeded')
    assert.equal(await submit({ subject: 's' }, again), same)
    await until(async () => free === 2)
    assert.deepEqual(room.woken, [])
  })

  test('its process dies before the first step: the reconciler finds it when its time has run out, and not before', async () => {
    const died = { ...room.world, turns: { ...turns, offer: () => ({ ...offered(), start: () => {} }) } }
    const offered = () => ({ token: inProcessToken(room.world.newId()), leaseMs: 60_000, release: () => {} })
    const by = actingFor(room.tenant.people.writer.principal, TRACE)
    const asked = { workspaceId: room.tenant.workspace.id, taskName: 'Work', payload: { subject: 's' } } as const
    const { command } = accepted(
      await submitCommand(died, by, { ...asked, ingress: 'user_request', requestId: 'req_died' }),
    )
    const id = command.command_id
    const later = { ...room.world, now: () => new Date(room.clock.now().getTime() + 10_000) }
    await reconcileCommands(later)
    assert.equal(room.woken.includes(id), false)
    // Woken all the same, for example by a cancel: the woken turn waits for it, and takes nothing away.
    const next = await openDrive(room.world)(id, nextFence())
    assert.ok(next.t === 'wait' && next.until !== null)
    assert.deepEqual([await room.statusOf(id), (await rowOf(id))?.is_alive], ['created', true])
    await room.rows(`update concord.commands set turn_until = now() - interval '1 ms' where command_id = $1`, [id])
    await reconcileCommands(later)
    assert.ok(room.woken.includes(id))
    assert.equal(await room.settle(id), 'succeeded')
  })

  test('[CMD-20] a process that comes back late takes nothing back from the turn that has taken over, although its token is the greater one', async () => {
    free = 1
    const call = room.provider.call.bind(room.provider)
    let heirsToken: string | null | undefined
    room.provider.call = async (name, ...rest) => {
      room.provider.call = call
      const [row] = await room.rows<{ command_id: string; turn_token: string }>(
        `update concord.commands set turn_until = now() - interval '1 ms' where status = 'running' returning command_id, turn_token`,
      )
      assert.ok(row && isInProcessToken(row.turn_token))
      // The heir begins, and is still at it when the late one comes back.
      const fence = nextFence()
      await room.rows(
        `update concord.commands set turn_token = $2, turn_until = now() + interval '1 min' where command_id = $1`,
        [row.command_id, fence.token],
      )
      heirsToken = fence.token
      return call(name, ...rest)
    }
    const id = await submit({ subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] })
    await until(async () => free === 1 && heirsToken !== undefined)
    assert.equal((await rowOf(id))?.turn_token, heirsToken)
    assert.equal(await room.statusOf(id), 'running')
    await room.rows(`update concord.commands set turn_until = now() - interval '1 ms' where command_id = $1`, [id])
    assert.equal(await room.settle(id), 'succeeded')
    assert.deepEqual(await historyFaults(room), [])
  })

  test('a turn that lasts is renewed, so that nobody takes it for dead', async () => {
    free = 1
    const call = room.provider.call.bind(room.provider)
    let seen: (Date | null | undefined)[] = []
    room.provider.call = async (...args) => {
      room.provider.call = call
      const look = async () =>
        (await room.rows<{ turn_until: Date }>(`select turn_until from concord.commands where status = 'running'`))[0]
          ?.turn_until
      const first = await look()
      await turns.renew()
      await turns.renew()
      seen = [first, await look()]
      return call(...args)
    }
    await becomes(await submit({ subject: 's', steps: ['connector.hotel.book_a'] }), 'succeeded')
    const [from = null, to = null] = seen
    assert.ok(from !== null && to !== null && to > from)
    await until(() => free === 1)
  })

  test('what has to wait is handed to the runtime with its time, what breaks is handed to it at once', async () => {
    free = 1
    room.provider.modes.push('rate_limited')
    const waits = await submit({ subject: 's', steps: ['connector.hotel.book_a'] })
    await until(async () => room.woken.includes(waits))
    assert.equal(await room.statusOf(waits), 'running')
    await until(async () => free === 1)
    const commit = room.world.writes.commit.bind(room.world.writes)
    Object.assign(room.world.writes, { commit: () => Promise.reject(new Error('the lane broke')) })
    const breaks = await submit({ subject: 's', steps: ['connector.hotel.book_a'] })
    await until(async () => room.woken.includes(breaks))
    Object.assign(room.world.writes, { commit })
    assert.deepEqual([await room.statusOf(breaks), (await rowOf(breaks))?.turn_token], ['running', null])
    assert.equal(await room.settle(breaks), 'succeeded')
  })

  test('[APR-01] an answer, an input and a second run begin in this process too, with the commit of the fact', async () => {
    free = 1
    const owner = openApprovalOwner(world)
    const gated = await submit({ subject: 's', steps: ['connector.hotel.book_a'], decide: 'require_approval' })
    await becomes(gated, 'waiting_for_approval')
    await until(() => free === 1)
    const answer = {
      workspaceId: room.tenant.workspace.id,
      approvalId: await pendingOf(room, gated),
      decision: 'approved',
    }
    accepted(
      await decideApproval({ ...room.approvals, owner }, byPerson(decider(room), TRACE), { ...answer, reason: 'yes' }),
    )
    await becomes(gated, 'succeeded')
    await until(() => free === 1)
    room.provider.modes.push('refuse')
    const failed = await submit({ subject: 's', steps: ['connector.hotel.book_a'] })
    await becomes(failed, 'failed')
    await until(() => free === 1)
    const by = actingFor(room.tenant.people.writer.principal, TRACE)
    accepted(await retryCommand(world, by, { workspaceId: room.tenant.workspace.id, commandId: failed }))
    await becomes(failed, 'succeeded')
    await until(() => free === 1)
    // The request that submits a command asks for its approval itself, without a turn.
    assert.deepEqual([room.woken, taken], [[], 3])
    const asks = await submit({ steps: ['connector.hotel.book_a'] })
    await becomes(asks, 'waiting_for_input')
    // Until when it waits is the runtime's business.
    await until(() => free === 1 && room.woken.length === 1)
    accepted(
      await supplyInput(world, by, { workspaceId: room.tenant.workspace.id, commandId: asks, input: { subject: 's' } }),
    )
    await becomes(asks, 'succeeded')
    assert.deepEqual([room.woken, taken], [[asks], 5])
    assert.deepEqual(await historyFaults(room), [])
  })

  test('a new command and its approval are one commit, and its key gives the same command back', async () => {
    free = 2
    const gated = { subject: 's', steps: ['connector.hotel.book_a'], decide: 'require_approval' }
    const twice = await Promise.all([1, 2].map(() => submit(gated, { idempotencyKey: 'gated:1' })))
    const [id = ''] = twice
    assert.deepEqual(twice, [id, id])
    assert.deepEqual([await room.statusOf(id), free, taken], ['waiting_for_approval', 2, 0])
    const written = await room.rows(
      `select count(*)::int as rows, count(distinct v)::int as commits from (
         select xmin::text as v from concord.commands where command_id = $1
         union all select xmin::text from concord.approvals where command_id = $1
         union all select xmin::text from concord.domain_effects where command_id = $1
         union all select xmin::text from concord.journal where command_id = $1) as t`,
      [id],
    )
    assert.deepEqual(written, [{ rows: 5, commits: 1 }])
    assert.deepEqual(await historyFaults(room), [])
  })

  test('a request for approval that fails does not lose the command: the driver meets the same error', async () => {
    free = 1
    const kept = world
    const find = () => {
      throw new Error('the type broke')
    }
    world = { ...world, approvalTypes: { ...world.approvalTypes, find } }
    const id = await submit({ subject: 's', decide: 'require_approval' })
    world = kept
    await becomes(id, 'waiting_for_approval')
    await until(() => free === 1)
    assert.deepEqual(await historyFaults(room), [])
  })

  test('where a turn is alive on the row, the fact takes nothing away from it and wakes', async () => {
    free = 1
    const gated = await submit({ subject: 's', steps: ['connector.hotel.book_a'], decide: 'require_approval' })
    await becomes(gated, 'waiting_for_approval')
    await until(() => free === 1)
    const fence = nextFence()
    await room.rows(
      `update concord.commands set turn_token = $2, turn_until = now() + interval '1 min' where command_id = $1`,
      [gated, fence.token],
    )
    const answer = {
      workspaceId: room.tenant.workspace.id,
      approvalId: await pendingOf(room, gated),
      decision: 'approved',
    }
    const owner = openApprovalOwner(world)
    accepted(
      await decideApproval({ ...room.approvals, owner }, byPerson(decider(room), TRACE), { ...answer, reason: 'yes' }),
    )
    assert.deepEqual([room.woken.includes(gated), (await rowOf(gated))?.turn_token, free], [true, fence.token, 1])
    assert.equal(await room.settle(gated), 'succeeded')
  })

  test('a room that closes lets turns end, offers no more, and hands on what listens to its signal', async () => {
    free = 1
    const own = openCommandTurns(room.world, () => ({ begin: () => () => {}, release: () => {} }))
    const id = await submitWith(own)
    await own.close(5_000)
    assert.equal(await room.statusOf(id), 'succeeded')
    assert.equal(own.offer('concord_default'), undefined)
    const other = openCommandTurns(room.world, () => ({ begin: () => () => {}, release: () => {} }))
    const call = room.provider.call.bind(room.provider)
    room.provider.call = async (...args) => {
      room.provider.call = call
      await until(() => args[1].signal.aborted)
      return call(...args)
    }
    const cut = await submitWith(other)
    await becomes(cut, 'running')
    room.woken.length = 0
    await other.close(0)
    await until(() => room.woken.includes(cut))
    assert.equal((await rowOf(cut))?.turn_token, null)
    assert.equal(await room.settle(cut), 'succeeded')
  })

  async function submitWith(own: InProcessTurns<HeldCommand>): Promise<string> {
    const kept = world
    world = { ...room.world, turns: own }
    const id = await submit({ subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] })
    world = kept
    return id
  }
})
