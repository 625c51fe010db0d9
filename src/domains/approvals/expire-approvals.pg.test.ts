import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type ApprovalRoom, by, openApprovalRoom } from '#test/approvals'
import { TRACE } from '#test/tenant'
import { cancelApprovals } from './approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import { openApprovalDrive } from './drive-approval.ts'
import { appChannel } from './notify-approvers.ts'
import { expireApprovals } from './sweep-approvals.ts'
import { findPending } from './list-approvals.ts'

describe('approvals that end without an answer', () => {
  let room: ApprovalRoom
  before(async () => {
    room = await openApprovalRoom()
  })
  after(() => room.close())

  const sweep = (world = room.world, limit = 100) => expireApprovals(world, { limit, traceId: TRACE })
  const cancel = ({ workspace_id, command_id }: StoredApproval, more = {}) =>
    room.world.db.transaction((tx) =>
      cancelApprovals(tx, room.world.newId, by, {
        workspaceId: workspace_id,
        commandId: command_id,
        why: 'command_cancelled',
        ...more,
      }),
    )
  async function someOverdue(count: number): Promise<StoredApproval[]> {
    const list: StoredApproval[] = []
    for (let index = 0; index < count; index++) {
      const approval = await room.ask({ expiresInMinutes: 5 })
      await room.age(approval, 6)
      list.push(approval)
    }
    return list
  }

  test('two sweepers at once expire each overdue approval once, with its event, and leave the others alone', async () => {
    const [overdue, open] = [await someOverdue(30), await room.ask()]
    room.told.length = 0
    const swept = await Promise.all([sweep(), sweep()])
    assert.equal(swept[0].expired + swept[1].expired, 30)
    assert.deepEqual(
      room.told.map(({ next }) => next),
      Array.from({ length: 30 }, () => 'expire_command'),
    )
    for (const approval of overdue) {
      const row = await room.read(approval)
      assert.deepEqual([row.status, row.decided_at, row.decided_by], ['expired', null, null])
      assert.deepEqual(
        (await room.eventsOf(approval)).map(({ type }) => type),
        ['approval_requested', 'approval_expired'],
      )
    }
    assert.equal((await room.read(open)).status, 'pending')
    assert.deepEqual(await sweep(), { expired: 0, failed: [], more: false })
  })

  test('a batch is bounded and says that there is more', async () => {
    await someOverdue(3)
    assert.deepEqual(await sweep(room.world, 2), { expired: 2, failed: [], more: true })
    assert.deepEqual(await sweep(room.world, 2), { expired: 1, failed: [], more: false })
  })

  test('a command that cannot be moved keeps its approval open and does not hold up the others', async () => {
    const [stuck, fine] = await someOverdue(2)
    const world = room.with({
      onResolved: (_, { approval }) =>
        approval.approval_id === stuck?.approval_id ? Promise.reject(new Error('stuck')) : Promise.resolve(),
    })
    const { expired, failed } = await sweep(world)
    assert.equal(expired, 1)
    assert.deepEqual(
      failed.map(({ approvalId }) => approvalId),
      [stuck?.approval_id],
    )
    assert.equal((await room.read(stuck as StoredApproval)).status, 'pending')
    assert.equal((await room.read(fine as StoredApproval)).status, 'expired')
    assert.equal((await sweep()).expired, 1)
  })

  test('a quorum that was not reached in time is a refusal, no matter who approved', async () => {
    const approval = await room.ask({ approvalType: 'two_of_them' })
    await room.decide(approval, room.member(), 'approved')
    await room.age(approval, 60)
    await sweep()
    const late = await room.decide(approval, room.member(), 'approved')
    assert.equal(late.ok ? 'ok' : late.code, 'approval_expired')
    assert.equal((await room.read(approval)).status, 'expired')
  })

  test('one that expires closes the others of its command', async () => {
    const one = await room.ask({ expiresInMinutes: 5 })
    const two = await room.ask({ commandId: one.command_id, approver: 'role:legal' })
    await room.age(one, 6)
    await sweep()
    assert.deepEqual([(await room.read(one)).status, (await room.read(two)).status], ['expired', 'cancelled'])
    assert.equal((await room.read(two)).decision_reason, 'another_expired')
  })

  test('cancelling closes what is open, once, leaves what was decided, and a decision afterwards is refused', async () => {
    const one = await room.ask()
    const two = await room.ask({ commandId: one.command_id, approver: 'role:legal' })
    await room.decide(one, room.approver, 'approved')
    assert.deepEqual(
      (await cancel(one, { actorKind: 'user' })).map(({ approval_id }) => approval_id),
      [two.approval_id],
    )
    assert.deepEqual(await cancel(one), [])
    assert.equal((await room.read(one)).status, 'approved')
    const late = await room.decide(two, { ...room.member(), orgRoles: ['legal'] }, 'approved')
    assert.equal(late.ok ? 'ok' : late.code, 'approvals.approval.cancelled')
    assert.deepEqual(late.ok ? {} : late.facts, { status: 'cancelled', why: 'command_cancelled' })
    assert.deepEqual(await findPending(room.world.db, { workspaceId: one.workspace_id, commandId: one.command_id }), [])
  })

  test('cancelling rolls back with its transaction, and knows its workspace', async () => {
    const approval = await room.ask()
    await assert.rejects(
      room.world.db.transaction(async (tx) => {
        await cancelApprovals(tx, room.world.newId, by, {
          workspaceId: approval.workspace_id,
          commandId: approval.command_id,
          why: 'x',
        })
        throw new Error('the command had ended')
      }),
      /had ended/,
    )
    assert.deepEqual(await cancel({ ...approval, workspace_id: room.theirs.workspace.id }), [])
    assert.equal((await room.read(approval)).status, 'pending')
  })

  test('[APR-17] requested, notified, decided, expired and cancelled each leave an audit row with actor and target', async () => {
    const [decided, expired, cancelled] = [await room.ask(), await room.ask({ expiresInMinutes: 5 }), await room.ask()]
    const drive = openApprovalDrive({
      ...room.world,
      channels: [appChannel],
      random: () => 0.5,
      newTraceId: () => TRACE,
    })
    const fence = { token: '', turn: 'turn:approval:test:1', attempt: 1, signal: new AbortController().signal }
    for (let time = 0; time < 3; time++) await drive(decided.approval_id, fence)
    await room.decide(decided, room.approver, 'rejected')
    await room.age(expired, 6)
    await sweep()
    await cancel(cancelled)
    const rows = [decided, expired, cancelled].map(async (approval) =>
      (await room.eventsOf(approval)).map(({ type, purpose, actor, payload }) => {
        assert.deepEqual([payload['target_type'], payload['target_id']], ['approval', approval.approval_id])
        return `${purpose} ${type} ${actor}`
      }),
    )
    assert.deepEqual((await Promise.all(rows)).flat(), [
      'audit approval_requested system',
      'audit approval_notified system',
      `audit approval_decided user:${room.approver.userId}`,
      'audit approval_requested system',
      'audit approval_expired system',
      'audit approval_requested system',
      'audit approval_cancelled system',
    ])
    const [said] = (await room.eventsOf(decided)).slice(-1)
    assert.deepEqual([said?.payload['decision'], said?.payload['reason']], ['rejected', 'because'])
  })
})
