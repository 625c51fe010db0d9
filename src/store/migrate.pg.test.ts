/** The runner against real databases: there and back, many at once, and what it refuses. */
import assert from 'node:assert/strict'
import { appendFile, copyFile, rename } from 'node:fs/promises'
import path from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { KernelFault } from '#kernel/errors'
import { freshDatabase } from '#test/database'
import { aMigrationFolder, copyOfMigrations, migrationFileNames, pictureOf, versionOf } from '#test/migrations'
import { migrateDown, migrateUp, migrationStatus } from './migrate.ts'
import { migrationsFolder } from './migrate/migration-file.ts'

const one = { '0001_one.sql': 'create table one ();\n-- down\ndrop table one;\n' }
const two = { '0002_two.sql': 'create table two ();\n-- down\ndrop table two;\n' }

/** Migrations that change rows and no definition. */
const rowsOnly = new Set(['0029_authors.sql'])

describe('migrate', { concurrency: 4 }, () => {
  test('[PER-07] from an empty database, and a second time changes nothing', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    const names = (await migrationFileNames()).map((name) => name.replace(/\.sql$/, ''))
    assert.equal(await versionOf(url), 0)
    assert.deepEqual(await migrateUp(url), { ok: true, value: { steps: names, version: names.length } })
    const picture = await pictureOf(db)
    assert.deepEqual(await migrateUp(db), { ok: true, value: { steps: [], version: names.length } })
    assert.equal(await pictureOf(db), picture)
    assert.equal(await versionOf(db), names.length)
    // Only the tables that are there can be pointed at: commands and runs come before the events.
    assert.match(picture, /journal_agent_run_fk FOREIGN KEY .* REFERENCES concord\.agent_runs/)
  })

  test('each way down is the exact inverse of its way up', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    const folder = await aMigrationFolder(t)
    // The runner's own table is there from the first step on.
    assert.equal((await migrateUp(url)).ok, true)
    assert.equal((await migrateDown(url, { to: 0 })).ok, true)
    const pictures = [await pictureOf(db)]
    const names = await migrationFileNames()
    for (const name of names) {
      await copyFile(path.join(migrationsFolder, name), path.join(folder, name))
      assert.equal((await migrateUp(url, { folder })).ok, true)
      pictures.push(await pictureOf(db))
    }
    assert.equal(new Set(pictures).size, names.length + 1 - names.filter((name) => rowsOnly.has(name)).length)
    for (let version = names.length - 1; version >= 0; version--) {
      const back = await migrateDown(url, { steps: 1 })
      assert.deepEqual(back, { ok: true, value: { steps: [names[version]?.replace(/\.sql$/, '')], version } })
      assert.equal(await pictureOf(db), pictures[version], `after taking back ${names[version]}`)
    }
    assert.equal((await migrateUp(url)).ok, true)
    assert.equal(await pictureOf(db), pictures.at(-1))
  })

  test('twenty runners on one database: one applies, all succeed', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    const { db: reference } = await freshDatabase(t)
    const results = await Promise.all(Array.from({ length: 20 }, () => migrateUp(url)))
    const count = (await migrationFileNames()).length
    assert.deepEqual(
      results.map((result) => result.ok && result.value.version),
      Array.from({ length: 20 }, () => count),
    )
    assert.deepEqual(
      results.map((result) => (result.ok ? result.value.steps.length : -1)).sort((a, b) => b - a),
      [count, ...Array.from({ length: 19 }, () => 0)],
    )
    assert.equal(await pictureOf(db), await pictureOf(reference))
  })

  test('an applied file that was edited is refused, up and down, and nothing is touched', async (t) => {
    const { db, url } = await freshDatabase(t)
    const folder = await copyOfMigrations(t)
    await appendFile(path.join(folder, '0003_commands.sql'), '-- a word more\n')
    const before = await pictureOf(db)
    for (const result of [await migrateUp(url, { folder }), await migrateDown(url, { folder, to: 0 })]) {
      assert.ok(!result.ok)
      assert.deepEqual([result.code, result.path], ['store.migration.changed', '0003_commands.sql'])
    }
    assert.equal(await pictureOf(db), before)
    const status = await migrationStatus(url, { folder })
    assert.equal(status.ok && !status.value.verdict.ok && status.value.verdict.code, 'store.migration.changed')
  })

  test('a database of a newer Concord is refused by an older one', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    const newer = await aMigrationFolder(t, { ...one, ...two })
    const older = await aMigrationFolder(t, one)
    assert.equal((await migrateUp(url, { folder: newer })).ok, true)
    for (const result of [await migrateUp(url, { folder: older }), await migrateDown(url, { folder: older, to: 0 })]) {
      assert.ok(!result.ok)
      assert.equal(result.code, 'store.schema.newer')
      assert.match(result.reason, /0002_two/)
    }
    assert.equal((await db.query(`select to_regclass('two') is not null as kept`))[0]?.['kept'], true)
  })

  test('a file that was merged late is refused, not skipped', async (t) => {
    const { url } = await freshDatabase(t, { migrated: false })
    const folder = await aMigrationFolder(t, { ...one, ...two })
    await rename(path.join(folder, '0002_two.sql'), path.join(folder, '0003_two.sql'))
    const hole = await migrateUp(url, { folder })
    assert.equal(!hole.ok && hole.code, 'store.migration.gap')
    assert.equal(await versionOf(url), 0)
  })

  test('status says what is applied and what is pending, and the engine may read it', async (t) => {
    const { db, url } = await freshDatabase(t)
    const behind = await migrationStatus(url, { folder: await copyOfMigrations(t) })
    assert.ok(behind.ok)
    assert.deepEqual([behind.value.verdict, behind.value.pending], [{ ok: true, value: 'current' }, []])
    assert.equal(behind.value.applied[0]?.name, '0001_roles')
    await migrateDown(url, { steps: 2 })
    const after = await migrationStatus(url)
    assert.deepEqual(after.ok && [after.value.verdict, after.value.pending.length, after.value.version], [
      { ok: true, value: 'behind' },
      2,
      behind.value.version - 2,
    ])
    const seen = await db.transaction(async (tx) => {
      await tx.query('set local role concord_engine')
      return tx.query('select max(number) as version from public.concord_migrations')
    })
    assert.deepEqual(seen, [{ version: behind.value.version - 2 }])
  })

  test('a migration that fails is rolled back, and the one before it stays applied', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    const folder = await aMigrationFolder(t, {
      ...one,
      '0002_two.sql': 'create table two ();\nselect 1 / 0;\n-- down\ndrop table two;\n',
    })
    await assert.rejects(migrateUp(url, { folder }), (error: unknown) => {
      assert.ok(error instanceof KernelFault)
      assert.deepEqual(
        [error.code, error.facts],
        ['store.migration.failed', { migration: '0002_two', direction: 'up', sqlState: '22012' }],
      )
      return true
    })
    const tables = `select to_regclass('one') is not null as one, to_regclass('two') is not null as two`
    assert.deepEqual(await db.query(tables), [{ one: true, two: false }])
    // It was never applied, so it may still be corrected.
    const corrected = await aMigrationFolder(t, { ...one, ...two })
    assert.deepEqual(await migrateUp(url, { folder: corrected }), {
      ok: true,
      value: { steps: ['0002_two'], version: 2 },
    })
  })

  test('a connection that breaks during the commit: the outcome is reported as unknown, and a second run settles it', async (t) => {
    const { url } = await freshDatabase(t, { migrated: false })
    const commitsOnce = (last: string) => `create table two ();
create function last_words() returns trigger language plpgsql as $$ begin ${last}; return null; end $$;
create constraint trigger at_commit after insert on two deferrable initially deferred for each row execute function last_words();
insert into two default values;
-- down
drop table two; drop function last_words();
`
    const broken = commitsOnce('perform pg_terminate_backend(pg_backend_pid())')
    const folder = await aMigrationFolder(t, { ...one, '0002_two.sql': broken })
    await assert.rejects(migrateUp(url, { folder }), (error: unknown) => {
      assert.ok(error instanceof KernelFault)
      assert.equal(error.code, 'store.migration.unsettled')
      assert.match(error.message, /may or may not have been applied\. Run it again/)
      return true
    })
    const whole = await aMigrationFolder(t, { ...one, '0002_two.sql': commitsOnce('perform 1') })
    assert.deepEqual(await migrateUp(url, { folder: whole }), { ok: true, value: { steps: ['0002_two'], version: 2 } })
  })

  test('a runner that waits too long for another names the holder of the lock', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    const holder = await db.connect('slow-runner')
    await holder.query(`select pg_advisory_lock(hashtextextended('concord_migrations', 0))`)
    const result = await migrateUp(url, { lockWaitMs: 50 })
    await holder.end()
    assert.ok(!result.ok)
    assert.equal(result.code, 'store.migration.locked')
    assert.match(JSON.stringify(result.facts), /slow-runner/)
    assert.equal((await migrateUp(url)).ok, true)
  })

  test('[MIS-333] an index after the commit: writers go on meanwhile, a runner that is cut in between leaves it pending, and the next one makes it whole', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    assert.equal((await migrateUp(url, { folder: await aMigrationFolder(t, one) })).ok, true)
    const index = `create index concurrently one_ix on public.one ((1));\nalter table public.two validate constraint two_ck;`
    const folder = await aMigrationFolder(t, {
      ...one,
      '0002_two.sql': `create table two (); alter table two add constraint two_ck check (true) not valid;\n-- after commit\n${index}\n-- down\ndrop table two; drop index one_ix;\n`,
    })
    const isValid = async () =>
      (await db.query(`select indisvalid as valid from pg_index where indexrelid = to_regclass('public.one_ix')`))[0]
    const pending = async () => {
      const status = await migrationStatus(url, { folder })
      return status.ok && [status.value.pending, status.value.verdict.ok && status.value.verdict.value]
    }
    // A writer of the table holds the build up; meanwhile its session is ended, as by a kill.
    await db.transaction(async (tx) => {
      await tx.query('lock table one in row exclusive mode')
      const cut = assert.rejects(migrateUp(url, { folder }), { code: 'store.migration.failed' })
      const waiting = `from pg_stat_activity where datname = current_database()
             and application_name = 'concord-migrate' and query like 'create index%' and wait_event_type = 'Lock'`
      for (let found: object[] = []; found.length === 0; await wait(20)) found = await db.query(`select pid ${waiting}`)
      await db.query('insert into one default values')
      await db.query(`select pg_terminate_backend(pid) ${waiting}`)
      await cut
    })
    assert.deepEqual(await isValid(), { valid: false })
    assert.deepEqual(await pending(), [['0002_two'], 'behind'])
    const runners = await Promise.all(Array.from({ length: 5 }, () => migrateUp(url, { folder })))
    assert.deepEqual(new Set(runners.map((each) => each.ok && each.value.version)), new Set([2]))
    assert.deepEqual([await isValid(), await pending()], [{ valid: true }, [[], 'current']])
    const rules = await db.query(`select convalidated as valid from pg_constraint where conname = 'two_ck'`)
    assert.deepEqual(rules, [{ valid: true }])
    assert.deepEqual(await migrateUp(url, { folder }), { ok: true, value: { steps: [], version: 2 } })
    assert.deepEqual(await migrateDown(url, { folder, steps: 1 }), {
      ok: true,
      value: { steps: ['0002_two'], version: 1 },
    })
  })

  test('a migration that waits too long for a table gives up, so that others do not queue behind it', async (t) => {
    const { db, url } = await freshDatabase(t, { migrated: false })
    const folder = await aMigrationFolder(t, one)
    assert.equal((await migrateUp(url, { folder })).ok, true)
    const wider = await aMigrationFolder(t, {
      ...one,
      '0002_two.sql': 'alter table one add column two int;\n-- down\nalter table one drop column two;\n',
    })
    await db.transaction(async (tx) => {
      await tx.query('lock table one in access share mode')
      const result = await migrateUp(url, { folder: wider, tableWaitMs: 50 })
      assert.equal(!result.ok && result.code, 'store.migration.blocked')
    })
    assert.deepEqual(await migrateUp(url, { folder: wider }), { ok: true, value: { steps: ['0002_two'], version: 2 } })
  })
})
