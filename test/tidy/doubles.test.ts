import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkDoubles, staleDoubles } from './doubles.ts'
import { assertFindings, assertTidy } from './finding.ts'
import { plantTree, readTree } from './tree.ts'

describe('names with two meanings', () => {
  const planted = plantTree({
    'src/a.ts': 'export type Found = 1\nexport const once = 1',
    'src/b.ts': `export function Found() {}\nexport { once } from './a.ts'`,
    'src/b.test.ts': 'export const once = 2',
  })

  test('a second definition is found, a name that is passed on is none', () => {
    assertFindings(checkDoubles(planted, new Set()), ['src/a.ts: Found has other meanings in src/b.ts'])
    assertFindings(checkDoubles(planted, new Set(['Found'])), [])
    assert.deepEqual(staleDoubles(planted, new Set(['Found', 'once'])), ['once'])
  })

  test('no exported name has a second meaning, but for those that are listed', (t) => {
    const tree = readTree()
    const stale = staleDoubles(tree)
    if (stale.length > 0) t.diagnostic(`take these out of the list: ${stale.join(' ')}`)
    assertTidy(checkDoubles(tree))
  })
})
