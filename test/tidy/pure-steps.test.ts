import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkPureSteps } from './pure-steps.ts'
import { plantTree, readTree } from './tree.ts'

const path = 'src/domains/flow/advance.ts'
const behind = 'src/domains/flow/decide.ts'
const advice = 'pass its result into the step'

describe('pure steps', () => {
  for (const [code, problem] of [
    ['await db.run(find)', 'says await: a step only decides'],
    ['export async function advance() {}', 'says async: a step only decides'],
    [`import { statement } from '#store'`, `loads statement from #store: ${advice}`],
    [`import { type Tx, failpoint } from '#store'`, `loads failpoint from #store: ${advice}`],
    [`import { takeTurn } from '#turns'`, `loads takeTurn from #turns: ${advice}`],
    [`import { readFile } from 'node:fs/promises'`, `loads readFile from node:fs/promises: ${advice}`],
    [`import { generateText } from 'ai'`, `loads generateText from ai: ${advice}`],
  ] as const) {
    test(`[DET-01] [DET-03] [CMD-17] ${code} is found in a step`, () =>
      assertFindings(checkPureSteps(plantTree({ [path]: `\n${code}` })), [`${path}:2: ${problem}`]))
    test(`[DET-01] [DET-03] ${code} is found behind a step`, () => {
      const tree = { [path]: `import { decide } from './decide.ts'`, [behind]: `\n${code}` }
      assertFindings(checkPureSteps(plantTree(tree)), [`${behind}:2: ${problem}`])
    })
  }

  test('kernel, types, pure files of other rooms, and every other file are fine', () => {
    const tree = {
      [path]: `import { isUuid } from '#kernel/ids'\nimport type { Tx } from '#store'\nimport { sum } from '#domains/orders'`,
      'src/domains/orders/index.ts': `export { type Sum, sum } from './sum.ts'\nexport { save } from './save.ts'`,
      'src/domains/orders/sum.ts': 'export const sum = 1',
      'src/domains/flow/drive.ts': `import { statement } from '#store'\nawait run()`,
    }
    assertFindings(checkPureSteps(plantTree(tree)), [])
  })

  test('[DET-01] [DET-03] [CMD-17] the steps of every room await nothing and load nothing that does I/O', () => {
    const tree = readTree()
    assert.ok(tree.has('src/domains/commands/advance.ts'))
    assertTidy(checkPureSteps(tree))
  })
})
