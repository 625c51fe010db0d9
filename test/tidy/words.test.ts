import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { plantTree, readTree } from './tree.ts'
import { checkWords } from './words.ts'

/** Composed from pieces, so that this file does not contain what it plants. */
const said = (...pieces: string[]) => pieces.join('')

describe('words', () => {
  for (const [path, text, problem] of [
    [
      'src/a.ts',
      said('// TO', 'DO later'),
      said('"TO', 'DO" is a note to ourselves: do it or open it as a requirement'),
    ],
    ['docs/a.md', said('FIX', 'ME'), said('"FIX', 'ME" is a note to ourselves: do it or open it as a requirement')],
    ['src/a.ts', said('throw new Error("not ', 'implemented")'), said('"not ', 'implemented" is a stub')],
    ['src/a.test.ts', said('test', '.only("x", run)'), said('"test', '.only" switches tests off')],
    ['src/a.test.ts', said('describe', '.skip("x", run)'), said('"describe', '.skip" switches tests off')],
    ['src/a.test.ts', said('test("x", { skip', ': true }, run)'), said('"skip', ': true" switches a test off')],
    ['docs/a.md', said('see /wo', 'rk/shared/design'), said('"/wo', 'rk/shared" names a place outside the repository')],
    [
      'docs/a.md',
      said('in another coding ses', 'sion'),
      said('"another coding ses', 'sion" talks about how the work was done'),
    ],
    ['docs/a.md', said('an AI assis', 'tant wrote it'), said('"AI assis', 'tant" talks about how the work was done')],
    ['docs/a.md', said('from the PR', 'D-101 text'), said('"PR', 'D-101" talks about where the words came from')],
  ] as const) {
    test(`planted: ${problem}`, () =>
      assertFindings(checkWords(plantTree({ [path]: `\n${text}` })), [`${path}:2: ${problem}`]))
  }

  test('plain words that only look alike are fine', () => {
    const text =
      'a database session; `assistant` is a message role; {skip: "needs strace"}; the lead_id of a customer; /network/main'
    assertFindings(checkWords(plantTree({ 'src/a.test.ts': text })), [])
  })

  test('the tree speaks of Concord alone and leaves nothing half done', () => assertTidy(checkWords(readTree())))
})
