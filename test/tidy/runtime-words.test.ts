import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { semanticQueues } from '#runtime'
import { assertFindings, assertTidy } from './finding.ts'
import { checkRuntimeWords, protocolWords, runtimeReadme, tableUnder } from './runtime-words.ts'
import { checkReferenceUse } from './second-runtime.ts'
import { plantTree, readTree } from './tree.ts'

const planted = {
  'src/runtime/protocol.ts': `export type DurableProtocol<Tx = X> = {
  readonly capabilities: string
  /** Says why. */
  step<T>(work: () => T): T
  sleep(until: Date): void
}
`,
  'src/runtime/README.md': `
| Word | In turns |
|---|---|
| \`capabilities\` | profile |
| \`sleep\` | wait |
| \`fork\` | never |

| Concord | Runtime | Where |
|---|---|---|
| audit | events | \`append\` in \`src/store/events.ts\` |
| queue | a queue | \`queues\` in \`src/runtime/queues.ts\` |
| swarm | to come | |
`,
  'src/runtime/queues.ts': 'export const queues = []',
  'src/domains/flow/drive-flow.ts': '',
}

describe('the words of the runtime', () => {
  test('a word left out or made up, a function that is elsewhere, and a drive that nobody names are found', () => {
    assertFindings(checkRuntimeWords(plantTree(planted)), [
      'src/runtime/README.md: does not tell what step is in turns',
      'src/runtime/README.md: tells of fork, which the protocol does not have',
      'src/runtime/README.md: says that audit is `append` in `src/store/events.ts`, which is not so',
      'src/runtime/README.md: does not name src/domains/flow/drive-flow.ts, which is a workflow',
    ])
  })

  const tree = readTree()
  test('[RUN-06] the protocol has these operations, and the README tells what each is in turns', () => {
    assert.deepEqual(protocolWords(tree.get('src/runtime/protocol.ts') ?? '').toSorted(), [
      'cancel',
      'capabilities',
      'enqueueStep',
      'getStatus',
      'receive',
      'registerWorkflow',
      'schedule',
      'signal',
      'sleep',
      'step',
      'submitWorkflow',
      'transaction',
      'waitForResult',
    ])
    assertTidy(checkRuntimeWords(tree))
  })

  test('the mapping names what Concord does, and a place for each room that is there', () => {
    const rows = tableUnder(tree.get(runtimeReadme) ?? '', '| Concord |')
    assert.equal(rows.length, 16)
    assert.deepEqual(
      rows.filter(([, , where]) => where === '').map(([what]) => what),
      ['agent run, spawn, swarm'],
    )
  })

  test('[RUN-13] a reader sees every workflow, step, transaction and queue by name, and there is one runtime', () => {
    const text = tree.get(runtimeReadme) ?? ''
    for (const queue of Object.keys(semanticQueues)) assert.ok(text.includes(`\`${queue}\``), queue)
    for (const word of ['*workflow*', '*steps*', '*transaction*', '*queue*']) assert.ok(text.includes(word), word)
    const registered = [...(tree.get('src/app/open-work.ts') ?? '').matchAll(/runtime\.register\((\w+)/g)]
    assert.ok(registered.length >= 3, 'the kinds of processes are registered where the README says')
    assertTidy([...checkRuntimeWords(tree), ...checkReferenceUse(tree)])
  })
})
