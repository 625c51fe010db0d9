/** `concord agents`: what fits into 80 columns, what a waiting run waits for, and the end of a watch. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aCommandView, type Answers, COMMAND_ID, runAgainst } from '#test/recorded-server'

const RUN = 'agent_0197f3b2c4d57a8e9b0c1d2e3f405161'
const run = {
  agent_run_id: RUN,
  command_id: COMMAND_ID,
  agent_name: 'Investigate Revenue Anomaly',
  agent_role: 'analyst',
  status: 'waiting_for_approval',
  end_reason: null,
  error: null,
  goal: 'Find out why revenue fell.',
  allowed_tools: ['publish_report'],
  forbidden_tools: [],
  max_steps: 20,
  step_count: 1,
  cost_units: '0.042000',
  created_at: '2026-05-01T11:58:00.000Z',
  started_at: null,
  deadline_at: null,
  completed_at: null,
  manifest: { limits: { max_cost_units: 5 } },
}
const ended = { ...run, status: 'failed', end_reason: 'max_steps_reached' }
const step = {
  step_index: 0,
  action_type: 'tool_call',
  tool_name: 'publish_report_for_finance',
  decision: 'approved',
  command_id: COMMAND_ID,
  cost_units: '0.014000',
  created_at: '2026-05-01T11:58:00.000Z',
}
const steps = { [`GET /agent-runs/${RUN}/steps?limit=500`]: { items: [step], next_cursor: null } }
const show = (answers: Answers, args: readonly string[]) =>
  runAgainst(answers, args, { columns: 80, environment: { NO_COLOR: '1' } })

test('80 columns show the whole status of a run and the whole tool of a step, with the ids below', async () => {
  const page = { items: [run, ended], next_cursor: null }
  const listed = await show({ 'GET /agent-runs?limit=50': page }, ['agents', 'list'])
  const made = await show(steps, ['agents', 'steps', RUN])
  for (const text of ['waiting_for_approval', 'failed: max steps reached', 'Investigate Revenue Anomaly', RUN])
    assert.ok(listed.out.includes(text), `${text} in ${listed.out}`)
  for (const text of ['publish_report_for_finance', 'approved', COMMAND_ID, '0.014000'])
    assert.ok(made.out.includes(text), `${text} in ${made.out}`)
  for (const line of `${listed.out}${made.out}`.split('\n')) assert.ok(line.length <= 80, line)
})

test('a waiting run shows what it waits for, and its limit of cost', async () => {
  const next = [{ action: 'decide_approval', what: 'publish_report needs an approval.', by: ['role:owner'] }]
  const command = aCommandView({ status: 'blocked', next })
  const answers = { [`GET /agent-runs/${RUN}`]: run, [`GET /commands/${COMMAND_ID}`]: command }
  const { out } = await show(answers, ['agents', 'show', RUN])
  assert.match(out, /waits for +publish_report needs an approval\. \(role:owner\)/)
  assert.match(out, /cost limit +5;/)
})

test('a watch numbers the steps from 0, and ends with the run', async () => {
  const { code, out, err } = await show({ ...steps, [`GET /agent-runs/${RUN}`]: ended }, ['agents', 'watch', RUN])
  assert.deepEqual([code, err], [0, 'failed: max steps reached\n'])
  assert.equal(out, `0 tool_call publish_report_for_finance approved ${COMMAND_ID}\n`)
})

test('a signal ends a watch of a run or of a mission without an error, also during a request', async () => {
  const mission = 'mission_0197f3b2c4d57a8e9b0c1d2e3f405161'
  const states = { [`GET /agent-runs/${RUN}`]: run, [`GET /missions/${mission}`]: { mission_id: mission } }
  for (const args of [
    ['agents', 'watch', RUN],
    ['missions', 'watch', mission],
  ]) {
    const stop = new AbortController()
    const silent = { ...states, [`GET /agent-runs/${RUN}/steps?limit=500`]: 'silence' }
    const onHeard = (count: number) => void (count === 2 && stop.abort('SIGTERM'))
    const events = { [`GET /missions/${mission}/events?`]: 'silence' }
    const { code, err } = await runAgainst({ ...silent, ...events }, args, { stop: stop.signal, onHeard })
    assert.deepEqual([code, err], [0, ''], args.join(' '))
  }
})
