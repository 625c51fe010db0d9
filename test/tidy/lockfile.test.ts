import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkDependencies, checkLockfile, checkMachineLibraries } from './lockfile.ts'
import { plantTree, readTree } from './tree.ts'

const lock = (locked: object, allowScripts: object = {}) =>
  checkLockfile(
    plantTree({
      'package.json': JSON.stringify({ allowScripts }),
      'package-lock.json': JSON.stringify({
        packages: { '': {}, 'node_modules/a/node_modules/@b/c': { integrity: 'sha512-x', ...locked } },
      }),
    }),
  )

describe('lockfile', () => {
  test('an address is found', () => {
    assertFindings(lock({ resolved: 'https://registry.example/c.tgz' }), [
      'package-lock.json: @b/c records where it was downloaded from: https://registry.example/c.tgz',
    ])
  })

  test('an install script without permission is found', () => {
    assertFindings(lock({ hasInstallScript: true }), [
      'package-lock.json: @b/c runs a script when installed and is not in allowScripts',
    ])
    assertFindings(lock({ hasInstallScript: true }, { '@b/c': true }), [])
  })

  test('a package without a checksum is found', () => {
    assertFindings(lock({ integrity: undefined }), ['package-lock.json: @b/c has no checksum'])
  })

  test('a package for another platform may lack a checksum, but not its entry', () => {
    assertFindings(lock({ integrity: undefined, optional: true, os: ['darwin'] }), [])
    assertFindings(lock({ optionalDependencies: { 'c-darwin-arm64': '1.0.0' } }), [
      'package-lock.json: c-darwin-arm64, optional for @b/c, has no entry, and npm ci refuses that: node scripts/complete-lock.ts',
    ])
  })

  test('a package that is imported but not declared is found, in the product only', () => {
    const planted = (path: string) =>
      checkDependencies(
        plantTree({
          'package.json': JSON.stringify({ dependencies: { zod: '1' }, devDependencies: { 'fast-check': '1' } }),
          [path]: `import { z } from 'zod/v4'\nimport fc from 'fast-check'\nimport type { A } from '@a/b/c'\nimport 'node:fs'\n`,
        }),
      )
    assertFindings(planted('src/app/a.ts'), [
      'src/app/a.ts: imports fast-check, which is not in dependencies',
      'src/app/a.ts: imports @a/b, which is not in dependencies',
    ])
    assertFindings(planted('src/app/a.test.ts'), [])
  })

  test('a state-machine library is found', () => {
    const planted = plantTree({ 'package.json': JSON.stringify({ dependencies: { xstate: '5' } }) })
    assertFindings(checkMachineLibraries(planted), ['package.json: xstate is a state-machine library'])
  })

  const tree = readTree()
  test('our lock file keeps to the rules', () => assertTidy(checkLockfile(tree)))
  test('everything the product imports is declared', () => assertTidy(checkDependencies(tree)))
  test('[MIS-017] the state tables are our own: no state-machine library', () =>
    assertTidy(checkMachineLibraries(tree)))
})
