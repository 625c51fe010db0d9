/** An undo that stops, is cancelled, is in doubt or waits: what is undone by then, and how the rest is undone. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { findBrokenInvariants } from '#domains/commands'
import { outcomeOf } from '#test/api'
import { historyFaults } from '#test/commands'
import { A, B, C, LIMITED, OPAQUE, TICKET, openUndoStory, type Preview, type View } from '#test/undo-story'

const { room, writer, admin, uuidOf, get, post, settle, calls, done, answer, undo, close } = await openUndoStory()

describe('an undo that does not go through at once', () => {
  after(close)

  test('[D1] [EFF-24] an undo that stops tells operators how far it got; retried, it undoes the rest and nothing twice', async () => {
    const id = await done([A, B, C])
    room.provider.modes.push('ok', 'refuse')
    const undoId = await undo(id)
    const view = await get(`/commands/${undoId}`)
    assert.deepEqual([view.status, view.error], ['failed', 'the provider says no'])
    const [drift] = await room.rows<{ payload: { completed: string[]; remaining: string[] } }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'compensation_drift'`,
      [uuidOf(undoId)],
    )
    assert.deepEqual([drift?.payload.completed.length, drift?.payload.remaining.length], [1, 1])
    assert.deepEqual((await get(`/commands/${id}`)).undo, { command_id: undoId, status: 'failed' })
    const left = await get<Preview>(`/commands/${id}/undo`)
    assert.deepEqual(
      left.undone.map(({ effect_type }) => effect_type),
      [B, A],
    )
    assert.equal((await post(`/commands/${undoId}/retry`, {}, admin())).status, 200)
    assert.equal(await settle(undoId), 'succeeded')
    assert.deepEqual(calls(), ['hotel.cancel_c', 'hotel.cancel_b', 'hotel.cancel_b', 'hotel.cancel_a'])
  })

  test('[D1] after an undo that stopped a new one goes on; the first, retried later, finds nothing left', async () => {
    const id = await done([A, B])
    room.provider.modes.push('ok', 'refuse')
    const first = await undo(id)
    const second = await undo(id)
    assert.notEqual(second, first)
    assert.deepEqual(calls(), ['hotel.cancel_b', 'hotel.cancel_a', 'hotel.cancel_a'])
    const late = await post(`/commands/${first}/retry`, {}, admin())
    assert.equal(await outcomeOf(late), '409 commands.contract_key.taken')
    assert.equal(await settle(first), 'failed')
    assert.equal(calls().length, 3)
  })

  test('[D1] a cancelled undo finishes the step under way and undoes no more; another undo does the rest', async () => {
    const id = await done([A, B])
    room.provider.modes.push('fail_before')
    const first = await undo(id)
    assert.equal((await get(`/commands/${first}`)).status, 'running')
    assert.equal((await post(`/commands/${first}/cancel`, {}, admin())).status, 200)
    assert.equal(await settle(first), 'cancelled')
    const second = await undo(id)
    assert.equal((await get(`/commands/${second}`)).status, 'succeeded')
    assert.deepEqual(calls(), ['hotel.cancel_b', 'hotel.cancel_b', 'hotel.cancel_a'])
  })

  test('[D1] [EFF-25] an undo in doubt asks a person before it goes on, and a cancel waits for the answer', async () => {
    const id = await done([A, OPAQUE])
    room.provider.modes.push('fail_after')
    const undoId = await undo(id, writer())
    await answer(undoId, 'approved')
    await settle(undoId)
    const asked = await get(`/commands/${undoId}`)
    assert.equal(asked.status, 'blocked')
    assert.ok(asked.next.some(({ action }) => action === 'reconcile_effect'))
    // A role that the requester grants after the request does not count for the answer.
    const [question] = await room.rows<{ is_dated: boolean }>(
      `select (a.request_payload->>'requested_at')::timestamptz = c.created_at as is_dated
       from concord.approvals as a join concord.commands as c using (command_id)
       where c.command_id = $1 and a.approval_type = 'reconcile_effect'`,
      [uuidOf(undoId)],
    )
    assert.equal(question?.is_dated, true)
    const doubt = await get<Preview>(`/commands/${id}/undo`)
    assert.deepEqual(
      doubt.kept.map(({ effect_type, why }) => [effect_type, why]),
      [
        [OPAQUE, 'in_doubt'],
        [A, 'in_doubt'],
      ],
    )
    await answer(undoId, 'approved')
    assert.equal(await settle(undoId), 'succeeded')
    assert.deepEqual(calls(), ['tour.unopaque', 'hotel.cancel_a'])

    const other = await done([A, OPAQUE])
    room.provider.modes.push('fail_after')
    const stopped = await undo(other, writer())
    await answer(stopped, 'approved')
    await settle(stopped)
    await post(`/commands/${stopped}/cancel`, {}, admin())
    assert.equal(await settle(stopped), 'cancelling')
    await answer(stopped, 'rejected')
    assert.equal(await settle(stopped), 'cancelled')
    assert.deepEqual(calls(), ['tour.unopaque'])
  })

  test('[D1] [D5] an undone command frees the key of its contract: the same request becomes a new command; one undone in part does not', async () => {
    const request = (subject: string, steps: readonly string[]) => ({
      task_name: 'Booking',
      payload: { subject, steps },
    })
    const book = async (subject: string, steps: readonly string[]) => {
      const asked = await post('/commands', request(subject, steps))
      const { command_id } = (await asked.json()) as View
      await settle(command_id)
      return { status: asked.status, command_id }
    }
    const whole = await book('undone', [A, B])
    await undo(whole.command_id)
    const again = await book('undone', [A, B])
    assert.equal(again.status, 202)
    assert.notEqual(again.command_id, whole.command_id)
    assert.deepEqual(calls().slice(-2), ['book_a', 'book_b'])
    const part = await book('partly', [A, TICKET])
    await undo(part.command_id)
    assert.deepEqual(await book('partly', [A, TICKET]), { status: 200, command_id: part.command_id })
  })

  const book = async (subject: string, steps: readonly string[], ...modes: typeof room.provider.modes) => {
    const request = { task_name: 'Booking', payload: { subject, steps }, cancellation_mode: 'graceful' }
    room.provider.modes.push(...modes)
    const asked = await post('/commands', request)
    const { command_id: id } = (await asked.json()) as View
    await settle(id)
    room.provider.calls.length = 0
    return { id, isNew: asked.status === 202 }
  }
  const offered = async (id: string) => (await get(`/commands/${id}`)).next.map(({ action }) => action)

  test('[3] [CAN-06] a command that was cancelled gracefully can be undone, last effect first; then its key is free', async () => {
    const { id } = await book('left behind', [A, B, C], 'ok', 'ok', 'fail_before')
    await post(`/commands/${id}/cancel`, {})
    assert.equal(await settle(id), 'cancelled')
    assert.deepEqual(await offered(id), ['undo'])
    assert.equal((await book('left behind', [A, B, C])).id, id)
    await undo(id)
    assert.deepEqual(calls(), ['hotel.cancel_b', 'hotel.cancel_a'])
    assert.equal((await get(`/commands/${id}`)).status, 'cancelled')
    assert.equal((await book('left behind', [A, B, C])).isNew, true)
  })

  test('[3] an administrator frees the key that effects without an undo hold, and nobody else; what can be undone must be undone first', async () => {
    const free = (id: string, key = admin()) => post(`/commands/${id}/cancel`, { force: true, reason: 'seen' }, key)
    const failed = await book('final', [TICKET, B], 'ok', 'refuse')
    await post(`/commands/${failed.id}/cancel`, {})
    const undone = await book('undone in part', [TICKET, A])
    assert.deepEqual(await outcomeOf(await free(undone.id)), '409 commands.cancel.succeeded')
    await undo(undone.id)
    const whole = await book('whole', [TICKET])
    for (const [{ id }, subject, steps, next] of [
      [failed, 'final', [TICKET, B], ['free_key']],
      [undone, 'undone in part', [TICKET, A], ['free_key']],
      [whole, 'whole', [TICKET], []],
    ] as const) {
      assert.deepEqual(await offered(id), next)
      assert.equal((await book(subject, steps)).id, id)
      assert.equal(await outcomeOf(await free(id, writer())), '403 commands.action.not_allowed')
      const { status } = await get(`/commands/${id}`)
      assert.deepEqual([(await free(id)).status, (await get(`/commands/${id}`)).status], [200, status])
      assert.deepEqual(await offered(id), ['submit_again'])
      assert.equal((await book(subject, steps)).isNew, true)
    }
    const [event] = await room.rows(
      `select payload - 'target_id' - 'target_type' as payload from concord.domain_events where command_id = $1 and event_type = 'contract_key_changed'`,
      [uuidOf(failed.id)],
    )
    assert.deepEqual(event?.['payload'], {
      from: 'booking:final',
      to: null,
      reason: 'released',
      cancellation_mode: 'graceful',
      cancel_reason: 'seen',
      cancelled_by: `user:${room.tenant.people.admin.principal.userId}`,
    })
  })

  test('[D1] [5] an undo that waited runs what was approved, or asks again', async () => {
    const id = await done([A, LIMITED])
    const undoId = await undo(id, writer())
    room.clock.travel(61_000)
    await answer(undoId, 'approved')
    await settle(undoId)
    assert.deepEqual([calls(), (await get(`/commands/${undoId}`)).status], [[], 'waiting_for_approval'])
    await answer(undoId, 'approved')
    assert.equal(await settle(undoId), 'succeeded')
    assert.deepEqual(calls(), ['hotel.cancel_a'])
  })

  test('[D1] what was undone breaks no promise of the room', async () => {
    assert.deepEqual(await findBrokenInvariants(room.db), [])
    assert.deepEqual(await historyFaults(room), [])
  })
})
