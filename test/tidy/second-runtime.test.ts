import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { rooms } from './room-table.ts'
import { checkCronLoops, checkRetryLoops, waitingLoops } from './second-runtime.ts'
import { plantTree, readTree } from './tree.ts'

const path = 'src/domains/flow/a.ts'
/** The listed loops are planted too: a list that nothing answers to is itself a finding. */
const listed = Object.fromEntries(Object.keys(waitingLoops).map((each) => [each, 'for (;;) { await sleep(1) }']))

describe('one runtime', () => {
  for (const code of [
    'for (;;) {\n  try { return await send() } catch {}\n  await world.sleep(5)\n}',
    'while (!done) { await pause(100) }',
    'do { await send(); await delay(1) } while (!done)',
    'for (let attempt = 0; attempt < 3; attempt++) { await send() }',
    'for (let tries = 0; tries < 3; tries++) await send()',
  ]) {
    test(`[SUP-02] [RUN-13] ${JSON.stringify(code)} is found`, () =>
      assertFindings(checkRetryLoops(plantTree({ ...listed, [path]: code })), [
        `${path}:1: waits in a loop: the runtime retries`,
      ]))
  }

  test('a loop over rows, a wait without a loop, and the scheduler are fine', () => {
    const tree = plantTree({
      ...listed,
      [path]: 'for (const row of rows) { await save(row) }\nawait world.sleep(5)',
      'src/domains/scheduler/a.ts': 'for (;;) { await sleep(5) }',
    })
    assertFindings(checkRetryLoops(tree), [])
    const [first = '', ...others] = Object.keys(listed)
    const without = Object.fromEntries(others.map((each) => [each, 'for (;;) { await sleep(1) }']))
    assertFindings(checkRetryLoops(plantTree(without)), [`${first}: is listed as a loop that waits, and has none`])
  })

  test('[SUP-03] [RUN-13] whoever works out due times and waits for them is found', () => {
    const problem = 'works out due times and waits: the runtime keeps schedules'
    for (const imports of [
      `import { nextCronTime } from '#kernel/cron-next'`,
      `import { nextDueTime } from '#runtime'`,
      `import { Cron } from 'croner'`,
    ])
      assertFindings(checkCronLoops(plantTree({ [path]: `${imports}\nasync function run() {}` })), [
        `${path}:2: ${problem}`,
      ])
    assertFindings(
      checkCronLoops(plantTree({ 'src/app/a.ts': `import { dueTimes } from '#runtime'\nsetInterval(run)` })),
      [`src/app/a.ts:2: ${problem}`],
    )
    assertFindings(
      checkCronLoops(plantTree({ [path]: `import { nextDueTime } from '#runtime'\nconst at = nextDueTime()` })),
      [],
    )
  })

  const tree = readTree()
  test('[SUP-02] [RUN-13] nothing in kernel and rooms retries in a loop', () => assertTidy(checkRetryLoops(tree)))
  test('[SUP-03] [RUN-13] nothing beside the runtime goes by the clock', () => assertTidy(checkCronLoops(tree)))
  test('[SUP-02] [SUP-03] no room that does governed work enters the scheduler of one machine', () => {
    const entering = rooms.filter(({ enters }) => enters.includes('domains/scheduler')).map(({ name }) => name)
    assert.deepEqual(
      entering.filter((name) => name.startsWith('domains/') || name === 'kernel' || name === 'runtime'),
      [],
    )
  })
})
