/** The ways out: cancelling, failing, running again, undoing. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TRACE, accepted } from '#test/tenant'
import { cancelCommand } from '../../../src/domains/commands/cancel-command.ts'
import { compensateCommand, retryCommand } from '../../../src/domains/commands/change-command.ts'
import { actingFor } from '../../../src/domains/commands/deps.ts'
import {
  BOOK_A,
  BOOK_B,
  BOOK_C,
  room,
  user,
  operator,
  workspaceId,
  pathOf,
  typesOf,
  rowOf,
  effectsOf,
  decide,
  cancel,
} from './bench.case.ts'

export function leavingStories(): void {
  test('[CAN-08] [APR-16] before any effect a cancel ends it at once and closes what was asked', async () => {
    const states: [string, (id: string) => Promise<unknown>][] = [
      ['created', async () => undefined],
      ['waiting_for_approval', (id) => room.settle(id)],
      ['approved', async (id) => (await room.settle(id), decide(id, 'approved'))],
    ]
    for (const [state, prepare] of states) {
      const id = await room.submit({ subject: 's', decide: 'require_approval' })
      await prepare(id)
      assert.equal(await room.statusOf(id), state)
      assert.ok((await cancel(id)).changed)
      assert.equal(await room.statusOf(id), 'cancelled')
      const open = await room.rows(`select 1 from concord.approvals where command_id = $1 and status = 'pending'`, [id])
      assert.equal(open.length, 0)
    }
    const input = await room.submit({})
    await room.settle(input)
    assert.ok((await cancel(input)).changed)
  })

  test('[CAN-03] [CAN-05] [EFF-31] [CMD-18] [CAN-09] graceful: the effect under way finishes, the others are left out and named', async () => {
    const id = await room.submit({ subject: 's', steps: [BOOK_A, BOOK_B, BOOK_C] })
    const call = room.provider.call.bind(room.provider)
    room.provider.call = async (...args) => {
      room.provider.call = call
      // The cancellation is acknowledged during the first call, before it answers.
      assert.ok((await cancel(id)).changed)
      return call(...args)
    }
    assert.equal(await room.settle(id), 'cancelled')
    assert.equal(await pathOf(id), 'created validated queued running cancelling cancelled')
    assert.deepEqual(
      (await effectsOf(id)).map(({ status }) => status),
      ['succeeded', 'planned', 'planned'],
    )
    assert.equal((await typesOf(id)).filter((type) => type === 'effect_skipped').length, 2)
    const [told] = await room.rows<{ payload: Record<string, unknown> }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'cancellation_requested' and purpose = 'audit'`,
      [id],
    )
    assert.deepEqual(
      [told?.payload['cancellation_mode'], told?.payload['cancel_reason'], told?.payload['cancelled_by']],
      ['graceful', 'enough', user.id],
    )
  })

  test('[CAN-06] [CAN-07] [EFF-10] [EFF-23] compensate_then_stop undoes in reverse, once; a second cancel changes nothing', async () => {
    const id = await room.submit({ subject: 'trip', steps: [BOOK_A, BOOK_B, BOOK_C] }, { taskName: 'Booking' })
    let count = 0
    const call = room.provider.call.bind(room.provider)
    room.provider.call = async (...args) => {
      count += 1
      const answer = await call(...args)
      if (count === 2) await cancel(id)
      if (count === 3) assert.equal((await cancel(id)).changed, false)
      return answer
    }
    assert.equal(await room.settle(id), 'cancelled')
    room.provider.call = call
    assert.equal(await pathOf(id), 'created validated queued running cancelling compensating compensated cancelled')
    const undone = (await effectsOf(id)).filter(({ compensates_effect_id }) => compensates_effect_id !== null)
    assert.deepEqual(
      undone.map(({ effect_type, status }) => `${effect_type} ${status}`),
      ['compensation.hotel.cancel_b succeeded', 'compensation.hotel.cancel_a succeeded'],
    )
    assert.equal((await typesOf(id)).filter((type) => type === 'compensation_drift').length, 0)
    assert.equal((await cancel(id)).changed, false)
  })

  test('[L13] [CAN-02] [CAN-07] reserved modes are refused, a finished command is left alone, strangers may not', async () => {
    const id = await room.submit({ subject: 's' }, { taskName: 'Echo' })
    const reserved = await cancelCommand(room.world, user, {
      workspaceId,
      commandId: id,
      cancellationMode: 'immediate',
    })
    assert.equal(reserved.ok ? '' : reserved.code, 'mode_reserved')
    const late = await cancelCommand(room.world, user, { workspaceId, commandId: id })
    assert.equal(late.ok ? '' : late.code, 'commands.cancel.succeeded')
    assert.ok((await typesOf(id)).includes('cancellation_ignored'))
    const stranger = actingFor(room.tenant.people.reader.principal, TRACE)
    const refused = await cancelCommand(room.world, stranger, { workspaceId, commandId: id })
    assert.equal(refused.ok ? '' : refused.code, 'commands.action.not_allowed')
  })

  test('[ERR-06] [ERR-11] transient errors wait 30 s, then 120 s, then the command fails with class and last error', async () => {
    const id = await room.submit({ subject: 's', steps: [BOOK_A] })
    room.provider.modes.push('fail_before', 'fail_before', 'fail_before')
    const start = room.clock.now().getTime()
    assert.equal(await room.settle(id), 'running')
    assert.equal(await room.settle(id), 'running')
    const asked = () => room.provider.calls.length
    const calls = asked()
    // A turn before the due time creates no approval; the turn at the due time does.
    room.clock.travel(29_999)
    assert.equal(await room.settle(id), 'running')
    assert.deepEqual([(await effectsOf(id))[0]?.attempt, asked()], [1, calls])
    room.clock.travel(1)
    await room.settle(id)
    assert.deepEqual([(await effectsOf(id))[0]?.attempt, asked()], [2, calls + 1])
    room.clock.travel(119_999)
    assert.equal(await room.settle(id), 'running')
    assert.deepEqual([(await effectsOf(id))[0]?.attempt, asked()], [2, calls + 1])
    room.clock.travel(1)
    assert.equal(await room.settle(id), 'failed')
    assert.equal(asked(), calls + 2)
    const told = await room.rows<{ payload: Record<string, unknown> }>(
      `select payload from concord.domain_events where command_id = $1 and event_type in ('retry_scheduled', 'effect_failed') order by seq`,
      [id],
    )
    const later = (ms: number) => new Date(start + ms).toISOString()
    const last = ['transient_connector_error', 'connection refused']
    assert.deepEqual(
      told.map(({ payload: { attempt, max_attempts, run_after, error_class, last_error } }) => [
        attempt,
        max_attempts,
        run_after,
        error_class,
        last_error,
      ]),
      [
        [1, 3, later(30_000), ...last],
        [2, 3, later(150_000), ...last],
        [3, 3, null, ...last],
      ],
    )
    const row = await rowOf(id)
    assert.deepEqual([row['error_class'], row['error']], ['transient_connector_error', 'connection refused'])
  })

  test('[ERR-04] [TST-06] a final error is tried once; another run keeps what succeeded and uses a new key', async () => {
    const id = await room.submit({ subject: 's', steps: [BOOK_A, BOOK_B] })
    room.provider.modes.push('ok', 'refuse')
    assert.equal(await room.settle(id), 'failed')
    assert.equal(await pathOf(id), 'created validated queued running failed')
    accepted(await retryCommand(room.world, user, { workspaceId, commandId: id, reason: 'fixed' }))
    assert.equal(await room.settle(id), 'succeeded')
    const effects = await effectsOf(id)
    assert.deepEqual(
      effects.map(({ effect_type, status, attempt }) => [effect_type, status, attempt]),
      [
        [BOOK_A, 'succeeded', 1],
        [BOOK_B, 'failed', 1],
        [BOOK_B, 'succeeded', 1],
      ],
    )
    assert.equal(effects[2]?.idempotency_key.endsWith(':r2'), true)
    assert.equal((await rowOf(id))['runtime_workflow_id'], `command:${id}:r2`)
  })

  test('[EFF-26] a failed command is undone by an operator and ends compensated; a cancel of a failed one ends it', async () => {
    const id = await room.submit({ subject: 's', steps: [BOOK_A, BOOK_B] })
    room.provider.modes.push('ok', 'refuse')
    await room.settle(id)
    const refused = await compensateCommand(room.world, user, { workspaceId, commandId: id })
    assert.equal(refused.ok ? '' : refused.code, 'commands.action.not_allowed')
    accepted(await compensateCommand(room.world, operator, { workspaceId, commandId: id }))
    assert.equal(await room.settle(id), 'compensated')
    const other = await room.submit({ subject: 's', decide: 'deny' })
    await room.settle(other)
    assert.ok((await cancel(other)).changed)
    assert.equal(await pathOf(other), 'created validated failed cancelled')
  })

  test('[EFF-24] drift is recorded; an undo that fails for good halts the chain and says how far it came', async () => {
    const drifting = await room.submit({ subject: 's', steps: ['work.drifting', BOOK_A] })
    room.provider.modes.push('ok', 'refuse')
    await room.settle(drifting)
    accepted(await compensateCommand(room.world, operator, { workspaceId, commandId: drifting }))
    assert.equal(await room.settle(drifting), 'compensated')
    const [told] = await room.rows<{ payload: Record<string, unknown> }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'compensation_drift'`,
      [drifting],
    )
    assert.deepEqual([told?.payload['drift'], told?.payload['missing']], [['work.something_else'], ['work.undrift']])

    const halted = await room.submit({ subject: 's', steps: [BOOK_A, BOOK_B, BOOK_C] })
    room.provider.modes.push('ok', 'ok', 'refuse')
    await room.settle(halted)
    accepted(await compensateCommand(room.world, operator, { workspaceId, commandId: halted }))
    room.provider.modes.push('refuse')
    assert.equal(await room.settle(halted), 'failed')
    const [partial] = await room.rows<{ payload: { completed: string[]; remaining: string[] } }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'compensation_drift'`,
      [halted],
    )
    assert.deepEqual([partial?.payload.completed.length, partial?.payload.remaining.length], [0, 1])
  })

  test('[ST-15] a move that the state does not allow is refused, recorded, and leaves the row as it was', async () => {
    const id = await room.submit({ subject: 's' }, { taskName: 'Echo' })
    const before = await rowOf(id)
    const retried = await retryCommand(room.world, operator, { workspaceId, commandId: id })
    assert.equal(retried.ok ? '' : retried.code, 'commands.command.not_failed')
    assert.deepEqual(await rowOf(id), before)
    const [told] = await room.rows<{ payload: Record<string, unknown> }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'status_change_refused'`,
      [id],
    )
    assert.deepEqual([told?.payload['from'], told?.payload['to']], ['succeeded', 'queued'])
  })
}
