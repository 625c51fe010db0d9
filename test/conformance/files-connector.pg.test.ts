/** The files connector under the suite. */
import { execFileSync } from 'node:child_process'
import { mkdtemp, readdir, realpath, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { filesConnector } from '#domains/connectors'
import { describeConnector } from './connector.case.ts'

describeConnector('files', async () => {
  const place = await realpath(await mkdtemp(join(tmpdir(), 'concord-conform-')))
  const root = join(place, 'root')
  execFileSync('mkdir', [root])
  execFileSync('mkfifo', [join(root, 'pipe')])
  await writeFile(join(root, 'a.txt'), 'a')
  await writeFile(join(root, 'large.txt'), 'x'.repeat(5_000))
  await writeFile(join(root, 'binary'), new Uint8Array([0xff, 0xfe, 0x00]))
  const read = (path: string) => ({ capability: 'read_file', input: { path } })
  const nothing = () => {}
  return {
    definitions: [
      filesConnector({ name: 'files', description: 'Files.', root, writable: true, file_max_bytes: 1_000 }),
    ],
    canaries: [],
    good: read('a.txt'),
    trouble: {
      slow: 'a local file system has no speed of its own to set here',
      failing: {
        arrange: () => rename(root, join(place, 'away')),
        call: read('a.txt'),
        ends: ['validation_error', 'transient_connector_error'],
      },
      lying: 'a file is what it holds',
      duplicated: { arrange: nothing, call: read('a.txt'), ends: 'ok' },
      hanging: { arrange: nothing, call: read('pipe'), ends: ['permission_denied'] },
      oversized: { arrange: nothing, call: read('large.txt'), ends: ['validation_error'] },
      malformed: { arrange: nothing, call: read('binary'), ends: ['validation_error'] },
    },
    echoes: [],
    write: {
      call: { capability: 'create_file', input: { path: 'made.txt', text: 'made' } },
      count: async () => (await readdir(root)).filter((name) => name === 'made.txt').length,
    },
    behave: () => rename(join(place, 'away'), root).catch(nothing),
    close: () => rm(place, { recursive: true, force: true }),
  }
})
