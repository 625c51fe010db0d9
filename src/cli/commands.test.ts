/** Commands on the terminal: the list, one with its next moves and effects, and the missing input. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { aCommandView, APPROVAL_ID, COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const PATH = `/commands/${COMMAND_ID}`

describe('commands list', () => {
  test('sends the filter and the limit, and shows one line per command with hidden characters made visible', async () => {
    const page = {
      items: [aCommandView({ status: 'waiting_for_approval', task_name: 'Refund\u001b[2J\nOrder' })],
      next_cursor: 'c1',
    }
    const { code, out, err, heard } = await runAgainst(
      { 'GET /commands?status=waiting_for_approval&housekeeping=false&limit=1': page },
      ['commands', 'list', '--status', 'waiting_for_approval', '--limit', '1'],
    )
    assert.equal(code, 0, err)
    assert.equal(heard.length, 1)
    assert.equal(out.split('\n').length, 3)
    assert.match(out, /cmd_0197\S+\s+waiting for approval\s+10:00, 2 h ago\s+Refund\\u\{1b\}\[2J\\u\{a\}Order/)
    assert.match(err, /--cursor c1/)
  })

  test('an error class is shown next to the status, also after a cancel', async () => {
    const items = [
      aCommandView({ status: 'cancelled', error: 'no', error_class: 'policy_denied' }),
      aCommandView({ status: 'cancelled', error: null, error_class: null }),
    ]
    const { out } = await runAgainst({ 'GET /commands?housekeeping=false&limit=50': { items, next_cursor: null } }, [
      'commands',
      'list',
    ])
    const [, refused, given] = out.split('\n')
    assert.match(refused ?? '', /cancelled \(policy denied\)/)
    assert.doesNotMatch(given ?? '', /\(/)
  })

  test('a page behind another is asked for by its cursor; --json is the page as it came', async () => {
    const page = { items: [aCommandView()], next_cursor: null }
    const { out } = await runAgainst({ 'GET /commands?housekeeping=false&limit=50&cursor=c1': page }, [
      'commands',
      'list',
      '--cursor',
      'c1',
      '--json',
    ])
    assert.deepEqual(JSON.parse(out), page)
  })

  test('short pages are read until the list is full; the filters go to the server, and --all shows the housekeeping', async () => {
    const short = (count: number, next_cursor: string | null) => ({
      items: Array.from({ length: count }, () => aCommandView()),
      next_cursor,
    })
    const { out, err, heard } = await runAgainst(
      {
        'GET /commands?housekeeping=false&limit=3': short(0, 'c1'),
        'GET /commands?housekeeping=false&limit=3&cursor=c1': short(2, 'c2'),
        'GET /commands?housekeeping=false&limit=1&cursor=c2': short(1, 'c3'),
      },
      ['commands', 'list', '--limit', '3'],
    )
    assert.deepEqual([heard.length, out.split('\n').length], [3, 5])
    assert.match(err, /--cursor c3/)
    for (const [args, query] of [
      [['--all'], 'limit=50'],
      [['--task', 'Pay'], 'task_name=Pay&limit=50'],
      [
        ['--after', '2026-05-01T10:00:00Z', '--before', '2026-05-02T10:00:00Z', '--all'],
        'created_after=2026-05-01T10%3A00%3A00Z&created_before=2026-05-02T10%3A00%3A00Z&limit=50',
      ],
      [['--ingress', 'webhook', '--trace', 'trace_1'], 'ingress=webhook&trace_id=trace_1&housekeeping=false&limit=50'],
    ] as const) {
      const said = await runAgainst({ [`GET /commands?${query}`]: short(1, null) }, ['commands', 'list', ...args])
      assert.equal(said.code, 0, said.err)
    }
  })

  test('an empty list says where to begin, on standard error', async () => {
    const { code, out, err } = await runAgainst(
      { 'GET /commands?housekeeping=false&limit=50': { items: [], next_cursor: null } },
      ['commands', 'list'],
    )
    assert.deepEqual([code, out], [0, ''])
    assert.match(err, /concord task-types/)
  })

  for (const [args, said] of [
    [['--status', 'faild'], /Did you mean `failed`/],
    [['--limit', 'abc'], /1 to 500/],
    [['--limit', '501'], /1 to 500/],
    [['--limti', '5'], /Did you mean --limit/],
  ] as const) {
    test(`${args.join(' ')} exits 64 without a request`, async () => {
      const { code, err, heard } = await runAgainst({}, ['commands', 'list', ...args])
      assert.deepEqual([code, heard.length], [64, 0])
      assert.match(err, said)
    })
  }
})

describe('commands show', () => {
  const failed = aCommandView({
    status: 'failed',
    error: 'the card was refused',
    error_class: 'validation_error',
    attempt: 2,
    completed_at: '2026-05-01T10:00:02.000Z',
    next: [
      { action: 'retry', by: ['requester', 'admin'], what: 'Run it again; what succeeded is kept.' },
      { action: 'undo', by: ['requester', 'admin'], what: 'Undo what it did before it failed.' },
      { action: 'wait', by: ['concord'], what: 'It goes on.' },
    ],
  })
  const effect = {
    effect_id: 'eff_1',
    effect_type: 'connector.bank.pay',
    status: 'failed',
    attempt: 3,
    max_attempts: 3,
    error: 'no answer',
    compensates_effect_id: null,
    run_after: null,
  }
  const undo = {
    ...effect,
    effect_type: 'compensation.bank.refund',
    status: 'succeeded',
    compensates_effect_id: 'eff_1',
    error: null,
  }

  test('shows the status, the next possible steps, who can take them and how, and the effects', async () => {
    const answers = { [`GET ${PATH}`]: failed, [`GET ${PATH}/effects?limit=500`]: { items: [effect, undo] } }
    const { code, out, err } = await runAgainst(answers, ['commands', 'show', COMMAND_ID])
    assert.equal(code, 0, err)
    assert.match(out, /^Refund Order has failed\n/)
    assert.match(out, /error +the card was refused \(validation_error\)\n/)
    assert.match(out, /run +2\n/)
    assert.match(out, /retry +Run it again; what succeeded is kept \(requester, admin\)\n +concord retry cmd_0197/)
    assert.match(out, /undo +Undo what it did before it failed \(requester, admin\)\n +concord undo cmd_0197/)
    assert.match(out, /wait +It goes on \(concord\)\n +concord why cmd_0197/)
    assert.match(out, /connector\.bank\.pay +failed +3 of 3 +no answer\n/)
    assert.match(out, /compensation\.bank\.refund \(undo\) +succeeded/)
  })

  test('--json is the command as it came, with one question', async () => {
    const { out, heard } = await runAgainst({ [`GET ${PATH}`]: failed }, ['commands', 'show', COMMAND_ID, '--json'])
    assert.deepEqual(JSON.parse(out), failed)
    assert.equal(heard.length, 1)
  })

  test('an invalid id sends no request; the id of an approval is recognised', async () => {
    const { code, err, heard } = await runAgainst({}, ['commands', 'show', APPROVAL_ID])
    assert.deepEqual([code, heard.length], [65, 0])
    assert.match(err, /id of an approval\. `concord commands list`/)
    assert.equal((await runAgainst({}, ['commands', 'show', '../keys'])).heard.length, 0)
  })

  test('one that is not here exits 65 and says where to look', async () => {
    const { code, err } = await runAgainst({ [`GET ${PATH}`]: new Problem(404, 'commands.command.not_found') }, [
      'commands',
      'show',
      COMMAND_ID,
    ])
    assert.equal(code, 65)
    assert.match(err, /concord commands list.*CONCORD_WORKSPACE/)
  })
})

describe('commands input', () => {
  test('sends the fields', async () => {
    const answers = { [`POST ${PATH}/input`]: aCommandView({ status: 'validated' }) }
    const { code, out, heard } = await runAgainst(answers, ['commands', 'input', COMMAND_ID, '--payload', '{"a":1}'])
    assert.deepEqual([code, heard[0]?.body], [0, { input: { a: 1 } }])
    assert.match(out, /is validated/)
  })

  test('without fields exits 64; one that does not wait exits 75', async () => {
    assert.equal((await runAgainst({}, ['commands', 'input', COMMAND_ID])).code, 64)
    const problem = { [`POST ${PATH}/input`]: new Problem(409, 'commands.command.not_waiting') }
    const { code, err } = await runAgainst(problem, ['commands', 'input', COMMAND_ID, '--payload', '{}'])
    assert.equal(code, 75)
    assert.match(err, /concord commands show/)
  })
})
