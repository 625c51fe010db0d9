/** A writer leaves files that only their owner can read, and no files where it failed. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { archiveFileOf, verifyArchive, writeArchive } from './archive.ts'

const WORKSPACE = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170'

function aDraft(id: string): Parameters<typeof writeArchive>[1] {
  const place = { xid: '7', seq: '1' }
  const file = archiveFileOf(WORKSPACE, id)
  const time = '2026-01-01T00:00:00.000Z'
  const ids = { history_archive_id: id, workspace_id: WORKSPACE }
  return { ...ids, file, first: place, last: place, ended_before: time, written_at: time }
}
const manifestOf = (file: string) => file.replace('.jsonl.gz', '.manifest.json')
const line = JSON.stringify({ event_id: 'e', command_id: null, workspace_id: WORKSPACE, xid: '7', seq: 1 })

describe('writing an archive', () => {
  let base: string
  before(async () => {
    base = await mkdtemp(join(tmpdir(), 'concord-archive-'))
  })
  after(() => rm(base, { recursive: true, force: true }))

  test('only the owner can read folders and files, also where the folder did not exist', async () => {
    const folder = join(base, 'not', 'there')
    const draft = aDraft('0197f3b2-c4d5-7a8e-9b0c-1d2e3f405171')
    await writeArchive(folder, draft, [line])
    assert.equal((await verifyArchive(folder, draft.file)).ok, true)
    const lines = join(folder, draft.file)
    for (const path of [join(base, 'not'), folder, dirname(lines), lines, join(folder, manifestOf(draft.file))])
      assert.equal((await stat(path)).mode & 0o077, 0, path)
  })

  test('a write that fails leaves no partial file, so that a full disk does not stay full', async () => {
    const draft = aDraft('0197f3b2-c4d5-7a8e-9b0c-1d2e3f405172')
    const folder = join(base, 'full')
    // A folder has the name of the manifest.
    const inTheWay = join(folder, `${manifestOf(draft.file)}.part`)
    await mkdir(inTheWay, { recursive: true })
    await assert.rejects(writeArchive(folder, draft, [line]), { code: 'EISDIR' })
    assert.deepEqual(await readdir(dirname(inTheWay)), [basename(inTheWay)])
  })
})
