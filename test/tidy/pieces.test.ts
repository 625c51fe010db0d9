import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { readTree, repositoryRoot } from './tree.ts'

const tree = readTree()
type Exports = Readonly<Record<string, string | Readonly<Record<string, string>>>>
const { exports } = JSON.parse(tree.get('package.json') ?? '{}') as { exports: Exports }
const readme = tree.get('README.md') ?? ''

/** The modules that each piece must not load; otherwise it could not be used alone. */
const pieces = {
  '@concordhq/concord/kernel': { gives: 'canMove', without: /node_modules/ },
  '@concordhq/concord/store': { gives: 'migrateUp', without: /@dbos-inc|\/hono\/|\/src\/(domains|runtime|api|app)\// },
  '@concordhq/concord/scheduler': {
    gives: 'openScheduler',
    without: /@dbos-inc|\/pg\/|\/hono\/|\/src\/(store|runtime|api|app)\//,
  },
} as const

/** Loads the piece in a child process and returns its names and every loaded module. */
function load(piece: string): { readonly names: readonly string[]; readonly loaded: readonly string[] } {
  const hook = `import { registerHooks } from 'node:module'
const loaded = []
registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
const names = Object.keys(await import(${JSON.stringify(piece)}))
console.log(JSON.stringify({ names, loaded }))`
  const { stdout, stderr } = spawnSync(
    process.execPath,
    ['--conditions=concord-source', '--input-type=module', '--eval', hook],
    { cwd: repositoryRoot, encoding: 'utf8' },
  )
  assert.notEqual(stdout, '', stderr)
  return JSON.parse(stdout)
}

describe('pieces of the package', () => {
  for (const [piece, { gives, without }] of Object.entries(pieces))
    test(`[PRM-26] ${piece} loads without the others`, () => {
      assert.ok(Object.hasOwn(exports, piece.replace('@concordhq/concord', '.')), 'the package offers it')
      const { names, loaded } = load(piece)
      assert.ok(names.includes(gives), `${gives} is among ${names.length} names`)
      assert.ok(
        loaded.some((url) => url.includes('/src/')),
        'the modules were seen',
      )
      assert.deepEqual(
        loaded.filter((url) => without.test(url)),
        [],
      )
      assert.ok(readme.includes(`| \`${piece}\` |`), 'the README describes it')
    })

  test('[PRM-26] the README says what Concord is not', () => {
    const [, isNot = ''] = /Concord adds contracts to existing systems\. It is ([\s\S]*?)\.\n/.exec(readme) ?? []
    for (const other of [
      'durable runtime',
      'compute engine',
      'BPMN engine',
      'replacement',
      'Postgres',
      'connectors',
      'agent framework',
      'data pipeline orchestrator',
    ])
      assert.ok(isNot.replaceAll('\n', ' ').includes(other), other)
  })
})
