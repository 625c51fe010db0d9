/** Several at once: cancels at any moment, two drivers, a decision against a cancel. One wins, nothing is done twice, nothing starts late. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { accept } from '#kernel/refusal'
import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { decideApproval } from '#domains/approvals'
import { decider, historyFaults, nextFence, openRoomOn, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { proofSize } from '#test/proof-size'
import { TRACE } from '#test/tenant'
import { addDependency } from './add-dependency.ts'
import { cancelCommand } from './cancel-command.ts'
import { EffectFailure } from './catalog/effect-definition.ts'
import { openDrive } from './drive.ts'
import { findBrokenInvariants } from './invariants/find-broken-invariants.ts'
import { actingFor } from './deps.ts'
import { byPerson } from '#kernel/actor'

const ROUNDS = proofSize(20, 60)
const STEPS = ['connector.hotel.book_a', 'connector.hotel.book_b', 'connector.hotel.book_c']

describe('races', () => {
  let room: TestRoom
  before(async () => {
    room = await openTestRoom()
  })
  after(() => room.close())

  const cancel = (commandId: string) =>
    cancelCommand(room.world, actingFor(room.tenant.people.admin.principal, TRACE), {
      workspaceId: room.tenant.workspace.id,
      commandId,
    })

  test(`[CAN-05] ${ROUNDS} cancels at any moment: no effect begins after the answer, and all that was done is undone or kept`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const id = await room.submit({ subject: `race ${round}`, steps: STEPS }, { taskName: 'Booking' })
      const driven = room.settle(id)
      for (let waits = 0; waits < round % 30; waits++) await turnOfLoop()
      const cancelled = await cancel(id)
      await driven
      await room.settle(id)
      // A command that has succeeded meanwhile is not cancelled, and the answer says so.
      const outcome = [cancelled.ok ? 'accepted' : cancelled.code, await room.statusOf(id)]
      assert.deepEqual(outcome, cancelled.ok ? ['accepted', 'cancelled'] : ['commands.cancel.succeeded', 'succeeded'])
    }
    const late = await room.rows(
      `select b.command_id from concord.domain_events b
         join concord.domain_events c on c.command_id = b.command_id and c.event_type = 'cancellation_requested' and c.seq < b.seq
         join concord.domain_effects e on e.domain_effect_id = (b.payload->>'target_id')::uuid and e.compensates_effect_id is null
       where b.event_type = 'status_changed' and b.payload->>'target_type' = 'effect' and b.payload->>'to' = 'executing'`,
    )
    assert.deepEqual(late, [])
    const kept = await room.rows(
      `select o.domain_effect_id from concord.domain_effects o join concord.commands c using (command_id)
       where c.status = 'cancelled' and o.compensates_effect_id is null and o.status = 'succeeded'
         and not exists (select from concord.domain_effects k where k.compensates_effect_id = o.domain_effect_id and k.status = 'succeeded')`,
    )
    assert.deepEqual(kept, [])
    assert.deepEqual(
      [...room.provider.applied].filter(([, count]) => count !== 1),
      [],
    )
    assert.deepEqual(await historyFaults(room), [])
  })

  for (const isCancelled of [false, true])
    test(`[EFF-06] a call that has not arrived when another driver ${isCancelled ? 'cancels' : 'continues'} is not taken for undone before its time limit`, async () => {
      const id = await room.submit({ subject: 's', steps: ['connector.ticket.open'] })
      const call = room.provider.call.bind(room.provider)
      const [sent, arrived] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      room.provider.call = async (...args) => {
        room.provider.call = call
        sent.resolve()
        await arrived.promise
        return call(...args)
      }
      const first = openDrive(room.world)(id, nextFence())
      await sent.promise
      if (isCancelled) assert.ok((await cancel(id)).ok)
      const taken = await openDrive(room.world)(id, nextFence())
      // A wake in between changes nothing.
      assert.deepEqual(await openDrive(room.world)(id, nextFence()), taken)
      arrived.resolve()
      await first
      const until = taken.t === 'wait' ? taken.until?.getTime() : undefined
      room.clock.travel((until ?? 0) - room.clock.now().getTime())
      assert.equal(await room.settle(id), isCancelled ? 'cancelled' : 'succeeded')
      const [effect] = await room.rows<{ idempotency_key: string; status: string; attempt: number }>(
        `select idempotency_key, status, attempt from concord.domain_effects where command_id = $1 and compensates_effect_id is null`,
        [id],
      )
      const done = room.provider.applied.get(effect?.idempotency_key ?? '')
      assert.deepEqual([effect?.status, effect?.attempt, done], ['succeeded', 1, 1])
      assert.deepEqual(await historyFaults(room), [])
    })

  for (const errorClass of ['transient_connector_error', 'validation_error'] as const)
    for (const arrives of [true, false])
      test(`[EFF-06] a call that fails without an answer (${errorClass}) and ${arrives ? 'is done late' : 'is never done'} is not taken for undone before its time limit`, async () => {
        const id = await room.submit({ subject: 's', steps: ['connector.ticket.open'] })
        const call = room.provider.call.bind(room.provider)
        let finishLate = () => Promise.resolve<unknown>(undefined)
        room.provider.call = async (...args) => {
          room.provider.call = call
          finishLate = () => call(...args)
          throw new EffectFailure(errorClass, 'the line was cut', 'unknown')
        }
        const nowMs = () => room.clock.now().getTime()
        const lateMs = nowMs() + 29_000
        const driveOn = async () => {
          const next = await openDrive(room.world)(id, nextFence())
          return next.t === 'wait' ? (next.until?.getTime() ?? Number.POSITIVE_INFINITY) : Number.POSITIVE_INFINITY
        }
        for (let until = await driveOn(); until <= lateMs; until = await driveOn()) room.clock.travel(until - nowMs())
        room.clock.travel(lateMs - nowMs())
        if (arrives) await finishLate()
        for (let until = await driveOn(); until !== Number.POSITIVE_INFINITY; until = await driveOn())
          room.clock.travel(until - nowMs())
        const [effect] = await room.rows<{ key: string; status: string; attempt: number; error_class: string | null }>(
          `select idempotency_key as key, status, attempt, error_class from concord.domain_effects where command_id = $1`,
          [id],
        )
        const done = room.provider.applied.get(effect?.key ?? '') ?? 0
        const isRepeated = !arrives && errorClass === 'transient_connector_error'
        assert.deepEqual(
          [effect?.status, effect?.attempt, effect?.error_class, done],
          arrives || isRepeated ? ['succeeded', isRepeated ? 2 : 1, null, 1] : ['failed', 1, 'validation_error', 0],
        )
        assert.deepEqual(await historyFaults(room), [])
      })

  test('[EFF-05] two drivers of one command at once: each effect is applied once and recorded once', async () => {
    for (let round = 0; round < 20; round++) {
      const id = await room.submit({ subject: 's', steps: STEPS })
      const drive = openDrive(room.world)
      await Promise.all([drive(id, nextFence()), drive(id, nextFence()), drive(id, nextFence())])
      assert.equal(await room.settle(id), 'succeeded')
      const effects = await room.rows(`select status from concord.domain_effects where command_id = $1`, [id])
      assert.deepEqual(
        effects.map(({ status }) => status),
        ['succeeded', 'succeeded', 'succeeded'],
      )
      const done = await room.rows(
        `select 1 from concord.domain_events where command_id = $1 and event_type = 'effect_executed'`,
        [id],
      )
      assert.equal(done.length, 3)
    }
    assert.deepEqual(
      [...room.provider.applied].filter(([, count]) => count !== 1),
      [],
    )
    assert.deepEqual(await historyFaults(room), [])
  })

  test('[ST-17] approve and cancel at once: one of them wins, the command and its approval agree', async () => {
    for (let round = 0; round < 20; round++) {
      const id = await room.submit({ subject: 's', decide: 'require_approval' })
      await room.settle(id)
      const approvalId = await pendingOf(room, id)
      const decision = decideApproval(room.approvals, byPerson(decider(room), TRACE), {
        workspaceId: room.tenant.workspace.id,
        approvalId,
        decision: 'approved',
      })
      const [decided, cancelled] = await Promise.all([decision, cancel(id)])
      assert.ok(cancelled.ok)
      await room.settle(id)
      const [row] = await room.rows<{ status: string }>('select status from concord.approvals where approval_id = $1', [
        approvalId,
      ])
      assert.equal(row?.status, decided.ok ? 'approved' : 'cancelled')
      assert.equal(await room.statusOf(id), 'cancelled')
    }
    assert.deepEqual(await historyFaults(room), [])
  })

  test('[EFF-06] [CAN-05] a cancel during a call whose outcome nobody knows: an opaque deed is not called a second time', async () => {
    const id = await room.submit({ subject: 's', steps: ['connector.mail.send'] })
    const call = room.provider.call.bind(room.provider)
    const before = room.provider.calls.length
    room.provider.call = async (...args) => {
      room.provider.call = call
      assert.ok((await cancel(id)).ok)
      room.provider.modes.push('fail_after')
      return call(...args)
    }
    assert.equal(await room.settle(id), 'cancelling')
    assert.equal(room.provider.calls.length - before, 1)
    const [asked] = await room.rows<{ approval_type: string }>(
      `select approval_type from concord.approvals where command_id = $1 and status = 'pending'`,
      [id],
    )
    assert.equal(asked?.approval_type, 'reconcile_effect')
  })

  test('[DEP-02] a dependency that is added while a turn has read that there is none: it waits all the same', async () => {
    let atWrite: (() => Promise<unknown>) | undefined
    const held = openRoomOn(room.clock, room.tenant, (world) => ({
      ...world,
      writes: {
        ...world.writes,
        async commit(write) {
          const first = write.to === 'running' ? atWrite : undefined
          if (first) atWrite = undefined
          await first?.()
          return world.writes.commit(write)
        },
      },
    }))
    try {
      const by = actingFor(room.tenant.people.writer.principal, TRACE)
      const parentId = await held.submit({ subject: 'parent', decide: 'require_approval' })
      const add = (childId: string) =>
        addDependency(held.world, by, { workspaceId: room.tenant.workspace.id, childId, parentId })
      const fresh = await held.submit({ subject: 'fresh', steps: STEPS.slice(0, 1) })
      const queued = await held.submit({ subject: 'queued', steps: STEPS }, { dependsOn: [{ commandId: fresh }] })
      await held.settle(queued)
      const before = held.provider.calls.length
      atWrite = () => add(fresh).then((added) => assert.ok(added.ok))
      assert.equal(await held.settle(fresh), 'queued')
      assert.equal(atWrite, undefined)
      assert.equal(held.provider.calls.length, before)

      const free = await held.submit({ subject: 'free', steps: STEPS.slice(0, 1) })
      const after = await held.submit({ subject: 'after', steps: STEPS }, { dependsOn: [{ commandId: free }] })
      assert.equal(await held.settle(after), 'queued')
      assert.equal(await held.settle(free), 'succeeded')
      atWrite = () => add(after).then((added) => assert.ok(added.ok))
      assert.equal(await held.settle(after), 'queued')
      assert.equal(atWrite, undefined)
      const late = await add(free)
      assert.equal(late.ok ? '' : late.code, 'commands.command.moved')
    } finally {
      await held.close()
    }
  })

  test('[CAN-05] a cancel during the call of the short way: nothing goes on, and what was done is on record', async () => {
    const held = openRoomOn(room.clock, room.tenant, (world) => ({
      ...world,
      writes: {
        ...world.writes,
        async commit(write) {
          if (write.to === 'succeeded') assert.ok((await cancel(write.command.command_id)).ok)
          return world.writes.commit(write)
        },
      },
    }))
    try {
      // With more to write than the command itself, its record is a commit of its own.
      const alongside = async () => accept(undefined)
      const id = await held.submit({ subject: 's' }, { taskName: 'Echo', alongside })
      assert.equal(await held.settle(id), 'cancelled')
      const effects = await held.rows(
        `select effect_type, status, attempt from concord.domain_effects where command_id = $1`,
        [id],
      )
      assert.deepEqual(effects, [{ effect_type: 'work.echo', status: 'succeeded', attempt: 1 }])
      assert.deepEqual(await historyFaults(held), [])
      // What other tests leave waiting is long due by their clock; everything else must hold.
      const broken = (await findBrokenInvariants(held.db)).filter(({ code }) => code !== 'C04')
      assert.deepEqual(broken, [])
    } finally {
      await held.close()
    }
  })

  test('[PER-05] [CON-06] no transaction is open while a provider is called', async () => {
    const id = await room.submit({ subject: 's', steps: STEPS.slice(0, 1) })
    const call = room.provider.call.bind(room.provider)
    let open: readonly object[] = [{}]
    room.provider.call = async (...args) => {
      room.provider.call = call
      open = await room.rows(
        `select query from pg_stat_activity where datname = current_database() and xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'`,
      )
      return call(...args)
    }
    assert.equal(await room.settle(id), 'succeeded')
    assert.deepEqual(open, [])
  })
})
