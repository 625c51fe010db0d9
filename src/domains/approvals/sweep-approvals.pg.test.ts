import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type ApprovalRoom, openApprovalRoom } from '#test/approvals'
import { accepted, TRACE } from '#test/tenant'
import { escalateApprovals, listDueReminders, remindApprovers } from './sweep-approvals.ts'
import type { ApprovalNotice, Notify } from './deps.ts'

describe('reminders and escalation', () => {
  let room: ApprovalRoom
  let sent: ApprovalNotice[]
  const notify: Notify = (_, notice) => {
    sent.push(notice)
    return Promise.resolve()
  }
  before(async () => {
    room = await openApprovalRoom()
  })
  after(() => room.close())

  const remind = async () => (await remindApprovers(room.world, notify, { traceId: TRACE })).sent

  test('each reminder of the type is sent once, by one of many sweepers, while the approval is open', async () => {
    sent = []
    const approval = await room.ask({ approvalType: 'patient' })
    assert.equal(await remind(), 0)
    await room.age(approval, 10)
    assert.deepEqual(
      (await listDueReminders(room.world.db)).map(({ approval_id, reminder }) => [approval_id, reminder]),
      [[approval.approval_id, 1]],
    )
    const counts = await Promise.all(Array.from({ length: 6 }, remind))
    assert.equal(
      counts.reduce((sum, count) => sum + count, 0),
      1,
    )
    assert.deepEqual(
      sent.map(({ approval: { approval_id }, why }) => [approval_id, why]),
      [[approval.approval_id, 'reminder']],
    )
    await room.age(approval, 10)
    assert.equal(await remind(), 1)
    assert.equal(await remind(), 0)
    const reminded = (await room.eventsOf(approval)).filter(({ type }) => type === 'approval_reminded')
    assert.deepEqual(
      reminded.map(({ payload }) => payload['reminder']),
      [1, 2],
    )
  })

  test('after both reminders are due only the last one is sent; a closed approval gets none', async () => {
    sent = []
    const [slept, closed] = [await room.ask({ approvalType: 'patient' }), await room.ask({ approvalType: 'patient' })]
    for (const approval of [slept, closed]) await room.age(approval, 25)
    accepted(await room.decide(closed, room.approver, 'approved'))
    assert.equal(await remind(), 1)
    assert.deepEqual((await room.eventsOf(slept)).at(-1)?.payload['reminder'], 2)
    assert.equal(await remind(), 0)
  })

  /** Writes for everybody but this one. */
  const notifyBut =
    (broken: { readonly approval_id: string }): Notify =>
    (tx, notice) =>
      notice.approval.approval_id === broken.approval_id ? Promise.reject(new Error('outbox')) : notify(tx, notice)

  test('a notice that cannot be written is not recorded either, keeps no other waiting, and is sent next time', async () => {
    sent = []
    const [broken, whole] = [await room.ask({ approvalType: 'patient' }), await room.ask({ approvalType: 'patient' })]
    for (const approval of [broken, whole]) await room.age(approval, 10)
    const swept = await remindApprovers(room.world, notifyBut(broken), { traceId: TRACE })
    assert.equal(swept.sent, 1)
    assert.deepEqual(
      swept.failed.map(({ approvalId, error }) => [approvalId, (error as Error).message]),
      [[broken.approval_id, 'outbox']],
    )
    assert.deepEqual([(await room.eventsOf(broken)).length, (await room.eventsOf(whole)).length], [1, 2])
    assert.equal(await remind(), 1)
  })

  test('an escalation that cannot be told is undone alone, and made next time', async () => {
    sent = []
    const [broken, whole] = [await room.ask({ approvalType: 'patient' }), await room.ask({ approvalType: 'patient' })]
    for (const approval of [broken, whole]) await room.age(approval, 30)
    const swept = await escalateApprovals(room.world, notifyBut(broken), { traceId: TRACE })
    const ids = swept.escalated.map(({ approval_id }) => approval_id)
    assert.ok(ids.includes(whole.approval_id) && !ids.includes(broken.approval_id))
    assert.deepEqual(
      swept.failed.map(({ approvalId }) => approvalId),
      [broken.approval_id],
    )
    assert.deepEqual((await room.read(broken)).approver_roles, [])
    assert.equal((await room.eventsOf(broken)).length, 1)
    const next = await escalateApprovals(room.world, notify, { traceId: TRACE })
    assert.deepEqual(
      next.escalated.map(({ approval_id }) => approval_id),
      [broken.approval_id],
    )
  })

  test('after its time the next role may decide too, once, and only for open approvals', async () => {
    sent = []
    const board = { ...room.member(), orgRoles: ['board'] }
    const approval = await room.ask({ approvalType: 'patient' })
    const early = await room.decide(approval, board, 'approved')
    assert.equal(early.ok ? 'ok' : early.code, 'approvals.approver.not_asked')
    await room.age(approval, 30)
    const sweeps = await Promise.all(
      Array.from({ length: 6 }, () => escalateApprovals(room.world, notify, { traceId: TRACE })),
    )
    assert.equal(
      sweeps.flatMap(({ escalated }) => escalated).filter(({ approval_id }) => approval_id === approval.approval_id)
        .length,
      1,
    )
    assert.deepEqual((await room.read(approval)).approver_roles, ['board'])
    assert.deepEqual(
      sent.map(({ why }) => why),
      ['escalation'],
    )
    assert.deepEqual((await escalateApprovals(room.world, notify, { traceId: TRACE })).escalated, [])
    assert.equal((await room.eventsOf(approval)).at(-1)?.type, 'approval_escalated')
    accepted(await room.decide(approval, board, 'approved'))
  })
})
