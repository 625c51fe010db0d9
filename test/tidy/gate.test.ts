import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkGate, unfold } from './gate.ts'
import { plantTree, readTree } from './tree.ts'

const scripts = {
  verify: 'npm run -s check && npm run -s draw -- --check && npm test',
  check: 'tsc && npm run -s check:tidy',
  'check:tidy': `node --test 'test/tidy/*.test.ts'`,
  draw: 'node scripts/draw.ts',
  test: 'node scripts/test.ts',
}
const ci = 'set -euo pipefail\nnpm run verify\n'
const found = (changes: object, run = ci) =>
  checkGate(plantTree({ 'package.json': JSON.stringify({ scripts: { ...scripts, ...changes } }), '.ci/run': run }))

describe('gate', () => {
  test('a script is unfolded into the commands it runs, in order', () => {
    assert.deepEqual(unfold(scripts, 'verify'), ['tsc', scripts['check:tidy'], scripts.draw, scripts.test])
  })

  test('a good gate is fine', () => assertFindings(found({}), []))
  test('the tidy tests after the suite', () => {
    assertFindings(found({ verify: 'npm test && npm run -s check' }), [
      'package.json: verify runs the tidy tests after the suite',
    ])
  })
  test('no tidy tests at all', () => {
    assertFindings(found({ check: 'tsc' }), ['package.json: verify does not run the tidy tests'])
  })
  test('no suite at all', () => {
    assertFindings(found({ verify: 'npm run -s check' }), ['package.json: verify does not run the test suite'])
  })
  test('a CI run that checks nothing and goes on', () => {
    assertFindings(found({}, 'npm test\n'), [
      '.ci/run: does not run npm run verify',
      '.ci/run: goes on after a failure',
    ])
  })

  test('[DET-10] [TST-05] the boundary check runs before the suite, and CI runs both', () =>
    assertTidy(checkGate(readTree())))
})
