import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { citationsInSource, idsInPath, idsInTitle } from './titles.ts'

describe('ids in titles', () => {
  for (const [title, ids] of [
    ['[MIS-187] an illegal move is refused', ['MIS-187']],
    ['[MIS-187] [ST-02]  two rows', ['MIS-187', 'ST-02']],
    ['[MIS-187][ST-02] without a space', ['MIS-187', 'ST-02']],
    ['no id at all', []],
    ['an id [ST-01] in the middle is talk, not proof', []],
    ['[optional] brackets that hold no id', []],
  ] as const) {
    test(`${JSON.stringify(title)} cites ${ids.length}`, () => assert.deepEqual(idsInTitle(title), ids))
  }

  test('every level of the path counts, each id once', () => {
    assert.deepEqual(idsInPath(['[ST-01] outer', 'plain', '[ST-02] [ST-01] inner']), ['ST-01', 'ST-02'])
  })

  test('in a source text the first argument of a call is read, with its line', () => {
    const id = 'ST-14'
    const source = `import x\ntest('[${id}] one', () => {})\ntest(\n\`[${id}] two\`, run)\nlist(['[${id}]'])\n// [${id}]\n`
    assert.deepEqual(citationsInSource('a.test.ts', source), [
      { id, file: 'a.test.ts', line: 2 },
      { id, file: 'a.test.ts', line: 4 },
    ])
  })
})
