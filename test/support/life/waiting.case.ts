/** Waiting for others: parents, children, reviewers, and the rare edges of the machine. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CommandState } from '#kernel/machines/command'
import { nextFence } from '#test/commands'
import { accepted } from '#test/tenant'
import { encodeId } from '#kernel/ids'
import { addDependency } from '../../../src/domains/commands/add-dependency.ts'
import { cancelCommand } from '../../../src/domains/commands/cancel-command.ts'
import { findCommand } from '../../../src/domains/commands/command-table.ts'
import { systemActor, workerActor, composeWrite, move } from '../../../src/domains/commands/change.ts'
import { openDrive } from '../../../src/domains/commands/drive.ts'
import { BOOK_A, room, user, operator, workspaceId, pathOf, rowOf, effectsOf, decide, cancel } from './bench.case.ts'

export function waitingStories(): void {
  test('[DEP-07] a child that must not be cancelled fails, and each of its own dependents is judged by its own flag, down to the last', async () => {
    const parent = await room.submit({ subject: 'p', decide: 'require_approval' })
    const after = (commandId: string, propagateCancellation: boolean, requiredStatus?: CommandState) =>
      room.submit(
        { subject: 'c' },
        { dependsOn: [{ commandId, propagateCancellation, ...(requiredStatus ? { requiredStatus } : {}) }] },
      )
    const child = await after(parent, false)
    const stopped = await after(child, true)
    const failed = await after(child, false)
    const belowStopped = await after(stopped, true)
    const belowFailed = await after(failed, false)
    // A command that waits for the failure continues.
    const glad = await after(child, true, 'failed')
    const all = [parent, child, stopped, failed, belowStopped, belowFailed, glad]
    for (const id of all) await room.settle(id)
    room.woken.length = 0
    await cancel(parent)
    await room.settleWoken()
    assert.deepEqual(await Promise.all(all.map(room.statusOf)), [
      'cancelled',
      'failed',
      'cancelled',
      'failed',
      'cancelled',
      'failed',
      'succeeded',
    ])
    for (const id of [child, failed, belowFailed]) assert.equal((await rowOf(id))['error'], 'dependency_unreachable')
  })

  test('[DEP-02] [DEP-09] [DEP-06] [CAN-11] a child waits queued for all its parents, runs, is cancelled or fails with them', async () => {
    const [one, two] = [
      await room.submit({ subject: 'p1' }),
      await room.submit({ subject: 'p2', decide: 'require_approval' }),
    ]
    const child = await room.submit({ subject: 'c' }, { dependsOn: [{ commandId: one }, { commandId: two }] })
    assert.equal(await room.settle(child), 'queued')
    await room.settle(one)
    await room.settle(two)
    assert.equal(await room.settle(child), 'queued')
    room.woken.length = 0
    await decide(two, 'approved')
    await room.settle(two)
    assert.ok(room.woken.includes(child))
    assert.equal(await room.settle(child), 'succeeded')

    const doomed = await room.submit({ subject: 'p', decide: 'require_approval' })
    const follows = await room.submit({ subject: 'c' }, { dependsOn: [{ commandId: doomed }] })
    const grandchild = await room.submit({ subject: 'g' }, { dependsOn: [{ commandId: follows }] })
    const apart = await room.submit(
      { subject: 'c' },
      { dependsOn: [{ commandId: doomed, propagateCancellation: false }] },
    )
    for (const id of [doomed, follows, grandchild, apart]) await room.settle(id)
    room.woken.length = 0
    await cancel(doomed)
    await room.settleWoken()
    assert.deepEqual(await Promise.all([follows, grandchild, apart].map(room.statusOf)), [
      'cancelled',
      'cancelled',
      'failed',
    ])
    assert.equal((await rowOf(apart))['error'], 'dependency_unreachable')
  })

  test('[DEP-03] [DEP-04] a circle is refused, also when its two halves arrive at once', async () => {
    const [a, b, c] = [
      await room.submit({ subject: 'a' }),
      await room.submit({ subject: 'b' }),
      await room.submit({ subject: 'c' }),
    ]
    const link = (childId: string, parentId: string) =>
      addDependency(room.world, user, { workspaceId, childId, parentId })
    accepted(await link(b, a))
    accepted(await link(c, b))
    const closed = await link(a, c)
    assert.equal(closed.ok ? '' : closed.code, 'dag_cycle')
    assert.deepEqual(
      closed.ok ? [] : closed.facts?.['path'],
      [a, c, b, a].map((id) => encodeId('command', id)),
    )
    const self = await link(a, a)
    assert.equal(self.ok ? '' : self.code, 'dag_cycle')
    for (let round = 0; round < 10; round++) {
      const [x, y] = [await room.submit({ subject: 'x' }), await room.submit({ subject: 'y' })]
      const both = await Promise.all([link(x, y), link(y, x)])
      assert.equal(both.filter(({ ok }) => ok).length, 1)
    }
  })

  test('[DEP-03] thirty layers in which each of two waits for both before it: the walk takes each edge once', async () => {
    let before: { readonly commandId: string }[] = []
    for (let layer = 0; layer < 30; layer++) {
      const dependsOn = before
      before = []
      for (const subject of ['left', 'right']) before.push({ commandId: await room.submit({ subject }, { dependsOn }) })
    }
    const [last] = before
    const childId = await room.submit({ subject: 'child' })
    const added = await addDependency(room.world, user, { workspaceId, childId, parentId: last?.commandId ?? '' })
    assert.equal(added.ok, true)
  })

  test('[DEP-03] the search for the path ends on a graph that already has a cycle', async () => {
    const [child, parent, x, y] = [
      await room.submit({ subject: 'child' }),
      await room.submit({ subject: 'parent' }),
      await room.submit({ subject: 'x' }),
      await room.submit({ subject: 'y' }),
    ]
    // Inserted without the service: parent → x → child, and x ⇄ y.
    for (const [from, to] of [
      [parent, x],
      [x, y],
      [y, x],
      [x, child],
    ])
      await room.rows(
        `insert into concord.command_dependencies (child_command_id, parent_command_id, workspace_id) values ($1, $2, $3)`,
        [from, to, workspaceId],
      )
    const closed = await addDependency(room.world, user, { workspaceId, childId: child, parentId: parent })
    assert.deepEqual(
      closed.ok ? [] : closed.facts?.['path'],
      [child, parent, x, child].map((id) => encodeId('command', id)),
    )
  })

  test('a command that set another one going is blocked until that one ends, and takes its result or its failure', async () => {
    const id = await room.submit({ subject: 'parent', steps: ['command.run'] })
    room.woken.length = 0
    assert.equal(await room.settle(id), 'blocked')
    const [child] = await room.rows<{ command_id: string }>(
      `select command_id from concord.commands where idempotency_key like 'child:%' order by created_at desc limit 1`,
    )
    assert.ok(child)
    await room.settleWoken()
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal(await pathOf(id), 'created validated queued running blocked running succeeded')

    const failing = await room.submit({ subject: 'parent', steps: ['command.run'] })
    room.woken.length = 0
    await room.settle(failing)
    const [awaited] = await room.rows<{ command_id: string }>(
      `select parent_command_id as command_id from concord.command_dependencies where child_command_id = $1`,
      [failing],
    )
    await cancel(awaited?.command_id ?? '')
    await room.settleWoken()
    assert.equal(await room.statusOf(failing), 'failed')

    const stopped = await room.submit({ subject: 'parent', steps: ['command.run'] })
    await room.settle(stopped)
    await cancel(stopped)
    await room.settleWoken()
    assert.equal(await room.settle(stopped), 'cancelled')
  })

  test('[APR-08] quick work that only a person held up runs at once when approved', async () => {
    const id = await room.submit({ subject: 's', decide: 'require_approval' }, { taskName: 'Echo' })
    assert.equal(await room.settle(id), 'waiting_for_approval')
    await decide(id, 'approved')
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal(await pathOf(id), 'created validated waiting_for_approval approved running succeeded')
  })

  test('[ST-07] [OQ-07] force is for operators, for a command that hangs between effects', async () => {
    const id = await room.submit({ subject: 's', steps: [BOOK_A] })
    room.provider.modes.push('fail_before')
    await room.settle(id)
    const busy = await cancelCommand(room.world, operator, { workspaceId, commandId: id, force: true })
    assert.equal(busy.ok ? '' : busy.code, 'commands.command.moved')
    assert.ok((await cancel(id)).changed)
    assert.equal(await room.settle(id), 'cancelled')
    const hung = await walk('validated', 'queued', 'running')
    const user_ = await cancelCommand(room.world, user, { workspaceId, commandId: hung, force: true })
    assert.equal(user_.ok ? '' : user_.code, 'commands.action.not_allowed')
    assert.ok((await cancel(hung, { force: true }, operator)).changed)
    assert.equal(await room.statusOf(hung), 'cancelled')
  })

  /** Moves a command along the machine without effects, into a state that only another room causes. */
  async function walk(...states: CommandState[]): Promise<string> {
    const id = await room.submit({ subject: 's' })
    const found = await findCommand(room.db, workspaceId, id)
    assert.ok(found)
    const moves = states.map((state) =>
      move(state, state === 'running' || state === 'blocked' ? workerActor : systemActor),
    )
    const write = composeWrite(found, 'any', moves, room.clock.now(), room.clock.newId)
    accepted(await room.world.writes.commit(write))
    return id
  }

  test('[ST-08] [CAN-08] blocked before any effect ran: a cancel ends it at once', async () => {
    const id = await walk('validated', 'queued', 'running', 'blocked')
    assert.ok((await cancel(id)).changed)
    assert.equal(await room.statusOf(id), 'cancelled')
  })

  test('[ST-10] an exit that breaks ends in failed', async () => {
    const id = await room.submit({ subject: 's', steps: [BOOK_A] })
    room.provider.modes.push('fail_after')
    await room.settle(id)
    await cancel(id)
    const without = new Map([...room.catalog.effects].filter(([name]) => name !== BOOK_A))
    const drive = openDrive({ ...room.world, catalog: { ...room.catalog, effects: without } })
    assert.deepEqual(await drive(id, nextFence()), { t: 'done' })
    assert.equal(await pathOf(id), 'created validated queued running cancelling failed')
  })

  test('[EFF-06] [ST-08] nobody can know: the effect stays executing, a person is asked, and the answer lets it go on', async () => {
    for (const [answer, end] of [
      ['approved', 'succeeded'],
      ['rejected', 'failed'],
    ] as const) {
      const id = await room.submit({ subject: 's', steps: ['connector.mail.send', BOOK_A] })
      room.provider.modes.push('timeout_after')
      assert.equal(await room.settle(id), 'blocked')
      assert.equal((await effectsOf(id))[0]?.status, 'executing')
      const calls = room.provider.calls.length
      assert.equal(await room.settle(id), 'blocked')
      assert.equal(room.provider.calls.length, calls)
      await decide(id, answer)
      assert.equal(await room.settle(id), end)
      assert.match(await pathOf(id), /running blocked queued running/)
    }
  })
}
