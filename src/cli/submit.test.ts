/** Submit: the request, the output, and the exit code of each end of a wait. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { aCommandView, COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const POST = 'POST /commands'
const GET = `GET /commands/${COMMAND_ID}`
const submitted = { command_id: COMMAND_ID, status: 'queued', trace_id: 'trace_1' }
const task = ['submit', 'Refund Order']

describe('submit', () => {
  test('sends the task, the payload and the key, and prints the id alone on standard output', async () => {
    const { code, out, err, heard } = await runAgainst({ [POST]: submitted }, [
      ...task,
      '--payload',
      '{"order":"17"}',
      '--key',
      'may',
    ])
    assert.equal(code, 0, err)
    assert.equal(out, `${COMMAND_ID}\n`)
    assert.match(err, /concord why cmd_/)
    assert.deepEqual(
      heard.map(({ line, body }) => [line, body]),
      [[POST, { task_name: 'Refund Order', payload: { order: '17' }, idempotency_key: 'may' }]],
    )
    assert.equal(heard[0]?.headers['authorization'], 'Bearer ck_test')
  })

  test('without a payload an empty one is sent; --json gives the document of the server', async () => {
    const { out, err, heard } = await runAgainst({ [POST]: submitted }, [...task, '--json'])
    assert.deepEqual(heard[0]?.body, { task_name: 'Refund Order', payload: {} })
    assert.deepEqual(JSON.parse(out), submitted)
    assert.equal(err, '')
  })

  test('an unknown task keeps the suggestion of the server and names our own list', async () => {
    const problem = new Problem(404, 'task_unknown', { path: 'task_name', hint: 'Did you mean `Refund Order`?' })
    const { code, err } = await runAgainst({ [POST]: problem }, ['submit', 'Refnd'])
    assert.equal(code, 65)
    assert.match(err, /Did you mean `Refund Order`\? `concord task-types`/)
    const bare = new Problem(404, 'task_unknown', { hint: 'GET /task-types lists them.' })
    assert.doesNotMatch((await runAgainst({ [POST]: bare }, ['submit', 'x'])).err, /GET \//)
  })

  test('a used key keeps the hint of the server as a separate sentence', async () => {
    const problem = new Problem(409, 'key_reused', { hint: 'use a new key for a new request' })
    const { err } = await runAgainst({ [POST]: problem }, [...task, '--key', 'k'])
    assert.match(err, /for a new request\. Use another --key/)
  })

  test('two sources of one payload, or a stray word, exit 64 and send nothing', async () => {
    for (const args of [
      ['--payload', '{}', '--file', 'x.json'],
      ['--payload', '{}', '-'],
      ['{"order":"17"}'],
      ['--timeout', 'soon'],
      ['--timeout', '40d'],
    ]) {
      const { code, heard, err } = await runAgainst({ [POST]: submitted }, [...task, ...args])
      assert.deepEqual([code, heard.length], [64, 0], `${args.join(' ')}: ${err}`)
    }
  })
})

test('a request that has failed at once exits 65 with its reason, also without --wait', async () => {
  const failed = aCommandView({ status: 'failed', error: 'amount: a number' })
  const answers = { [POST]: { ...submitted, status: 'failed' }, [GET]: [failed] }
  const { code, out, err } = await runAgainst(answers, task)
  assert.deepEqual([code, out], [65, `${COMMAND_ID}\n`])
  assert.match(err, /amount: a number/)
})

describe('submit --wait', () => {
  const wait = [...task, '--wait']

  test('says each status once, in order, shows the result, and exits 0 for success', async () => {
    const running = aCommandView({ status: 'running' })
    const done = aCommandView({ status: 'succeeded', result: { refund: 'r1', note: 'one\n  two\n' } })
    const answers = { [POST]: submitted, [GET]: [aCommandView(), running, running, done] }
    const { code, out, err } = await runAgainst(answers, wait)
    assert.equal(code, 0, err)
    const lines = out.trim().split('\n')
    assert.equal(lines[0], COMMAND_ID)
    assert.deepEqual(
      lines.slice(1, -5).map((line) => line.split('  ')[1]),
      ['queued', 'running', 'succeeded'],
    )
    assert.deepEqual(
      lines.slice(-5).map((line) => line.trimEnd()),
      ['result', '  refund  r1', '  note', '          one', '            two'],
    )
  })

  test('a server that goes away meanwhile is asked again', async () => {
    const answers = {
      [POST]: submitted,
      [GET]: [
        'hang up',
        new Problem(503, 'database_unavailable'),
        new Problem(429, 'api.rate.exceeded'),
        aCommandView({ status: 'succeeded' }),
      ],
    }
    assert.equal((await runAgainst(answers, wait)).code, 0)
  })

  test('an answer that will not change ends the wait', async () => {
    const { code, heard } = await runAgainst({ [POST]: submitted, [GET]: new Problem(401, 'unauthenticated') }, wait)
    assert.deepEqual([code, heard.length], [77, 2])
  })

  const retry = { action: 'retry', by: ['requester'], what: 'Again.' }
  for (const [status, exit, said] of [
    ['failed', 65, /the card was refused[\s\S]*concord retry cmd_/],
    ['cancelled', 65, /concord why cmd_/],
    ['expired', 65, /concord why cmd_/],
    ['compensated', 65, /concord why cmd_/],
    ['waiting_for_input', 75, /concord commands input cmd_/],
    ['waiting_for_approval', 75, /concord approve/],
  ] as const) {
    test(`${status} exits ${exit} and says what to do, in words and in JSON`, async () => {
      const rested =
        status === 'failed'
          ? aCommandView({ status, error: 'the card was refused', next: [retry] })
          : aCommandView({ status })
      const answers = { [POST]: submitted, [GET]: [rested] }
      const words = await runAgainst(answers, wait)
      assert.equal(words.code, exit, words.err)
      assert.match(words.err, said)
      const json = await runAgainst(answers, [...wait, '--json'])
      assert.equal(json.code, exit)
      assert.deepEqual(JSON.parse(json.out), rested)
      assert.equal((JSON.parse(json.err) as { error: { facts: { status: string } } }).error.facts.status, status)
    })
  }

  test('a command blocked by an approval ends the wait; a command blocked by a child does not', async () => {
    const reconcile = { action: 'reconcile_effect', by: ['operator'], what: 'Say.' }
    const asked = { [POST]: submitted, [GET]: aCommandView({ status: 'blocked', next: [reconcile] }) }
    assert.equal((await runAgainst(asked, wait)).code, 75)
    const decide = { action: 'decide_approval', by: ['role:buyer'], what: 'Answer appr_1 about order_part.' }
    const run = await runAgainst(
      { [POST]: submitted, [GET]: aCommandView({ status: 'blocked', next: [decide] }) },
      wait,
    )
    assert.equal(run.code, 75)
    assert.match(run.err, /Answer appr_1 about order_part\. \(role:buyer\)/)
    const child = {
      [POST]: submitted,
      [GET]: [aCommandView({ status: 'blocked' }), aCommandView({ status: 'succeeded' })],
    }
    assert.equal((await runAgainst(child, wait)).code, 0)
  })

  for (const status of ['running', 'blocked'] as const)
    test(`${status} under a stop of agents ends the wait at once and names the stop`, async () => {
      const what = 'It waits until an administrator lifts the stop stop_1 of its agent (It orders too much).'
      const stopped = aCommandView({ status, next: [{ action: 'lift_stop', by: ['admin'], what }] })
      const { code, err } = await runAgainst({ [POST]: submitted, [GET]: stopped }, wait)
      assert.equal(code, 75, err)
      assert.match(err, /stop_1 of its agent \(It orders too much\)[\s\S]*concord stop --lift/)
    })

  test('the answer of an agent is printed below the result, if the reader may see it', async () => {
    const agent_run_id = 'agent_0197f3b2c4d57a8e9b0c1d2e3f405161'
    const result = { agent_run_id, end_reason: 'final_answer_created', answer: { digest: 'd' }, artifact_ids: [] }
    const ended = { [POST]: submitted, [GET]: aCommandView({ status: 'succeeded', result }) }
    const messages = `GET /agent-runs/${agent_run_id}/messages`
    const items = [{ type: 'result', role: 'assistant', content: { final: 'Two parts were ordered.' } }]
    for (const path of [messages, `${messages}?limit=500`])
      Object.assign(ended, { [path]: { items, next_cursor: null } })
    const seen = await runAgainst(ended, wait)
    assert.equal(seen.code, 0, seen.err)
    assert.match(seen.out, /\nanswer of the agent\nTwo parts were ordered\.\n$/)
    const hidden = await runAgainst({ [POST]: submitted, [GET]: aCommandView({ status: 'succeeded', result }) }, wait)
    assert.equal(hidden.code, 0, hidden.err)
    assert.doesNotMatch(hidden.out, /answer of the agent/)
  })

  test('a cancelled command is followed from compensated to cancelled', async () => {
    const undone = aCommandView({ status: 'compensated', cancellation_requested: true })
    const answers = { [POST]: submitted, [GET]: [undone, aCommandView({ status: 'cancelled' })] }
    assert.match((await runAgainst(answers, wait)).err, /is cancelled/)
  })

  for (const [title, answer] of [
    ['that never ends', aCommandView({ status: 'running' })],
    ['whose answer never comes', 'silence'],
  ] as const) {
    test(`a command ${title} is left after --timeout, with 75`, async () => {
      const { code, err } = await runAgainst({ [POST]: submitted, [GET]: answer }, [...wait, '--timeout', '150ms'])
      assert.equal(code, 75, err)
      assert.match(err, /cli\.wait\.ended/)
      assert.match(err, /concord commands show cmd_/)
    })
  }

  test('a signal ends the wait, not the command', async () => {
    const stop = new AbortController()
    const answers = { [POST]: submitted, [GET]: aCommandView({ status: 'running' }) }
    const onHeard = (count: number) => (count === 3 ? stop.abort() : undefined)
    const { code, err, heard } = await runAgainst(answers, wait, { stop: stop.signal, onHeard })
    assert.equal(code, 75)
    assert.match(err, /The wait was stopped/)
    assert.ok(heard.every(({ line }) => !line.includes('cancel')))
  })
})
