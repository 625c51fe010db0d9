import { describe, test } from 'node:test'
import { checkContracts } from './contracts.ts'
import { assertFindings, assertTidy } from './finding.ts'
import { plantTree, readTree } from './tree.ts'

const planted = {
  'ARCHITECTURE.md': `
| Contract | Suite | Adapters |
|---|---|---|
| \`src/runtime/port.ts\` | \`test/conformance/runtime.case.ts\` | \`src/runtime/dbos/runtime.ts\` |

`,
  'src/runtime/port.ts': `import type { Fence } from './fence.ts'`,
  'src/runtime/dbos/runtime.ts': '',
  'test/conformance/dbos-runtime.chaos.test.ts': `import { runtimeCases } from './runtime.case.ts'`,
}
const found = (change: Record<string, string>) => checkContracts(plantTree({ ...planted, ...change }))

describe('contracts', () => {
  test('a contract, its suite and its adapter are fine', () => assertFindings(found({}), []))

  test('[PRM-10] an adapter without a suite is found', () => {
    assertFindings(found({ 'test/conformance/dbos-runtime.chaos.test.ts': '' }), [
      'src/runtime/dbos/runtime.ts: is not put through test/conformance/runtime.case.ts',
    ])
    assertFindings(found({ 'src/runtime/restate/runtime.ts': '' }), [
      'ARCHITECTURE.md: does not name src/runtime/restate/runtime.ts, an adapter of src/runtime/port.ts',
    ])
  })

  test('[PRM-10] adapters are known by their names, in folders and beside the contract', () => {
    const row = '| `src/domains/a/b-store.ts` | `test/conformance/b-store.case.ts` | `src/domains/a/disk-store.ts` |'
    const table = `\n| Contract | Suite | Adapters |\n|---|---|---|\n${row}\n\n`
    const files = {
      'ARCHITECTURE.md': table,
      'src/domains/a/b-store.ts': '',
      'src/domains/a/disk-store.ts': '',
      'src/domains/a/tape-store.ts': '',
      'test/conformance/disk-b-store.test.ts': `import { cases } from './b-store.case.ts'`,
    }
    assertFindings(checkContracts(plantTree(files)), [
      'ARCHITECTURE.md: does not name src/domains/a/tape-store.ts, an adapter of src/domains/a/b-store.ts',
    ])
  })

  test('[PRM-10] a contract in the words of an adapter, and one that is not there, are found', () => {
    for (const specifier of ['./dbos/runtime.ts', '@dbos-inc/dbos-sdk'])
      assertFindings(found({ 'src/runtime/port.ts': `import type { Handle } from '${specifier}'` }), [
        `src/runtime/port.ts: is a contract and imports ${specifier}`,
      ])
    const { 'src/runtime/port.ts': _, ...without } = planted
    assertFindings(checkContracts(plantTree(without)), [
      'ARCHITECTURE.md: names src/runtime/port.ts, which does not exist',
    ])
    assertFindings(found({ 'ARCHITECTURE.md': '' }), ['ARCHITECTURE.md: has no table of contracts'])
  })

  test('[PRM-10] every contract is ours and written first; every adapter honours it', () =>
    assertTidy(checkContracts(readTree())))
})
