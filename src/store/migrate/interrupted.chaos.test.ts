/** A killed runner leaves the database between two migrations, and the next runner continues. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { describe, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { freshDatabase } from '#test/database'
import {
  aMigrationFolder,
  copyOfMigrations,
  migrationFileNames,
  pictureOf,
  spawnRunner,
  versionOf,
} from '#test/migrations'
import type { Db } from '../db.ts'
import { migrateUp, migrationStatus } from '../migrate.ts'

/** Waits until a runner of this database is in the middle of its migration, waiting for our lock. */
async function runnerIsHalfway(db: Db): Promise<void> {
  for (;;) {
    const rows = await db.query(
      `select from pg_stat_activity where datname = current_database() and application_name = 'concord-migrate'
          and wait_event_type = 'Lock' and query like '%halfway%'`,
    )
    if (rows.length > 0) return
    await wait(20)
  }
}

describe('an interrupted runner', { concurrency: 2 }, () => {
  test('killed in the middle of a migration: nothing of it is there, and the next runner does all of it', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    const folder = await aMigrationFolder(t, {
      '0001_first.sql': 'create table first ();\n-- down\ndrop table first;\n',
      '0002_second.sql':
        `create table halfway ();
        select pg_advisory_xact_lock(42);
        create table whole ();
        -- down\n`.replace('        -- down', '-- down') + 'drop table halfway, whole;\n',
    })
    const barrier = await db.connect('barrier')
    await barrier.query('select pg_advisory_lock(42)')
    const runner = spawnRunner(url, folder)
    const ended = once(runner, 'exit')
    await runnerIsHalfway(db)
    runner.kill('SIGKILL')
    assert.deepEqual(await ended, [null, 'SIGKILL'])
    await barrier.end()

    const resumed = await migrateUp(url, { folder })
    assert.deepEqual(resumed, { ok: true, value: { steps: ['0002_second'], version: 2 } })
    const found = await db.query(
      `select to_regclass('first') is not null and to_regclass('halfway') is not null and to_regclass('whole') is not null as whole`,
    )
    assert.deepEqual(found, [{ whole: true }])
  })

  for (const after of ['0001_roles', '0003_commands', '0005_domain_events']) {
    test(`killed somewhere after ${after}: the rest follows and the schema is the same`, async (t) => {
      const { db, url } = await freshDatabase(t, { migrated: false })
      const { db: reference } = await freshDatabase(t)
      const last = (await migrationFileNames()).at(-1)
      // The last one waits for us, so that a runner that is quicker than the signal cannot have finished.
      const folder = await copyOfMigrations(t, (text, name) =>
        name === last ? `select pg_advisory_xact_lock(42);\n${text}` : text,
      )
      const barrier = await db.connect('barrier')
      await barrier.query('select pg_advisory_lock(42)')
      const runner = spawnRunner(url, folder)
      const ended = once(runner, 'exit')
      for await (const line of createInterface({ input: runner.stdout })) {
        if (line === after) runner.kill('SIGKILL')
      }
      assert.deepEqual(await ended, [null, 'SIGKILL'])
      await barrier.end()
      const status = await migrationStatus(url)
      assert.ok(status.ok && status.value.pending.length > 0, 'it was interrupted')
      const resumed = await migrateUp(url)
      assert.deepEqual(resumed.ok && resumed.value.steps.at(-1), last?.replace('.sql', ''))
      assert.equal(await pictureOf(db), await pictureOf(reference))
      assert.equal(await versionOf(url), await versionOf(reference))
    })
  }
})
