/** Which servers are safe enough. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideServer, decideServerVersion, type ServerFacts } from './check-server.ts'

const safe: ServerFacts = {
  versionNum: 180_004,
  fsync: 'on',
  fullPageWrites: 'on',
  synchronousCommit: 'on',
  isInRecovery: false,
  isReadOnly: false,
}

test('a safe server is accepted, also with the stronger and the local kinds of commit', () => {
  for (const synchronousCommit of ['on', 'local', 'remote_write', 'remote_apply']) {
    assert.ok(decideServer({ ...safe, synchronousCommit }).ok)
  }
})

const unsafe = { fsync: 'fsync', fullPageWrites: 'full_page_writes', synchronousCommit: 'synchronous_commit' } as const

for (const [field, setting] of Object.entries(unsafe)) {
  test(`${setting}=off is refused, and named; tests may allow it`, () => {
    const facts = { ...safe, [field]: 'off' }
    const answer = decideServer(facts)
    assert.ok(!answer.ok)
    assert.equal(answer.code, 'store.server.unsafe_settings')
    assert.deepEqual(answer.facts, { unsafe: [`${setting}=off`] })
    assert.match(answer.hint ?? '', new RegExp(`${setting}=on`))
    assert.ok(decideServer(facts, { unsafeForTests: true }).ok)
  })
}

test('a server that accepts no writes is refused, also in tests', () => {
  for (const facts of [
    { ...safe, isInRecovery: true },
    { ...safe, isReadOnly: true },
  ]) {
    const answer = decideServer(facts, { unsafeForTests: true })
    assert.ok(!answer.ok)
    assert.equal(answer.code, 'store.server.read_only')
  }
})

test('versions 16 to 18 are supported, and the refusal names both limits', () => {
  const verdicts = [150_012, 160_000, 170_005, 180_004, 190_000].map((version) => decideServerVersion(version).ok)
  assert.deepEqual(verdicts, [false, true, true, true, false])
  const old = decideServer({ ...safe, versionNum: 150_012 })
  assert.ok(!old.ok)
  assert.equal(old.code, 'store.server.version_unsupported')
  assert.match(old.reason, /15\.12.*16 to 18/)
})
