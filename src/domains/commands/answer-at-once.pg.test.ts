/** An answer in one read and one write: the same rows and events as under the locks, and what happens when a row changes between the two. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type ApprovalOwner, decideApproval, expireApprovals } from '#domains/approvals'
import { byPerson } from '#kernel/actor'
import { listStatements } from '#store'
import { decider, historyFaults, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { proofSize } from '#test/proof-size'
import { countRoundTrips } from '#test/round-trips'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import type { InProcessTurns } from '#turns'
import { openApprovalOwner } from './answer-approval.ts'
import { cancelCommand } from './cancel-command.ts'
import type { HeldCommand } from './command-table.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { openCommandTurns } from './drive.ts'
import { findBrokenInvariants } from './invariants/find-broken-invariants.ts'
import { submitCommand } from './submit.ts'

const ROUNDS = proofSize(20, 200)

describe('an answer in one read and one write', () => {
  let room: TestRoom
  let turns: InProcessTurns<HeldCommand>
  let world: CommandDeps
  let owner: ApprovalOwner
  let running = 0
  before(async () => {
    room = await openTestRoom()
    turns = openCommandTurns(room.world, () => {
      running += 1
      const leave = () => void (running -= 1)
      return { begin: () => leave, release: leave }
    })
    world = { ...room.world, turns }
    owner = openApprovalOwner(world)
  })
  after(async () => {
    await turns.close(1_000)
    await room.close()
  })

  const idle = () => until(() => running === 0, 'the end of the turns')
  async function asked(more: object = {}): Promise<{ readonly id: string; readonly approvalId: string }> {
    const { command } = accepted(
      await submitCommand(world, actingFor(room.tenant.people.writer.principal, TRACE), {
        workspaceId: room.tenant.workspace.id,
        taskName: 'Work',
        payload: { subject: 's', steps: ['connector.hotel.book_a'], decide: 'require_approval', ...more },
        ingress: 'user_request',
        requestId: 'req_once',
      }),
    )
    await idle()
    return { id: command.command_id, approvalId: await pendingOf(room, command.command_id) }
  }
  async function decide(approvalId: string, more: object = {}, by: ApprovalOwner = owner) {
    const given = { workspaceId: room.tenant.workspace.id, approvalId, decision: 'approved', reason: 'yes', ...more }
    const decided = await decideApproval({ ...room.approvals, owner: by }, byPerson(decider(room), TRACE), given)
    return decided.ok ? decided.value.next : decided.code
  }
  const cancel = (commandId: string) =>
    cancelCommand(world, actingFor(room.tenant.people.admin.principal, TRACE), {
      workspaceId: room.tenant.workspace.id,
      commandId,
    })
  const expire = async (approvalId: string) => {
    await room.rows(`update concord.approvals set expires_at = now() where approval_id = $1`, [approvalId])
    await expireApprovals({ ...room.approvals, owner }, { approvalId, traceId: TRACE })
  }
  /** The owner, with something that happens between the read and the write. */
  function interrupted(between: () => Promise<unknown>): ApprovalOwner {
    const { atOnce } = owner
    assert.ok(atOnce)
    const write: typeof atOnce.write = async (...args) => {
      await between()
      const isWritten = await atOnce.write(...args)
      assert.equal(isWritten, false)
      return isWritten
    }
    return { ...owner, atOnce: { ...atOnce, write } }
  }
  const begunOf = (id: string) =>
    room.rows(
      `select 1 from concord.domain_effects where command_id = $1 and effect_type like 'connector.%' and attempt > 0`,
      [id],
    )

  test('the statement finds approvals by their id or their command, however few the planner expects', async () => {
    const { approvalId } = await asked()
    assert.equal(await decide(approvalId), 'run_command')
    await idle()
    const voted = listStatements().filter(({ name }) => name.endsWith('_voted'))
    assert.ok(voted.length > 0)
    for (const { text } of voted) {
      const lines = await room.db.transaction(
        (tx) => tx.query(`explain (generic_plan) ${text}`),
        'begin; set local enable_seqscan = off',
      )
      const plan = lines.map((line) => Object.values(line).join()).join('\n')
      const indexes = plan.matchAll(/ (?:using|Index Scan on) (approvals_\w+)/g)
      assert.deepEqual(
        new Set([...indexes].map(([, name]) => name)),
        new Set(['approvals_command_ix', 'approvals_pk']),
        plan,
      )
    }
  })

  test('[M4] a requester who left: the vote and the question to the operator are written, or neither', async () => {
    const { id, approvalId } = await asked()
    const { userId } = room.tenant.people.writer.principal
    await room.rows(`update identity.users set deactivated_at = now() where id = $1`, [userId])
    try {
      assert.equal(await decide(approvalId), 'run_command')
      await idle()
      assert.equal(await room.settle(id), 'blocked')
      assert.deepEqual(await begunOf(id), [])
      assert.deepEqual(
        await room.rows(
          `select approval_type, status from concord.approvals where command_id = $1 order by created_at`,
          [id],
        ),
        [
          { approval_type: 'work_approval', status: 'approved' },
          { approval_type: 'requester_gone', status: 'pending' },
        ],
      )
    } finally {
      await room.rows(`update identity.users set deactivated_at = null where id = $1`, [userId])
    }
  })

  test('writes the rows and the events that the locks write, in their order', async () => {
    const { atOnce: _atOnce, ...locking } = owner
    const [quick, slow] = [await asked(), await asked()]
    assert.equal(await countRoundTrips(room.db, () => decide(quick.approvalId)), 2)
    await idle()
    assert.equal(await decide(slow.approvalId, {}, locking), 'run_command')
    await idle()
    const look = async ({ id, approvalId }: typeof quick) => ({
      events: await room.rows(
        `select event_type, purpose, actor, trace_id,
           payload - '{target_id,approval_id,idempotency_key,domain_effect_id,command_id,input_hash}'::text[] as payload
         from concord.domain_events where command_id = $1 order by seq`,
        [id],
      ),
      command: await room.rows(
        `select status, result, error, run_after is null as is_idle, turn_token, attempt, completed_at is null as is_open,
           runtime_workflow_id = 'command:' || command_id as is_named from concord.commands where command_id = $1`,
        [id],
      ),
      effects: await room.rows(
        `select effect_type, status, attempt, result is null as has_no_result, declaration_order from concord.domain_effects
         where command_id = $1 order by declaration_order`,
        [id],
      ),
      approval: await room.rows(
        `select status, approved_by, decided_by, decision_reason, decided_at is null as is_open, payload_hash is null as is_free
         from concord.approvals where approval_id = $1`,
        [approvalId],
      ),
    })
    assert.deepEqual(withoutIds(await look(quick)), withoutIds(await look(slow)))
    assert.equal(await room.statusOf(quick.id), 'succeeded')
  })

  const reasons: readonly (readonly [string, string, (a: { id: string; approvalId: string }) => Promise<unknown>])[] = [
    ['another approver decides', 'approval_decided', ({ approvalId }) => decide(approvalId)],
    ['another approver rejects', 'approval_decided', ({ approvalId }) => decide(approvalId, { decision: 'rejected' })],
    ['the command is cancelled', 'approvals.approval.cancelled', ({ id }) => cancel(id)],
    ['the approval expires', 'approval_expired', ({ approvalId }) => expire(approvalId)],
    [
      'its time ends',
      'approval_expired',
      ({ approvalId }) =>
        room.rows(`update concord.approvals set expires_at = statement_timestamp() where approval_id = $1`, [
          approvalId,
        ]),
    ],
    [
      'an approver edits it',
      'payload_changed',
      async ({ approvalId }) => assert.equal(await decide(approvalId, { edits: { subject: 'edited' } }), 'run_command'),
    ],
  ]
  for (const [title, code, between] of reasons)
    test(`${title} between the read and the write: the answer is refused and begins nothing`, async () => {
      const gated = await asked()
      let begun = 0
      const by = interrupted(async () => {
        await between(gated)
        await idle()
        begun = (await begunOf(gated.id)).length
      })
      assert.equal(await decide(gated.approvalId, {}, by), code)
      await idle()
      assert.equal((await begunOf(gated.id)).length, begun)
      assert.deepEqual(await historyFaults(room), [])
    })

  test('a row that has changed without a reason to refuse is answered under the locks', async () => {
    for (const text of [
      `update concord.commands set updated_at = updated_at where command_id = $1`,
      `update concord.approvals set approver = approver where command_id = $1`,
    ]) {
      const { id, approvalId } = await asked()
      assert.equal(
        await decide(
          approvalId,
          {},
          interrupted(() => room.rows(text, [id])),
        ),
        'run_command',
      )
      await idle()
      assert.equal(await room.statusOf(id), 'succeeded')
    }
  })

  test('an opaque effect begins in the turn: the answer to this write could be lost', async () => {
    const { id, approvalId } = await asked({ steps: ['connector.mail.send'] })
    assert.equal(
      await decide(
        approvalId,
        {},
        interrupted(() => Promise.resolve()),
      ),
      'run_command',
    )
    await idle()
    assert.equal(await room.statusOf(id), 'succeeded')
  })

  test('a taken effect key does not lose the answer: the command fails with the reason', async () => {
    const { id, approvalId } = await asked()
    const other = await asked()
    // The key of the effect that this command will have.
    await decide(other.approvalId)
    await idle()
    const [effect] = await room.rows<{ idempotency_key: string }>(
      `select idempotency_key from concord.domain_effects where command_id = $1 and effect_type like 'connector.%'`,
      [other.id],
    )
    const key = effect?.idempotency_key.replaceAll(other.id, id)
    await room.rows(
      `update concord.domain_effects set idempotency_key = $2 where command_id = $1 and effect_type like 'connector.%'`,
      [other.id, key],
    )
    assert.equal(await decide(approvalId), 'run_command')
    await idle()
    const [row] = await room.rows(`select status, error from concord.commands where command_id = $1`, [id])
    assert.deepEqual(row, { status: 'failed', error: 'Another command already owns this idempotency key.' })
    await room.rows(`update concord.domain_effects set idempotency_key = $2 where idempotency_key = $1`, [
      key,
      effect?.idempotency_key,
    ])
  })

  test(`${ROUNDS} times two approvers, a cancel and an expiry at once: one winner, and every invariant holds`, async () => {
    const ends = new Set<string>()
    for (let round = 0; round < ROUNDS; round++) {
      const { id, approvalId } = await asked()
      const ways = [
        () => decide(approvalId),
        () => decide(approvalId, { decision: 'rejected' }),
        async () => void (await cancel(id)),
        async () => void (round % 2 === 0 && (await expire(approvalId).catch(() => {}))),
      ]
      const answers = await Promise.all([...ways.slice(round % 4), ...ways.slice(0, round % 4)].map((way) => way()))
      await idle()
      const won = answers.filter((answer) => answer === 'run_command' || answer === 'fail_command')
      assert.ok(won.length <= 1, won.join())
      const [row] = await room.rows<{ status: string }>(`select status from concord.approvals where approval_id = $1`, [
        approvalId,
      ])
      assert.equal(won.length, row?.status === 'approved' || row?.status === 'rejected' ? 1 : 0, row?.status)
      ends.add(row?.status ?? '')
      if (row?.status !== 'approved') assert.deepEqual(await begunOf(id), [])
    }
    assert.ok(ends.size > 1, [...ends].join())
    for (const id of room.woken.splice(0)) await room.settle(id)
    assert.deepEqual(await historyFaults(room), [])
    assert.deepEqual(await findBrokenInvariants(room.db), [])
  })
})

/** Ids and times are the only difference between two commands. */
function withoutIds(value: object): unknown {
  const text = JSON.stringify(value)
  return JSON.parse(
    text.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'ID').replaceAll(/\d{4}-\d\d-\d\dT[0-9:.Z+]+/g, 'TIME'),
  )
}
