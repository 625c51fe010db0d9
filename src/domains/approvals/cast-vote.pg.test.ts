/** The statement that decides, on its own: every pair of states, no locks around it, and the same answers as the pure count. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type ApprovalRoom, by, openApprovalRoom } from '#test/approvals'
import { statesOf } from '#kernel/machine'
import { type ApprovalState, approvalMachine } from '#kernel/machines/approval'
import fc from 'fast-check'
import { listStatements } from '#store'
import { actorAs, approvalTable, saveVote } from './approval.ts'
import { type DecisionValue, decisionValues, stateOfDecision, type StoredApproval } from './stored-approval.ts'
import { applyVote } from './decide-vote.ts'

describe('one vote, one statement', () => {
  let room: ApprovalRoom
  before(async () => {
    room = await openApprovalRoom()
  })
  after(() => room.close())

  const cast = (approval: StoredApproval, person: string, decision: DecisionValue) =>
    room.world.db.transaction((tx) => saveVote(tx, approval, { person, decision, reason: 'why', keyId: null }))

  async function inState(status: ApprovalState): Promise<StoredApproval> {
    const approval = await room.ask()
    const isDecided = Object.values(stateOfDecision).some((state) => state === status)
    await room.world.db.query(
      `update concord.approvals set status = $2, decided_at = case when $3 then now() end, decided_by = case when $3 then 'user:9' end
        where approval_id = $1`,
      [approval.approval_id, status, isDecided],
    )
    return room.read(approval)
  }

  /** Written out: nothing leaves an end, and nothing goes back to open. */
  const legal: readonly string[] = ['approved', 'rejected', 'changes_requested', 'expired', 'cancelled'].map(
    (to) => `pending → ${to}`,
  )

  /** Every caller believes that the approval is still open, so that the database alone says no. */
  async function move(row: StoredApproval, to: ApprovalState): Promise<boolean> {
    const stale = { ...row, status: 'pending' as const }
    const decision = decisionValues.find((value) => stateOfDecision[value] === to)
    if (decision) return (await cast(stale, 'user:7', decision)) !== undefined
    const when = { at: new Date(), newId: room.world.newId }
    return (await approvalTable.transition(room.world.db, stale, to, actorAs(by, 'system'), when)).ok
  }

  test('[APR-02] all 36 pairs in the database: only an open approval moves, and an ended one stays as it is', async () => {
    const moved: string[] = []
    for (const from of statesOf(approvalMachine)) {
      for (const to of statesOf(approvalMachine)) {
        const row = await inState(from)
        const isMoved = await move(row, to)
        if (isMoved) moved.push(`${from} → ${to}`)
        else assert.deepEqual(await room.read(row), row, `${from} → ${to}`)
        assert.equal((await room.read(row)).status, isMoved ? to : from)
      }
    }
    assert.deepEqual(moved, legal)
  })

  test('what is not overdue does not expire, by the clock of the database', async () => {
    const approval = await room.ask({ expiresInMinutes: 5 })
    const late = { at: new Date('2100-01-01'), newId: room.world.newId, guards: ['overdue'] }
    const expire = () =>
      room.world.db.transaction((tx) => approvalTable.transition(tx, approval, 'expired', actorAs(by, 'system'), late))
    assert.equal((await expire()).ok, false)
    await room.age(approval, 5)
    assert.equal((await expire()).ok, true)
  })

  test('two of eight who vote in the same moment, with no lock but the row’s own, count; the others change nothing', async () => {
    for (let round = 0; round < 30; round++) {
      const approval = await room.ask({ approvalType: 'two_of_them' })
      const rows = await Promise.all(
        Array.from({ length: 8 }, (_, index) => cast(approval, `user:${index}`, 'approved')),
      )
      const counted = rows.filter((row) => row !== undefined)
      assert.deepEqual(counted.map(({ status }) => status).sort(), ['approved', 'pending'])
      const { approved_by, decided_by } = await room.read(approval)
      assert.equal(approved_by.length, 2)
      assert.equal(decided_by, approved_by[1])
    }
  })

  test('it refuses by itself what the judgement before it refuses: self, late, changed, again', async () => {
    const approval = await room.ask({ approvalType: 'two_of_them' })
    assert.equal(await cast(approval, approval.requested_by, 'approved'), undefined)
    assert.equal(await cast(approval, approval.requested_by, 'rejected'), undefined)
    assert.equal(await cast({ ...approval, payload_hash: 'other' }, 'user:1', 'approved'), undefined)
    assert.equal(await cast({ ...approval, workspace_id: room.theirs.workspace.id }, 'user:1', 'approved'), undefined)
    assert.ok(await cast(approval, 'user:1', 'approved'))
    assert.equal(await cast(approval, 'user:1', 'approved'), undefined)
    await room.age(approval, 60)
    assert.equal(await cast(approval, 'user:2', 'approved'), undefined)
    assert.deepEqual((await room.read(approval)).approved_by, ['user:1'])
  })

  test('any sequence of votes leaves the row that the pure count says', async () => {
    const vote = fc.record({
      person: fc.constantFrom('user:1', 'user:2', 'user:3', 'user:4'),
      decision: fc.constantFrom(...decisionValues),
    })
    // Mostly yes, so that quorums are reached.
    const votes = fc.array(
      fc.oneof(
        { weight: 1, arbitrary: vote },
        { weight: 5, arbitrary: vote.map(({ person }) => ({ person, decision: 'approved' as const })) },
      ),
      { maxLength: 8 },
    )
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 2, max: 4 }), votes, async (required, list) => {
        const approval = await room.ask({ approvalType: 'two_of_them', approvalsRequired: required })
        let foreseen = approval
        for (const { person, decision } of list) {
          await cast(approval, person, decision)
          const isCounted =
            foreseen.status === 'pending' && !(decision === 'approved' && foreseen.approved_by.includes(person))
          if (isCounted)
            foreseen = applyVote(foreseen, { person, decision, reason: 'why', keyId: null }, approval.created_at)
        }
        // When it was decided is the database's to say.
        const { decided_at, ...row } = await room.read(approval)
        const { decided_at: at, ...rest } = foreseen
        assert.deepEqual([row, decided_at === null], [rest, at === null])
      }),
      { numRuns: 60 },
    )
  })

  test('an approval is found by its own id or by its command, and by no index that begins with the workspace', async () => {
    const names = ['approvals.cast_vote', 'approvals.lock_questions', 'approvals.list_standing']
    const texts = listStatements().filter(({ name }) => names.includes(name))
    assert.equal(texts.length, names.length)
    const rollback = new Error('rolled back')
    const plans: string[] = []
    const look = room.world.db.transaction(async (tx) => {
      await tx.query('set local role none')
      await tx.query('set local enable_seqscan = off')
      // The planner would prefer these two anyway, except with the statistics of an empty table.
      await tx.query('alter table concord.approvals drop constraint approvals_pk')
      await tx.query('drop index concord.approvals_command_ix')
      for (const { text } of texts)
        plans.push(...(await tx.query(`explain (generic_plan) ${text}`)).map((line) => Object.values(line).join()))
      throw rollback
    })
    await assert.rejects(look, rollback)
    assert.deepEqual(
      plans.filter((line) => /Index Cond.*workspace_id/.test(line)),
      [],
    )
  })
})
