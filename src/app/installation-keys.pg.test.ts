/** The keys of an installation: the same in every process on its database, another one for each purpose, and nothing that a tenant can read. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { openDb, scoped } from '#store'
import { openTestDb, type TestDb } from '#test/database'
import { openInstallationKeys } from './installation-keys.ts'

describe('the keys of an installation', () => {
  let opened: TestDb
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
  })
  after(() => opened.close())

  test('two processes with different addresses of one database have the same keys, each purpose has its own', async () => {
    const url = new URL(opened.url)
    url.searchParams.set('application_name', 'another-process')
    const other = openDb({ url: url.href, role: 'concord_engine', poolMax: 1 })
    try {
      const [one, two] = await Promise.all([openInstallationKeys(opened.db), openInstallationKeys(other)])
      assert.deepEqual(one('page cursor'), two('page cursor'))
      assert.notDeepEqual(one('page cursor'), one('mcp state'))
      assert.equal(one('mcp state').length, 32)
    } finally {
      await other.close()
    }
  })

  test('work in the scope of a workspace cannot read the secret', async () => {
    const reading = scoped(opened.db, randomUUID()).read((tx) => openInstallationKeys(tx))
    await assert.rejects(reading, /permission denied/)
  })
})
