/** The pure parts: the YAML with all findings, hashes, keys, the tasks of an event, the states of jobs. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { z } from 'zod'
import { type DagSpec, readDag } from './dag-file.ts'
import {
  configHash,
  cursorKey,
  dagHash,
  decideRetryDelay,
  jobState,
  locationOf,
  partitionKey,
  versionHash,
} from './decide-flow.ts'
import { defineOperator } from './operator.ts'
import { openOperators } from './operators.ts'

const operators = openOperators([defineOperator({ name: 'count_rows', config: z.record(z.string(), z.json()) })], fetch)
const read = (text: string) => readDag(Buffer.from(text), { operators })
function spec(text: string): DagSpec {
  const found = read(text)
  assert.ok(found.ok, found.ok ? '' : found.reason)
  return found.value
}
function findings(text: string) {
  const found = read(text)
  assert.ok(!found.ok)
  assert.equal(found.code, 'flow.dag.invalid')
  const all = found.facts?.['findings'] as
    | { code: string; path: string; line: number; column: number; hint: string }[]
    | undefined
  return all?.map(({ code, path, line, hint }) => {
    assert.ok(hint.length > 0)
    return [code, path, line]
  })
}

const GOOD = `dag: shop
jobs:
  - { name: pull, activation: source, runtime: ecs_udf, operator: count_rows, source: { kind: cron, schedule: "* * * * *" }, update_strategy: append, unique_key: [id], outputs: [orders] }
  - { name: daily, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerPartition, inputs: [orders], outputs: [totals], update_strategy: replace }
`

describe('the YAML of a DAG', () => {
  test('[FLOW-015] comments and key order do not change the hash, a changed value does', () => {
    const other = `# a comment\njobs:\n${GOOD.split('\n').slice(2).toReversed().join('\n')}\ndag: shop\n`
    assert.equal(dagHash(spec(other)), dagHash(spec(GOOD)))
    assert.notEqual(dagHash(spec(GOOD.replace('* * * * *', '0 * * * *'))), dagHash(spec(GOOD)))
  })

  test('[FLOW-019] [FLOW-022] [FLOW-023] [FLOW-026] all findings come at once, each with code, path, line and hint', () => {
    const bad = `dag: shop
jobs:
  - { name: pull, activation: source, runtime: ecs_udf, operator: count_row, source: { kind: cron, schedule: "0 0 30 2 *" }, update_strategy: append, outputs: [orders] }
  - { name: daily, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: Bulk, inputs: [orders], update_strategy: replace }
  - { name: late, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerUpdate, inputs: [orders], outputs: [orders], idle_timeout: 5 minutes, update_strategy: replace }
  - { name: odd, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerUpdate, input: [orders], inputs: [orders], update_strategy: replace }
`
    assert.deepEqual(findings(bad), [
      ['operator_unknown', 'jobs[0].operator', 3],
      ['cron_never', 'jobs[0].source.schedule', 3],
      ['unique_key_missing', 'jobs[0].update_strategy', 3],
      ['bulk', 'jobs[1].execution_strategy', 4],
      ['two_producers', 'jobs[2].outputs[0]', 5],
      ['duration', 'jobs[2].idle_timeout', 5],
      ['unknown_field', 'jobs[3].input', 6],
    ])
  })

  test('[FLOW-020] [FLOW-021] source and bootstrap belong to sources, strategy and idle timeout to reactive jobs', () => {
    assert.deepEqual(
      findings(
        GOOD.replace(
          'inputs: [orders]',
          'inputs: [orders], source: { kind: event }, bootstrap: { reset_outputs: true }',
        ),
      ),
      [
        ['unknown_field', 'jobs[1].source', 4],
        ['unknown_field', 'jobs[1].bootstrap', 4],
      ],
    )
  })

  test('[FLOW-031] a cycle through datasets is refused with its path', () => {
    const cycle = `dag: loop
jobs:
  - { name: a, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerUpdate, inputs: [y], outputs: [x], update_strategy: replace }
  - { name: b, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerUpdate, inputs: [x], outputs: [y], update_strategy: replace }
`
    const found = read(cycle)
    assert.match(found.ok ? '' : found.reason, /a → b → a/)
  })
})

describe('hashes and keys', () => {
  test('[FLOW-024] the same config has the same hash; limits do not count', () => {
    const [, daily] = spec(GOOD).jobs
    const [, limited] = spec(GOOD.replace('inputs: [orders]', 'inputs: [orders], scaling: { max_concurrency: 4 }')).jobs
    const [, other] = spec(GOOD.replace('inputs: [orders]', 'inputs: [orders], config: { n: 1 }')).jobs
    assert.ok(daily && limited && other)
    assert.equal(configHash(daily), configHash(limited))
    assert.notEqual(configHash(daily), configHash(other))
  })

  test('[FLOW-039] each part of a version changes its hash', () => {
    const parts = { configHash: 'c', kind: 'table', chainId: null, rangeStart: null, rangeEnd: null, inputs: [] }
    const changed = [
      { configHash: 'd' },
      { kind: 'files' },
      { chainId: '1' },
      { rangeStart: '1' },
      { rangeEnd: '2' },
      { inputs: ['i'] },
    ]
    const hashes = new Set([parts, ...changed.map((change) => ({ ...parts, ...change }))].map(versionHash))
    assert.equal(hashes.size, changed.length + 1)
  })

  test('[FLOW-040] files have a prefix of the version that ends in /, tables a name', () => {
    assert.equal(locationOf('files', 'd', 'v-1'), 'datasets/d/v-1/')
    assert.equal(locationOf('table', 'd', 'a-b'), 'flow_data.v_ab')
  })

  test('[FLOW-053] keys are as printed; a later generation is part of the key', () => {
    assert.equal(partitionKey('d', 'v', '2026-05-01', 1), 'partition:d:v:2026-05-01')
    assert.equal(partitionKey('d', 'v', '2026-05-01', 2), 'partition:d:v:2026-05-01@2')
    assert.equal(cursorKey('d', 'v', '99'), 'cursor:d:v:99')
  })

  test('[FLOW-028] [FLOW-077] no limit of its own means three attempts, and the delays grow', () => {
    const delays = [1, 2, 3].map((attempt) => decideRetryDelay({ attempt, maxAttempts: null }, 'work_failed', () => 0))
    assert.deepEqual(delays, [5_000, 10_000, null])
  })
})

describe('the states of jobs', () => {
  const none = { queued: 0, running: 0, expired: 0, draining: 0, lastActivityAt: null }
  const source = { activation: 'source', idle_timeout: null } as const
  const now = new Date('2026-05-01T10:00:00Z')
  const ago = (ms: number) => new Date(now.getTime() - ms)

  test('[FLOW-098] [FLOW-099] [FLOW-101] [FLOW-106] a source is Pending, Running, Dead or Draining by its tasks', () => {
    assert.equal(jobState(source, none, now), 'Pending')
    assert.equal(jobState(source, { ...none, queued: 1 }, now), 'Pending')
    assert.equal(jobState(source, { ...none, running: 1 }, now), 'Running')
    assert.equal(jobState(source, { ...none, running: 1, expired: 1 }, now), 'Dead')
    assert.equal(jobState(source, { ...none, running: 1, draining: 1 }, now), 'Draining')
  })

  test('[FLOW-104] [FLOW-105] a reactive job runs while it has work and for its idle timeout after that', () => {
    const job = { activation: 'reactive', idle_timeout: '5m' } as const
    assert.equal(jobState(job, none, now), 'Idle')
    assert.equal(jobState(job, { ...none, queued: 1 }, now), 'Running')
    assert.equal(jobState(job, { ...none, lastActivityAt: ago(299_000) }, now), 'Running')
    assert.equal(jobState(job, { ...none, lastActivityAt: ago(300_000) }, now), 'Idle')
    assert.equal(jobState({ ...job, idle_timeout: 'never' }, { ...none, lastActivityAt: ago(1e9) }, now), 'Running')
    assert.equal(jobState({ ...job, idle_timeout: '0' }, { ...none, lastActivityAt: now }, now), 'Idle')
  })
})
