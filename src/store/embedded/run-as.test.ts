/** Which account runs the server, for every combination of current user and owner of the data. */
import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { decideRunAs, findClosedFolder } from './programs.ts'

const postgres = { name: 'postgres', uid: 101, gid: 104 }
const nobody = { name: 'nobody', uid: 65_534, gid: 65_534 }
const dataDir = '/srv/my home/postgres'

test('a plain user and Windows run the server as themselves', () => {
  for (const ownUid of [1000, undefined]) {
    assert.deepEqual(decideRunAs({ ownUid, dataDir, accounts: [postgres] }), { ok: true, value: {} })
  }
})

test('root runs it as postgres, else as nobody, else is refused', () => {
  const choose = (accounts: (typeof postgres)[]) => decideRunAs({ ownUid: 0, dataDir, accounts })
  assert.deepEqual(choose([nobody, postgres]), { ok: true, value: { account: postgres } })
  assert.deepEqual(choose([nobody]), { ok: true, value: { account: nobody } })
  const none = choose([])
  assert.ok(!none.ok)
  assert.equal(none.code, 'store.root.no_user')
  assert.ok(!choose([{ name: 'postgres', uid: 0, gid: 0 }]).ok, 'an account named postgres that is root is still root')
})

test('a configured account is the only one tried', () => {
  const wish = (wanted: string) => decideRunAs({ ownUid: 0, dataDir, accounts: [postgres, nobody], wanted })
  assert.deepEqual(wish('nobody'), { ok: true, value: { account: nobody } })
  assert.ok(!wish('missing').ok)
})

test('data stays with its owner, whichever accounts exist; data of root is refused with the command that fixes it', () => {
  const owned = (uid: number) =>
    decideRunAs({ ownUid: 0, dataDir, dataDirOwner: { uid, gid: uid }, accounts: [postgres, nobody] })
  assert.deepEqual(owned(65_534), { ok: true, value: { account: nobody } })
  assert.deepEqual(owned(4711), { ok: true, value: { account: { name: 'uid 4711', uid: 4711, gid: 4711 } } })
  const root = owned(0)
  assert.ok(!root.ok)
  assert.match(root.hint ?? '', /chown -R postgres '\/srv\/my home\/postgres'/)
})

test('the folder that stops an account is found by its mode bits', async (t) => {
  const top = await mkdtemp(path.join(tmpdir(), 'concord-closed-'))
  t.after(() => rm(top, { recursive: true }))
  await chmod(top, 0o755)
  const closed = path.join(top, 'closed')
  await mkdir(path.join(closed, 'home'), { recursive: true })
  await chmod(closed, 0o750)
  const stranger = { name: 'stranger', uid: 54_321, gid: 54_321 }
  assert.equal(await findClosedFolder(path.join(closed, 'home', 'not-yet-there'), stranger), closed)
  await chmod(closed, 0o711)
  await chmod(path.join(closed, 'home'), 0o711)
  assert.equal(await findClosedFolder(path.join(closed, 'home', 'not-yet-there'), stranger), undefined)
})
