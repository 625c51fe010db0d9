import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { resolveImport, rewriteImports } from './rewrite-imports.ts'

const importMap = {
  '#kernel': './src/kernel/index.ts',
  '#kernel/*': './src/kernel/*.ts',
  '#store': './src/store/index.ts',
  '#store/rows': './src/store/rows.ts',
  '#domains/*': './src/domains/*/index.ts',
  '#test/*': './test/support/*.ts',
}

describe('imports of the built package', () => {
  for (const [specifier, target] of [
    ['#kernel', './src/kernel/index.ts'],
    ['#kernel/machines/command', './src/kernel/machines/command.ts'],
    ['#store/rows', './src/store/rows.ts'],
    ['#domains/identity', './src/domains/identity/index.ts'],
    ['#kernels', undefined],
    ['#kernel/', undefined],
  ] as const) {
    test(`${specifier} is ${target ?? 'nothing'}`, () => assert.equal(resolveImport(specifier, importMap), target))
  }

  test('every way of importing is rewritten; packages, strings and comments are not', () => {
    const text = `#!/usr/bin/env node
import { accept } from '#kernel/refusal';
import './side.ts';
export * from "#domains/missions";
const store = await import('#store');
type A = import('#kernel').A;
declare module '#kernel/refusal' {}
import { z } from 'zod'; // import '#kernel'
const words = "import '#kernel'";
`
    assert.equal(
      rewriteImports('domains/flow/index.js', text, importMap),
      `#!/usr/bin/env node
import { accept } from '../../kernel/refusal.js';
import './side.js';
export * from "../missions/index.js";
const store = await import('../../store/index.js');
type A = import('../../kernel/index.js').A;
declare module '../../kernel/refusal.js' {}
import { z } from 'zod'; // import '#kernel'
const words = "import '#kernel'";
`,
    )
  })

  test('a file of the same folder is reached by ./', () => {
    assert.equal(rewriteImports('kernel/index.js', `import '#kernel/money'`, importMap), `import './money.js'`)
  })

  test('an import of a computed name stays as it is', () => {
    const text = `await import(name)\nawait import('./a.ts')\n`
    assert.equal(rewriteImports('a.js', text, importMap), `await import(name)\nawait import('./a.js')\n`)
  })

  for (const specifier of ['#nowhere', '#test/clock']) {
    test(`${specifier} in the product stops the build`, () => {
      assert.throws(
        () => rewriteImports('app/index.js', `import '${specifier}'`, importMap),
        /app\/index\.js: .* leads nowhere inside src/,
      )
    })
  }
})
