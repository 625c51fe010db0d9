import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aContent, type ApprovalRoom, openApprovalRoom } from '#test/approvals'
import { accepted, TRACE } from '#test/tenant'
import { type Decision, type Refusal } from '#kernel/refusal'
import { expireApprovals } from './sweep-approvals.ts'
import type { StoredApproval } from './stored-approval.ts'

describe('deciding', () => {
  let room: ApprovalRoom
  before(async () => {
    room = await openApprovalRoom()
  })
  after(() => room.close())

  const refusalOf = (decision: Decision<unknown>): Refusal => {
    assert.equal(decision.ok, false)
    return decision
  }
  const wroteOf = async ({ command_id }: StoredApproval) => {
    const [command] = await room.world.db.query<{ error: string | null }>(
      'select error from concord.commands where command_id = $1',
      [command_id],
    )
    return command?.error
  }

  /** Written out: the answer, the state it leads to, and what the owner does. */
  const answers = [
    ['approved', 'approved', 'run_command'],
    ['rejected', 'rejected', 'fail_command'],
    ['request_changes', 'changes_requested', 'ask_for_input'],
  ] as const
  for (const [decision, status, next] of answers) {
    test(`[APR-04] ${decision}: one row, one audit event with who, what and why, and the owner's write in one commit`, async () => {
      const approval = await room.ask()
      const decided = accepted(await room.decide(approval, room.approver, decision))
      assert.equal(decided.next, next)
      const row = await room.read(approval)
      assert.deepEqual(
        [row.status, row.decided_by, row.decision_reason],
        [status, `user:${room.approver.userId}`, 'because'],
      )
      assert.ok(row.decided_at)
      assert.equal(await wroteOf(approval), next)
      const [, event, ...more] = await room.eventsOf(approval)
      assert.equal(more.length, 0)
      assert.deepEqual(
        [
          event?.type,
          event?.purpose,
          event?.actor,
          event?.payload['decision'],
          event?.payload['reason'],
          event?.payload['target_id'],
        ],
        ['approval_decided', 'audit', `user:${room.approver.userId}`, decision, 'because', approval.approval_id],
      )
    })
  }

  test('[APR-12] a second decision is refused with who was first and when, and the first stands', async () => {
    const approval = await room.ask()
    const first = accepted(await room.decide(approval, room.approver, 'rejected')).approval
    for (const decision of ['approved', 'rejected', 'request_changes']) {
      const { code, reason, facts } = refusalOf(await room.decide(approval, room.member(), decision))
      assert.equal(code, 'approval_decided')
      assert.equal(
        reason,
        `This was already rejected at ${first.decided_at?.toISOString()}. The first decision counts.`,
      )
      assert.deepEqual(facts, {
        status: 'rejected',
        decided_by: `user_${room.approver.userId.replaceAll('-', '')}`,
        decided_at: first.decided_at?.toISOString(),
      })
    }
    assert.deepEqual(await room.read(approval), { ...first, request_payload: approval.request_payload })
  })

  test('[APR-12] a late decision is refused with the time, before and after the sweep', async () => {
    const approval = await room.ask()
    await room.age(approval, 3 * 24 * 60)
    const { expires_at } = await room.read(approval)
    const { code, facts } = refusalOf(await room.decide(approval, room.approver, 'approved'))
    assert.equal(code, 'approval_expired')
    assert.deepEqual(facts, { expired_at: expires_at?.toISOString() })
    assert.equal((await room.read(approval)).status, 'pending')
    await expireApprovals(room.world, { traceId: TRACE })
    assert.equal((await room.read(approval)).status, 'expired')
    assert.equal(refusalOf(await room.decide(approval, room.approver, 'approved')).code, 'approval_expired')
  })

  test('before the deadline a decision counts, at the deadline it does not', async () => {
    const approval = await room.ask()
    await room.world.db.query(
      `update concord.approvals set expires_at = statement_timestamp() where approval_id = $1`,
      [approval.approval_id],
    )
    assert.equal(refusalOf(await room.decide(approval, room.approver, 'approved')).code, 'approval_expired')
    await room.world.db.query(
      `update concord.approvals set expires_at = statement_timestamp() + interval '1 hour' where approval_id = $1`,
      [approval.approval_id],
    )
    accepted(await room.decide(approval, room.approver, 'approved'))
  })

  test('[APR-13] only who was asked may decide: not the requester, not an agent, not another role, not an administrator', async () => {
    const approval = await room.ask()
    const cases = [
      [{ ...room.requester, orgRoles: ['finance'] }, 'self_approval'],
      [{ ...room.approver, externalId: 'agent:planner' }, 'agents_cannot_decide'],
      [{ ...room.approver, orgRoles: ['sales'] }, 'approvals.approver.not_asked'],
      [room.ours.people.admin.principal, 'approvals.approver.not_asked'],
    ] as const
    for (const [decider, code] of cases) {
      for (const decision of ['approved', 'rejected'])
        assert.equal(refusalOf(await room.decide(approval, decider, decision)).code, code)
    }
    assert.equal((await room.read(approval)).status, 'pending')
    assert.equal((await room.eventsOf(approval)).length, 1)
  })

  test('[APR-13] a named person, a person beside the first one, and a member of a role beside it may decide', async () => {
    const named = room.member()
    const beside = { ...room.member(), orgRoles: [] }
    const board = { ...room.member(), orgRoles: ['board'] }
    for (const decider of [named, beside, board]) {
      const approval = await room.ask({ approver: named.userId, approvers: [beside.userId], approverRoles: ['board'] })
      accepted(await room.decide(approval, { ...decider, orgRoles: decider === board ? ['board'] : [] }, 'approved'))
      assert.equal((await room.read(approval)).status, 'approved')
    }
  })

  test('[APR-13] where the type lets the requester decide, it may; what was copied when asked counts', async () => {
    const content = { ...aContent(), arguments: { booking_draft_id: 'b1', hotel_name: 'Ritz' } }
    const approval = await room.ask({ approvalType: 'hotel_booking_approval', content })
    accepted(await room.decide(approval, room.requester, 'approved'))
    assert.equal((await room.read(approval)).status, 'approved')
  })

  test('[SEC-08] an approval of another tenant does not exist, by id with either workspace', async () => {
    const approval = await room.ask()
    for (const workspaceId of [room.theirs.workspace.id, '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161']) {
      const answer = await room.decide(
        approval,
        { ...room.theirs.people.admin.principal, orgRoles: ['finance'] },
        'approved',
        { workspaceId },
      )
      assert.equal(refusalOf(answer).code, 'row.not_found')
    }
    assert.equal((await room.read(approval)).status, 'pending')
  })

  test('[APR-18] a decision that the type does not take is refused with the ones it takes', async () => {
    const { code, facts } = refusalOf(await room.decide(await room.ask(), room.approver, 'maybe'))
    assert.deepEqual([code, facts], ['decision_value', { allowed: ['approved', 'rejected', 'request_changes'] }])
    const override = refusalOf(
      await room.decide(await room.ask({ approvalType: 'override' }), room.approver, 'request_changes'),
    )
    assert.deepEqual(override.facts, { allowed: ['approved', 'rejected'] })
  })

  test('[APR-19] an override and an escalation need a reason also for yes, and leave an audit row', async () => {
    for (const approvalType of ['override', 'escalation']) {
      const approval = await room.ask({ approvalType })
      for (const reason of [undefined, '', ' \n']) {
        assert.equal(
          refusalOf(await room.decide(approval, room.approver, 'approved', { reason })).code,
          'approvals.reason.missing',
        )
      }
      accepted(await room.decide(approval, room.approver, 'approved', { reason: 'The flood.' }))
      assert.equal((await room.eventsOf(approval)).at(-1)?.payload['reason'], 'The flood.')
    }
    // An ordinary yes needs none, an ordinary no does.
    const approval = await room.ask()
    assert.equal(
      refusalOf(await room.decide(approval, room.approver, 'rejected', { reason: undefined })).code,
      'approvals.reason.missing',
    )
    accepted(await room.decide(approval, room.approver, 'approved', { reason: undefined }))
  })
})
