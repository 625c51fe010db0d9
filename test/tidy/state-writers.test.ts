import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkStateWriters } from './state-writers.ts'
import { plantTree, readTree } from './tree.ts'

const path = 'src/domains/missions/shortcut.ts'
const planted = (text: string, at = path) => checkStateWriters(plantTree({ [at]: text }))
const found = `${path}:2: writes a state: move it with a Batch`

describe('writers of states', () => {
  for (const sql of [
    "update ${T} set state = 'running' where id = $1",
    'update ${T} as t set (title, state_type) = (r.title, r.state_type) from r where t.id = r.id',
    "insert into ${T} (id, state) values ($1, 'running') on conflict (id) do update set state = excluded.state",
    'merge into ${T} as t using r on t.id = r.id when matched then update set state = r.state',
  ])
    for (const table of ['runs', 'tasks'])
      test(`[MIS-187] a second writer is found: ${sql} (${table})`, () =>
        assertFindings(
          planted(
            `const T = 'missions.orchestration_${table}'\nexport const x = statement('missions.shortcut', \`${sql}\`)`,
          ),
          [found],
        ))

  test('[MIS-187] a migration that writes a state, and another caller of the writer, are found', () => {
    const migration = 'src/store/migrations/0099_x.sql'
    assertFindings(planted(`update missions.orchestration_tasks set state = 'failed';`, migration), [
      `${migration}:1: writes a state: move it with a Batch`,
    ])
    assertFindings(planted(`import { updateTasks } from './mission-task.ts'`), [
      `${path}:1: uses updateTasks: only src/domains/missions/batch.ts does`,
    ])
  })

  test('[MIS-187] other columns, and reads by state, are fine', () =>
    assertFindings(
      planted(
        "const T = 'missions.orchestration_runs'\nconst x = `update ${T} set run_after = $2 where state = 'paused'`\nconst y = `select state from ${T}`",
      ),
      [],
    ))

  test('[MIS-187] states of missions and of their tasks are written by the batch alone', () =>
    assertTidy(checkStateWriters(readTree())))
})
