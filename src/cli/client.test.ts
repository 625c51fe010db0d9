/** The command line and the server must have the same major and minor version. A mismatch is refused with both versions. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { version } from '#app/version'
import { runAgainst } from '#test/recorded-server'

const [major = '0', minor = '0'] = version.split('.')
const list = { 'GET /commands?housekeeping=false&limit=50': { items: [], next_cursor: null } }
const ask = (server: string | undefined) =>
  runAgainst(list, ['commands', 'list', '--json'], server === undefined ? {} : { version: server })

test('an empty CONCORD_KEY is refused: a script does not become the administrator', async () => {
  const { code, err, heard } = await runAgainst(list, ['commands', 'list'], { environment: { CONCORD_KEY: '' } })
  assert.deepEqual([code, heard.length], [77, 0])
  assert.match(err, /CONCORD_KEY is empty/)
})

describe('versions', () => {
  for (const server of [`${major}.${Number(minor) + 1}.0`, `${Number(major) + 1}.0.0`, `${major}.${minor}9.0`, 'x']) {
    test(`a server of ${server}: exit 69 with both versions`, async () => {
      const { code, err, out } = await ask(server)
      assert.deepEqual([code, out], [69, ''])
      const { error } = JSON.parse(err) as { error: { code: string; message: string; hint: string; facts: object } }
      assert.equal(error.code, 'app.server.version')
      assert.ok(error.message.includes(server) && error.message.includes(version))
      assert.deepEqual(error.facts, { server, client: version })
      assert.ok(error.hint)
    })
  }
  for (const server of [version, `${major}.${minor}.99`, `${major}.${minor}.0-rc.1`, undefined]) {
    test(`a server of ${server ?? 'no version'} is understood`, async () => {
      assert.equal((await ask(server)).code, 0)
    })
  }
})
