import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aContent, type ApprovalRoom, by, openApprovalRoom } from '#test/approvals'
import { accepted } from '#test/tenant'
import { openDb } from '#store'
import { approvalHash } from './stored-approval.ts'
import { cancelApprovals } from './approval.ts'
import { requestApproval, supersedeApprovals } from './request-approval.ts'
import { checkApproved, findPending } from './list-approvals.ts'

describe('asking', () => {
  let room: ApprovalRoom
  before(async () => {
    room = await openApprovalRoom()
  })
  after(() => room.close())

  const send = (request: Parameters<typeof requestApproval>[3]) =>
    room.world.db.transaction((tx) => requestApproval(tx, room.world, by, request))

  test('[APR-05] twenty parallel requests and a replay are one row and one event', async () => {
    const request = await room.request()
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(request)))
    const rows = answers.map(accepted)
    assert.equal(rows.filter(({ inserted }) => inserted).length, 1)
    assert.equal(new Set(rows.map(({ approval }) => approval.approval_id)).size, 1)
    const replayed = accepted(await send(request))
    assert.equal(replayed.inserted, false)
    const [count] = await room.world.db.query(
      'select count(*)::int as n from concord.approvals where command_id = $1',
      [request.commandId],
    )
    assert.deepEqual(count, { n: 1 })
    assert.deepEqual(
      (await room.eventsOf(replayed.approval)).map(({ type }) => type),
      ['approval_requested'],
    )
  })

  test('[APR-01] the row holds who asks whom about what, bound by hash, with the deadline of its type', async () => {
    const request = await room.request({
      approver: 'data_owner',
      approverRoles: ['cfo'],
      approvers: [room.approver.userId],
    })
    const { approval } = accepted(await send(request))
    assert.equal(approval.status, 'pending')
    assert.equal(approval.requested_by, `user:${room.requester.userId}`)
    assert.equal(approval.approver, 'role:data-owner')
    assert.deepEqual(approval.approver_roles, ['cfo'])
    assert.deepEqual(approval.request_payload.approvers, [`user:${room.approver.userId}`])
    assert.equal(approval.payload_hash, approvalHash(aContent()))
    assert.deepEqual(approval.request_payload.arguments, aContent().arguments)
    assert.equal(approval.self_decision_allowed, false)
    const minutes = (Number(approval.expires_at) - Number(approval.created_at)) / 60_000
    assert.ok(Math.abs(minutes - 3 * 24 * 60) < 1, String(minutes))
    assert.equal(approval.review_packet.expiration, approval.expires_at?.toISOString())
  })

  test('[APR-14] several approvers are several questions, each with its key', async () => {
    const request = await room.request()
    const keys = []
    for (const approver of ['role:finance', 'role:legal'])
      keys.push(accepted(await send({ ...request, approver })).approval.idempotency_key)
    assert.deepEqual(
      keys,
      ['role:finance', 'role:legal'].map((who) => `approval:${request.commandId}:command_approval:${who}`),
    )
    assert.equal((await findPending(room.world.db, request)).length, 2)
  })

  test('the type decides about self-decision and quorum; a request only tightens', async () => {
    const hotel = {
      approvalType: 'hotel_booking_approval',
      content: { ...aContent(), arguments: { booking_draft_id: 'b1', hotel_name: 'Ritz' } },
    }
    const own = await room.ask(hotel)
    assert.equal(own.approver, `user:${room.requester.userId}`)
    assert.equal(own.self_decision_allowed, true)
    const strict = await room.ask({
      ...hotel,
      approverRoles: ['finance'],
      selfDecisionAllowed: false,
      approvalsRequired: 2,
      expiresInMinutes: 5,
    })
    assert.equal(strict.self_decision_allowed, false)
    assert.equal(strict.approvals_required, 2)
    assert.equal(Math.round((Number(strict.expires_at) - Number(strict.created_at)) / 60_000), 5)
    const loose = await room.ask({ selfDecisionAllowed: true, expiresInMinutes: 1_000_000 })
    assert.equal(loose.self_decision_allowed, false)
    assert.equal(Math.round((Number(loose.expires_at) - Number(loose.created_at)) / 60_000), 3 * 24 * 60)
    const two = await room.ask({ approvalType: 'two_of_them', approvalsRequired: 1 })
    assert.equal(two.approvals_required, 2)
  })

  const refused: readonly [title: string, code: string, more: Parameters<ApprovalRoom['request']>[0]][] = [
    ['a type that nobody registered', 'approvals.type.unknown', { approvalType: 'comand_approval' }],
    [
      '[APR-18] a required field that is missing',
      'approvals.field.missing',
      { approvalType: 'hotel_booking_approval' },
    ],
    ['an effect question without an effect', 'approvals.field.missing', { approvalType: 'reconcile_effect' }],
    ['an approver that is nobody', 'approvals.approver.unresolved', { approver: 'user:somebody' }],
    ['no approver', 'approvals.approver.unresolved', { approver: '' }],
    [
      '[APR-03] a packet without a reason',
      'approvals.packet.incomplete',
      { packet: { requestedAction: 'x', why: ' ', affected: ['a'], policy: 'p', afterApproval: 'z' } },
    ],
  ]
  for (const [title, code, more] of refused) {
    test(`${title} is refused and writes nothing`, async () => {
      const request = await room.request(more)
      const answer = await send(request)
      assert.equal(answer.ok ? 'ok' : answer.code, code)
      const rows = await room.world.db.query('select from concord.approvals where command_id = $1', [request.commandId])
      assert.equal(rows.length, 0)
    })
  }

  test('only the requester is named and may not decide: nobody could, so it is refused', async () => {
    const answer = await send(await room.request({ approver: room.requester.userId }))
    assert.equal(answer.ok ? 'ok' : answer.code, 'approvals.quorum.unreachable')
  })

  test('the same question about another content is refused until the open one is closed', async () => {
    const request = await room.request()
    const first = accepted(await send(request)).approval
    const changed = { ...request, content: aContent('90.00') }
    const answer = await send(changed)
    assert.equal(answer.ok ? 'ok' : answer.code, 'key_reused')
    await room.world.db.transaction((tx) =>
      cancelApprovals(tx, room.world.newId, by, {
        workspaceId: request.workspaceId,
        commandId: request.commandId,
        why: 'payload_changed',
      }),
    )
    const second = accepted(await send(changed))
    assert.equal(second.inserted, true)
    assert.equal(second.approval.idempotency_key, `${first.idempotency_key}:r2`)
    assert.equal((await room.read(first)).superseded_by, second.approval.approval_id)
  })

  test('after changes were asked for the next round is a fresh row, also for the same content, and only one of twenty', async () => {
    const request = await room.request()
    const [finance, legal] = [
      accepted(await send(request)).approval,
      accepted(await send({ ...request, approver: 'role:legal' })).approval,
    ]
    accepted(await room.decide(finance, room.approver, 'request_changes'))
    const again = (await Promise.all(Array.from({ length: 20 }, () => send(request)))).map(accepted)
    assert.equal(again.filter(({ inserted }) => inserted).length, 1)
    const fresh = again[0]?.approval
    assert.ok(fresh && fresh.approval_id !== finance.approval_id)
    // Only the same question gives way: the role that was closed along with it has still not agreed.
    assert.equal((await room.read(finance)).superseded_by, fresh.approval_id)
    assert.equal((await room.read(legal)).superseded_by, null)
    const [requested] = await room.eventsOf(fresh)
    assert.deepEqual(requested?.payload['supersedes'], [finance.approval_id])
    // The other role is asked once more too, and without both of them nothing runs.
    const second = accepted(await send({ ...request, approver: 'role:legal' }))
    assert.equal(second.inserted, true)
    assert.equal((await room.read(legal)).superseded_by, second.approval.approval_id)
    accepted(await room.decide(fresh, room.approver, 'approved'))
    const check = await checkApproved(room.world.db, { ...request, payloadHash: fresh.payload_hash })
    assert.equal(check.ok ? 'ok' : check.code, 'approvals.approval.missing')
  })

  const gates: readonly [title: string, other: Partial<Awaited<ReturnType<ApprovalRoom['request']>>>][] = [
    ['role', { approver: 'role:legal' }],
    ['type', { approvalType: 'patient' }],
  ]
  for (const [title, other] of gates) {
    test(`[APR-14] asking one ${title} again does not do away with the gate of the other`, async () => {
      const request = await room.request()
      const asked = accepted(await send(request)).approval
      const silent = accepted(await send({ ...request, ...other })).approval
      accepted(await room.decide(asked, room.approver, 'request_changes'))
      const { approval } = accepted(await send(request))
      assert.equal(accepted(await room.decide(approval, room.approver, 'approved')).next, 'wait')
      const check = await checkApproved(room.world.db, { ...request, payloadHash: approval.payload_hash })
      assert.equal(check.ok ? 'ok' : check.code, 'approvals.approval.missing')
      assert.equal((await room.read(silent)).superseded_by, null)
    })
  }

  test('a whole set of questions takes the place of the one before: who is not in it has no gate any more', async () => {
    const request = await room.request()
    const [finance, legal] = [
      accepted(await send(request)).approval,
      accepted(await send({ ...request, approver: 'role:legal' })).approval,
    ]
    accepted(await room.decide(finance, room.approver, 'approved'))
    const { workspaceId, commandId } = request
    const replace = () =>
      room.world.db.transaction((tx) =>
        supersedeApprovals(tx, room.world, by, { workspaceId, commandId, why: 'policy_changed', requests: [request] }),
      )
    // The same content and approved before: it stays, and the question that fell away is out of its way.
    const [stays] = accepted(await replace())
    assert.equal(stays?.approval_id, finance.approval_id)
    assert.equal((await room.read(legal)).superseded_by, finance.approval_id)
    const check = await checkApproved(room.world.db, { ...request, payloadHash: finance.payload_hash })
    assert.equal(check.ok ? 'ok' : check.code, 'ok')
  })

  test('[EVT-11] an event that cannot be written takes the request along', async () => {
    const owner = openDb({ url: room.opened.url, poolMax: 1 })
    const request = await room.request()
    await owner.query(
      `alter table concord.journal add constraint planted_ck check (strpos(events::text, '"approval_requested"') = 0) not valid`,
    )
    try {
      await assert.rejects(send(request), { constraint: 'planted_ck' })
    } finally {
      await owner.query('alter table concord.journal drop constraint planted_ck')
      await owner.close()
    }
    assert.deepEqual(await findPending(room.world.db, request), [])
  })
})
