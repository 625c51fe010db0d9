import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import assert from 'node:assert/strict'
import { checkSize, findFragments, longLines, longestLines, measure, shortestLines } from './size.ts'
import { plantTree, readTree } from './tree.ts'

describe('size', () => {
  const ofLength = (lines: number) => plantTree({ 'src/kernel/a.ts': 'x\n'.repeat(lines) })

  test('400 lines are the most', () => {
    assertFindings(checkSize(ofLength(longestLines)), [])
    assertFindings(checkSize(ofLength(longestLines + 1)), ['src/kernel/a.ts: 401 lines; above 400 it is two files'])
  })

  test('a short file with one importer is found; a longer one, and one that two use, is not', () => {
    const planted = plantTree({
      'src/a.ts': `import './one.ts'\nimport './two.ts'\nimport type { L } from './long.ts'`,
      'src/b.ts': `import './two.ts'`,
      'src/one.ts': 'x\n'.repeat(shortestLines),
      'src/two.ts': 'x\n',
      'src/long.ts': 'x\n'.repeat(shortestLines + 1),
      'src/b.test.ts': `import './one.ts'`,
    })
    assert.deepEqual(findFragments(planted), [{ path: 'src/one.ts', lines: shortestLines, importer: 'src/a.ts' }])
  })

  test('how many files are fragments', (t) => {
    const found = findFragments(readTree())
    t.diagnostic(
      `${found.length} files of at most ${shortestLines} lines have one importer (npm run count -- --list small)`,
    )
  })

  test('no source file is longer', (t) => {
    const tree = readTree()
    for (const { path, lines } of measure(tree, longLines)) t.diagnostic(`${lines} lines: ${path}`)
    assertTidy(checkSize(tree))
  })
})
