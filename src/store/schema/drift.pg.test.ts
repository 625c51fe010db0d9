/** Three pictures of one schema agree: the migrated database, the committed dump, and the Drizzle files. */
import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { is } from 'drizzle-orm'
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core'
import { openTestDb, type TestDb } from '#test/database'
import { type Catalogue, readCatalogue } from '../migrate/catalogue.ts'
import { drawSchema, firstDifference } from '../migrate/picture.ts'
import * as agents from './agents.ts'
import * as approvals from './approvals.ts'
import * as artifacts from './artifacts.ts'
import * as commands from './commands.ts'
import * as connectors from './connectors.ts'
import * as events from './events.ts'
import * as identity from './identity.ts'
import * as memory from './memory.ts'
import * as schedules from './schedules.ts'

const here = new URL('./', import.meta.url)

/** Every file of this folder that declares tables. */
const files = { agents, approvals, artifacts, commands, connectors, events, identity, memory, schedules }
const withoutTables = ['columns', 'concord-schema']

const drizzleTables = (): PgTable[] =>
  Object.values(files)
    .flatMap((exported) => Object.values<unknown>(exported))
    .filter((value): value is PgTable => is(value, PgTable))

const columnLine = (name: string, type: string, notNull: boolean, hasDefault: boolean) =>
  `${name} ${type}${notNull ? ' not null' : ''}${hasDefault ? ' default' : ''}`

describe('schema drift', () => {
  let opened: TestDb
  let catalogue: Catalogue

  before(async () => {
    opened = await openTestDb()
    catalogue = await readCatalogue(opened.db)
  })
  after(() => opened.close())

  test('the committed dump is what the migrations make', async () => {
    const committed = await readFile(new URL('../schema.sql', here), 'utf8')
    const difference = firstDifference(committed, drawSchema(catalogue))
    assert.equal(
      difference,
      undefined,
      `src/store/schema.sql is out of date, ${difference}; run: node scripts/schema.ts`,
    )
  })

  test('no schema file is left out', async () => {
    const there = (await readdir(here)).filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    assert.deepEqual(there.sort(), [...Object.keys(files), ...withoutTables].map((name) => `${name}.ts`).sort())
  })

  test('every column of the database is in Drizzle and every column of Drizzle is in the database', async () => {
    const inDatabase = Map.groupBy(catalogue.columns, ({ table }) => table)
    const inDrizzle = new Map(
      drizzleTables()
        .map(getTableConfig)
        .map((config) => [`${config.schema}.${config.name}`, config]),
    )
    const tables = [...inDatabase.keys()].filter((name) => !name.startsWith('public.'))
    assert.deepEqual([...inDrizzle.keys()].sort(), tables.sort())
    for (const [name, config] of inDrizzle) {
      const declared = config.columns.map((column) =>
        columnLine(
          column.name,
          column.getSQLType(),
          column.notNull,
          column.hasDefault || column.generated !== undefined,
        ),
      )
      const real = (inDatabase.get(name) ?? []).map(({ column, baseType, notNull, default: value }) =>
        columnLine(column, baseType, notNull, value !== null),
      )
      assert.deepEqual(declared, real, name)
    }
  })

  test('primary keys are the same', () => {
    for (const { name, schema, columns, primaryKeys } of drizzleTables().map(getTableConfig)) {
      const declared = primaryKeys[0]?.columns ?? columns.filter((column) => column.primary)
      const real = catalogue.constraints.find(
        ({ owner, text }) => owner === `${schema}.${name}` && text.includes('PRIMARY KEY'),
      )
      assert.match(
        real?.text ?? '',
        new RegExp(`PRIMARY KEY \\(${declared.map((column) => column.name).join(', ')}\\)$`),
        name,
      )
    }
  })

  test('the picture shows a change of any kind', async () => {
    const before = drawSchema(catalogue)
    const changes = [
      'alter table concord.commands alter column task_name set not null',
      `alter table concord.commands alter column attempt set default 2`,
      'alter table concord.commands drop constraint commands_turn_ck',
      'alter domain concord.command_status drop constraint command_status_ck',
      `alter domain concord.event_purpose add constraint more_ck check (value <> 'audit')`,
      'create domain concord.anything as text',
      'alter table concord.commands alter column error type concord.filled_text',
      'drop index concord.commands_due_ix',
      'alter table concord.domain_events disable trigger domain_events_append_only',
      'alter table concord.commands no force row level security',
      'alter policy commands_app on concord.commands using (true)',
      'grant delete on concord.domain_events to concord_engine',
      'grant insert (xid) on concord.domain_events to concord_app',
      'grant create on schema concord to concord_app',
      `comment on column concord.commands.plan is 'x'`,
      `alter table concord.commands set (fillfactor = 90)`,
      `create or replace function identity.current_org_id() returns uuid language sql stable return null::uuid`,
      'create view concord.peek as select 1 as one',
      'create sequence concord.counter',
      'create schema forgotten',
    ]
    for (const change of changes) {
      assert.notEqual(firstDifference(before, await drawAfter(change)), undefined, change)
    }
    assert.equal(drawSchema(await readCatalogue(opened.db)), before)
  })

  /** Draws the schema with a change in it and takes the change back. */
  async function drawAfter(change: string): Promise<string> {
    const undo = new Error('undo')
    let drawn = ''
    const changed = opened.db.transaction(async (tx) => {
      await tx.query(change)
      drawn = drawSchema(await readCatalogue({ transaction: (work) => work(tx) }))
      throw undo
    })
    await assert.rejects(changed, undo)
    return drawn
  }
})
