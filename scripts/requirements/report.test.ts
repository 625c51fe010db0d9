import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import pc from 'picocolors'
import { bar, renderOpen, renderTally, renderTroubles } from './report.ts'
import { parseRows } from './rows.ts'
import { tally } from './tally.ts'

const plain = pc.createColors(false)
const rows = [
  ...parseRows('missions', '| MIS-001 | a | unit | core |\n| MIS-002 | b | unit | later |'),
  ...parseRows('api', '| API-01 | c | api | core |'),
]
const aTally = (outcome: 'passed' | 'failed') =>
  tally(rows, [{ file: 'x.test.ts', titles: ['[API-01] the edge'], outcome, durationMs: 1 }], [])

describe('requirements report', () => {
  test('columns are aligned and the total is last', () => {
    const lines = renderTally(aTally('passed'), plain).split('\n')
    const [head = '', , missions = '', api = '', , total = ''] = lines
    assert.equal(lines.length, 6)
    for (const line of [missions, api, total]) assert.equal(line.length, head.length)
    assert.match(api, /^api {5} {2} {5}1 {2} {5}1 {2} {5}0 {2} {5}0 .*█{24} .*100$/)
    assert.match(total, /^total .* 3 .* 1 .* 1 .* 1 .* 33$/)
  })

  test('a bar is full only when everything is proven', () => {
    assert.equal(bar(0, 4), '░░░░')
    assert.equal(bar(0.999, 4), '███░')
    assert.equal(bar(1, 4), '████')
  })

  test('open rows are listed with priority and text', () => {
    assert.equal(renderOpen(aTally('passed'), plain), 'missions (2)\n  MIS-001  core      a\n  MIS-002  later     b')
  })

  test('a row cited by a failing test is named with the test', () => {
    assert.match(
      renderTroubles(aTally('failed'), plain),
      /failing test \(1\)\n {2}API-01 {2}x\.test\.ts: \[API-01\] the edge/,
    )
    assert.equal(renderTroubles(aTally('passed'), plain), '')
  })
})
