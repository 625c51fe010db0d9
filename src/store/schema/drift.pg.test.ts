/** The committed dump and the committed row types are what the migrations make. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { type Catalogue, readCatalogue } from '#test/schema/catalogue'
import { drawRows, drawSchema, firstDifference } from '#test/schema/picture'

const here = new URL('./', import.meta.url)

describe('schema drift', () => {
  let opened: TestDb
  let catalogue: Catalogue

  before(async () => {
    opened = await openTestDb()
    catalogue = await readCatalogue(opened.db)
  })
  after(() => opened.close())

  for (const [name, draw] of [
    ['schema.sql', drawSchema],
    ['rows.ts', drawRows],
  ] as const) {
    test(`the committed ${name} is what the migrations make`, async () => {
      const committed = await readFile(new URL(`../${name}`, here), 'utf8')
      const difference = firstDifference(committed, draw(catalogue))
      assert.equal(
        difference,
        undefined,
        `src/store/${name} is out of date, ${difference}; run: node scripts/schema.ts`,
      )
    })
  }

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
