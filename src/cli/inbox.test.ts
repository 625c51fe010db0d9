/** The inbox on a terminal: all that a person needs to decide, and what to type for it. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Readable } from 'node:stream'
import { anApprovalView, APPROVAL_ID, runAgainst } from '#test/recorded-server'
import { formatApproval } from './approvals.ts'

const MINE = 'GET /approvals?mine=true&limit=50'
const terminal = {
  out() {},
  err() {},
  environment: {},
  folder: '/',
  stdin: () => Readable.from([]),
  isTty: false,
  columns: undefined,
  now: () => new Date('2026-05-01T12:00:00.000Z'),
  zone: 'UTC',
  stop: new AbortController().signal,
}
const shown = (more: Parameters<typeof anApprovalView>[0], at = '2999-05-01T08:55:00.000Z') =>
  formatApproval({ ...terminal, now: () => new Date(at) }, anApprovalView(more))

describe('inbox', () => {
  test('shows the eight items, the deadline in both forms, and both answers', async () => {
    const { code, out, err } = await runAgainst({ [MINE]: { items: [anApprovalView()], next_cursor: 'c1' } }, ['inbox'])
    assert.equal(code, 0, err)
    for (const said of [
      /^Refund an order\. {2}appr_0197/,
      /asked by +local:ana\n +because +It came back\./,
      /affects +order 17/,
      /rule +cost/,
      /with +\{"amount":"80\.00"\}/,
      /if yes +Money is sent\. Run it as shown\./,
      /if no +Do not run it\./,
      /risk +medium/,
      /until +01 May 2999 10:00, in \d+ d/,
      new RegExp(`concord approve ${APPROVAL_ID} \\| concord deny ${APPROVAL_ID} --reason`),
    ]) {
      assert.match(out, said)
    }
    assert.match(err, /--cursor c1/)
  })

  test('shows the remaining time, an expired deadline, and a missing deadline', () => {
    assert.match(shown({}), /10:00, in 1 h; without a decision it is then refused/)
    assert.match(shown({}, '2999-05-01T10:00:00.000Z'), /which has passed/)
    assert.match(shown({ expires_at: null }), /does not expire/)
  })

  test('hidden characters are announced, votes are counted, a needed reason is in the line to type', () => {
    const packet = { ...anApprovalView().packet, why: 'x\u200by', hidden_characters: ['why'] }
    const text = shown({ packet, approvals_required: 2, approved_by: ['user_2'], reason_required: ['approved'] })
    assert.match(text, /careful +there are hidden characters in why/)
    assert.match(text, /x\\u\{200b\}y/)
    assert.match(text, /1 of 2 have approved/)
    assert.match(text, /concord approve appr_\S+ --reason/)
  })

  test('an approval without an eligible approver shows the reason and what to do', () => {
    const blocked_by = {
      code: 'role_without_members',
      reason: 'Nobody has it.',
      hint: 'grant it.',
      possible: 0,
      required: 1,
    } as const
    const text = shown({ may_decide: false, blocked_by })
    assert.match(text, /blocked +Nobody has it\. \(role_without_members\)\n +to do +grant it\./)
    assert.doesNotMatch(shown({}), /blocked/)
  })

  test('--all asks for everything, and says for whom the others wait', async () => {
    const page = { items: [anApprovalView({ may_decide: false })], next_cursor: null }
    const { out } = await runAgainst({ 'GET /approvals?limit=50': page }, ['inbox', '--all'])
    assert.match(out, /waits for +role:finance/)
    assert.doesNotMatch(out, /concord approve/)
  })

  test('standard error stays empty; --json prints the page unchanged', async () => {
    const empty = { items: [], next_cursor: null }
    const { code, out, err } = await runAgainst({ [MINE]: empty }, ['inbox'])
    assert.deepEqual([code, out, err], [0, '', 'Nothing is waiting for you.\n'])
    const mine = anApprovalView({ may_decide: false })
    const others = anApprovalView({ may_decide: false, requested_by: 'user_0197f3b2c4d57a8e9b0c1d2e3f405199' })
    const asked = await runAgainst(
      {
        [MINE]: empty,
        'GET /me': { user_id: mine.requested_by },
        'GET /approvals?limit=500': { items: [mine, others], next_cursor: null },
      },
      ['inbox'],
    )
    assert.match(
      asked.out,
      /^you asked for +waits for +until +command\nRefund an order\. +role:finance +01 May 2999 10:00, in \d+ d +cmd_0197\w+\n$/,
    )
    const page = { items: [anApprovalView()], next_cursor: null }
    assert.deepEqual(JSON.parse((await runAgainst({ [MINE]: page }, ['inbox', '--json'])).out), page)
  })
})
