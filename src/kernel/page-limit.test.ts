import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parsePageLimit } from './page-limit.ts'

describe('page limit', () => {
  for (const [text, limit] of [
    ['1', 1],
    ['500', 500],
    [undefined, 50],
  ] as const) {
    test(`takes ${text}`, () => assert.deepEqual(parsePageLimit(text), { ok: true, value: limit }))
  }
  for (const text of [
    '',
    '0',
    '01',
    '050',
    '1 ',
    '１',
    'NaN',
    '5_0',
    '-1',
    '501',
    '1000000000',
    '1e9',
    'abc',
    '1e3',
    '0x10',
    '1.0',
    ' 5',
    '+5',
    'Infinity',
    '٥',
  ]) {
    test(`refuses ${JSON.stringify(text)}`, () => {
      const decision = parsePageLimit(text)
      assert.equal(!decision.ok && decision.code, 'limit_range')
      assert.ok(!decision.ok && decision.reason.includes('1 to 500'))
    })
  }
})
