/** `concord stop`: what it sends, what it shows, and its exit codes. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { aCommandView, COMMAND_ID, runAgainst } from '#test/recorded-server'

const STOP_ID = 'stop_0197f3b2c4d57a8e9b0c1d2e3f405166'
const SHOW = `GET /commands/${COMMAND_ID}`
const submitted = { command_id: COMMAND_ID, status: 'succeeded', trace_id: 'trace_1' }
const REASON = ['--reason', 'It does harm.']

describe('stop', () => {
  test('sends the scope and the target, waits for the outcome and prints the stop', async () => {
    const done = aCommandView({ status: 'succeeded', result: { stop_id: STOP_ID } })
    const cases: [string[], object][] = [
      [['--all'], { scope: 'all' }],
      [['--agent', 'planner'], { scope: 'agent', target: 'planner' }],
      [['--run', 'agent_1', '--end-runs'], { scope: 'run', target: 'agent_1', ends_runs: true }],
      [['--swarm', 'swarm_1'], { scope: 'swarm', target: 'swarm_1' }],
    ]
    for (const [flags, body] of cases) {
      const answers = { 'POST /stops': submitted, [SHOW]: done }
      const { code, out, err, heard } = await runAgainst(answers, ['stop', ...flags, ...REASON])
      assert.equal(code, 0, err)
      assert.match(out, new RegExp(STOP_ID))
      assert.deepEqual(heard[0]?.body, { ...body, reason: 'It does harm.' })
    }
  })

  test('lifts a stop, exits 75 while people have to agree, and 65 if policy denies', async () => {
    for (const [status, expected] of [
      ['succeeded', 0],
      ['waiting_for_approval', 75],
      ['failed', 65],
    ] as const) {
      const answers = {
        [`POST /stops/${STOP_ID}/lift`]: submitted,
        [SHOW]: aCommandView({ status }),
        'GET /approvals': { items: [] },
      }
      const { code, err } = await runAgainst(answers, ['stop', '--lift', STOP_ID, ...REASON])
      assert.equal(code, expected, err)
    }
  })

  test('lists the stops in force, and refuses two scopes or no reason without a request', async () => {
    const none = await runAgainst({ 'GET /stops?in_force=true&limit=500': { items: [], next_cursor: null } }, ['stop'])
    assert.deepEqual([none.code, none.err], [0, 'No stop is in force.\n'])
    const stop = {
      stop_id: STOP_ID,
      scope: 'all',
      target: null,
      stopped_by: 'user:0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161',
      created_at: '2026-05-01T10:00:00.000Z',
      reason: 'It does harm.',
    }
    const user_id = 'user_0197f3b2c4d57a8e9b0c1d2e3f405161'
    const listed = await runAgainst(
      {
        'GET /stops?in_force=true&limit=500': { items: [stop], next_cursor: null },
        [`GET /people/names?user_id=${user_id}`]: { items: [{ user_id, name: 'local:admin' }] },
      },
      ['stop'],
    )
    assert.match(listed.out, /local:admin/)
    const two = await runAgainst({}, ['stop', '--all', '--agent', 'planner', ...REASON])
    assert.deepEqual([two.code, two.heard.length], [64, 0])
    const silent = await runAgainst({}, ['stop', '--all'])
    assert.deepEqual([silent.code, silent.heard.length], [64, 0])
    assert.match(silent.err, /--reason is missing/)
  })
})
