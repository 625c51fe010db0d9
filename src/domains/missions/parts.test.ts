/** The parts of missions that the requirements name, and the order in which they stand on each other. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { describe, test } from 'node:test'

const root = resolve(import.meta.dirname, '../../..')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')
const room = (name: string) => `src/domains/missions/${name}`

/** Each with its modules and the tests of them. */
const parts = {
  'tables and archive': [
    ['src/store/schema.sql', room('archive-events.ts')],
    ['src/store/schema/missions-tables.pg.test.ts', room('archive-events.pg.test.ts')],
  ],
  'state machines': [
    ['src/kernel/machines/mission.ts'],
    ['src/kernel/machines/mission-run.test.ts', 'src/kernel/machines/mission-task.test.ts'],
  ],
  'dependency resolver': [
    ['src/kernel/dag/readiness.ts', room('settle.ts')],
    ['src/kernel/dag/readiness.test.ts', room('run-tasks.pg.test.ts')],
  ],
  board: [[room('board.ts'), room('cards.ts')], [room('cards.pg.test.ts')]],
  reports: [[room('reports.ts')], [room('reports.pg.test.ts')]],
  recipes: [[room('recipe.ts'), room('recipe-plan.ts')], [room('recipe-plan.test.ts')]],
  workspaces: [['src/api/mission-routes.ts'], ['src/api/tenants.pg.test.ts']],
} as const

/** From first to last. A step is built from the ones before it. */
const order = [
  ['models', ['src/store/rows.ts']],
  [
    'enums and state machine',
    ['src/kernel/dag/readiness.ts', 'src/kernel/machine.ts', 'src/kernel/machines/mission.ts'],
  ],
  ['board bridge', [room('board.ts'), room('cards.ts')]],
  ['resolver', [room('settle.ts'), room('run-tasks.ts'), room('reconcile-missions.ts')]],
  ['API', ['src/api/mission-routes.ts', 'src/api/mission-action-routes.ts', 'src/api/mission-worker-routes.ts']],
] as const

/** The files that a module imports at run time, from the room of missions, the kernel and the store. */
function importsOf(path: string, seen = new Set<string>()): ReadonlySet<string> {
  for (const [, names = '', from = ''] of textOf(path).matchAll(/^import (type )?[^;]*? from '([^']+)'$/gms)) {
    if (names !== '') continue
    const found = from.startsWith('.')
      ? join(dirname(path), from)
      : from.replace(/^#kernel\/(.*)$/, 'src/kernel/$1.ts').replace(/^#store\/rows$/, 'src/store/rows.ts')
    if (!found.startsWith('src/') || seen.has(found)) continue
    seen.add(found)
    importsOf(found, seen)
  }
  return seen
}

describe('the parts of missions', () => {
  test('[MIS-001] the tables are there, and each part has its modules and a test of them', () => {
    const schema = textOf('src/store/schema.sql')
    for (const table of ['runs', 'tasks', 'task_dependencies', 'events', 'events_archive'])
      assert.ok(schema.includes(`create table missions.orchestration_${table} (`), table)
    for (const [part, [modules, tests]] of Object.entries(parts)) {
      for (const path of [...modules, ...tests]) assert.ok(existsSync(join(root, path)), `${part}: ${path}`)
      for (const path of tests) assert.match(textOf(path), /\[MIS-\d{3}\]/, `${part}: ${path} proves a row`)
    }
  })

  test('[MIS-394] each step of the build order stands on earlier ones: none imports a later one', () => {
    for (const [at, [step, files]] of order.entries())
      for (const file of files) {
        const imported = importsOf(file)
        for (const [later, paths] of order.slice(at + 1))
          for (const path of paths)
            assert.ok(
              !imported.has(path) || files.includes(path as never),
              `${step} (${file}) imports ${later} (${path})`,
            )
      }
    // The walk sees imports: the last step stands on the first ones.
    assert.ok(importsOf(room('settle.ts')).has(room('board.ts')))
  })
})
