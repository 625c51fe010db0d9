import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aContent, type ApprovalRoom, openApprovalRoom } from '#test/approvals'
import { accepted, TRACE } from '#test/tenant'
import { accept, refuse } from '#kernel/refusal'
import { approvalHash, type ApprovalRequest, type StoredApproval } from './stored-approval.ts'
import type { Principal } from '#domains/identity'
import { decideApproval } from './decide-approval.ts'
import { checkApproved } from './list-approvals.ts'
import type { ApprovalOwner, ApprovalDeps } from './deps.ts'
import { byPerson } from '#kernel/actor'

describe('approving with edits', () => {
  let room: ApprovalRoom
  let world: ApprovalDeps
  before(async () => {
    room = await openApprovalRoom()
    world = room.with({ revise })
  })
  after(() => room.close())

  /** An owner that takes amounts up to 100, stores them on the command, and asks the same people again. */
  const revise: NonNullable<ApprovalOwner['revise']> = async (tx, approval, edited) => {
    await tx.query('update concord.commands set payload = $2 where command_id = $1', [approval.command_id, edited])
    const amount = typeof edited['amount'] === 'string' ? edited['amount'] : ''
    if (Number(amount) > 100) return refuse('api.field.value', 'amount is too large', { path: 'amount' })
    return accept([await askedAgain(approval, amount)])
  }
  async function askedAgain(approval: StoredApproval, amount: string): Promise<ApprovalRequest> {
    return room.request({
      commandId: approval.command_id,
      approvalType: approval.approval_type,
      approver: approval.approver,
      content: aContent(amount),
    })
  }

  const edit = (approval: StoredApproval, decider: Principal, amount: unknown, more = {}, by = world) =>
    decideApproval(by, byPerson(decider, TRACE), {
      workspaceId: approval.workspace_id,
      approvalId: approval.approval_id,
      decision: 'approved',
      edits: { amount: amount as string },
      ...more,
    })
  const payloadOf = async ({ command_id }: StoredApproval) => {
    const [row] = await room.world.db.query<{ payload: unknown }>(
      'select payload from concord.commands where command_id = $1',
      [command_id],
    )
    return row?.payload
  }

  test('at low risk the yes counts for a fresh approval of the edited content; the old one is closed and points to it', async () => {
    const old = await room.ask({ approvalType: 'editable' })
    const { approval, next } = accepted(await edit(old, room.approver, '60.00'))
    assert.notEqual(approval.approval_id, old.approval_id)
    assert.equal(next, 'run_command')
    assert.equal(approval.status, 'approved')
    assert.equal(approval.payload_hash, approvalHash(aContent('60.00')))
    assert.deepEqual(approval.request_payload.edits, {
      by: `user:${room.approver.userId}`,
      of: old.approval_id,
      refs: [`user:${room.approver.userId}`, 'role:finance'],
      fields: ['amount'],
      reason: null,
    })
    const closed = await room.read(old)
    assert.deepEqual(
      [closed.status, closed.superseded_by, closed.decision_reason],
      ['cancelled', approval.approval_id, 'edited'],
    )
    assert.deepEqual(await payloadOf(old), { order_id: 17, amount: '60.00' })
    // What was approved is what runs, and nothing else does.
    const check = (amount: string) =>
      checkApproved(room.world.db, {
        workspaceId: old.workspace_id,
        commandId: old.command_id,
        payloadHash: approvalHash(aContent(amount)),
      })
    assert.equal((await check('60.00')).ok, true)
    assert.equal((await check('80.00')).ok, false)
    assert.deepEqual(
      (await room.eventsOf(approval)).map(({ type, payload }) => [type, payload['edited'] ?? null]),
      [
        ['approval_requested', null],
        ['approval_decided', ['amount']],
      ],
    )
    const again = await room.decide(old, room.member(), 'approved')
    assert.equal(again.ok ? 'ok' : again.code, 'payload_changed')
  })

  test('what the owner refuses leaves everything as it was, its own writes too', async () => {
    const old = await room.ask()
    const answer = await edit(old, room.approver, '500.00')
    assert.equal(answer.ok ? 'ok' : answer.code, 'api.field.value')
    assert.deepEqual(await room.read(old), old)
    assert.deepEqual(await payloadOf(old), {})
    assert.equal((await room.eventsOf(old)).length, 1)
  })

  test('with a quorum the edit starts the count anew: earlier votes were for something else', async () => {
    const old = await room.ask({ approvalType: 'two_of_them' })
    const [first, editor, third] = [room.member(), room.member(), room.member()]
    accepted(await room.decide(old, first, 'approved'))
    const { approval, next } = accepted(await edit(old, editor, '60.00'))
    assert.deepEqual([approval.status, next, approval.approved_by], ['pending', 'wait', []])
    const own = await room.decide(approval, editor, 'approved')
    assert.equal(own.ok ? 'ok' : own.code, 'self_approval')
    assert.equal(accepted(await room.decide(approval, first, 'approved')).next, 'wait')
    assert.equal(accepted(await room.decide(approval, third, 'approved')).next, 'run_command')
  })

  test('an edit that is none is an ordinary approval', async () => {
    const approval = await room.ask()
    const decided = accepted(await edit(approval, room.approver, '80.00'))
    assert.equal(decided.approval.approval_id, approval.approval_id)
    assert.equal(decided.approval.status, 'approved')
  })

  for (const name of ['toString', 'valueOf', 'hasOwnProperty']) {
    test(`an edit of a field named ${name} is judged like any other, by the owner`, async () => {
      const approval = await room.ask()
      const seen: unknown[] = []
      const nosy = room.with({
        revise: async (_, __, edited) => {
          seen.push(edited)
          return refuse('api.field.value', 'there is no such field', { path: name })
        },
      })
      const answer = await decideApproval(nosy, byPerson(room.approver, TRACE), {
        workspaceId: approval.workspace_id,
        approvalId: approval.approval_id,
        decision: 'approved',
        edits: JSON.parse(`{"${name}": "x"}`) as Record<string, string>,
      })
      assert.equal(answer.ok ? 'ok' : answer.code, 'api.field.value')
      assert.deepEqual(seen, [{ ...aContent().arguments, [name]: 'x' }])
      assert.deepEqual(await room.read(approval), approval)
    })
  }

  for (const name of ['constructor', 'prototype', '__proto__']) {
    test(`an edit of a field named ${name} is refused and nothing is asked`, async () => {
      const approval = await room.ask()
      const answer = await edit(approval, room.approver, '60.00', { edits: JSON.parse(`{"${name}": {"amount": "1"}}`) })
      assert.equal(answer.ok ? 'ok' : answer.code, 'key_forbidden')
      assert.deepEqual(await room.read(approval), approval)
    })
  }

  test('an edit that makes it somebody else’s to decide waits for that person', async () => {
    const old = await room.ask()
    const board = room.with({
      revise: async (_, approval) => accept([{ ...(await askedAgain(approval, '60.00')), approver: 'role:board' }]),
    })
    const { approval, next } = accepted(await edit(old, room.approver, '60.00', {}, board))
    assert.deepEqual([approval.status, approval.approver, next], ['pending', 'role:board', 'wait'])
    assert.equal((await room.read(old)).superseded_by, approval.approval_id)
  })

  test('edits are refused where the type, the owner or the decision does not take them, and to who may not decide', async () => {
    const approval = await room.ask()
    const code = async (answer: ReturnType<typeof edit>) => {
      const decision = await answer
      return decision.ok ? 'ok' : decision.code
    }
    assert.equal(await code(edit(approval, room.approver, '60.00', {}, room.world)), 'approvals.edits.not_allowed')
    assert.equal(
      await code(edit(approval, room.approver, '60.00', { decision: 'rejected', reason: 'no' })),
      'approvals.edits.not_allowed',
    )
    assert.equal(
      await code(edit(await room.ask({ approvalType: 'override' }), room.approver, '60.00', { reason: 'x' })),
      'approvals.edits.not_allowed',
    )
    assert.equal(await code(edit(approval, { ...room.requester, orgRoles: ['finance'] }, '60.00')), 'self_approval')
    assert.equal(
      await code(edit(approval, { ...room.approver, orgRoles: [] }, '60.00')),
      'approvals.approver.not_asked',
    )
    assert.equal(await code(edit(approval, room.approver, '60.00', { payloadHash: 'old' })), 'payload_changed')
    assert.equal(await code(edit(approval, room.approver, 'a\u0000b')), 'nul_character')
    assert.deepEqual(await room.read(approval), approval)
  })

  test('two edits at once: one counts, the other is refused because the content changed', async () => {
    for (let round = 0; round < 20; round++) {
      const old = await room.ask()
      const answers = await Promise.all([edit(old, room.member(), '60.00'), edit(old, room.member(), '70.00')])
      assert.deepEqual(answers.map((answer) => (answer.ok ? 'ok' : answer.code)).sort(), ['ok', 'payload_changed'])
      const winner = answers.find((answer) => answer.ok)
      const amount = (await payloadOf(old)) as { amount: string }
      assert.equal(winner?.ok && winner.value.approval.payload_hash, approvalHash(aContent(amount.amount)))
    }
  })
})
