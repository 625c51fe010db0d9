/** Which files a scheduler opens, how, and with which refusals. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { schedulerRefusals } from './refusals.ts'
import { aFile, aFolder, aScheduler, codeOf, must, openTest, START } from '#test/scheduler/fixture'
import { openRaw } from '#test/scheduler/raw-file'
import { explainSqliteFault, openDatabase, query } from './database.ts'
import { allJobTypes } from './job-types.ts'
import { loadSchedulerMigrations, migrate } from './migrate.ts'
import { checkPlace } from './open-scheduler.ts'
import { submitJob } from './submit-job.ts'

const pragma = (name: string) => query<Record<string, unknown>>(`pragma ${name}`)

describe('a new file', () => {
  for (const [rows, name, value] of [
    ['[SCH-010]', 'journal_mode', 'wal'],
    ['[SCH-011]', 'foreign_keys', 1],
    ['[SCH-012]', 'synchronous', 2],
    ['', 'recursive_triggers', 1],
    ['', 'application_id', 0x434e4353],
  ] as const) {
    test(`${rows} pragma ${name} is ${value}, on every connection`, () => {
      const file = aFile()
      for (const scheduler of [aScheduler({ file }), aScheduler({ file, role: 'guest' })]) {
        assert.equal(scheduler.db.one(pragma(name))?.[name], value)
        scheduler.close()
      }
    })
  }

  test('the busy timeout is set', () => {
    const scheduler = aScheduler({ file: aFile(), busyTimeoutMs: 1_234 })
    assert.equal(scheduler.db.one(pragma('busy_timeout'))?.['timeout'], 1_234)
    scheduler.close()
  })

  test('[SCH-021] two types are registered by default, or those that are given', () => {
    const types = (scheduler: ReturnType<typeof aScheduler>) => allJobTypes(scheduler.db).map((type) => type.job_type)
    assert.deepEqual(types(aScheduler()), ['research', 'story'])
    assert.deepEqual(types(aScheduler({ jobTypes: [{ job_type: 'backup' }] })), ['backup'])
  })

  test('only its owner may read the file, its log and its lock', () => {
    const file = aFile()
    const scheduler = aScheduler({ file })
    must(submitJob(scheduler, { job_type: 'story' }))
    for (const ending of ['', '-wal', '.owner']) assert.equal(statSync(`${file}${ending}`).mode & 0o077, 0)
    scheduler.close()
  })

  test('an owner can start while a guest works', () => {
    const file = aFile()
    must(openTest({ file })).close()
    const guest = aScheduler({ file, role: 'guest' })
    must(openTest({ file })).close()
    guest.close()
  })

  test('missing folders are created, and a restart finds the jobs', () => {
    const file = join(aFolder(), 'a', 'b', 'jobs.db')
    const scheduler = aScheduler({ file })
    const job = must(submitJob(scheduler, { job_type: 'story' }))
    scheduler.close()
    const again = aScheduler({ file })
    assert.equal(again.db.one(query<{ job_id: string }>('select job_id from jobs'))?.job_id, job.job_id)
    again.close()
  })
})

const kind = (code: keyof typeof schedulerRefusals) => schedulerRefusals[code][0]

describe('files that are refused', () => {
  test('a second owner, in the same or another process, is refused with the pid of the owner', () => {
    const file = aFile()
    const first = aScheduler({ file })
    const second = openTest({ file })
    assert.equal(codeOf(second), 'scheduler.file.locked')
    assert.equal(kind('scheduler.file.locked'), 'conflict')
    assert.match(second.ok ? '' : second.reason, new RegExp(`process ${process.pid}`))
    const child = execFileSync(
      process.execPath,
      [new URL('../../../test/support/scheduler/open-owner.ts', import.meta.url).pathname, file],
      {
        encoding: 'utf8',
      },
    )
    assert.equal(child.trim(), 'scheduler.file.locked')
    first.close()
    assert.equal(
      execFileSync(
        process.execPath,
        [new URL('../../../test/support/scheduler/open-owner.ts', import.meta.url).pathname, file],
        {
          encoding: 'utf8',
        },
      ).trim(),
      'ok',
    )
    must(openTest({ file })).close()
  })

  test('a link to the file is the file', () => {
    const file = aFile()
    const first = aScheduler({ file })
    const link = join(aFolder(), 'link.db')
    symlinkSync(file, link)
    assert.equal(codeOf(openTest({ file: link })), 'scheduler.file.locked')
    first.close()
  })

  test('guests open and close the file while it has an owner', () => {
    const file = aFile()
    const owner = aScheduler({ file })
    const guest = aScheduler({ file, role: 'guest' })
    const job = must(submitJob(guest, { job_type: 'story' }))
    assert.equal(owner.db.one(query<{ job_id: string }>('select job_id from jobs'))?.job_id, job.job_id)
    guest.close()
    owner.close()
  })

  test('a guest creates a missing file and does not stay its owner', () => {
    const file = aFile()
    const guest = aScheduler({ file, role: 'guest' })
    const owner = aScheduler({ file })
    assert.ok(submitJob(guest, { job_type: 'story' }).ok)
    owner.close()
    guest.close()
  })

  for (const [title, content] of [
    ['a text', 'hello, this is not a database at all'],
    ['a short one', 'SQL'],
    ['a damaged one', `SQLite format 3\0${'\xff'.repeat(5000)}`],
  ] as const) {
    test(`${title} is malformed, with a hint to use the backup, and is not changed`, () => {
      const file = aFile()
      writeFileSync(file, content, 'latin1')
      const opened = openTest({ file })
      assert.equal(codeOf(opened), 'scheduler.file.malformed')
      assert.equal(kind('scheduler.file.malformed'), 'malformed')
      assert.match(opened.ok ? '' : (opened.hint ?? ''), /backup/)
      assert.equal(readFileSync(file, 'latin1'), content)
    })
  }

  test('a file whose pages were overwritten is malformed when it is used', () => {
    const file = aFile()
    const scheduler = aScheduler({ file })
    for (let count = 0; count < 200; count++)
      must(submitJob(scheduler, { job_type: 'story', params: { text: 'x'.repeat(200) } }))
    scheduler.close()
    const bytes = readFileSync(file)
    bytes.fill(0xee, 4096 * 2)
    writeFileSync(file, bytes)
    const opened = openTest({ file })
    assert.equal(
      opened.ok ? codeOf(submitJob(opened.value, { job_type: 'story' })) : opened.code,
      'scheduler.file.malformed',
    )
    if (opened.ok) opened.value.close()
  })

  test('a file of another program is refused', () => {
    const file = aFile()
    const other = new DatabaseSync(file)
    other.exec('create table cakes (name text)')
    other.close()
    const before = readFileSync(file)
    assert.equal(codeOf(openTest({ file })), 'scheduler.file.foreign')
    assert.deepEqual(readFileSync(file), before)
    assert.equal(kind('scheduler.file.foreign'), 'configuration')
  })

  test('a file that a newer program has migrated is refused', () => {
    const file = aFile()
    must(openTest({ file })).close()
    const raw = openRaw(file)
    raw.exec(`insert into scheduler_migrations values (5, '0005_later', 'x', 1)`)
    raw.close()
    const opened = openTest({ file })
    assert.equal(codeOf(opened), 'scheduler.file.newer')
    assert.equal(kind('scheduler.file.newer'), 'configuration')
    assert.match(opened.ok ? '' : opened.reason, /0005_later/)
  })

  test('a file made with an edited migration is refused', () => {
    const file = aFile()
    must(openTest({ file })).close()
    const raw = openRaw(file)
    raw.exec(`update scheduler_migrations set checksum = 'x' where number = 1`)
    raw.close()
    assert.equal(codeOf(openTest({ file })), 'scheduler.file.changed')
  })

  test('a guest does not migrate under an older owner', () => {
    const file = aFile()
    const owner = aScheduler({ file })
    must(migrate(owner.db, { at: START, to: 1 }))
    assert.equal(codeOf(openTest({ file, role: 'guest' })), 'scheduler.file.older')
    owner.close()
  })

  test('a network mount is refused, also when its type has a sign', () => {
    const file = aFile()
    for (const type of [0x6969, 0xff534d42 | 0]) {
      assert.equal(codeOf(checkPlace(file, () => type)), 'scheduler.file.network_mount')
    }
    assert.equal(codeOf(checkPlace(file, () => 0xef53)), 'ok')
    assert.equal(kind('scheduler.file.network_mount'), 'configuration')
  })

  test('a folder in place of the file, and a file in place of the folder', () => {
    const folder = aFolder()
    mkdirSync(join(folder, 'jobs.db'))
    assert.equal(codeOf(openTest({ file: join(folder, 'jobs.db') })), 'scheduler.file.read_only')
    writeFileSync(join(folder, 'plain'), '')
    assert.equal(codeOf(openTest({ file: join(folder, 'plain', 'jobs.db') })), 'scheduler.file.read_only')
  })

  test('a read-only connection is refused', () => {
    const file = aFile()
    must(openTest({ file })).close()
    const db = openDatabase({ file, busyTimeoutMs: 0, isReadOnly: true })
    const written = db.write((tx) => {
      tx.run(query(`update schedules set name = 'x'`))
      return { ok: true, value: 1 }
    })
    assert.equal(codeOf(written), 'scheduler.file.read_only')
    assert.equal(kind('scheduler.file.read_only'), 'configuration')
    db.close()
  })

  // Root can write anywhere, so this needs another user.
  if (process.getuid?.() !== 0) {
    test('a folder that may not be written is refused', () => {
      const file = aFile()
      chmodSync(dirname(file), 0o500)
      assert.equal(codeOf(openTest({ file })), 'scheduler.file.read_only')
      chmodSync(dirname(file), 0o700)
    })
  }

  for (const [errcode, code] of [
    [5, 'database_busy'],
    [13, 'storage_full'],
    [8, 'scheduler.file.read_only'],
    [14, 'scheduler.file.read_only'],
    [10, 'scheduler.file.io'],
    [10 | (8 << 8), 'scheduler.file.io'],
    [11, 'scheduler.file.malformed'],
    [26, 'scheduler.file.malformed'],
    [19, undefined],
  ] as const) {
    test(`error ${errcode} of SQLite is ${code ?? 'internal error'}`, () => {
      const error = Object.assign(new Error('x'), { code: 'ERR_SQLITE_ERROR', errcode })
      assert.equal(explainSqliteFault(error, 'f')?.code, code)
    })
  }

  test('settings out of range are refused before the file is opened', () => {
    const file = aFile()
    for (const settings of [{ workers: 0 }, { workers: 1.5 }, { reservationMs: 10 }]) {
      assert.equal(codeOf(openTest({ file, settings })), 'scheduler.setting.invalid')
    }
    assert.equal(codeOf(openTest({ file, busyTimeoutMs: -1 })), 'scheduler.setting.invalid')
    assert.equal(existsSync(file), false)
  })
})

describe('migrations', () => {
  const dump = (file: string) => {
    const raw = openRaw(file)
    const rows = raw.prepare(`select type, name, sql from sqlite_schema order by type, name`).all()
    raw.close()
    return JSON.stringify(rows)
  }

  for (const withData of [false, true]) {
    test(`up, down and up again give the same tables, ${withData ? 'with' : 'without'} data`, () => {
      const file = aFile()
      const scheduler = aScheduler({ file })
      const first = must(submitJob(scheduler, { job_type: 'story' }))
      if (withData)
        scheduler.db.write((tx) => ({
          ok: true,
          value: tx.run(
            query(
              `insert into jobs (job_id, job_type, params, position, created_at, queued_at, retry_of) select '00000000-0000-7000-8000-ffffffffffff', job_type, params, 200, 1, 1, job_id from jobs`,
            ),
          ),
        }))
      assert.ok(first.job_id)
      const before = dump(file)
      assert.equal(must(migrate(scheduler.db, { at: START, to: 0 })), 0)
      assert.deepEqual(
        JSON.parse(dump(file)).map((row: { name: string }) => row.name),
        ['scheduler_migrations'],
      )
      assert.equal(must(migrate(scheduler.db, { at: START })), loadSchedulerMigrations().length)
      assert.equal(dump(file), before)
      scheduler.close()
    })
  }

  test('a migration that fails leaves nothing behind', () => {
    const file = aFile()
    const db = openDatabase({ file, busyTimeoutMs: 0 })
    const [first] = loadSchedulerMigrations()
    assert.ok(first)
    const broken = {
      number: 2,
      name: '0002_broken',
      up: 'create table a (b text);\ncreate table jobs (x text);',
      down: 'drop table a;',
      checksum: 'c',
    }
    assert.throws(() => migrate(db, { at: START, migrations: [first, broken] }), /already exists/)
    assert.equal(dump(file), '[]')
    db.close()
  })

  test('migrations are frozen: a change needs a new file', () => {
    const frozen = JSON.parse(readFileSync(new URL('./migrations/checksums.json', import.meta.url), 'utf8'))
    assert.deepEqual(
      Object.fromEntries(loadSchedulerMigrations().map(({ name, checksum }) => [name, checksum])),
      frozen,
    )
  })
})
