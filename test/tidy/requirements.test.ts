import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkRequirements, readRows } from './requirements.ts'
import { plantTree, readTree } from './tree.ts'

/** Composed at run time, so that the planted citations do not count for this file. */
const prefix = 'ST'
const row = (id: string) => `| ${id} | text | unit | core |\n`

describe('requirements', () => {
  test('a row that is gone, doubled or uncounted is found', () => {
    const planted = plantTree({
      'docs/requirements/states.md': row('ST-01') + row('ST-03'),
      'docs/requirements/api.md': row('ST-01'),
    })
    assertFindings(checkRequirements(planted, { ST: 2 }), [
      'docs/requirements/: ST-01 is in states.md:1 and api.md:1',
      'docs/requirements/: ST-02 is gone',
      'docs/requirements/: ST-03 is not counted in test/tidy/requirements.ts',
    ])
  })

  test('a test that cites a row which does not exist is found', () => {
    const planted = plantTree({
      'docs/requirements/states.md': row('ST-01'),
      'src/a.test.ts': `\ntest('[${prefix}-01] [${prefix}-02] two', () => {})`,
    })
    assertFindings(checkRequirements(planted, { ST: 1 }), ['src/a.test.ts:2: cites ST-02, which does not exist'])
  })

  const tree = readTree()
  test('the ledger has 1,293 rows, each once', () => assert.equal(readRows(tree).length, 1293))
  test('the ledger is whole and every cited row exists', () => assertTidy(checkRequirements(tree)))
})
