/** How lists and documents look on a terminal: they fit its width, states have colours, times are those of the reader. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import stringWidth from 'string-width'
import { aCommandView, COMMAND_ID, runAgainst } from '#test/recorded-server'
import { sayClock, sayTime } from './times.ts'

const LIST = 'GET /commands?housekeeping=false&limit=50'
const items = [
  aCommandView({
    status: 'failed',
    error_class: 'policy_denied',
    task_name: 'Refund 注文を返金する Order of the Year',
  }),
  aCommandView({ status: 'waiting_for_approval', task_name: 'Pay' }),
]
const list = (more: Parameters<typeof runAgainst>[2]) => runAgainst({ [LIST]: { items } }, ['commands', 'list'], more)

describe('a table', () => {
  test('fits the terminal, keeps ids whole and counts wide characters as two', async () => {
    for (const columns of [80, 120]) {
      const lines = stripVTControlCharacters((await list({ columns })).out)
        .trimEnd()
        .split('\n')
      assert.equal(lines.length, 3)
      for (const line of lines) assert.ok(stringWidth(line) <= columns, line)
      for (const line of lines.slice(1)) assert.ok(line.startsWith(`${COMMAND_ID}  `), line)
      const [head = '', first = '', second = ''] = lines
      assert.equal(first.includes('…'), columns === 80)
      assert.equal(head.indexOf('status'), second.indexOf('waiting'))
    }
  })

  test('is whole where the output is not a terminal', async () => {
    const { out } = await list({})
    assert.match(out, /Refund 注文を返金する Order of the Year/)
    assert.doesNotMatch(out, /…/)
  })

  test('has coloured states on a terminal, unless NO_COLOR is set', async () => {
    const { out } = await list({ columns: 120 })
    assert.ok(out.includes('\x1b[31mfailed (policy denied)\x1b[39m'), out)
    assert.ok(out.includes('\x1b[33mwaiting for approval\x1b[39m'), out)
    for (const environment of [{ NO_COLOR: '1' }, { TERM: 'dumb' }])
      assert.equal((await list({ columns: 120, environment })).out.includes('\x1b'), false)
  })
})

test('the explanation of a command is wrapped, not cut', async () => {
  const text = 'local:ana asked for Refund Order by user request, because: the customer sent it back.'
  const chain = [{ kind: 'trigger', at: '2026-05-01T10:00:00.000Z', by: 'user_1', by_name: 'local:ana', text }]
  const answer = { summary: 'Refund Order is queued.', chain, archived_note: null, truncated: false }
  const answers = { [`GET /commands/${COMMAND_ID}/explanation`]: answer }
  const { out } = await runAgainst(answers, ['why', COMMAND_ID], { columns: 80, environment: { NO_COLOR: '1' } })
  for (const line of out.split('\n')) assert.ok(line.length <= 80, line)
  const cells = out.split('\n').map((line) => line.slice(30).trim())
  assert.ok(cells.join(' ').includes(text), out)
})

test('a time is that of the reader, with the day where it is not today', () => {
  const at = (now: string, zone = 'Europe/Berlin') => ({ now: () => new Date(now), zone })
  const instant = '2026-05-01T22:30:15.000Z'
  for (const [now, said] of [
    ['2026-05-01T22:30:15.900Z', '00:30, just now'],
    ['2026-05-01T22:30:45.000Z', '00:30, 30 s ago'],
    ['2026-05-01T22:33:14.000Z', '00:30, 2 min ago'],
    ['2026-05-01T21:59:00.000Z', '02 May 00:30, in 31 min'],
    ['2026-05-04T12:00:00.000Z', '02 May 00:30, 2 d ago'],
    ['2027-05-04T12:00:00.000Z', '02 May 2026 00:30, 367 d ago'],
  ] as const)
    assert.equal(sayTime(at(now), instant), said)
  assert.equal(sayTime(at('2026-05-01T22:33:14.000Z', 'America/New_York'), instant), '18:30, 2 min ago')
  assert.equal(sayClock(at('2026-05-01T22:33:14.000Z'), instant), '00:30:15')
  assert.equal(sayTime(at('2026-05-01T22:33:14.000Z'), 'never'), 'never')
})
