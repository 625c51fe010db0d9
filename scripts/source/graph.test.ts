import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { edgesOf, findCircles, findDoubles, findUsed, readGraph } from './graph.ts'
import { readNames } from './names.ts'

describe('names of a file', () => {
  for (const [what, source, expected] of [
    ['functions', 'export function a() {}\nexport async function b() {}\nexport function* c() {}', ['a', 'b', 'c']],
    [
      'values',
      'export const a = 1\nexport let b = 2\nexport class C {}\nexport abstract class D {}',
      ['a', 'b', 'C', 'D'],
    ],
    ['parts of a value', 'export const { a, b: c } = d\nexport const [e, f] = g', ['a', 'c', 'e', 'f']],
    ['types', 'export type A = string\nexport interface B {}', ['type A', 'type B']],
    ['a list', 'const a = 1\ntype B = 1\nexport { a as c, type B }', ['c', 'type B']],
    ['nothing of its own', `const export_ = 1\nconst b = a.export\n// export const c = 1`, []],
  ] as const)
    test(`defines ${what}`, () => {
      const found = readNames(source).defines.map(({ name, isType }) => (isType ? `type ${name}` : name))
      assert.deepEqual(found, expected)
    })

  for (const [what, source, expected] of [
    ['names and types', `import { a as b, type C } from './x.ts'`, ['./x.ts a', './x.ts type C']],
    ['types alone', `import type { A } from './x.ts'`, ['./x.ts type A']],
    ['a default and names', `import a, { b } from 'x'`, ['x default', 'x b']],
    ['everything', `import * as a from 'x'`, ['x *']],
    ['everything, when it is needed', `const a = await import('x')`, ['x *']],
    ['a side effect', `import 'x'`, ['x ']],
  ] as const)
    test(`takes ${what}`, () => {
      const found = readNames(source).takes.map(
        ({ specifier, name, isType }) => `${specifier} ${isType ? 'type ' : ''}${name}`,
      )
      assert.deepEqual(found, expected)
    })

  test('passes on names, types and everything', () => {
    const { passesOn, defines } = readNames(
      `export { a as b, type C } from 'x'\nexport * from 'y'\nexport * as z from 'z'`,
    )
    assert.deepEqual(defines, [])
    assert.deepEqual(
      passesOn.map(({ specifier, name, as }) => `${specifier} ${name} ${as}`),
      ['x a b', 'x C C', 'y * undefined', 'z * z'],
    )
  })
})

describe('graph of files', () => {
  const planted = (files: Record<string, string>) =>
    readGraph(
      new Map(
        Object.entries({ 'package.json': '{"imports":{"#b":"./src/b/index.ts","#b/*":"./src/b/*.ts"}}', ...files }),
      ),
      (path) => path.endsWith('.ts'),
    )

  test('a cycle through types is found and distinguished from one of values', () => {
    const graph = planted({
      'src/a.ts': `import { b } from '#b'\nexport type A = 1`,
      'src/b/index.ts': `export { b } from './b.ts'`,
      'src/b/b.ts': `import type { A } from '../a.ts'\nexport const b = 1`,
      'src/c.ts': `import './a.ts'`,
    })
    assert.deepEqual(findCircles(edgesOf(graph, 'values')), [])
    assert.deepEqual(findCircles(edgesOf(graph, 'all')), [['src/a.ts', 'src/b/b.ts', 'src/b/index.ts']])
  })

  test('two circles that one file joins are one', () => {
    const graph = planted({
      'a.ts': `import './b.ts'`,
      'b.ts': `import './a.ts'\nimport './c.ts'`,
      'c.ts': `import './b.ts'`,
      'd.ts': `import './e.ts'`,
      'e.ts': `import './d.ts'`,
    })
    assert.deepEqual(findCircles(edgesOf(graph, 'values')), [
      ['a.ts', 'b.ts', 'c.ts'],
      ['d.ts', 'e.ts'],
    ])
  })

  test('a name is used through barrels, under another name, and not by being passed on', () => {
    const graph = planted({
      'src/b/one.ts': 'export const used = 1\nexport const unused = 2\nexport const byAll = 3',
      'src/b/index.ts': `export { used as known, unused } from './one.ts'`,
      'src/b/all.ts': `export * from './one.ts'`,
      'src/a.ts': `import { known } from '#b'\nimport { byAll } from '#b/all'`,
    })
    const used = findUsed(graph, () => true)
    assert.deepEqual(
      ['used', 'unused', 'byAll'].map((name) => used.has(`src/b/one.ts#${name}`)),
      [true, false, true],
    )
  })

  test('a name that two files define is found with both', () => {
    const graph = planted({ 'a.ts': 'export type X = 1', 'b.ts': 'export const X = 1\nexport const y = 1' })
    assert.deepEqual(findDoubles(graph), [['X', ['a.ts', 'b.ts']]])
  })
})
