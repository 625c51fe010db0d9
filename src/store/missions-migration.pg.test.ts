/** The migration of missions on a database that has a board, reports, agents and recipes already: there, back, again, and nothing else changes. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { freshDatabase } from '#test/database'
import { type Catalogue, readCatalogue } from '#test/schema/catalogue'
import { aStoreRowsOf, insertRow, rowsOf } from '#test/store-rows'
import { migrateDown, migrateUp } from './migrate.ts'
import { migrationsFolder } from './migrate/migration-file.ts'

const BASE = 38
const NAME = '0039_orchestration'
const base = [
  'missions.agents',
  'missions.board_tasks',
  'missions.agent_reports',
  'missions.workflow_recipes',
  'identity.workspaces',
]

const linesOf = ({ columns, constraints, indexes, triggers, policies, grants }: Catalogue) =>
  [
    ...columns.map(
      ({ table, column, type, notNull, default: value }) => `${table} ${column} ${type} ${notNull} ${value}`,
    ),
    ...[...constraints, ...indexes, ...triggers, ...policies, ...grants].map(({ owner, text }) => `${owner} ${text}`),
  ].filter((line) => base.some((table) => line.startsWith(`${table} `)))

/** The places of these texts, which must all be there. */
function placesOf(text: string, parts: readonly string[]): readonly number[] {
  const places = parts.map((part) => text.indexOf(part))
  assert.ok(
    places.every((place) => place >= 0),
    parts.filter((part) => !text.includes(part)).join(', '),
  )
  return places
}

test('[MIS-328] [MIS-330] [MIS-331] [MIS-332] [MIS-333] [MIS-334] the migration of missions: one file, its order up and down, and indexes of other tables after the commit', async () => {
  const text = await readFile(`${migrationsFolder}/${NAME}.sql`, 'utf8')
  const [up = '', down = ''] = text.split('\n-- down\n')
  const [inside = '', after = ''] = up.split('\n-- after commit\n')
  const table = (name: string) => `create table if not exists missions.orchestration_${name} (`
  const order = placesOf(up, [
    ...['runs', 'tasks', 'task_dependencies', 'events', 'events_archive'].map(table),
    'alter table missions.agent_reports add column if not exists orchestration_task_id uuid;',
    'create unique index concurrently uq_board_tasks_orchestration_run',
    'create unique index concurrently uq_board_tasks_orchestration_task',
    'create index concurrently ix_agent_reports_orch_task',
  ])
  assert.deepEqual(
    order,
    order.toSorted((a, b) => a - b),
  )
  const creates = [...inside.matchAll(/^create (?:unique )?(?:table|index)\b.*/gm)].map(([line]) => line)
  assert.ok(creates.length > 20)
  assert.deepEqual(
    creates.filter((line) => !/^create (?:unique )?(?:table|index) if not exists /.test(line)),
    [],
  )
  assert.deepEqual(
    creates.filter((line) => / on missions\.(?:board_tasks|agent_reports)\b/.test(line)),
    [],
  )
  assert.deepEqual(
    [...after.matchAll(/^create\b.*/gm)].filter(([line]) => !line.includes('concurrently')),
    [],
  )
  const back = placesOf(down, [
    'drop index if exists missions.uq_board_tasks_orchestration_run',
    'drop index if exists missions.uq_board_tasks_orchestration_task',
    'drop index if exists missions.ix_agent_reports_orch_task',
    'alter table missions.agent_reports drop column if exists orchestration_task_id',
    ...['events_archive', 'events', 'task_dependencies', 'tasks', 'runs'].map(
      (name) => `drop table if exists missions.orchestration_${name};`,
    ),
  ])
  assert.deepEqual(
    back,
    back.toSorted((a, b) => a - b),
  )
})

test('[MIS-008] [MIS-329] [MIS-330] [MIS-332] [MIS-335] [MIS-370] [MIS-371] [MIS-372] [MIS-373] [MIS-374] on base tables without and with rows it adds, takes back what it added, and runs again', async (t) => {
  const { db, url } = await freshDatabase(t)
  const whole = await readCatalogue(db)
  assert.equal((await migrateDown(url, { to: BASE })).ok, true)
  const before = await readCatalogue(db)
  assert.deepEqual(
    before.tables.filter(({ table }) => table.startsWith('missions.')).map(({ table }) => table),
    ['missions.agent_reports', 'missions.agents', 'missions.board_tasks', 'missions.workflow_recipes'],
  )
  assert.equal((await migrateUp(url)).ok, true)
  assert.deepEqual(await readCatalogue(db), whole)
  const kept = new Set(linesOf(whole))
  assert.deepEqual(
    linesOf(before).filter((line) => !kept.has(line)),
    [],
    'nothing that was there is changed',
  )
  const columns = ({ columns: all }: Catalogue) => all.filter(({ table }) => base.includes(table))
  const had = new Set(columns(before).map(({ table, column }) => `${table}.${column}`))
  assert.deepEqual(
    columns(whole)
      .filter(({ table, column }) => !had.has(`${table}.${column}`))
      .map(({ table, column, type, notNull, default: value }) => [table, column, type, notNull, value]),
    [['missions.agent_reports', 'orchestration_task_id', 'uuid', false, null]],
  )
  assert.equal((await migrateDown(url, { to: BASE })).ok, true)
  assert.deepEqual(await readCatalogue(db), before)
  const world = aStoreRowsOf()
  await insertRow(db, 'identity.orgs', { ...rowsOf['identity.orgs'](), id: world.org })
  const { id: workspace_id } = await insertRow(db, 'identity.workspaces', rowsOf['identity.workspaces'](world))
  const rows = {
    'missions.agents': { name: 'Ada', adapter: 'process' },
    'missions.board_tasks': { title: 'Call them', created_by_id: 'user:ada', source_type: 'recipe', source_id: '7' },
    'missions.agent_reports': { report_type: 'audit', title: 'May' },
    'missions.workflow_recipes': { name: 'Release', created_by: 'user:ada' },
  }
  const read = () =>
    Promise.all(
      Object.keys(rows).map((table) =>
        db.query(
          `select to_jsonb(t) - 'orchestration_task_id' as row, t.xmin::text as version from ${table} t order by id`,
        ),
      ),
    )
  for (const [table, row] of Object.entries(rows))
    for (let n = 0; n < 3; n++) {
      const marked = table === 'missions.agents' ? { ...row, name: `Ada ${n}` } : row
      const full = { ...marked, workspace_id }
      const marks = Object.keys(full).map((_, at) => `$${at + 1}`)
      await db.query(
        `insert into ${table} (${Object.keys(full).join(', ')}) values (${marks.join(', ')})`,
        Object.values(full),
      )
    }
  const stored = await read()
  assert.deepEqual(
    stored.map(({ length }) => length),
    [3, 3, 3, 3],
  )
  assert.equal((await migrateUp(url)).ok, true)
  assert.deepEqual(await read(), stored)
  assert.deepEqual(await db.query('select 1 from missions.agent_reports where orchestration_task_id is not null'), [])
  const again = await migrateUp(url)
  assert.deepEqual(again.ok && again.value.steps, [])
  assert.deepEqual(await readCatalogue(db), whole)
})
