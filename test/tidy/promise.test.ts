import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkPromises } from './promise.ts'
import { plantTree, readTree } from './tree.ts'

describe('promise', () => {
  const long = '\n'.repeat(60)
  const found = (text: string) => checkPromises(plantTree({ 'src/kernel/a.ts': text + long }))

  for (const [title, text, problem] of [
    [
      'no comment',
      `import a from './b.ts'\n/** Late words are no promise. */`,
      'does not open with a /** sentence that says its promise',
    ],
    ['a plain comment', '// Adds numbers up for money.\n', 'does not open with a /** sentence that says its promise'],
    ['a title', '/** Money */\n', 'opens with "Money", which is no sentence'],
  ] as const) {
    test(`${title} is refused`, () => assertFindings(found(text), [`src/kernel/a.ts:1: ${problem}`]))
  }

  test('a sentence, also over several lines and behind a shebang, is fine', () => {
    assertFindings(found('/** Exact money, never a float. */\nexport {}'), [])
    assertFindings(found('#!/usr/bin/env node\n/**\n * Exact money,\n * never a float.\n */\n'), [])
  })

  test('a short file needs none, unless it is an index.ts', () => {
    const text = 'export const a = 1\n'
    assertFindings(checkPromises(plantTree({ 'src/kernel/a.ts': text })), [])
    assertFindings(checkPromises(plantTree({ 'src/kernel/index.ts': text })), [
      'src/kernel/index.ts:1: does not open with a /** sentence that says its promise',
    ])
  })

  test('every long file and every index.ts opens with a sentence', () => assertTidy(checkPromises(readTree())))
})
