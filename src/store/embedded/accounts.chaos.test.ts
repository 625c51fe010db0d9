/** Root, plain users, closed folders and other containers: which of them can run the server, and what the refusals say. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmod, chown, mkdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { after, test } from 'node:test'
import { aChild, aHome, aStoppedHome, ask, isRoot, opened, removePattern, stopped } from '#test/embedded'
import { explainDenied } from './programs.ts'
import { openEmbeddedPostgres } from './server.ts'

after(removePattern)

const onlyRoot = isRoot ? {} : { skip: 'needs root to become another user' }
const nobody = { uid: 65_534, gid: 65_534 }

test('under root the data belongs to a borrowed account and the rest to root', onlyRoot, async (t) => {
  const home = await aHome(t)
  const server = await opened({ home, runAs: 'nobody' })
  assert.equal((await stat(server.dataDir)).uid, nobody.uid)
  assert.equal((await stat(server.dataDir)).mode & 0o777, 0o700)
  assert.equal((await stat(path.join(home, 'postgres.password'))).uid, 0)
  assert.equal((await stat(`/proc/${server.pid}`)).uid, nobody.uid)
  await stopped(server)
})

test('a plain user runs the server as himself', onlyRoot, async (t) => {
  const home = await aHome(t)
  await mkdir(home)
  await chown(home, nobody.uid, nobody.gid)
  await chown(path.dirname(home), nobody.uid, nobody.gid)
  const child = aChild(t, { home }, nobody)
  const answer = await child.answer
  assert.ok(answer.ok)
  assert.equal((await stat(`/proc/${answer.value.pid}`)).uid, nobody.uid)
  await ask(answer.value.url, 'select')
  // Root may come by and use the same server; it stays with its owner.
  const root = await opened({ home })
  assert.deepEqual([root.isAttached, root.pid], [true, answer.value.pid])
  assert.deepEqual(await child.stop(), { ok: true, value: 'left_to_others' })
  assert.equal(await stopped(root), 'stopped')
})

test('a refusal names the owner of a home that belongs to root, and the fix', onlyRoot, async (t) => {
  const home = await aStoppedHome(t)
  const answer = await aChild(t, { home }, nobody).answer
  assert.ok(!answer.ok)
  assert.equal(answer.code, 'store.home.not_writable')
  assert.match(answer.reason, /owner 0, we are 65534/)
  assert.match(answer.hint ?? '', /chown -R 65534 /)
})

test('root without an unprivileged account to borrow', onlyRoot, async (t) => {
  const answer = await openEmbeddedPostgres({ home: await aHome(t), runAs: 'no-such-account' })
  assert.ok(!answer.ok)
  assert.equal(answer.code, 'store.root.no_user')
})

test(
  'under root a folder that is closed to the borrowed account is passed, with that one right and no other',
  onlyRoot,
  async (t) => {
    const home = await aHome(t)
    await chmod(path.dirname(home), 0o700)
    const server = await opened({ home })
    const status = await readFile(`/proc/${server.pid}/status`, 'utf8')
    const search = 1n << 2n
    assert.equal(BigInt(`0x${/CapEff:\s+(\w+)/.exec(status)?.[1]}`), search)
    assert.notEqual(/Uid:\s+(\d+)/.exec(status)?.[1], '0')
    await stopped(server)
  },
)

test(
  'where that right cannot be had, the closed folder is named with the command that opens it',
  onlyRoot,
  async (t) => {
    const home = await aHome(t)
    await chmod(path.dirname(home), 0o700)
    const account = { name: 'nobody', uid: 65_534, gid: 65_534 }
    const answer = await explainDenied('initdb: Permission denied', [home], { account })
    assert.ok(answer && !answer.ok)
    assert.equal(answer.code, 'store.home.not_reachable')
    assert.equal(answer.facts?.['closed'], path.dirname(home))
    assert.match(answer.hint ?? '', new RegExp(`^Run chmod o\\+x ${path.dirname(home)},`))
  },
)

const unshare = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child']
const canUnshare = isRoot && spawnSync(unshare[0] ?? '', [...unshare.slice(1), 'true']).status === 0

test('a home in use by another container is left alone, and free again when that one is gone', {
  skip: canUnshare ? false : 'needs the right to make a process namespace',
}, async (t) => {
  const home = await aStoppedHome(t)
  const container = aChild(t, { home }, { prefix: unshare })
  assert.ok((await container.answer).ok)
  const answer = await openEmbeddedPostgres({ home })
  assert.ok(!answer.ok)
  assert.equal(answer.code, 'store.home.busy')
  assert.match(answer.reason, /in another container/)
  await container.kill()
  const server = await opened({ home })
  assert.equal(server.isAttached, false)
  await stopped(server)
})
