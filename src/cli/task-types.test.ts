/** The list of tasks: risk, approval, and a payload to begin with. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runAgainst } from '#test/recorded-server'

const refund = {
  version: '1.0.0',
  side_effects: ['payments.refund'],
  policy_checks: ['permission'],
  connector_requirements: [],
  approver: 'role:refund-approver',
  approval_expires_in_minutes: 60,
  key_template: 'refund:{order}',
  on_failure: 'undo',
  cancellation_mode: 'compensate_then_stop',
  can_be_undone: true,
  cancellable_by: ['requester'],
  error_classes: ['timeout'],
  audit: ['command_created'],
  task_name: 'Refund Order',
  description: 'Sends money back.',
  risk_level: 'high',
  approval_required: true,
  ingress_types: ['user_request', 'agent_action'],
  required_inputs: ['why'],
  payload_schema: {
    type: 'object',
    required: ['order'],
    properties: { order: { type: 'string' }, why: { type: 'string' }, note: { type: 'string' } },
  },
}

test('each task shows its risk, its approval, whether agents may propose it, and an example', async () => {
  const answers = {
    'GET /task-types': {
      items: [refund, { ...refund, task_name: 'Echo', approval_required: false, ingress_types: ['user_request'] }],
    },
  }
  const { code, out } = await runAgainst(answers, ['task-types'])
  assert.equal(code, 0)
  assert.match(out, /Refund Order +high +always +may ask +\{"order":"<order>","why":"<why>"\}\n/)
  assert.match(out, /Echo +high +by policy +- +\{/)
  assert.deepEqual(JSON.parse((await runAgainst(answers, ['task-types', '--json'])).out), answers['GET /task-types'])
})

test('a server without tasks prints that', async () => {
  const { code, out, err } = await runAgainst({ 'GET /task-types': { items: [] } }, ['task-types'])
  assert.deepEqual([code, out], [0, ''])
  assert.match(err, /no tasks/)
})

test('one task shows its whole contract, and a wrong name the nearest', async () => {
  const answers = { 'GET /task-types': { items: [refund] } }
  const { code, out } = await runAgainst(answers, ['task-types', 'show', 'Refund Order'])
  assert.equal(code, 0)
  assert.match(out, /^key +refund:\{order\}$/m)
  assert.match(out, /^on failure +what was done is undone$/m)
  assert.match(out, /^approval +always, role:refund-approver unless a rule names somebody$/m)
  const json = await runAgainst(answers, ['task-types', 'show', 'Refund Order', '--json'])
  assert.deepEqual(JSON.parse(json.out), refund)
  const wrong = await runAgainst(answers, ['task-types', 'show', 'Refund Ordr'])
  assert.equal(wrong.code, 65)
  assert.match(wrong.err, /Did you mean `Refund Order`/)
})
