/** Everybody at once, thousands of times: one decision per approval, and nobody is notified twice. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type ApprovalRoom, by, openApprovalRoom } from '#test/approvals'
import { proofSize } from '#test/proof-size'
import { TRACE } from '#test/tenant'
import { cancelApprovals } from './approval.ts'
import type { StoredApproval } from './stored-approval.ts'
import { decideApproval } from './decide-approval.ts'
import { expireApprovals } from './sweep-approvals.ts'
import { findPending } from './list-approvals.ts'
import type { Resolution } from './deps.ts'
import { byPerson } from '#kernel/actor'

const RACES = proofSize(300, 5_000)
const ABREAST = 3

describe('races', () => {
  let room: ApprovalRoom
  before(async () => {
    room = await openApprovalRoom({ poolMax: 16 })
  })
  after(() => room.close())

  /** As many open approvals as asked for, each of a command of its own, copied from one that was really asked. */
  async function manyOpen(count: number): Promise<StoredApproval[]> {
    const model = await room.ask()
    const rows: StoredApproval[] = []
    for (let left = count; left > 0; left -= 1_000) {
      const some = await room.world.db.query<StoredApproval>(
        `with commands as (
           insert into concord.commands (command_id, command_type, requested_by, ingress, payload, context, status, workspace_id, payload_hash)
           select gen_random_uuid(), command_type, requested_by, ingress, payload, context, status, workspace_id, payload_hash
             from concord.commands, generate_series(1, $2) where command_id = $1 returning command_id)
         insert into concord.approvals (approval_id, command_id, requested_by, approver, approval_type, request_payload, review_packet,
                                        expires_at, workspace_id, payload_hash, approvals_required)
         select gen_random_uuid(), c.command_id, a.requested_by, a.approver, a.approval_type, a.request_payload, a.review_packet,
                a.expires_at, a.workspace_id, a.payload_hash, a.approvals_required
           from commands c, concord.approvals a where a.approval_id = $3 returning *`,
        [model.command_id, Math.min(left, 1_000), model.approval_id],
      )
      rows.push(...some)
    }
    return rows
  }

  async function runAll<T>(list: readonly T[], race: (item: T, index: number) => Promise<void>): Promise<void> {
    const waiting = list.entries()
    await Promise.all(
      Array.from({ length: ABREAST }, async () => {
        for (const [index, item] of waiting) await race(item, index)
      }),
    )
  }

  test(`[ST-17] [APR-12] ${RACES} approvals, each approved, rejected, cancelled and expired at once: one winner each`, async () => {
    const [first, second] = [room.member(), room.member()]
    const open = await manyOpen(RACES)
    room.told.length = 0
    const wins = new Map<string, number>()
    await runAll(open, async (approval, index) => {
      const ref = { workspaceId: approval.workspace_id, commandId: approval.command_id }
      // The deadline falls into the race, so that each of the four can be first; a ninth of them is in time on any machine.
      await room.world.db.query(
        `update concord.approvals set expires_at = statement_timestamp() + make_interval(secs => $2) where approval_id = $1`,
        [approval.approval_id, index % 9 === 8 ? 3_600 : (index % 9) / 1_000],
      )
      const ways = [
        async () => ((await room.decide(approval, first, 'approved')).ok ? 1 : 0),
        async () => ((await room.decide(approval, second, 'rejected')).ok ? 1 : 0),
        () =>
          room.world.db.transaction(
            async (tx) => (await cancelApprovals(tx, room.world.newId, by, { ...ref, why: 'race' })).length,
          ),
        async () => {
          await expireApprovals(room.world, { limit: 20, traceId: TRACE })
          return 0
        },
      ]
      // Everybody starts first in turn.
      const answers = await Promise.all([...ways.slice(index % 4), ...ways.slice(0, index % 4)].map((start) => start()))
      const { status } = await room.read(approval)
      // An expiry is counted by the row: a sweeper of another race may have been the one.
      const winners = answers.reduce((sum, won) => sum + won, 0) + (status === 'expired' ? 1 : 0)
      assert.equal(winners, 1, `${winners} winners, ${status} at the end`)
      wins.set(status, (wins.get(status) ?? 0) + 1)
    })
    assert.deepEqual(
      [...wins.keys()].sort(),
      ['approved', 'cancelled', 'expired', 'rejected'],
      JSON.stringify([...wins]),
    )
    const [recorded] = await room.world.db.query(
      `select count(distinct a.approval_id)::int as approvals, count(e.event_id)::int as events,
              count(*) filter (where e.payload->>'to' is distinct from a.status)::int as wrong,
              count(*) filter (where a.decided_at >= a.expires_at)::int as late
         from concord.approvals a
         left join concord.domain_events e on e.payload->>'approval_id' = a.approval_id::text and e.event_type <> 'approval_requested'
        where a.approval_id = any ($1)`,
      [open.map(({ approval_id }) => approval_id)],
    )
    assert.deepEqual(recorded, { approvals: RACES, events: RACES, wrong: 0, late: 0 })
    // The owner heard of each answer once; of a cancellation it is the one who knows.
    assert.equal(room.told.length, RACES - (wins.get('cancelled') ?? 0))
    assert.equal(new Set(room.told.map(({ approval }) => approval.approval_id)).size, room.told.length)
  })

  test('two of three: of eight voters at once exactly two count, and one of them completes it', async () => {
    const voters = Array.from({ length: 8 }, () => room.member())
    for (let round = 0; round < proofSize(10, 40); round++) {
      const approval = await room.ask({ approvalType: 'two_of_them', approvalsRequired: 2 })
      room.told.length = 0
      const answers = await Promise.all(voters.map((voter) => room.decide(approval, voter, 'approved')))
      const won = answers.filter((answer) => answer.ok)
      assert.deepEqual(won.map((answer) => answer.value.next).sort(), ['run_command', 'wait'])
      for (const answer of answers)
        assert.ok(answer.ok || answer.code === 'approval_decided', answer.ok ? '' : answer.code)
      const row = await room.read(approval)
      assert.equal(row.status, 'approved')
      assert.equal(new Set(row.approved_by).size, 2)
      assert.equal(room.told.length, 1)
      assert.deepEqual(
        (await room.eventsOf(approval)).map(({ type }) => type),
        ['approval_requested', 'approval_voted', 'approval_decided'],
      )
    }
  })

  test('the same person eight times at once counts once', async () => {
    const voter = room.member()
    for (let round = 0; round < proofSize(10, 20); round++) {
      const approval = await room.ask({ approvalType: 'two_of_them' })
      const answers = await Promise.all(Array.from({ length: 8 }, () => room.decide(approval, voter, 'approved')))
      assert.deepEqual(answers.map((answer) => (answer.ok ? 'ok' : answer.code)).sort(), [
        ...Array.from({ length: 7 }, () => 'approvals.vote.repeated'),
        'ok',
      ])
      const row = await room.read(approval)
      assert.deepEqual([row.status, row.approved_by], ['pending', [`user:${voter.userId}`]])
    }
  })

  test('[APR-14] two approvals of one command are approved at once: the last one runs it, and it knows', async () => {
    const [finance, legal] = [room.member(), { ...room.member(), orgRoles: ['legal'] }]
    for (let round = 0; round < proofSize(15, 60); round++) {
      const one = await room.ask()
      const two = await room.ask({ commandId: one.command_id, approver: 'role:legal' })
      const answers = await Promise.all([room.decide(one, finance, 'approved'), room.decide(two, legal, 'approved')])
      assert.deepEqual(answers.map((answer) => (answer.ok ? answer.value.next : answer.code)).sort(), [
        'run_command',
        'wait',
      ])
    }
  })

  test('[APR-14] one says yes and one says no at once: it is a no, told once, and nothing stays open', async () => {
    const [finance, legal] = [room.member(), { ...room.member(), orgRoles: ['legal'] }]
    for (let round = 0; round < proofSize(15, 60); round++) {
      const one = await room.ask()
      const two = await room.ask({ commandId: one.command_id, approver: 'role:legal' })
      // Nobody answers this one.
      await room.ask({ commandId: one.command_id, approver: 'role:board' })
      room.told.length = 0
      const answers = await Promise.all([room.decide(one, finance, 'approved'), room.decide(two, legal, 'rejected')])
      assert.equal(answers[1].ok && answers[1].value.next, 'fail_command')
      // The yes came first and waited, or came second and found its question closed.
      assert.ok(answers[0].ok ? answers[0].value.next === 'wait' : answers[0].code === 'approvals.approval.cancelled')
      assert.equal(room.told.filter(({ next }: Resolution) => next === 'fail_command').length, 1)
      assert.equal(room.told.filter(({ next }: Resolution) => next === 'run_command').length, 0)
      assert.deepEqual(
        await findPending(room.world.db, { workspaceId: one.workspace_id, commandId: one.command_id }),
        [],
      )
    }
  })

  test('a decision and a cancel that both take the command first never make each other start over', async () => {
    const lock = (commandId: string) =>
      `select from concord.commands where command_id = '${commandId}' for no key update`
    let attempts = 0
    const world = room.with({
      async lockCommand(tx, { command_id }) {
        attempts += 1
        await tx.query(lock(command_id))
        return undefined
      },
    })
    const open = await manyOpen(proofSize(50, 100))
    for (const approval of open) {
      const ref = { workspaceId: approval.workspace_id, commandId: approval.command_id }
      const input = { ...ref, approvalId: approval.approval_id, decision: 'approved', traceId: TRACE }
      const [decided, closed] = await Promise.all([
        decideApproval(world, byPerson(room.approver, TRACE), input),
        world.db.transaction(async (tx) => {
          attempts += 1
          await tx.query(lock(approval.command_id))
          await tx.query('update concord.commands set cancellation_requested = true where command_id = $1', [
            ref.commandId,
          ])
          return cancelApprovals(tx, world.newId, by, { ...ref, why: 'race' })
        }),
      ])
      assert.equal(Number(decided.ok) + closed.length, 1)
    }
    // A deadlock is found by Postgres, which ends one of the two; its transaction would have run again.
    assert.equal(attempts, 2 * open.length)
  })
})
