import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { computed, findImports } from './imports.ts'
import { tokenize } from './tokens.ts'

const seen = (source: string) => findImports(source).map(({ specifier, kind }) => `${kind} ${specifier}`)

describe('import scanner', () => {
  for (const [what, source, expected] of [
    ['a default import', `import a from 'x'`, 'import x'],
    ['names over several lines', `import {\n  a,\n  b,\n} from "x"`, 'import x'],
    ['a namespace', `import * as a from 'x'`, 'import x'],
    ['a side effect', `import 'x'`, 'import x'],
    ['[DET-11] a type-only import', `import type { A } from 'x'`, 'type x'],
    ['a default import called type', `import type from 'x'`, 'import x'],
    ['import attributes', `import a from './a.json' with { type: 'json' }`, 'import ./a.json'],
    ['[DET-11] a re-export', `export { a } from 'x'`, 'export x'],
    ['[DET-11] a re-export of everything', `export * from 'x'`, 'export x'],
    ['[DET-11] a named re-export of everything', `export * as a from 'x'`, 'export x'],
    ['[DET-11] a re-export of types', `export type { A } from 'x'`, 'type x'],
    ['[DET-11] a re-export of all types', `export type * from 'x'`, 'type x'],
    ['[DET-11] a dynamic import', `const a = await import('x')`, 'dynamic x'],
    ['a dynamic import of a whole template', 'await import(`x`)', 'dynamic x'],
    ['[DET-11] a dynamic import with a computed name', `await import(name)`, `dynamic ${computed}`],
    ['a dynamic import inside a template', 'const a = `${await import("x")}`', 'dynamic x'],
    ['a type query', `type A = import('x').A`, 'dynamic x'],
    ['[DET-11] a require', `const a = require('x')`, 'require x'],
    ['an import after a regular expression with a quote', `const a = /['"]/\nimport b from 'x'`, 'import x'],
    ['an import after a division', `const a = b / 2 // it's\nimport c from 'x'`, 'import x'],
    ['an import after a template with braces', 'const a = `${{ b: `}` }.b} it\'s`\nimport c from "x"', 'import x'],
    ['an import behind a shebang', `#!/usr/bin/env node\nimport a from 'x'`, 'import x'],
  ] as const) {
    test(what, () => assert.deepEqual(seen(source), [expected]))
  }

  for (const [what, source] of [
    ['a line comment', `// import a from 'x'`],
    ['a block comment', `/* import a from 'x'\n export * from 'y' */`],
    ['a string', `const a = "import b from 'x'"`],
    ['a string with an escaped quote', `const a = 'it\\'s import b from "x"'`],
    ['a template', 'const a = `import b from "x"`'],
    ['a regular expression', `const a = /import b from 'x'/`],
    ['import.meta', `const a = import.meta.url`],
    ['a property called import', `const a = { import: 'x' }\nb.import('x')`],
    ['a method called require', `policy.require('x')`],
    ['an export of a declaration', `export const from = 'x'`],
    ['an export of local names', `export { a }\nconst b = 'x'`],
    ['an exported type', `export type A = { from: 'x' }`],
  ] as const) {
    test(`${what} does not fool it`, () => assert.deepEqual(seen(source), []))
  }

  test('the place of a specifier is exact, so that a build can rewrite it', () => {
    const source = `import a from '#kernel/money'\nexport * from "#store"\n`
    assert.deepEqual(
      findImports(source).map(({ start, end }) => source.slice(start, end)),
      ['#kernel/money', '#store'],
    )
  })

  test('tokens never overlap, never go back, and never lose the end of a text', () => {
    const pieces = fc.array(
      fc.constantFrom(
        'a',
        ' ',
        '\n',
        "'",
        '"',
        '`',
        '${',
        '{',
        '}',
        '/',
        '*',
        '//',
        '\\',
        '(',
        ')',
        'import',
        'from',
        '[',
        ']',
      ),
      { maxLength: 40 },
    )
    fc.assert(
      fc.property(pieces, (parts) => {
        const source = parts.join('')
        let last = 0
        for (const { start, end } of tokenize(source)) {
          assert.ok(start >= last && end > start && end <= source.length)
          last = end
        }
      }),
    )
  })

  test('it reads its own source', () => {
    assert.deepEqual(seen(readFileSync(new URL('imports.ts', import.meta.url), 'utf8')), ['import ./tokens.ts'])
  })
})
