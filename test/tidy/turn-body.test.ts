import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { plantTree, readTree } from './tree.ts'
import { checkDecisions, checkTurnBodies, turnBodies } from './turn-body.ts'

const path = 'src/domains/flow/drive-flow.ts'
const found = (code: string) => checkTurnBodies(plantTree({ [path]: `\n${code}` }))

describe('bodies of turns', () => {
  for (const [code, problem] of [
    ['await world.db.run(find, [])', 'db.: the database is handed to a step'],
    ['await world.db.transaction(work)', 'db.: the database is handed to a step'],
    ['commitWith(async (tx) => tx.run(save))', 'tx.: the transaction is handed to a step'],
    ['const find = statement(name, text)', 'statement(: statements stand under sql/'],
    ['await world.runtime.wake(process)', 'runtime.: the runtime is handed to a step'],
    ['await turn.world.sleep(5)', '.sleep(: a turn ends with the time until which it waits'],
    ['await channel.deliver(notice)', '.deliver(: a notice is sent by a step'],
    ['await connectors.call(request)', '.call(: a connector is called by a step'],
    ['const key = await door.resolveSecret(ref)', '.resolveSecret: secrets are looked up by a step'],
    ['await fetch(url)', 'fetch(: others are called by a step'],
    ['await Promise.race(all)', 'Promise.race: the order of answers is chance'],
    ['const at = Date.now()', 'Date.now: time comes from the world it is given'],
    ['const at = new Date()', 'newDate(): time comes from the world it is given'],
    ['const dice = Math.random()', 'Math.random: chance comes from the world it is given'],
    ['const id = randomUUID()', 'randomUUID: ids come from the world it is given'],
    ['for (const key of Object.keys(row)) use(key)', 'Object.keys: rows come in an order, keys in none'],
    [`import { readFile } from 'node:fs/promises'`, 'imports node:fs/promises: only a step may'],
    [`import { generateText } from 'ai'`, 'imports ai: only a step may'],
    [`import { find } from './sql/find.ts'`, 'imports ./sql/find.ts: only a step may'],
    [`import { appendEvents, failpoint } from '#store'`, 'takes appendEvents from the store: only a step may'],
  ] as const) {
    test(`[DET-01] [DET-03] [CMD-17] ${code} is found in a body`, () =>
      assertFindings(found(code), [`${path}:2: ${problem}`]))
  }

  test('branching, steps, transaction steps, waiting, waking and pure functions are fine', () => {
    const code = `import { isUuid } from '#kernel/uuid'
import type { Drive } from '#runtime'
import { constraintOf, failpoint, type Tx } from '#store'
import { checkApproved } from '#domains/approvals'
import { save } from './flow-repository.ts'
import { decideFlow } from './decide-flow.ts'
const row = await find(world.db, id)
if (decideFlow(row, world.now()).ok) await commitWith(turn, (tx) => save(tx, row))
const until = new Date(world.now().getTime() + 5)`
    assertFindings(found(code), [])
    // A step may do all of it.
    assertFindings(checkTurnBodies(plantTree({ 'src/domains/flow/save-flow.ts': 'await db.run(save)' })), [])
  })

  test('[CMD-17] a drive that is named like anything else is found', () => {
    const hidden = 'src/domains/flow/move-flow.ts'
    assertFindings(checkTurnBodies(plantTree({ [hidden]: `import type { Drive, Next } from '#runtime'` })), [
      `${hidden}: gives the runtime a drive: it is named drive-….ts, so that a reader finds it`,
    ])
  })

  test('[CMD-17] a decision that awaits, or asks somebody who does, is found', () => {
    const imports = `import { decideFlow } from './decide-flow.ts'`
    const bad = (files: Record<string, string>) => checkDecisions(plantTree({ [path]: imports, ...files }))
    const decide = 'src/domains/flow/decide-flow.ts'
    assertFindings(bad({ [decide]: 'export async function decideFlow() {}' }), [
      `${path}:1: decideFlow is no pure decision: ${decide}:1 says async`,
    ])
    assertFindings(bad({ [decide]: `import { transition } from '#store'` }), [
      `${path}:1: decideFlow is no pure decision: ${decide} imports #store`,
    ])
    const far = 'src/domains/flow/far.ts'
    assertFindings(bad({ [decide]: `import { far } from './far.ts'`, [far]: 'const far = async () => 1' }), [
      `${path}:1: decideFlow is no pure decision: ${far}:1 says async`,
    ])
    assertFindings(bad({ [decide]: `import type { Row } from '#store'\nimport { far } from '#kernel/far'` }), [])
  })

  const tree = readTree()
  test('[DET-01] [DET-03] [CMD-17] every body of a turn branches and calls: what reaches the world stands in steps', () => {
    const bodies = turnBodies(tree).map(([name]) => name)
    for (const room of ['approvals', 'commands', 'command-schedules'])
      assert.ok(
        bodies.some((name) => name.startsWith(`src/domains/${room}/drive-`)),
        `no body is seen in ${room}`,
      )
    assertTidy(checkTurnBodies(tree))
  })

  test('[CMD-17] every decision of a turn is pure, all the way down', () => assertTidy(checkDecisions(tree)))
})
