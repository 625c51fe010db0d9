/** A schedule of the server and a schedule of local jobs have different verbs; a refusal names the other one. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { runAgainst } from '#test/recorded-server'

const folder = mkdtempSync(join(tmpdir(), 'concord-schedules-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const LIST = 'GET /schedules?limit=500'
const ID = 'csched_0197f3b2c4d57a8e9b0c1d2e3f405161'
const onServer = { [LIST]: { items: [{ schedule_id: ID, name: 'reports' }], next_cursor: null } }
const concord = (...args: string[]) => runAgainst(onServer, args, { folder })

test('removing a schedule under the wrong noun names the right verb and changes nothing', async () => {
  const add = ['--name', 'nightly', '--cron', '30 2 * * *', '--', 'true']
  assert.equal((await concord('jobs', 'schedules', 'add', ...add)).code, 0)
  const local = await concord('schedules', 'remove', 'nightly')
  assert.deepEqual([local.code, local.heard.map(({ line }) => line)], [65, [LIST]])
  assert.match(
    local.err,
    /There is no schedule "nightly" in this workspace\.[\s\S]*`concord jobs schedules remove nightly`/,
  )
  const remote = await concord('jobs', 'schedules', 'remove', 'reports')
  assert.deepEqual([remote.code, remote.heard.map(({ line }) => line)], [65, [LIST]])
  assert.match(remote.err, /There is no schedule "reports" of local jobs\.[\s\S]*`concord schedules remove reports`/)
  assert.equal((await concord('jobs', 'schedules', 'remove', 'nightly')).code, 0)
})

test('for an unknown name, the refusal names both lists', async () => {
  const { code, err } = await concord('schedules', 'remove', 'nowhere')
  assert.equal(code, 65)
  assert.match(err, /`concord schedules list`[\s\S]*`concord jobs schedules list`/)
  assert.match((await concord('jobs', 'schedules', 'remove', 'nowhere')).err, /`concord jobs schedules list`/)
})
