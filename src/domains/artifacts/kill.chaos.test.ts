/** kill -9 between the content and its row: no row without its content, one artifact in the end, and the rest is swept. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type ArtifactRoom, openArtifactRoom } from '#test/artifacts'
import { nextFence } from '#test/commands'
import { type FailpointName, faultEnv } from '#test/fault-plan'
import { accepted } from '#test/tenant'
import type { StoredArtifact } from './artifact.ts'
import { readArtifactText, sweepBlobs } from './blob-store.ts'

const child = fileURLToPath(new URL('../../../test/support/artifact-child.ts', import.meta.url))

describe('a writer of artifacts that is killed', () => {
  let room: ArtifactRoom
  before(async () => {
    room = await openArtifactRoom()
  })
  after(() => room.close())

  /** Returns the signal that ended the process; null without one. */
  function drive(commandId: string, point: FailpointName): Promise<string | null> {
    const task = { url: room.url, folder: room.folder, commandId, token: nextFence().token }
    const env = { ...process.env, ...faultEnv([{ point, hit: 1, act: 'kill' }]) }
    const running = spawn(process.execPath, [child, JSON.stringify(task)], {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    return new Promise((resolve) => running.on('exit', (_code, signal) => resolve(signal)))
  }
  const rowsOf = (commandId: string) =>
    room.db.query<StoredArtifact>('select * from concord.artifacts where command_id = $1', [commandId])
  const blobs = async () => (await Array.fromAsync(room.store.list())).map(({ sha256 }) => sha256).toSorted()
  /** Sweeps so late that every unneeded blob is older than the grace time. */
  const sweepLater = () => sweepBlobs({ ...room.world, now: () => new Date('2999-01-01T00:00:00Z') })

  test('[ART-05] no row without its content, no second artifact, and what is left over is swept', async () => {
    // Every attempt writes different content, so that each kill leaves its own blob.
    const text = 'written by attempt {attempt} '
    const id = await room.commands.submit({ text, size: 10_000 }, { taskName: 'Note' })
    for (const [point, left] of [
      ['artifacts.blob_written', 1],
      ['commands.effect_called', 2],
    ] as const) {
      assert.equal(await drive(id, point), 'SIGKILL')
      assert.equal((await blobs()).length, left, 'the content is there')
      assert.deepEqual(await rowsOf(id), [], 'the row is not')
    }
    assert.equal(await room.commands.settle(id), 'succeeded')
    const rows = await rowsOf(id)
    assert.equal(rows.length, 1)
    const [row] = rows as [StoredArtifact]
    assert.match(accepted(await readArtifactText(room.world, row)), /^written by attempt 3 /)
    assert.deepEqual(await room.eventsOf(row.artifact_id), ['artifact_created', 'status_changed draft>ready'])

    assert.equal((await blobs()).length, 3)
    assert.deepEqual(await sweepBlobs(room.world), { removed: 0, unfinished: 0 }, 'nothing young is swept')
    assert.deepEqual(await sweepLater(), { removed: 2, unfinished: 0 })
    assert.deepEqual(await blobs(), [row.checksum.slice('sha256:'.length)])
    assert.match(accepted(await readArtifactText(room.world, row)), /^written by attempt 3 /)
    assert.deepEqual(await sweepLater(), { removed: 0, unfinished: 0 })
  })

  test('concurrent writers and sweeps of the same content: every row has its content', async () => {
    const content = { text: 'wanted and swept '.repeat(500) }
    const writers = Array.from({ length: 12 }, () => room.write({ content }).catch(() => undefined))
    const sweeps = Array.from({ length: 6 }, () => sweepLater())
    await Promise.all([...writers, ...sweeps])
    const rows = await room.db.query<StoredArtifact>(`select * from concord.artifacts where location like 'disk:%'`)
    for (const row of rows) assert.ok((await readArtifactText(room.world, row)).ok, 'a row without its content')
    // After the sweeps, writing works.
    assert.ok((await room.write({ content })).ok)
  })
})
