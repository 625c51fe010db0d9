import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aContent, type ApprovalRoom, openApprovalRoom } from '#test/approvals'
import { countRoundTrips } from '#test/round-trips'
import { accepted, TRACE } from '#test/tenant'
import { type Decision, type Refusal } from '#kernel/refusal'
import { openDb } from '#store'
import { approvalHash, type StoredApproval } from './stored-approval.ts'
import { decideApproval } from './decide-approval.ts'
import { checkApproved } from './list-approvals.ts'
import { byPerson } from '#kernel/actor'

describe('what a decision is bound to', () => {
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

  test('[APR-15] another hash than the one on the row, or than what would run now, is refused', async () => {
    const approval = await room.ask()
    const old = refusalOf(
      await room.decide(approval, room.approver, 'approved', { payloadHash: approvalHash(aContent('1.00')) }),
    )
    assert.deepEqual([old.code, old.facts], ['payload_changed', { payload_hash: approval.payload_hash }])
    const moved = room.with({ lockCommand: () => Promise.resolve({ payloadHash: approvalHash(aContent('9.00')) }) })
    const input = {
      workspaceId: approval.workspace_id,
      approvalId: approval.approval_id,
      decision: 'approved',
      traceId: TRACE,
    }
    assert.equal(refusalOf(await decideApproval(moved, byPerson(room.approver, TRACE), input)).code, 'payload_changed')
    assert.equal((await room.read(approval)).status, 'pending')
    accepted(await room.decide(approval, room.approver, 'approved', { payloadHash: approval.payload_hash }))
  })

  test('an answer is four round trips: what it is about, the locks, everything that it writes, the commit', async () => {
    const warm = await room.ask()
    const approval = await room.ask()
    accepted(await room.decide(warm, room.approver, 'approved'))
    const trips = await countRoundTrips(room.world.db, () => room.decide(approval, room.approver, 'approved'))
    assert.deepEqual([trips, await wroteOf(approval)], [4, 'run_command'])
  })

  test('[APR-15] a flag in the payload opens nothing: only the row says approved, and only for its content', async () => {
    const content = {
      ...aContent(),
      arguments: { ...aContent().arguments, user_explicitly_approved: true, approved: true },
    }
    const approval = await room.ask({ content })
    const command = { workspaceId: approval.workspace_id, commandId: approval.command_id }
    const check = async (payloadHash: string) => {
      const answer = await checkApproved(room.world.db, { ...command, payloadHash })
      return answer.ok ? 'ok' : answer.code
    }
    assert.equal(await check(approvalHash(content)), 'approvals.approval.missing')
    accepted(await room.decide(approval, room.approver, 'approved'))
    assert.equal(await check(approvalHash(content)), 'ok')
    assert.equal(await check(approvalHash(aContent())), 'payload_changed')
    const never = {
      workspaceId: approval.workspace_id,
      commandId: '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161',
      payloadHash: 'x',
    }
    assert.equal((await checkApproved(room.world.db, never)).ok, false)
  })

  test('hidden characters in a reason are written down as what they are', async () => {
    const approval = await room.ask()
    accepted(await room.decide(approval, room.approver, 'approved', { reason: 'fine\u202e ton' }))
    assert.equal((await room.read(approval)).decision_reason, 'fine\\u{202e} ton')
    const long = await room.decide(await room.ask(), room.approver, 'approved', { reason: 'x'.repeat(2_001) })
    assert.equal(refusalOf(long).code, 'api.field.value')
  })

  test('an owner that fails takes the decision and its event along', async () => {
    const approval = await room.ask()
    const failing = room.with({ onResolved: () => Promise.reject(new Error('the command cannot move')) })
    const input = {
      workspaceId: approval.workspace_id,
      approvalId: approval.approval_id,
      decision: 'approved',
      traceId: TRACE,
    }
    await assert.rejects(decideApproval(failing, byPerson(room.approver, TRACE), input), /cannot move/)
    assert.deepEqual(await room.read(approval), approval)
    assert.equal((await room.eventsOf(approval)).length, 1)
  })

  test('[EVT-11] an event that cannot be written takes the decision and the owner’s write along', async () => {
    const owner = openDb({ url: room.opened.url, poolMax: 1 })
    const [one, two] = [await room.ask(), await room.ask({ approvalType: 'two_of_them' })]
    await owner.query(
      `alter table concord.domain_events add constraint planted_ck check (event_type not in ('approval_decided', 'approval_voted')) not valid`,
    )
    try {
      for (const approval of [one, two]) {
        await assert.rejects(room.decide(approval, room.approver, 'approved'), { constraint: 'planted_ck' })
        assert.deepEqual(await room.read(approval), approval)
        assert.equal(await wroteOf(approval), null)
      }
    } finally {
      await owner.query('alter table concord.domain_events drop constraint planted_ck')
      await owner.close()
    }
  })

  test('a question about an effect: it happened, or it did not, whatever else waits for the command', async () => {
    for (const [decision, next] of [
      ['approved', 'effect_happened'],
      ['rejected', 'effect_did_not_happen'],
    ] as const) {
      const gate = await room.ask()
      const [effect] = await room.world.db.query<{ id: string }>(
        `insert into concord.domain_effects (domain_effect_id, command_id, workspace_id, effect_type, effect_payload, declaration_order, status)
         values (gen_random_uuid(), $1, $2, 'connector.pay.refund', '{}', 0, 'executing') returning domain_effect_id as id`,
        [gate.command_id, gate.workspace_id],
      )
      const readBack = { status: 'unknown', asked_at: '2026-05-01T10:00:00Z' }
      const about = {
        commandId: gate.command_id,
        approvalType: 'reconcile_effect',
        domainEffectId: effect?.id ?? '',
        readBack,
      }
      const question = await room.ask(about)
      assert.deepEqual(question.review_packet.requested_action.read_back, readBack)
      assert.equal(question.expires_at, null)
      assert.equal(accepted(await room.decide(question, room.approver, decision)).next, next)
      // The gate was neither counted nor closed.
      assert.equal((await room.read(gate)).status, 'pending')
      accepted(await room.decide(gate, room.approver, 'approved'))
    }
  })
})
