import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { formatResult, mergeResults, parseResults, type TestResult } from './results.ts'

const aResult = (file: string, outcome: TestResult['outcome'] = 'passed'): TestResult => ({
  file,
  titles: ['suite', 'test "quoted"\nbroken line'],
  outcome,
  durationMs: 1.5,
})

describe('test results', () => {
  test('what is written is read back', () => {
    const results = [aResult('a.test.ts'), aResult('b.test.ts', 'failed')]
    assert.deepEqual(parseResults(results.map(formatResult).join('')), results)
  })

  test('a cut last line and a line of another shape are dropped', () => {
    const whole = formatResult(aResult('a.test.ts'))
    assert.deepEqual(parseResults(`${whole}{"file":"x"}\n${whole.slice(0, 20)}`), [aResult('a.test.ts')])
  })

  test('a run over some files replaces these files and keeps the others', () => {
    const before = [aResult('a.test.ts', 'failed'), aResult('a.test.ts'), aResult('b.test.ts')]
    const after = [aResult('a.test.ts')]
    assert.deepEqual(mergeResults(before, after), [aResult('b.test.ts'), aResult('a.test.ts')])
  })
})
