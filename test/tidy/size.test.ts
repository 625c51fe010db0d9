import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkSize, longLines, longestLines, measure } from './size.ts'
import { plantTree, readTree } from './tree.ts'

describe('size', () => {
  const ofLength = (lines: number) => plantTree({ 'src/kernel/a.ts': 'x\n'.repeat(lines) })

  test('400 lines are the most', () => {
    assertFindings(checkSize(ofLength(longestLines)), [])
    assertFindings(checkSize(ofLength(longestLines + 1)), ['src/kernel/a.ts: 401 lines; above 400 it is two files'])
  })

  test('no source file is longer', (t) => {
    const tree = readTree()
    for (const { path, lines } of measure(tree, longLines)) t.diagnostic(`${lines} lines: ${path}`)
    assertTidy(checkSize(tree))
  })
})
