/** The engine stays in its folder, and the use of its internals in one file. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'

const source = fileURLToPath(new URL('../../', import.meta.url))

function filesThatImport(pattern: RegExp): string[] {
  return globSync('**/*.ts', { cwd: source })
    .filter((path) => pattern.test(readFileSync(`${source}${path}`, 'utf8')))
    .toSorted()
}

test('[DET-08] only the folder of the DBOS adapter imports DBOS', () => {
  const users = filesThatImport(/(?:from|import|require)\s*\(?\s*['"]@dbos-inc\//)
  assert.ok(users.length > 0)
  assert.deepEqual(
    users.filter((path) => !path.startsWith('runtime/dbos/')),
    [],
  )
})

test('one file uses the internals of DBOS', () => {
  assert.deepEqual(filesThatImport(/from\s*['"]@dbos-inc\/dbos-sdk\/internal\//), ['runtime/dbos/internals.ts'])
})

test('the port imports no package and nothing of node', () => {
  const foreign = globSync('runtime/*.ts', { cwd: source })
    .filter((path) => !path.endsWith('.test.ts'))
    .flatMap((path) => {
      const text = readFileSync(`${source}${path}`, 'utf8')
      return [...text.matchAll(/from '([^']+)'/g)].map(([, specifier = '']) => `${path} ${specifier}`)
    })
    .filter((line) => !/ (\.{1,2}\/|#kernel)/.test(line))
  assert.deepEqual(foreign, [])
})
