/** A home on a disk that is full or read-only: refused in plain words, and fine again when there is room. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type TestContext, test } from 'node:test'
import { endProcess, freePort, serveConcord } from '#test/concord-process'
import { isRoot, opened, stopped } from '#test/embedded'
import { until } from '#test/until'
import { openEmbeddedPostgres } from './server.ts'

const run = (...flags: string[]) => spawnSync('mount', flags).status === 0

async function aDisk(t: TestContext, options: string): Promise<string | undefined> {
  const disk = await mkdtemp(path.join(tmpdir(), 'concord-disk-'))
  t.after(async () => {
    spawnSync('umount', ['--lazy', disk])
    await rm(disk, { recursive: true })
  })
  if (!isRoot || process.platform !== 'linux' || !run('-t', 'tmpfs', '-o', options, 'tmpfs', disk)) {
    t.skip('needs the right to mount a small disk')
    return undefined
  }
  return disk
}

for (const sizeMb of [10, 20, 30]) {
  test(`initdb on a disk of ${sizeMb} MB leaves nothing behind, and works once there is room`, async (t) => {
    const disk = await aDisk(t, `size=${sizeMb}m,mode=755`)
    if (disk === undefined) return
    const home = path.join(disk, 'home')
    const answer = await openEmbeddedPostgres({ home })
    assert.ok(!answer.ok)
    assert.equal(answer.code, 'storage_full')
    assert.deepEqual(
      (await readdir(home)).filter((name) => name.startsWith('postgres.making')),
      [],
    )
    if (sizeMb !== 30) return
    assert.ok(run('-o', 'remount,size=100m', disk))
    await stopped(await opened({ home }))
    // A full disk also stops a server that was there before; it comes back when the space does.
    await writeFile(path.join(disk, 'filler'), Buffer.alloc(100 * 1024 * 1024)).catch(() => {})
    const full = await openEmbeddedPostgres({ home })
    assert.ok(!full.ok)
    assert.equal(full.code, 'storage_full')
    await rm(path.join(disk, 'filler'))
    await stopped(await opened({ home }))
  })
}

test('[L7] a server whose disk is full says so in its health, and is well again when there is room', async (t) => {
  const disk = await aDisk(t, 'size=400m,mode=755')
  if (disk === undefined) return
  const env = { CONCORD_HOME: path.join(disk, 'home'), CONCORD_PORT: await freePort() }
  const server = await serveConcord({ env })
  t.after(() => endProcess(server, 'SIGKILL'))
  const health = async () => (await (await fetch(`${server.address}/health`)).json()) as { status: string }
  assert.equal((await health()).status, 'ok')
  const filler = await open(path.join(disk, 'filler'), 'w')
  for (let sizeBytes = 16 * 1024 * 1024; sizeBytes >= 4096; )
    await filler.appendFile(Buffer.alloc(sizeBytes)).catch(() => (sizeBytes /= 2))
  await filler.close()
  await until(async () => (await health()).status === 'degraded', 'a degraded server')
  await rm(path.join(disk, 'filler'))
  await until(async () => (await health()).status === 'ok', 'a server that is well')
})

test('a read-only disk', async (t) => {
  const disk = await aDisk(t, 'ro')
  if (disk === undefined) return
  const answer = await openEmbeddedPostgres({ home: path.join(disk, 'not', 'there') })
  assert.ok(!answer.ok)
  assert.equal(answer.code, 'store.home.not_writable')
  assert.match(answer.reason, /read-only file system/)
})
