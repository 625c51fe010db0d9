/** `concord events tail`: one sentence for each event, with names of people and tasks; one line of JSON each with --json. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { actorOf, sayEvent } from './event-sentence.ts'
import { COMMAND_ID, EventFrames, runAgainst } from '#test/recorded-server'

const USER = 'user:0197f3b2-c4d5-7a8e-9b0c-1d2e3f405163'
const at = (second: number) => `2026-05-01T10:00:0${second}.000Z`
const event = (
  second: number,
  event_type: string,
  actor: string,
  payload: object,
  command_id: string | null = COMMAND_ID,
) => ({
  event_id: 'evt_0197f3b2c4d57a8e9b0c1d2e3f405160',
  event_type,
  purpose: 'event',
  command_id,
  actor,
  trace_id: 'trace_1',
  created_at: at(second),
  payload,
})
const events = [
  event(1, 'command_created', USER, { task_name: 'Refund Order', ingress: 'user_request' }),
  event(2, 'policy_evaluated', 'system', { decision: 'require_approval', reasons: ['It costs more than 500.'] }),
  event(3, 'approval_requested', 'system', { approver: USER }),
  event(4, 'retry_scheduled', 'worker', {
    effect_type: 'bank.pay',
    attempt: 1,
    last_error: 'no answer',
    run_after: at(9),
  }),
  event(5, 'effect_executed', 'worker', { effect_type: 'bank.pay', attempt: 2 }),
  event(6, 'status_changed', 'worker', { target_type: 'command', from: 'running', to: 'succeeded' }),
  event(7, 'org_role_granted', USER, { name: 'audi\u202etor' }, null),
]
const names = { items: [{ user_id: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163', name: 'local:ana' }] }
const answers = {
  'GET /events?after=start&until=now': new EventFrames(events),
  'GET /people/names?user_id=user_0197f3b2c4d57a8e9b0c1d2e3f405163': names,
}

test('events tail prints one sentence for each event, and asks for each name once', async () => {
  const { code, out, err, heard } = await runAgainst(answers, ['events', 'tail', '--from-start', '--once'])
  assert.equal(code, 0, err)
  assert.deepEqual(out.split('\n'), [
    `10:00:01  local:ana asked for Refund Order.  ${COMMAND_ID}`,
    '10:00:02  Policy answers require approval for Refund Order: It costs more than 500.',
    '10:00:03  local:ana is asked to approve Refund Order.',
    '10:00:04  bank.pay failed on attempt 1: no answer; the next attempt is at 10:00:09.',
    '10:00:05  bank.pay succeeded on attempt 2.',
    '10:00:06  Refund Order has succeeded.',
    '10:00:07  Org role audi\\u{202e}tor was granted by local:ana.',
    '',
  ])
  assert.equal(heard.filter(({ line }) => line.includes('/people/names')).length, 1)
})

test('events tail --command asks for the events of one command and does not repeat its id; --json prints lines', async () => {
  const one = {
    ...answers,
    [`GET /events?after=start&command_id=${COMMAND_ID}&until=now`]: new EventFrames(events.slice(0, 2)),
  }
  const args = ['events', 'tail', '--from-start', '--once', '--command', COMMAND_ID]
  const { out } = await runAgainst(one, args)
  assert.match(out, /^10:00:01 {2}local:ana asked for Refund Order\.\n/)
  const json = (await runAgainst(one, [...args, '--json'])).out.trimEnd().split('\n')
  assert.deepEqual(
    json.map((line) => JSON.parse(line) as unknown),
    events.slice(0, 2).map((each, index) => ({ cursor: `1.${index}`, ...each })),
  )
})

test('steps of agents are told as what the agent did', () => {
  const uuid = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'
  const telling = { task: 'Keep Stock', who: actorOf, clock: (instant: string) => instant }
  const told = (event_type: string, payload: Record<string, unknown>, actor = `agent:${uuid}`) =>
    sayEvent({ event_type, actor, payload, command_id: null, created_at: '' }, telling)
  const agent = 'agent_0197f3b2c4d57a8e9b0c1d2e3f405161'
  assert.equal(told('tool_call', { decision: 'allowed' }), `${agent} called a tool.`)
  assert.equal(told('tool_call', { decision: 'denied' }), `${agent} called a tool: denied.`)
  assert.equal(told('final_answer', {}), `${agent} gave its final answer.`)
  const blocked = { target_type: 'command', to: 'blocked', reason: 'agent_run' }
  assert.equal(told('status_changed', blocked), 'Keep Stock is blocked: a call of its agent waits for a person.')
  assert.equal(told('command_created', { ingress: 'agent_action' }, 'ana'), 'An agent of ana proposed Keep Stock.')
})
