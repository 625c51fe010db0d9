import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TestResult } from './results.ts'
import { parseRows } from './rows.ts'
import { tally } from './tally.ts'

const rows = [
  ...parseRows('states', '| ST-01 | a | unit | core |\n| ST-02 | b | unit | important |\n| ST-03 | c | unit | later |'),
  ...parseRows('api', '| API-01 | d | api | core |'),
]

const ran = (titles: string[], outcome: TestResult['outcome'] = 'passed'): TestResult => ({
  file: 'x.test.ts',
  titles,
  outcome,
  durationMs: 1,
})

const standings = (results: TestResult[], citations: Parameters<typeof tally>[2] = []) =>
  tally(rows, results, citations).standings.map(({ row, standing }) => `${row.id} ${standing}`)

describe('tally', () => {
  test('a passing test proves what any level of its path cites', () => {
    assert.deepEqual(standings([ran(['[ST-01] outer', '[ST-03] inner'])]), [
      'ST-01 proven',
      'ST-02 open',
      'ST-03 proven',
      'API-01 open',
    ])
  })

  test('one failing test is enough to lose the proof', () => {
    assert.equal(standings([ran(['[ST-01] a']), ran(['[ST-01] b'], 'failed')])[0], 'ST-01 failing')
  })

  test('a suite that fails in a hook takes the proof of its tests along, in its own file only', () => {
    const elsewhere = { ...ran(['suite', '[ST-02] b']), file: 'y.test.ts' }
    const found = standings([ran(['suite', '[ST-01] a']), ran(['suite'], 'failed'), elsewhere])
    assert.deepEqual(found.slice(0, 2), ['ST-01 failing', 'ST-02 proven'])
  })

  for (const outcome of ['skipped', 'todo'] as const) {
    test(`a ${outcome} test proves nothing`, () => {
      assert.equal(standings([ran(['[ST-01] a'], outcome)])[0], 'ST-01 not run')
    })
  }

  test('a citation in the source alone is cited, not run', () => {
    assert.equal(standings([], [{ id: 'API-01', file: 'x.test.ts', line: 3 }])[3], 'API-01 not run')
  })

  test('an id without a row is reported with its place, from a run and from the source', () => {
    const unknown = ['ST', '99'].join('-')
    assert.deepEqual(tally(rows, [ran([`[${unknown}] a`])], []).unknown, [
      { id: unknown, places: [`x.test.ts: [${unknown}] a`] },
    ])
    assert.deepEqual(tally(rows, [], [{ id: unknown, file: 'x.test.ts', line: 3 }]).unknown, [
      { id: unknown, places: ['x.test.ts:3'] },
    ])
  })

  test('rooms count proven, open and later apart, and the total adds them up', () => {
    const { rooms, total } = tally(rows, [ran(['[ST-01] a'])], [])
    assert.deepEqual(rooms, [
      { room: 'states', rows: 3, proven: 1, open: 1, later: 1 },
      { room: 'api', rows: 1, proven: 0, open: 1, later: 0 },
    ])
    assert.deepEqual(total, { room: 'total', rows: 4, proven: 1, open: 2, later: 1 })
  })
})
