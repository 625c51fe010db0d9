/** `why`: the summary and the chain, one line per step; foreign text cannot change the layout. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { APPROVAL_ID, COMMAND_ID, runAgainst } from '#test/recorded-server'

const explanation = {
  summary: 'Refund Order is waiting for approval.',
  chain: [
    {
      kind: 'trigger',
      at: '2026-05-01T10:00:00.000Z',
      by: 'user_1',
      by_name: 'local:ana',
      text: 'local:ana asked for Refund Order.',
      event_id: 'evt_1',
    },
    {
      kind: 'policy',
      at: '2026-05-01T10:00:01.000Z',
      by: 'system',
      text: 'Policy said\u202e no\nreally.',
      event_id: 'evt_2',
    },
  ],
}
const GET = `GET /commands/${COMMAND_ID}/explanation`

test('the chain is in order, and text cannot leave its line', async () => {
  const { code, out, err } = await runAgainst({ [GET]: explanation }, ['why', COMMAND_ID])
  assert.equal(code, 0, err)
  const lines = out.trimEnd().split('\n')
  assert.equal(lines[0], 'Refund Order is waiting for approval.')
  assert.match(lines[3] ?? '', /trigger +local:ana +local:ana asked for Refund Order\.$/)
  assert.match(lines[4] ?? '', /policy +system +Policy said\\u\{202e\} no\\u\{a\}really\.$/)
  assert.equal(lines.length, 5)
})

test('while an approval is pending, the output ends with who answers and how', async () => {
  const last = {
    kind: 'approval',
    at: '2026-05-01T10:00:02.000Z',
    by: 'system',
    text: 'role:a was asked.',
    event_id: 'e',
  }
  const asking = { ...explanation, chain: [...explanation.chain, last] }
  const open = { approval_id: APPROVAL_ID, approver: 'role:a', approver_name: null, may_decide: false }
  const listed = `GET /approvals?command_id=${COMMAND_ID}&status=pending`
  const { out } = await runAgainst({ [GET]: asking, [listed]: { items: [open] } }, ['why', COMMAND_ID])
  assert.match(out, new RegExp(`\\n\\nrole:a answers with \`concord approve ${APPROVAL_ID}\` or .*\\n$`))
  const blocked_by = {
    code: 'role_without_members',
    reason: 'Nobody here has the role a.',
    hint: 'give it to somebody.',
  }
  const stopped = await runAgainst({ [GET]: asking, [listed]: { items: [{ ...open, blocked_by }] } }, [
    'why',
    COMMAND_ID,
  ])
  assert.match(stopped.out, /\n\nNobody here has the role a\. To do: give it to somebody\.\n$/)
  const silent = await runAgainst({ [GET]: asking }, ['why', COMMAND_ID])
  assert.deepEqual([silent.code, silent.err], [0, ''])
})

test('--json is the explanation as it came', async () => {
  const { out } = await runAgainst({ [GET]: explanation }, ['why', COMMAND_ID, '--json'])
  assert.deepEqual(JSON.parse(out), explanation)
})
