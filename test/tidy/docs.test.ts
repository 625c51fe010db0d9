import { describe, test } from 'node:test'
import { checkDocs } from './docs.ts'
import { assertFindings, assertTidy } from './finding.ts'
import { plantTree, readTree } from './tree.ts'

const found = (markdown: string) =>
  checkDocs(
    plantTree({
      'docs/guide.md': markdown,
      'docs/other.md': '# The top, now\n',
      'src/kernel/money.ts': 'export const one = 1\n',
    }),
  )

describe('docs', () => {
  for (const [title, markdown, finding] of [
    [
      'a file in backticks that is gone',
      'See `src/kernel/mony.ts`.',
      'docs/guide.md:1: names src/kernel/mony.ts, which does not exist',
    ],
    [
      'a folder in backticks that is gone',
      'one\n\nSee `src/kernle/`.',
      'docs/guide.md:3: names src/kernle/, which does not exist',
    ],
    ['a pattern that matches nothing', '`src/**/*.sql`', 'docs/guide.md:1: names src/**/*.sql, which does not exist'],
    ['a link that leads nowhere', '[x](othr.md#top)', 'docs/guide.md:1: names othr.md#top, which does not exist'],
    [
      'a heading that is gone',
      '[x](other.md#the-top)',
      'docs/guide.md:1: names other.md#the-top, which does not exist',
    ],
    ['a heading of the same page', '# Here\n[x](#there)', 'docs/guide.md:2: names #there, which does not exist'],
    [
      'code without its language',
      '```\nls\n```',
      'docs/guide.md:1: shows code without its language: sh, text, ts, json, yaml, …',
    ],
    [
      'a link out of the folder',
      '[x](../src/kernel/moneys.ts)',
      'docs/guide.md:1: names ../src/kernel/moneys.ts, which does not exist',
    ],
    [
      'a shown file that differs',
      '```ts file=src/kernel/money.ts\nexport const one = 2\n```',
      'docs/guide.md:1: shows src/kernel/money.ts as it is not',
    ],
    [
      'a shown file that is gone',
      '```ts file=src/a.ts\n1\n```',
      'docs/guide.md:1: shows src/a.ts, which does not exist',
    ],
  ] as const) {
    test(`${title} is found`, () => assertFindings(found(markdown), [finding]))
  }

  for (const [title, markdown] of [
    [
      'paths that exist',
      '`src/kernel/money.ts`, `src/kernel/`, `src/**/*.ts`, [x](other.md#the-top-now), [y](../src/kernel/money.ts#L1)',
    ],
    [
      'addresses and anchors',
      '# Here `now`\n[x](https://example.com/src/a.ts#top) [y](#here-now) [z](mailto:a@example.com)',
    ],
    ['placeholders', '`src/domains/<room>/index.ts` and `src/domains/…`'],
    ['words that are no paths', '`and/or`, `POST /commands`, `npm test`'],
    ['code blocks', '```text\nsrc/not/here.ts `src/not/here.ts` [x](nowhere.md)\n```'],
    ['a shown file that is the file', '```ts file=src/kernel/money.ts\nexport const one = 1\n```'],
  ] as const) {
    test(`${title}: nothing to say`, () => assertFindings(found(markdown), []))
  }

  test('every path and every shown file in Markdown is true', () => assertTidy(checkDocs(readTree())))
})
