/** The schema objects of missions: the row types that rooms import, and the declared keys and relations. `drift.pg.test.ts` compares both with the catalogue. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Rows } from '../rows.ts'

const declared = readFileSync(join(import.meta.dirname, '../schema.sql'), 'utf8')
const tableOf = (name: string) => {
  const from = declared.indexOf(`create table missions.${name} (`)
  assert.ok(from >= 0, name)
  return declared.slice(from, declared.indexOf('\n);', from))
}

describe('schema objects of missions', () => {
  test('[MIS-353] the row of a mission is a type that rooms import, with its states and its version', () => {
    // Compiled by `npm run check`: without the export, or with another column type, this does not compile.
    const run = { id: 'r', state: 'running', state_type: 'running', version_id: 1 } satisfies Partial<
      Rows['missions.orchestration_runs']
    >
    const names: readonly (keyof Rows['missions.orchestration_runs'])[] = ['id', 'state', 'state_type', 'version_id']
    assert.deepEqual(Object.keys(run), names)
    for (const name of names) assert.match(tableOf('orchestration_runs'), new RegExp(`\\n  ${name} `))
  })

  test('[MIS-354] a task declares its relations to its mission, its agent and its card', () => {
    const keys = [...tableOf('orchestration_tasks').matchAll(/FOREIGN KEY \(([^)]*)\) REFERENCES (\S+)\(/g)].map(
      ([, columns, table]) => `${columns} → ${table}`,
    )
    for (const key of [
      'run_id, workspace_id → missions.orchestration_runs',
      'workspace_id, agent_id → missions.agents',
      'workspace_id, board_task_id → missions.board_tasks',
    ])
      assert.ok(keys.includes(key), `${key} is not among ${keys.join('; ')}`)
  })

  test('[MIS-355] a dependency has the composite key of both tasks', () => {
    assert.match(tableOf('orchestration_task_dependencies'), /PRIMARY KEY \(task_id, depends_on_id\)/)
    const edge = { task_id: 't', depends_on_id: 'u' } satisfies Partial<
      Rows['missions.orchestration_task_dependencies']
    >
    assert.equal(Object.keys(edge).length, 2)
  })

  test('[MIS-356] an event has a key of 64 bits that counts up, and the driver returns it as text', () => {
    const table = tableOf('orchestration_events')
    assert.match(table, /\n {2}id +bigint [^\n]*nextval/)
    assert.match(table, /PRIMARY KEY \(id\)/)
    const beyond = String(2n ** 63n - 1n)
    const event = { id: beyond } satisfies Pick<Rows['missions.orchestration_events'], 'id'>
    assert.equal(BigInt(event.id), 2n ** 63n - 1n)
  })
})
