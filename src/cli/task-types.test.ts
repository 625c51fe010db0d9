/** The list of tasks: risk, approval, and a payload to begin with. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runAgainst } from '#test/recorded-server'

const refund = {
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
