import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { findDuplicates, parseRows, roomOrder } from './rows.ts'

const ledger = `# Flow

Words before the table, with a FLOW-999 that is no row.

| ID | Requirement | How it is verified | Priority |
|---|---|---|---|
| FLOW-010 | One \\| two. | schema; constraint | core |
|  FLOW-011  |  Same YAML, same version.  |  database: deploy twice  |  later  |
`

describe('requirement rows', () => {
  test('a row has an id, a text, a proof, a priority, a room and a line', () => {
    const [first, second, ...rest] = parseRows('flow', ledger)
    assert.deepEqual(first, {
      id: 'FLOW-010',
      room: 'flow',
      text: 'One \\| two.',
      verifiedBy: 'schema; constraint',
      priority: 'core',
      origin: 'source',
      line: 7,
    })
    assert.deepEqual([second?.id, second?.text, second?.priority], ['FLOW-011', 'Same YAML, same version.', 'later'])
    assert.deepEqual(rest, [])
  })

  for (const [fault, line] of [
    ['a cell too few', '| ST-01 | text | core |'],
    ['a cell too many', '| ST-01 | text | unit | core | source | extra |'],
    ['an unknown origin', '| ST-01 | text | unit | core | rumour |'],
    ['an unknown priority', '| ST-01 | text | unit | urgent |'],
    ['no text', '| ST-01 |  | unit | core |'],
  ] as const) {
    test(`${fault} is an error that names the place`, () => {
      assert.throws(() => parseRows('states', `\n${line}\n`), /states\.md:2/)
    })
  }

  test('an id in two files is found with both places', () => {
    const rows = [...parseRows('a', '| ST-01 | x | unit | core |'), ...parseRows('b', '| ST-01 | y | unit | core |')]
    assert.deepEqual(findDuplicates(rows), [{ id: 'ST-01', places: ['a.md:1', 'b.md:1'] }])
    assert.deepEqual(findDuplicates(rows.slice(1)), [])
  })

  test('rooms come in the order of the table of contents', () => {
    assert.deepEqual(roomOrder('| [states](states.md) | ST |\n[flow](flow.md), again [states](states.md)'), [
      'states',
      'flow',
    ])
  })
})
