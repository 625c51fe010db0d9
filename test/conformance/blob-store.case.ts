/** What every blob store must do, checked through the store and in its storage. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import type { BlobStore } from '#domains/artifacts'

export type BlobStage = {
  readonly store: BlobStore
  readonly contentBytesMax: number
  /** Changes the stored bytes, as a disk or a person would. */
  alter(sha256: string, change: (bytes: Buffer) => Buffer): Promise<void>
  /** Sets the age of the blob. */
  age(sha256: string, writtenAt: Date): Promise<void>
  close(): Promise<void>
}

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')
const LARGE = 9 * 1_048_576

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Buffer> {
  return Buffer.from(await new Response(stream).arrayBuffer())
}

export function blobStoreCase(name: string, open: () => Promise<BlobStage>): void {
  describe(`blob store: ${name}`, () => {
    let stage: BlobStage
    before(async () => {
      stage = await open()
    })
    after(() => stage.close())

    async function put(content: Parameters<BlobStore['put']>[0]): Promise<string> {
      const stored = await stage.store.put(content)
      assert.ok(stored.ok, stored.ok ? '' : stored.reason)
      return stored.value.sha256
    }
    async function read(id: string): Promise<Buffer> {
      const opened = await stage.store.open(id)
      assert.ok(opened.ok, opened.ok ? '' : opened.reason)
      return bytesOf(opened.value.stream())
    }

    test('any content comes back as it was, under its SHA-256', async () => {
      await fc.assert(
        fc.asyncProperty(fc.uint8Array({ maxLength: 5_000 }), async (content) => {
          const id = await put(content)
          assert.equal(id, sha256(content))
          assert.ok((await read(id)).equals(content))
        }),
        { numRuns: 20 },
      )
    })

    test('content in pieces is the content; the writer may use its buffer again', async () => {
      const piece = Buffer.alloc(1_000)
      async function* pieces() {
        for (let n = 0; n < 30; n++) yield piece.fill(n)
      }
      const whole = Buffer.concat(Array.from({ length: 30 }, (_, n) => Buffer.alloc(1_000, n)))
      const id = await put(pieces())
      assert.equal(id, sha256(whole))
      assert.ok((await read(id)).equals(whole))
    })

    test('two writers of one content are harmless, and a reader in between sees it whole', async () => {
      const content = randomBytes(200_000)
      const id = await put(content)
      const [reads] = await Promise.all([
        Promise.all(Array.from({ length: 5 }, () => read(id))),
        Promise.all(Array.from({ length: 5 }, () => put(content))),
      ])
      assert.ok(reads.every((bytes) => bytes.equals(content)))
      const all = await Array.fromAsync(stage.store.list())
      assert.equal(all.filter(({ sha256: each }) => each === id).length, 1)
    })

    test('a part of it is that part', async () => {
      const content = randomBytes(10_000)
      const id = await put(content)
      const opened = await stage.store.open(id)
      assert.ok(opened.ok && opened.value.isChecked)
      const part = await bytesOf(opened.value.stream({ start: 17, end: 4_242 }))
      assert.ok(part.equals(content.subarray(17, 4_243)))
    })

    test('one that is not there is refused with its code, and is not listed', async () => {
      const id = sha256(randomBytes(8))
      const opened = await stage.store.open(id)
      assert.equal(opened.ok ? 'opened' : opened.code, 'artifacts.content.missing')
      assert.equal(await stage.store.has(id), false)
    })

    test('altered, shortened or prolonged content is refused with its code; writing it again heals it', async () => {
      const content = randomBytes(50_000)
      const id = await put(content)
      for (const change of [
        (bytes: Buffer) => Buffer.from(bytes.map((byte, at) => (at === 25_000 ? byte ^ 1 : byte))),
        (bytes: Buffer) => bytes.subarray(0, -1),
        (bytes: Buffer) => Buffer.concat([bytes, Buffer.from('x')]),
        () => Buffer.alloc(0),
      ]) {
        await stage.alter(id, change)
        const opened = await stage.store.open(id)
        assert.equal(opened.ok ? 'opened' : opened.code, 'artifacts.content.altered')
        await put(content)
        assert.ok((await read(id)).equals(content))
      }
    })

    test('large content that was altered never ends well, whether it is told before or while it is read', async () => {
      const content = randomBytes(LARGE)
      const id = await put(content)
      assert.ok((await read(id)).equals(content))
      await stage.alter(id, (bytes) => Buffer.from(bytes.fill(0, LARGE - 10)))
      const opened = await stage.store.open(id)
      if (!opened.ok) assert.equal(opened.code, 'artifacts.content.altered')
      else await assert.rejects(bytesOf(opened.value.stream()), /has changed since it was written/)
    })

    test('too much is refused before it is kept', async () => {
      async function* tooMuch() {
        for (let bytes = 0; bytes <= stage.contentBytesMax; bytes += 1_048_576) yield randomBytes(1_048_576)
      }
      const listed = async () => (await Array.fromAsync(stage.store.list())).length
      const was = await listed()
      const stored = await stage.store.put(tooMuch())
      assert.equal(stored.ok ? 'stored' : stored.code, 'artifacts.content.too_large')
      assert.equal(await listed(), was)
    })

    test('a writer that fails keeps nothing, and its own error comes back', async () => {
      async function* failing() {
        yield randomBytes(100)
        throw new Error('the source broke')
      }
      await assert.rejects(stage.store.put(failing()), /the source broke/)
      assert.equal(await stage.store.removeUnfinished(new Date('2999-01-01T00:00:00Z')), 0)
    })

    test('removed is gone, and removing it again is nothing', async () => {
      const id = await put(randomBytes(10))
      await stage.store.remove(id)
      await stage.store.remove(id)
      assert.equal(await stage.store.has(id), false)
    })

    test('every blob is listed once with its time; writing again makes it young', async () => {
      const contents = Array.from({ length: 7 }, () => randomBytes(20))
      const ids = await Promise.all(contents.map(put))
      const long = new Date('2020-01-01T00:00:00.000Z')
      await stage.age(ids[0] ?? '', long)
      const find = async (id: string) =>
        (await Array.fromAsync(stage.store.list())).filter((each) => each.sha256 === id)
      for (const id of ids) assert.equal((await find(id)).length, 1)
      assert.deepEqual(
        (await find(ids[0] ?? '')).map(({ writtenAt }) => writtenAt),
        [long],
      )
      await put(contents[0] ?? new Uint8Array())
      assert.ok(((await find(ids[0] ?? ''))[0]?.writtenAt ?? long) > long)
    })
  })
}
