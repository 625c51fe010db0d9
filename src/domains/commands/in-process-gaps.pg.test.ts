/** The gaps around an in-process turn: a database that stutters, a row that somebody locks, a fact that takes the row away. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import type { WakeOptions } from '#runtime'
import type { Db, Tx } from '#store'
import { decider, nextFence, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { type InProcessTurns } from '#turns'
import { addDependency } from './add-dependency.ts'
import { openApprovalOwner } from './answer-approval.ts'
import { cancelCommand } from './cancel-command.ts'
import type { HeldCommand } from './command-table.ts'
import { openCommandTurns, openDrive, reconcileCommands } from './drive.ts'
import { retryCommand } from './change-command.ts'
import { submitCommand } from './submit.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { byPerson } from '#kernel/actor'

/** The same database, with something that happens right before a statement of that name. */
function interrupted(db: Db, before: (name: string) => Promise<void>): Db {
  const run: Db['run'] = async (statement, values) => {
    await before(statement.name)
    return db.run(statement, values)
  }
  return Object.assign(Object.create(db) as Db, { run })
}

describe('gaps around an in-process turn', () => {
  let room: TestRoom
  let world: CommandDeps
  let turns: InProcessTurns<HeldCommand>
  let free = 0
  let interrupt: (name: string) => Promise<void> = async () => {}
  const wakes: { readonly id: string; readonly queue: string | undefined }[] = []
  const by = () => actingFor(room.tenant.people.writer.principal, TRACE)

  before(async () => {
    room = await openTestRoom()
    const wake = async ({ id }: { readonly id: string }, { queue }: WakeOptions = {}) => void wakes.push({ id, queue })
    const plain = { ...room.world, wake, db: interrupted(room.db, (name) => interrupt(name)) }
    turns = openCommandTurns(plain, () => {
      if (free <= 0) return undefined
      free -= 1
      const leave = () => void (free += 1)
      return { begin: () => leave, release: leave }
    })
    world = { ...plain, turns }
  })
  after(async () => {
    await turns.close(1_000)
    await room.close()
  })
  afterEach(() => {
    wakes.length = 0
    interrupt = async () => {}
  })

  async function submit(payload: Record<string, unknown>): Promise<string> {
    const asked = { workspaceId: room.tenant.workspace.id, taskName: 'Work', payload: payload as never } as const
    const { command } = accepted(
      await submitCommand(world, by(), { ...asked, ingress: 'user_request', requestId: 'req_gaps' }),
    )
    return command.command_id
  }
  const becomes = (id: string, status: string) => until(async () => (await room.statusOf(id)) === status)
  const untilOf = async (id: string) =>
    (await room.rows<{ turn_until: Date }>(`select turn_until from concord.commands where command_id = $1`, [id]))[0]
      ?.turn_until
  /** What happens inside the next calls of the provider, one after the other. */
  function during(...happens: ((signal: AbortSignal) => Promise<void>)[]): void {
    const call = room.provider.call.bind(room.provider)
    room.provider.call = async (...args) => {
      const next = happens.shift()
      if (happens.length === 0) room.provider.call = call
      await next?.(args[1].signal)
      return call(...args)
    }
  }
  const queueOf = (name: string) => room.catalog.tasks.get(name)?.queue

  test('a renewal that fails takes no call away: its answer counts, and nobody repeats the deed', async () => {
    free = 1
    let failed = 0
    interrupt = async (name) => {
      if (name !== 'commands_renew_turn' || failed > 0) return
      failed += 1
      throw new Error('the connection broke')
    }
    during(() => until(() => failed > 0))
    const id = await submit({ subject: 's', steps: ['connector.ticket.open'] })
    await until(async () => free === 1)
    assert.deepEqual([await room.statusOf(id), wakes], ['succeeded', []])
  })

  test('renewals that fail for as long as the turn lives tell the call to stop; what it answers then still counts', async () => {
    free = 1
    let told: AbortSignal | undefined
    interrupt = async (name) => {
      if (name === 'commands_renew_turn') throw new Error('the connection broke')
    }
    during(async (signal) => {
      told = signal
      await until(() => signal.aborted)
    })
    const id = await submit({ subject: 's', steps: ['connector.ticket.open'] })
    await until(() => free === 1)
    assert.deepEqual([await room.statusOf(id), wakes, told?.aborted], ['succeeded', [], true])
  })

  test('every write gives the turn its whole time again, so that what is called right after it is called within it', async () => {
    free = 1
    let [given, found]: (Date | undefined)[] = []
    during(
      async () => {
        const [row] = await room.rows<{ turn_until: Date }>(
          `update concord.commands set turn_until = now() + interval '1 s'
          where status = 'running' and turn_token is not null returning turn_until`,
        )
        given = row?.turn_until
      },
      async () => {
        const [row] = await room.rows<{ turn_until: Date }>(
          `select turn_until from concord.commands where status = 'running' and turn_token is not null`,
        )
        found = row?.turn_until
      },
    )
    await becomes(
      await submit({ subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] }),
      'succeeded',
    )
    assert.ok(given && found && found > given)
  })

  test('a row that somebody holds keeps no other turn of the process from being renewed, and is not lost', async () => {
    free = 2
    let isOver = false
    const both: string[] = []
    during(
      () => until(() => isOver),
      () => until(() => isOver),
    )
    for (let n = 0; n < 2; n++) both.push(await submit({ subject: 's', steps: ['connector.hotel.book_a'] }))
    const [other = '', held = ''] = both
    await until(async () => (await room.statusOf(held)) === 'running' && (await room.statusOf(other)) === 'running')
    let isRenewed = false
    try {
      await room.db.transaction(async (tx) => {
        await tx.query(`select from concord.commands where command_id = '${held}' for update`)
        const earlier = await untilOf(other)
        const renewing = turns.renew().then(() => turns.renew())
        void renewing.then(() => (isRenewed = true))
        await until(() => isRenewed)
        assert.ok(Number(await untilOf(other)) > Number(earlier))
      })
    } finally {
      isOver = true
    }
    for (const id of both) await becomes(id, 'succeeded')
    assert.deepEqual(wakes, [])
  })

  test('an in-process turn that ends while a wake looks at it leaves the wake its turn', async () => {
    for (const end of ['turn_token = null, turn_until = null', `turn_until = now() - interval '1 ms'`]) {
      free = 0
      const id = await submit({ subject: 's', steps: ['connector.hotel.book_a'] })
      await room.rows(
        `update concord.commands set turn_token = 'ffffffff-ffff-8000-8000-000000000001', turn_until = now() + interval '1 min'
        where command_id = $1`,
        [id],
      )
      interrupt = async (name) => {
        if (name === 'commands_find_in_process_turn')
          await room.rows(`update concord.commands set ${end} where command_id = $1`, [id])
      }
      const next = await openDrive(world)(id, nextFence())
      assert.notEqual(next.t, 'done')
      assert.ok(next.t !== 'wait' || (next.until !== null && next.until <= new Date()))
      interrupt = async () => {}
      assert.equal(await room.settle(id), 'succeeded')
    }
  })

  test('a dependency that takes the row from an in-process turn leaves the command to the runtime at once', async () => {
    free = 0
    const parentId = await submit({ subject: 'parent' })
    free = 1
    wakes.length = 0
    const { writes } = room.world
    const commit = writes.commit.bind(writes)
    Object.assign(writes, {
      commit: async (write: Parameters<typeof commit>[0]) => {
        Object.assign(writes, { commit })
        const childId = write.command.command_id
        accepted(await addDependency(world, by(), { workspaceId: room.tenant.workspace.id, childId, parentId }))
        return commit(write)
      },
    })
    const id = await submit({ subject: 's', steps: ['connector.hotel.book_a'] })
    await until(() => free === 1)
    assert.deepEqual(wakes, [{ id, queue: queueOf('Work') }])
    assert.equal(await room.settle(id), 'queued')
    for (const each of [parentId, id]) assert.equal(await room.settle(each), 'succeeded')
  })

  const deadlock = (tx: Tx) => tx.query(`do $$ begin raise exception using errcode = 'deadlock_detected'; end $$`)
  const breaking: Readonly<Record<string, (breakNow: (tx: Tx) => Promise<void>) => Db['transaction']>> = {
    'a write that breaks': (breakNow) => (work, opening) =>
      room.db.transaction((tx) => {
        const run: Tx['run'] = async (statement, values) => {
          if (statement.name.startsWith('commands_write')) await breakNow(tx)
          return tx.run(statement, values)
        }
        return work(Object.assign(Object.create(tx) as Tx, { run }))
      }, opening),
    'a transaction that breaks after its write': (breakNow) => (work, opening) =>
      room.db.transaction(async (tx) => {
        const value = await work(tx)
        await breakNow(tx)
        return value
      }, opening),
  }
  for (const [what, breakAt] of Object.entries(breaking))
    test(`${what} gives its place back at once, and the transaction that is tried again finds it`, async () => {
      free = 1
      room.provider.modes.push('refuse')
      const failed = await submit({ subject: 's', steps: ['connector.hotel.book_a'] })
      await becomes(failed, 'failed')
      await until(() => free === 1)
      let breaks = 1
      const transaction = breakAt(async (tx) => void (breaks-- > 0 && (await deadlock(tx))))
      const again = { ...world, db: Object.assign(Object.create(room.db) as Db, { transaction }) }
      accepted(await retryCommand(again, by(), { workspaceId: room.tenant.workspace.id, commandId: failed }))
      await becomes(failed, 'succeeded')
      assert.deepEqual(wakes, [])
      await until(() => free === 1)
    })

  test('an answer without a place, the reconciler and a cancel wake the command into the queue of its task', async () => {
    const queue = queueOf('Work')
    assert.ok(queue !== undefined)
    free = 1
    const gated = await submit({ subject: 's', decide: 'require_approval' })
    await becomes(gated, 'waiting_for_approval')
    await until(() => free === 1)
    free = 0
    const answer = { workspaceId: room.tenant.workspace.id, approvalId: await pendingOf(room, gated) }
    accepted(
      await decideApproval({ ...room.approvals, owner: openApprovalOwner(world) }, byPerson(decider(room), TRACE), {
        ...answer,
        decision: 'approved',
        reason: 'yes',
      }),
    )
    assert.deepEqual(wakes, [{ id: gated, queue }])
    wakes.length = 0
    await reconcileCommands({ ...world, now: () => new Date(room.clock.now().getTime() + 10_000) })
    assert.deepEqual(
      wakes.filter(({ id }) => id === gated),
      [{ id: gated, queue }],
    )
    wakes.length = 0
    accepted(await cancelCommand(world, by(), { workspaceId: room.tenant.workspace.id, commandId: gated }))
    assert.deepEqual(wakes, [{ id: gated, queue }])
  })

  test('a command that ends, by its turn or by a cancel, wakes those that wait for it into the queue of their task', async () => {
    const queue = queueOf('Work')
    const workspaceId = room.tenant.workspace.id
    const ends: readonly ((parentId: string) => Promise<unknown>)[] = [
      (id) => openDrive(world)(id, nextFence()),
      async (commandId) => accepted(await cancelCommand(world, by(), { workspaceId, commandId })),
    ]
    for (const end of ends) {
      free = 0
      const [parentId, childId] = [await submit({ subject: 'parent' }), await submit({ subject: 'child' })]
      accepted(await addDependency(world, by(), { workspaceId, childId, parentId }))
      wakes.length = 0
      await end(parentId)
      assert.deepEqual(
        wakes.filter(({ id }) => id === childId),
        [{ id: childId, queue }],
      )
    }
  })
})
