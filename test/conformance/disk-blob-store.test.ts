/** The blob store on disk: the common suite, and cases that only a disk has. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { openDiskStore } from '#domains/artifacts'
import { blobStoreCase } from './blob-store.case.ts'

const contentBytesMax = 12 * 1_048_576
const folders: string[] = []
after(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))))

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'concord-blobs-'))
  folders.push(folder)
  return join(folder, 'artifacts')
}

const openOn = (folder: string) => openDiskStore({ folder, newId: randomUUID, contentBytesMax })
const fileOf = (folder: string, id: string) => join(folder, id.slice(0, 2), id)

blobStoreCase('disk', async () => {
  const folder = await aFolder()
  return {
    store: openOn(folder),
    contentBytesMax,
    async alter(id, change) {
      await writeFile(fileOf(folder, id), change(await readFile(fileOf(folder, id))))
    },
    age: (id, at) => utimes(fileOf(folder, id), at, at),
    close: async () => {},
  }
})

test('blobs are for their owner alone, and nothing unfinished stays behind', async () => {
  const folder = await aFolder()
  const stored = await openOn(folder).put(Buffer.from('mine'))
  assert.ok(stored.ok)
  assert.equal((await stat(fileOf(folder, stored.value.sha256))).mode & 0o777, 0o600)
  assert.equal((await stat(folder)).mode & 0o777, 0o700)
  assert.deepEqual(await readdir(join(folder, 'unfinished')), [])
})

test('what a dead writer had begun is no blob, and is dropped when it is old', async () => {
  const folder = await aFolder()
  const store = openOn(folder)
  await mkdir(join(folder, 'unfinished'), { recursive: true })
  await writeFile(join(folder, 'unfinished', 'half'), 'half')
  assert.deepEqual(await Array.fromAsync(store.list()), [])
  assert.equal(await store.removeUnfinished(new Date('2020-01-01T00:00:00Z')), 0)
  assert.equal(await store.removeUnfinished(new Date('2999-01-01T00:00:00Z')), 1)
})

test('a folder that cannot be written to is said, with a code', {
  skip: process.getuid?.() === 0 && 'root may write anywhere',
}, async () => {
  const folder = await aFolder()
  await mkdir(folder, { recursive: true })
  await chmod(folder, 0o500)
  const stored = await openOn(folder).put(Buffer.from('x'))
  assert.equal(stored.ok ? 'stored' : stored.code, 'artifacts.store.unavailable')
})

test('a file where the folder should be is said, with a code', async () => {
  const folder = await aFolder()
  await writeFile(folder, 'a file')
  const stored = await openOn(folder).put(Buffer.from('x'))
  assert.equal(stored.ok ? 'stored' : stored.code, 'artifacts.store.unavailable')
})
