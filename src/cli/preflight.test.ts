/** `concord preflight`: what it sends, its tables, and its document. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { COMMAND_ID, runAgainst } from '#test/recorded-server'

const approval = {
  needed_by: 'Pay Supplier',
  when: 'arguments',
  approver: 'role:owner',
  approval_type: 'command_approval',
  approvals_required: 2,
  why: 'A large amount.',
  could_decide: ['local:ada', 'local:ben'],
  not_counted: [],
  blocked_by: null,
}
const found = {
  task_name: 'Investigate Revenue',
  kind: 'agent',
  is_ready: false,
  status: 'running',
  error: null,
  missing_fields: [],
  policy: null,
  approvals: [approval, { ...approval, blocked_by: { code: 'x', reason: 'Nobody has the role.', hint: '' } }],
  spend: { limit_units: '3.000000', call_units: '0.002000', calls_max: 20, worst_case_units: '0.040000' },
  irreversible: [{ needed_by: 'Pay Supplier', effect_type: 'bank.pay', effect_class: 'keyed', reason: 'No undo.' }],
  missing: [{ kind: 'tool', name: 'run_sql', needed_by: 'Ada', reason: 'There is no tool "run_sql".' }],
  tools: [],
  unknown: [{ what: 'Which tools are called.', until: 'the agent calls them' }],
}

test('shows who can approve today, the cost, what cannot be undone, what is missing and what is unknown', async () => {
  const flags = ['preflight', 'Investigate Revenue', '--payload', '{"month":"2026-05"}']
  const { code, out, err, heard } = await runAgainst({ 'POST /preflights': found }, flags)
  assert.equal(code, 65, err)
  assert.match(err, /Investigate Revenue is not ready\./)
  assert.deepEqual(heard[0]?.body, { task_name: 'Investigate Revenue', payload: { month: '2026-05' } })
  for (const text of [
    'not ready',
    'at most 0.040000 units; limit 3.000000; up to 0.002000 a call, 20 steps',
    'for some arguments',
    '2 of role:owner',
    'local:ada, local:ben',
    'nobody: Nobody has the role.',
    'bank.pay',
    'tool run_sql',
    'the agent calls them',
  ])
    assert.ok(out.includes(text), `${text} in ${out}`)
  const calls = [{ tool: 'publish_report', calls_max: 1 }]
  const submitted = { command_id: COMMAND_ID, status: 'waiting_for_approval', trace_id: 't' }
  const asked = await runAgainst({ 'POST /preflights': submitted }, [...flags, '--envelope', JSON.stringify({ calls })])
  assert.deepEqual([asked.code, asked.out], [0, `${COMMAND_ID}\n`])
  assert.deepEqual(asked.heard[0]?.body, { ...(heard[0]?.body as object), envelope: { calls } })
  assert.equal((await runAgainst({}, [...flags, '--envelope', '{'])).code, 65)
  const ready = { ...found, is_ready: true, spend: { ...found.spend, limit_units: '0.001000' } }
  const short = await runAgainst({ 'POST /preflights': ready }, flags)
  assert.deepEqual([short.code, short.out.includes('does not pay for one call')], [0, true])
  const json = await runAgainst({ 'POST /preflights': found }, [...flags, '--json'])
  assert.deepEqual(JSON.parse(json.out), found)
})
