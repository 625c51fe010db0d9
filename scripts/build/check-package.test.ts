import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkPackage } from './check-package.ts'

const manifest = {
  name: 'concord',
  exports: {
    '.': { 'concord-source': './src/index.ts', types: './dist/index.d.ts', default: './dist/index.js' },
    './package.json': './package.json',
  },
  bin: { concord: './dist/cli/main.js' },
  dependencies: { zod: '4' },
}
const good = {
  'package.json': '{}',
  'dist/index.js': `import { z } from 'zod/v4'\nimport './cli/main.js'\nimport 'node:fs'`,
  'dist/index.d.ts': `export type { A } from './cli/main.js'`,
  'dist/cli/main.js': '',
  'dist/cli/main.d.ts': '',
}
const found = (changes: Record<string, string | undefined>) => {
  const files = Object.entries({ ...good, ...changes }).flatMap(([path, text]) =>
    text === undefined ? [] : [[path, text] as const],
  )
  return checkPackage(new Map(files), manifest)
}

describe('packed package', () => {
  test('a good one is fine', () => assert.deepEqual(found({}), []))

  for (const [title, changes, problem] of [
    [
      'a promised file that is not packed',
      { 'dist/cli/main.js': undefined, 'dist/index.js': '', 'dist/index.d.ts': '' },
      'bin.concord promises dist/cli/main.js, which is not in the package',
    ],
    [
      'missing types',
      { 'dist/index.d.ts': undefined },
      'exports["."].types promises dist/index.d.ts, which is not in the package',
    ],
    [
      'an internal import',
      { 'dist/index.js': `import '#kernel'` },
      'dist/index.js imports #kernel, a name that exists in development only',
    ],
    [
      'a relative import that leads nowhere',
      { 'dist/index.js': `import './gone.js'` },
      'dist/index.js imports ./gone.js, which is not in the package',
    ],
    [
      'a declaration whose neighbour has none',
      { 'dist/cli/main.d.ts': undefined },
      'dist/index.d.ts imports ./cli/main.js, which is not in the package',
    ],
    [
      'a package that is only there in development',
      { 'dist/index.js': `import fc from 'fast-check'` },
      'dist/index.js imports fast-check, which is not a dependency',
    ],
    [
      'a scoped package likewise',
      { 'dist/index.js': `import a from '@a/b/c'` },
      'dist/index.js imports @a/b, which is not a dependency',
    ],
    ['a test', { 'dist/a.test.js': '' }, 'dist/a.test.js does not belong in the package'],
    ['the source', { 'src/index.ts': '' }, 'src/index.ts does not belong in the package'],
  ] as const) {
    test(`${title} is found`, () => assert.deepEqual(found(changes), [problem]))
  }
})
