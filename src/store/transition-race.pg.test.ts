/** Four callers decide one approval at the same moment, thousands of times: exactly one wins each time. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aCommand, aWorkspace, by, events, someApprovals, storedApproval } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { proofSize } from '#test/proof-size'
import { appendEvents } from './events.ts'
import { isLostRace, transition } from './transition.ts'

const RACES = proofSize(300, 5_000)
const ABREAST = 3
const WAYS = [
  { to: 'approved', context: { ...by('approver'), set: { decided_by: 'user:2' } } },
  { to: 'rejected', context: { ...by('approver'), set: { decided_by: 'user:3' } } },
  { to: 'cancelled', context: by('user') },
  { to: 'expired', context: by('system') },
] as const

type Approval = Awaited<ReturnType<typeof someApprovals>>[number]

describe('a race of four', () => {
  let opened: TestDb
  let approvals: Approval[]

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: ABREAST * WAYS.length })
    const command = await aCommand(opened.db, await aWorkspace(opened.db), 'waiting_for_approval')
    approvals = await someApprovals(opened.db, command, RACES + 300)
  })
  after(() => opened.close())

  /** Runs `race` for each approval, a few of them side by side. */
  async function runAll(
    list: readonly Approval[],
    race: (approval: Approval, index: number) => Promise<void>,
  ): Promise<void> {
    const waiting = list.entries()
    await Promise.all(
      Array.from({ length: ABREAST }, async () => {
        for (const [index, approval] of waiting) await race(approval, index)
      }),
    )
  }

  test(`[ST-17] ${RACES} approvals, each approved, rejected, cancelled and expired at once: one winner each`, async () => {
    const wins = new Map<string, number>()
    await runAll(approvals.slice(0, RACES), async (approval, index) => {
      // Each way starts first in turn.
      const ways = WAYS.map((_, place) => WAYS[(place + index) % WAYS.length] as (typeof WAYS)[number])
      const answers = await Promise.all(
        ways.map(({ to, context }) => transition(opened.db, storedApproval, approval, to, context)),
      )
      const winners = answers.filter((answer) => answer.ok)
      assert.equal(winners.length, 1)
      const status = winners[0]?.row.status
      for (const answer of answers) assert.ok(answer.ok || (isLostRace(answer) && answer.row.status === status))
      wins.set(String(status), (wins.get(String(status)) ?? 0) + 1)
    })
    assert.equal(wins.size, WAYS.length, `a race that one way always wins is none: ${JSON.stringify([...wins])}`)
    const [told] = await opened.db.query<{ approvals: number; events: number; wrong: number }>(
      `select count(distinct a.approval_id)::int as approvals, count(e.event_id)::int as events,
              count(*) filter (where e.payload->>'to' is distinct from a.status)::int as wrong
       from concord.approvals a left join concord.domain_events e on e.payload->>'target_id' = a.approval_id::text
       where a.status <> 'pending'`,
    )
    assert.deepEqual(told, { approvals: RACES, events: RACES, wrong: 0 })
  })

  test('the control, which reads first and writes later, has several winners, so the races above were races', async () => {
    let several = 0
    await runAll(approvals.slice(RACES), async (approval) => {
      const answers = await Promise.all(WAYS.map(({ to }) => decideByLooking(approval, to)))
      if (answers.filter(Boolean).length > 1) several += 1
    })
    assert.ok(several > 0)
  })

  async function decideByLooking(approval: Approval, to: string): Promise<boolean> {
    return opened.db.transaction(async (tx) => {
      const [row] = await tx.query<{ status: string }>('select status from concord.approvals where approval_id = $1', [
        approval.approval_id,
      ])
      if (row?.status !== 'pending') return false
      const isDecision = to === 'approved' || to === 'rejected'
      await tx.query(
        `update concord.approvals set status = $2, decided_at = case when $3 then now() end, decided_by = case when $3 then 'user:2' end
         where approval_id = $1`,
        [approval.approval_id, to, isDecision],
      )
      await appendEvents(tx, events, [
        {
          ...by('system'),
          eventId: by('system').newId(),
          type: 'approval_decided',
          payload: { to },
          links: { workspace_id: approval.workspace_id, command_id: approval.command_id },
        },
      ])
      return true
    })
  }
})
