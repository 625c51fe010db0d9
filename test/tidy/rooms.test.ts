import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkCycles, checkTypeCycles } from './cycles.ts'
import { assertFindings, assertTidy } from './finding.ts'
import { rooms } from './room-table.ts'
import { checkRooms } from './rooms.ts'
import { plantTree, readTree } from './tree.ts'

const found = (path: string, line: string) => checkRooms(plantTree({ [path]: `${line}\n` }), rooms)

describe('rooms: what the check sees on a planted fault', () => {
  for (const [title, path, line, problem] of [
    [
      '[DET-06] the kernel imports a runtime',
      'src/kernel/a.ts',
      `import { DBOS } from '@dbos-inc/dbos-sdk'`,
      'kernel may not use the package @dbos-inc/dbos-sdk',
    ],
    [
      '[DET-06] the kernel imports a database driver',
      'src/kernel/a.ts',
      `import type pg from 'pg'`,
      'kernel may not use the package pg',
    ],
    [
      '[DET-06] the kernel imports a model client',
      'src/kernel/a.ts',
      `import { generateText } from 'ai'`,
      'kernel may not use the package ai',
    ],
    [
      'the kernel imports node',
      'src/kernel/a.ts',
      `import { hash } from 'node:crypto'`,
      'kernel may not use the package node:crypto',
    ],
    ['the kernel enters the store', 'src/kernel/a.ts', `import { openDb } from '#store'`, 'kernel may not enter store'],
    [
      '[DET-07] a domain imports a runtime',
      'src/domains/commands/a.ts',
      `import { DBOS } from '@dbos-inc/dbos-sdk'`,
      'domains/commands may not use the package @dbos-inc/dbos-sdk',
    ],
    [
      '[DET-07] a domain enters an engine',
      'src/domains/missions/a.ts',
      `import { openDbos } from '#runtime/dbos'`,
      'domains/missions may not enter runtime/dbos',
    ],
    [
      '[DET-08] the port imports DBOS',
      'src/runtime/port.ts',
      `import { DBOS } from '@dbos-inc/dbos-sdk'`,
      'runtime may not use the package @dbos-inc/dbos-sdk',
    ],
    [
      '[DET-08] the Restate folder imports DBOS',
      'src/runtime/restate/a.ts',
      `import { DBOS } from '@dbos-inc/dbos-sdk'`,
      'runtime/restate may not use the package @dbos-inc/dbos-sdk',
    ],
    [
      '[DET-09] the DBOS folder imports Temporal',
      'src/runtime/dbos/a.ts',
      `import { Client } from '@temporalio/client'`,
      'runtime/dbos may not use the package @temporalio/client',
    ],
    [
      '[DET-09] the Temporal folder imports Restate',
      'src/runtime/temporal/a.ts',
      `import * as restate from '@restatedev/restate-sdk'`,
      'runtime/temporal may not use the package @restatedev/restate-sdk',
    ],
    [
      '[DET-11] a type-only import counts',
      'src/domains/budgets/a.ts',
      `import type { Command } from '#domains/commands'`,
      'domains/budgets may not enter domains/commands',
    ],
    [
      '[DET-11] a re-export counts',
      'src/domains/budgets/a.ts',
      `export { submit } from '#domains/commands'`,
      'domains/budgets may not enter domains/commands',
    ],
    [
      '[DET-11] a re-export of types counts',
      'src/domains/budgets/a.ts',
      `export type * from '#domains/commands'`,
      'domains/budgets may not enter domains/commands',
    ],
    [
      '[DET-11] a dynamic import counts',
      'src/domains/budgets/a.ts',
      `const a = await import('#domains/commands')`,
      'domains/budgets may not enter domains/commands',
    ],
    ['[DET-11] a require counts', 'src/kernel/a.ts', `const pg = require('pg')`, 'kernel may not use the package pg'],
    [
      '[DET-11] a computed import is refused',
      'src/app/a.ts',
      `await import(name)`,
      'imports a computed name, so its room is unknown',
    ],
    [
      'the scheduler enters the store',
      'src/domains/scheduler/a.ts',
      `import { openDb } from '#store'`,
      'domains/scheduler may not enter store',
    ],
    [
      'a domain talks HTTP',
      'src/domains/commands/a.ts',
      `import { Hono } from 'hono'`,
      'domains/commands may not use the package hono',
    ],
    [
      '[PRM-14] a domain enters the API',
      'src/domains/commands/a.ts',
      `import { problem } from '#api'`,
      'domains/commands may not enter api',
    ],
    [
      'a relative path climbs out',
      'src/domains/flow/a.ts',
      `import { x } from '../commands/submit.ts'`,
      '../commands/submit.ts leaves domains/flow; import through an entry (#…)',
    ],
    [
      'a relative path climbs out of an engine',
      'src/runtime/dbos/a.ts',
      `import { x } from '../port.ts'`,
      '../port.ts leaves runtime/dbos; import through an entry (#…)',
    ],
    [
      'a relative path climbs into an engine',
      'src/runtime/index.ts',
      `export * from './dbos/index.ts'`,
      './dbos/index.ts leaves runtime; import through an entry (#…)',
    ],
    [
      'a relative path climbs out of src',
      'src/store/a.ts',
      `import x from '../../test/support/x.ts'`,
      '../../test/support/x.ts leaves store; import through an entry (#…)',
    ],
    ['a relative path without its ending', 'src/store/a.ts', `import { x } from './db'`, './db needs its file ending'],
    [
      'an import of an internal file of a room',
      'src/api/a.ts',
      `import { x } from '#domains/flow/repository'`,
      '#domains/flow/repository is not an entry',
    ],
    [
      'an entry of the same room',
      'src/store/a.ts',
      `import { x } from '#store'`,
      '#store leads back into store; use a relative path',
    ],
    [
      'test support in the product',
      'src/app/a.ts',
      `import { aMission } from '#test/builders'`,
      '#test/builders is for tests only',
    ],
    ['a folder that is no room', 'src/extras/a.ts', `import { accept } from '#kernel'`, 'extras may not enter kernel'],
    [
      'a test that climbs into src',
      'test/chaos/a.test.ts',
      `import { openDb } from '../../src/store/db.ts'`,
      '../../src/store/db.ts reaches into src; import through an entry (#…)',
    ],
  ] as const) {
    test(title, () => assertFindings(found(path, line), [`${path}:1: ${problem}`]))
  }

  for (const [title, path, line] of [
    ['the rows of the tables', 'src/domains/missions/a.ts', `import type { Rows } from '#store/rows'`],
    ['a file of the kernel', 'src/domains/missions/a.ts', `import { accept } from '#kernel/refusal'`],
    ['a deeper path inside the room', 'src/domains/missions/sql/a.ts', `import { x } from '../contract.ts'`],
    ['an engine with its own SDK', 'src/runtime/dbos/a.ts', `import { DBOS } from '@dbos-inc/dbos-sdk'`],
    ['a package by a path inside it', 'src/store/a.ts', `import { parse } from 'pg/lib/utils.js'`],
    [
      'a test with test support',
      'src/kernel/a.test.ts',
      `import { aClock } from '#test/clock'\nimport test from 'node:test'`,
    ],
    ['words in a comment and a string', 'src/kernel/a.ts', `// import pg from 'pg'\nconst a = "import pg from 'pg'"`],
  ] as const) {
    test(`${title} is allowed`, () => assertFindings(found(path, line), []))
  }

  test('a table that names a room below is refused', () => {
    const upside = [
      { name: 'kernel', enters: ['store'], packages: [] },
      { name: 'store', enters: ['kernel'], packages: [] },
    ]
    assertFindings(checkRooms(plantTree({}), upside), [
      'test/tidy/room-table.ts: kernel names store, which is not above it',
    ])
  })

  test('a circle of imports is shown as a path; a circle of types is none', () => {
    const circle = { 'src/kernel/a.ts': `import { b } from './b.ts'`, 'src/kernel/b.ts': `import { a } from './a.ts'` }
    assertFindings(checkCycles(plantTree(circle)), ['src/kernel/a.ts: imports go in a circle: a.ts → b.ts → a.ts'])
    const types = { ...circle, 'src/kernel/b.ts': `import type { A } from './a.ts'` }
    assertFindings(checkCycles(plantTree(types)), [])
  })
})

describe('circles of types', () => {
  const ring = (count: number) =>
    Object.fromEntries(
      Array.from({ length: count }, (_, at) => [
        `src/domains/flow/f${at}.ts`,
        `import type { A } from './f${(at + 1) % count}.ts'\nexport type A = 1`,
      ]),
    )

  test('seven files that know one another are found, six are not; an allowance holds until the circle grows', () => {
    assertFindings(checkTypeCycles(plantTree(ring(6)), {}), [])
    const found = `src/domains/flow/f0.ts: 7 files know one another, types included; at most 6: ${[0, 1, 2, 3, 4, 5, 6].map((at) => `f${at}.ts`).join(', ')}`
    assertFindings(checkTypeCycles(plantTree(ring(7)), {}), [found])
    const allowed = { 'src/domains/flow/f3.ts': 7 }
    assertFindings(checkTypeCycles(plantTree(ring(7)), allowed), [])
    assert.equal(checkTypeCycles(plantTree(ring(8)), allowed).length, 1)
  })
})

describe('rooms: the tree', () => {
  const tree = readTree()
  test('[DET-06] [DET-07] [DET-08] [DET-09] [PRM-06] [PRM-14] [RUN-11] [SUP-14] [SUP-20] every import keeps to the room table', () => {
    assertTidy(checkRooms(tree, rooms))
  })
  test('[SUP-02] [SUP-03] [RUN-13] no room that does governed work enters the scheduler of one machine', () => {
    const entering = rooms.filter(({ enters }) => enters.includes('domains/scheduler')).map(({ name }) => name)
    assert.deepEqual(
      entering.filter((name) => name.startsWith('domains/') || ['kernel', 'runtime', 'turns'].includes(name)),
      [],
    )
  })
  test('no imports go in a circle', () => assertTidy(checkCycles(tree)))
  test('no circle of types is larger than six files, but for those that are listed', () =>
    assertTidy(checkTypeCycles(tree)))
  test('[DET-12] the kernel is tested without a database', () => {
    assert.ok([...tree.keys()].some((path) => path.startsWith('src/kernel/') && path.endsWith('.test.ts')))
    assert.deepEqual(
      [...tree.keys()].filter((path) => path.startsWith('src/kernel/') && path.includes('.pg.')),
      [],
    )
  })
})
