/** One working administrator key per home, however many starts race or die. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openAuthenticator } from '#domains/identity'
import { openTestDb, type TestDb } from '#test/database'
import { adminKeyFile, ensureAdminKey } from './admin-key.ts'
import { systemDeps } from './system-deps.ts'

describe('the administrator key of a home', () => {
  let opened: TestDb
  let home: string
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    home = await mkdtemp(join(tmpdir(), 'concord-key-'))
  })
  after(async () => {
    await opened.close()
    await rm(home, { recursive: true, force: true })
  })

  const ensure = () => ensureAdminKey({ db: opened.db, ...systemDeps() }, home, 'trace_test')
  const countKeys = async () =>
    (await opened.db.query<{ n: number }>('select count(*)::int as n from identity.api_keys'))[0]?.n

  test('eight concurrent first starts write one valid key', async () => {
    await Promise.all(Array.from({ length: 8 }, ensure))
    assert.equal(await countKeys(), 1)
    const key = (await readFile(adminKeyFile(home), 'utf8')).trim()
    const authenticator = openAuthenticator({ db: opened.db, now: () => new Date() })
    assert.equal((await authenticator.authenticate(key)).ok, true)
    await authenticator.close()
    assert.equal(((await stat(adminKeyFile(home))).mode & 0o777).toString(8), '600')
  })

  test('a key file that does not open anything is replaced, a working one is left alone', async () => {
    const working = await readFile(adminKeyFile(home), 'utf8')
    await ensure()
    assert.equal(await readFile(adminKeyFile(home), 'utf8'), working)
    await writeFile(adminKeyFile(home), 'ck_000000000000_written-before-a-commit-that-never-came\n')
    await ensure()
    assert.notEqual(await readFile(adminKeyFile(home), 'utf8'), working)
    assert.equal(await countKeys(), 2)
  })
})
