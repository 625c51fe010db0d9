/** The blob store in a bucket: the common suite on a server that checks signatures, and one that misbehaves. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { openS3Store } from '#domains/artifacts'
import { type S3Server, type S3Trouble, startS3Server } from '../support/s3-server.ts'
import { blobStoreCase } from './blob-store.case.ts'

const contentBytesMax = 12 * 1_048_576
const keyOf = (id: string) => `artifacts/${id.slice(0, 2)}/${id}`

function openOn(server: S3Server, more: Partial<Parameters<typeof openS3Store>[0]> = {}) {
  const { url, bucket, keys } = server
  return openS3Store({ url, bucket, ...keys, now: () => new Date(), contentBytesMax, ...more })
}

blobStoreCase('s3', async () => {
  const server = await startS3Server()
  const change = (id: string, work: (object: { bytes: Buffer; modified: Date }) => void) => {
    const object = server.objects.get(keyOf(id))
    assert.ok(object)
    work(object)
  }
  return {
    store: openOn(server),
    contentBytesMax,
    alter: async (id, alter) =>
      change(id, (object) => {
        object.bytes = alter(Buffer.from(object.bytes))
      }),
    age: async (id, at) =>
      change(id, (object) => {
        object.modified = at
      }),
    close: () => server.close(),
  }
})

describe('a bucket that misbehaves', () => {
  let server: S3Server
  before(async () => {
    server = await startS3Server()
  })
  after(() => server.close())

  const content = Buffer.from('content of some length')

  for (const trouble of ['unavailable', 'hang_up', 'silence'] as const satisfies readonly S3Trouble[]) {
    test(`${trouble}: a write and a read are refused as unavailable, and work afterwards`, async () => {
      const store = openOn(server)
      // Only silence times out; a busy machine has all the time it needs.
      const troubled = trouble === 'silence' ? openOn(server, { timeoutMs: 1_000 }) : store
      server.troubles.push(trouble)
      const stored = await troubled.put(content)
      assert.equal(stored.ok ? 'stored' : stored.code, 'artifacts.store.unavailable')
      const again = await store.put(content)
      assert.ok(again.ok)
      server.troubles.push(trouble)
      const opened = await troubled.open(again.value.sha256)
      assert.equal(opened.ok ? 'opened' : opened.code, 'artifacts.store.unavailable')
      server.troubles.push(trouble)
      await assert.rejects(troubled.has(again.value.sha256), 'nobody can tell whether it is there')
      assert.ok(await store.has(again.value.sha256))
    })
  }

  test('an answer that is cut in the middle is no content', async () => {
    const store = openOn(server)
    const stored = await store.put(content)
    assert.ok(stored.ok)
    server.troubles.push('cut_body')
    const opened = await store.open(stored.value.sha256)
    assert.equal(opened.ok ? 'opened' : opened.code, 'artifacts.store.unavailable')
  })

  test('a reader may take longer for large content than the bucket for its answer', async () => {
    const large = Buffer.alloc(24 * 1_048_576, 'x')
    const stored = await openOn(server, { contentBytesMax: large.byteLength }).put(large)
    assert.ok(stored.ok)
    const timeoutMs = 4_000
    const opened = await openOn(server, { timeoutMs }).open(stored.value.sha256)
    assert.ok(opened.ok && !opened.value.isChecked)
    const reader = opened.value.stream().getReader()
    let sizeBytes = (await reader.read()).value?.byteLength ?? 0
    await wait(timeoutMs + 500)
    for (let part = await reader.read(); !part.done; part = await reader.read()) sizeBytes += part.value.byteLength
    assert.equal(sizeBytes, large.byteLength)
  })

  test('a write that was acknowledged and not kept is missing, and said to be', async () => {
    const store = openOn(server)
    server.troubles.push('drop_write')
    const stored = await store.put(Buffer.from('dropped'))
    assert.ok(stored.ok)
    assert.equal(await store.has(stored.value.sha256), false)
    const opened = await store.open(stored.value.sha256)
    assert.equal(opened.ok ? 'opened' : opened.code, 'artifacts.content.missing')
  })

  test('a wrong secret or another region is turned away by the server, and the answer names why without the secret', async () => {
    for (const wrong of [{ secretKey: 'wrong-secret' }, { region: 'us-east-1' }, { accessKey: 'OTHER' }]) {
      const stored = await openOn(server, wrong).put(content)
      assert.ok(!stored.ok)
      assert.equal(stored.code, 'artifacts.store.unavailable')
      assert.match(stored.reason, /403 SignatureDoesNotMatch/)
      assert.doesNotMatch(JSON.stringify(stored), /wrong-secret/)
    }
  })
})
