import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkEffectReaders, checkEventReaders, checkViewReaders } from './row-readers.ts'
import { plantTree, readTree } from './tree.ts'

const file = (sql: string) => plantTree({ 'src/domains/commands/poll.ts': `export const text = \`${sql}\`\n` })

describe('readers of rows', () => {
  test('[PRM-05] deciding from events is found', () =>
    assertFindings(checkEventReaders(file(`select payload->>'to' from concord.domain_events order by seq desc`)), [
      'src/domains/commands/poll.ts:1: reads events: decide from rows, or say in row-readers.ts what it shows',
    ]))
  for (const sql of [
    `select * from concord.domain_effects where status = 'planned' limit 10`,
    `update concord.domain_effects set status = 'executing' where status = 'planned'`,
  ])
    test(`[EFF-04] polling effects is found: ${sql}`, () =>
      assertFindings(checkEffectReaders(file(sql)), [
        'src/domains/commands/poll.ts:1: looks for effects without naming a command: effects are no queue',
      ]))
  test('[EFF-04] the effects of one command, and their number, are fine', () => {
    assertFindings(checkEffectReaders(file('select * from concord.domain_effects where command_id = $1')), [])
    assertFindings(checkEffectReaders(file('select count(*) from concord.domain_effects')), [])
  })

  test('[OPS-04] a view of the business that reads the runtime is found, and the other way round', () => {
    assertFindings(checkViewReaders(file('select count(*) from runtime.processes')), [
      'src/domains/commands/poll.ts:1: reads tables of the runtime: ask its port, or say in row-readers.ts why',
    ])
    const crossed = plantTree({
      'src/runtime/book/look.ts': `export const text = \`select 1 from concord.commands\`\n`,
    })
    assertFindings(checkViewReaders(crossed), [
      'src/runtime/book/look.ts:1: reads tables of Concord: the runtime knows processes alone',
    ])
  })

  const tree = readTree()
  test('[OPS-04] views of the business read the tables of Concord, and views of the execution read the runtime', () =>
    assertTidy(checkViewReaders(tree)))
  test('[PRM-05] rows decide; events are evidence, read by those who show them', () =>
    assertTidy(checkEventReaders(tree)))
  test('[EFF-04] [SUP-06] no code searches for work among effects', () => assertTidy(checkEffectReaders(tree)))
})
