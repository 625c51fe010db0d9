/** Artifacts from the terminal: a task writes them into a bucket; they are listed, fetched, drawn and published, and a lost one is reported. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { exportedTable } from '#test/projects/connectors'
import { type S3Server, startS3Server } from '#test/s3-server'
import { withServer } from '#test/with-server'

type Listed = {
  readonly items: readonly { readonly artifact_id: string; readonly artifact_type: string; readonly status: string }[]
}

describe('artifacts from the terminal', () => {
  let bucket: S3Server
  const server = withServer({
    project: 'connectors',
    async env() {
      bucket = await startS3Server()
      return {
        CONCORD_S3_URL: bucket.url,
        CONCORD_S3_BUCKET: bucket.bucket,
        CONCORD_S3_REGION: bucket.keys.region,
        CONCORD_S3_ACCESS_KEY: bucket.keys.accessKey,
        CONCORD_S3_SECRET_KEY: bucket.keys.secretKey,
      }
    },
  })
  const { concord } = server
  after(() => bucket?.close())

  const listed = async (type: string) => {
    const { out, err } = await concord('artifacts', 'list', '--type', type, '--json')
    const [item] = (JSON.parse(out) as Listed).items
    assert.ok(item, err)
    return item
  }

  test('[ART-04] [ART-09] the artifacts of a task are listed, fetched, drawn and published; a lost blob is reported', async () => {
    const done = await concord('submit', 'Export', '--payload', '{}', '--wait', '--timeout', '60s')
    assert.equal(done.code, 0, done.err)
    const { artifact_id: id } = await listed('csv_export')
    const summary = await listed('summary')
    assert.equal(bucket.objects.size, 1, 'the table is in the bucket, the short summary in its row')

    const fetched = await concord('artifacts', 'get', id)
    assert.equal(fetched.code, 0, fetched.err)
    assert.equal(await readFile(join(server.folder, 'squares.csv'), 'utf8'), exportedTable)
    assert.match((await concord('artifacts', 'show', id)).out, /Squares {2}art_.*\n +status +ready/)

    const drawn = await concord('artifacts', 'lineage', id)
    assert.match(drawn.out, new RegExp(`made from\n +command[\\s\\S]*used for\n +summary .*${summary.artifact_id}`))
    assert.match((await concord('artifacts', 'lineage', id, '--mermaid')).out, /^graph LR\n[\s\S]*Squares/)

    const { checksum } = JSON.parse((await concord('artifacts', 'show', id, '--json')).out) as { checksum: string }
    const payload = JSON.stringify({ artifact_id: id, checksum, destination: 'internal' })
    const published = await concord('submit', 'Publish Artifact', '--payload', payload, '--wait', '--timeout', '60s')
    assert.equal(published.code, 0, published.err)
    assert.equal((await listed('csv_export')).status, 'published')

    bucket.objects.clear()
    const lost = await concord('artifacts', 'get', id, '--out', 'lost.csv')
    assert.equal(lost.code, 70)
    assert.match(lost.err, /artifacts\.content\.missing/)
  })
})
