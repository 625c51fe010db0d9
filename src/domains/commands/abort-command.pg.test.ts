/** An operator's abort: it reaches every turn, stays until it is taken back, and is on record with the change. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { DEFAULT_QUEUE, type Runtime } from '#runtime'
import { decider, historyFaults, nextFence, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { openOperatorRuntime } from '#test/operator-runtime'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { abortCommand, type Operating, resumeCommand } from './abort-command.ts'
import { addDependency } from './add-dependency.ts'
import { openApprovalOwner } from './answer-approval.ts'
import type { InProcessTurns } from '#turns'
import type { HeldCommand } from './command-table.ts'
import { openCommandTurns, openDrive, reconcileCommands } from './drive.ts'
import { submitCommand } from './submit.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { byPerson } from '#kernel/actor'

const BOOK = 'connector.hotel.book_a'

describe('an operator aborts', () => {
  let room: TestRoom
  let runtime: Runtime
  let turns: InProcessTurns<HeldCommand>
  let world: CommandDeps
  let operating: Operating
  before(async () => {
    room = await openTestRoom()
    runtime = await openOperatorRuntime(room.db)
    turns = openCommandTurns(room.world, () => ({ begin: () => () => {}, release: () => {} }))
    world = { ...room.world, turns }
    operating = { newId: room.world.newId, now: room.world.now, runtime }
  })
  after(async () => {
    await turns.close(1_000)
    await runtime.close()
    await room.close()
  })

  const by = { actor: 'operator:root', traceId: TRACE, reason: 'it books twice' }
  const abort = (commandId: string) => room.db.transaction((tx) => abortCommand(operating, tx, { ...by, commandId }))
  const resume = (commandId: string) =>
    room.db.transaction((tx) =>
      resumeCommand(operating, tx, { ...by, reason: 'repaired', commandId, why: 'aborted', isParked: false }),
    )
  const eventsOf = (id: string) =>
    room.rows<{ event_type: string; actor: string; reason: string }>(
      `select event_type, actor, payload->>'reason' as reason from concord.domain_events
       where command_id = $1 and event_type in ('command_aborted', 'command_resumed') and purpose = 'audit' and trace_id = $2
         and payload @> jsonb_build_object('target_type', 'command', 'target_id', command_id) order by seq`,
      [id, TRACE],
    )
  const submit = async (payload: Record<string, unknown>) => {
    const asking = actingFor(room.tenant.people.writer.principal, TRACE)
    const asked = { workspaceId: room.tenant.workspace.id, taskName: 'Work', payload: payload as never }
    const made = await submitCommand(world, asking, { ...asked, ingress: 'user_request', requestId: 'req_abort' })
    return accepted(made).command.command_id
  }
  const becomes = (id: string, status: string) => until(async () => (await room.statusOf(id)) === status)

  test('[EVT-06] a call of an in-process turn gets the signal to stop, its late answer is not written, and nobody goes on until the resume', async () => {
    const call = room.provider.call.bind(room.provider)
    let told = false
    room.provider.call = async (name, effect, isKeyed) => {
      room.provider.call = call
      const [row] = await room.rows<{ id: string }>(
        `select command_id as id from concord.commands where status = 'running'`,
      )
      accepted(await abort(row?.id ?? ''))
      await until(() => effect.signal.aborted)
      told = true
      return call(name, effect, isKeyed)
    }
    const id = await submit({ subject: 's', steps: [BOOK, 'connector.hotel.book_b'] })
    await until(() => told)
    const effects = `select status from concord.domain_effects where command_id = $1 order by declaration_order`
    await until(async () => room.woken.includes(id))
    assert.deepEqual(await room.rows(effects, [id]), [{ status: 'executing' }, { status: 'planned' }])
    // A turn of the runtime does not take it, and the reconciler leaves it alone.
    assert.deepEqual(await openDrive(room.world)(id, nextFence()), { t: 'done' })
    room.woken.length = 0
    await reconcileCommands({ ...room.world, now: () => new Date(room.clock.now().getTime() + 60_000) })
    assert.equal(room.woken.includes(id), false)
    assert.equal(await room.statusOf(id), 'running')
    const stuck = (await runtime.stuck()).find((each) => each.id === id)
    assert.deepEqual([stuck?.why, stuck?.detail], ['aborted', by.reason])
    // All its turns were in-process, so the runtime had never heard of it: it comes back behind the limits of its plan.
    const [plan] = await room.rows(`select plan->>'queue' as queue from concord.commands where command_id = $1`, [id])
    assert.deepEqual(plan, { queue: 'connector_calls' })
    assert.equal((await runtime.describe({ kind: 'command', id }))?.queue, 'connector_calls')
    await resume(id)
    assert.equal((await runtime.describe({ kind: 'command', id }))?.state, 'queued')
    assert.equal(await room.settle(id), 'succeeded')
    assert.deepEqual([...room.provider.applied.values()], [1, 1])
    assert.deepEqual(await eventsOf(id), [
      { event_type: 'command_aborted', actor: by.actor, reason: by.reason },
      { event_type: 'command_resumed', actor: by.actor, reason: 'repaired' },
    ])
    assert.deepEqual(await historyFaults(room), [])
  })

  test('an answer that comes meanwhile is kept and begins nothing, and a dependency gives nothing back', async () => {
    const id = await submit({ subject: 's', steps: [BOOK], decide: 'require_approval' })
    const parent = await room.submit({ subject: 's' })
    await becomes(id, 'waiting_for_approval')
    accepted(await abort(id))
    const asking = actingFor(room.tenant.people.writer.principal, TRACE)
    const edge = { workspaceId: room.tenant.workspace.id, childId: id, parentId: parent }
    accepted(await addDependency(world, asking, edge))
    const approvals = { ...room.approvals, owner: openApprovalOwner(world) }
    const answer = { workspaceId: edge.workspaceId, approvalId: await pendingOf(room, id), decision: 'approved' }
    accepted(await decideApproval(approvals, byPerson(decider(room), TRACE), { ...answer, reason: 'yes' }))
    assert.equal(await room.statusOf(id), 'approved')
    await room.settle(parent)
    assert.deepEqual(await openDrive(room.world)(id, nextFence()), { t: 'done' })
    assert.equal(await room.statusOf(id), 'approved')
    await resume(id)
    assert.equal(await room.settle(id), 'succeeded')
  })

  test('a parked command that is resumed comes back behind the limits of its plan, and of the default queue before it has one', async () => {
    const planned = await submit({ subject: 's', steps: [BOOK], decide: 'require_approval' })
    await becomes(planned, 'waiting_for_approval')
    const fresh = await room.submit({ subject: 's' })
    const plan = `update concord.commands set plan = jsonb_build_object('queue', $2::text) where command_id = $1`
    await room.rows(plan, [planned, 'connector_calls'])
    for (const [commandId, queue] of [
      [planned, 'connector_calls'],
      [fresh, DEFAULT_QUEUE],
    ] as const) {
      const parked = { ...by, commandId, why: 'task_gone', isParked: true }
      await room.db.transaction((tx) => resumeCommand(operating, tx, parked))
      assert.equal((await runtime.describe({ kind: 'command', id: commandId }))?.queue, queue)
    }
  })

  test('row, line and record are one commit; what has ended is refused with what to do', async () => {
    const id = await submit({ subject: 's', steps: [BOOK], decide: 'require_approval' })
    await becomes(id, 'waiting_for_approval')
    const undone = room.db.transaction(async (tx) => {
      accepted(await abortCommand(operating, tx, { ...by, commandId: id }))
      throw new Error('the record failed')
    })
    await assert.rejects(undone, /the record failed/)
    assert.deepEqual([await eventsOf(id), await runtime.describe({ kind: 'command', id })], [[], undefined])
    const done = await submit({ subject: 's', steps: [BOOK] })
    await becomes(done, 'succeeded')
    const refused = await abort(done)
    assert.ok(
      !refused.ok && refused.code === 'commands.command.moved' && refused.hint?.startsWith('Run `concord why cmd_'),
    )
    const secret = `sk_live_${'a1'.repeat(10)}`
    const told = { ...by, commandId: id, reason: `it sends ${secret}` }
    accepted(await room.db.transaction((tx) => abortCommand(operating, tx, told)))
    const line = (await runtime.stuck()).find((each) => each.id === id)
    assert.deepEqual([line?.detail, (await eventsOf(id))[0]?.reason], Array(2).fill('it sends [redacted]'))
    const missing = await abort('0197f3b2-c4d5-7a8e-9b0c-1d2e3f405166')
    assert.ok(!missing.ok && missing.code === 'commands.command.not_found')
  })
})
