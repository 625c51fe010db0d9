/** History of a year ago moves into files: counted, archived, read, verified, damaged and restored, with the CLI. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cp, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { encodeId } from '#kernel/ids'
import { examplePayloads } from './catalog/index.ts'
import { granted, runExample, type Stage } from './run-example.ts'

const YEAR_AND_DAY_MS = 366 * 86_400_000
const program = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))

/** Replaces ids, times and byte counts that differ in every run with fixed ones, and removes payloads. */
function plain(text: string): string {
  return text
    .replaceAll(/(?<=(?:archive|database) {2}){.*$/gm, '{…}')
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170')
    .replaceAll(/\b2\d\.\d KiB/g, '20.6 KiB')
    .replaceAll(/_[0-9a-f]{32}/g, '_0197f3b2c4d57a8e9b0c1d2e3f405170')
    .replaceAll(/\d\d [A-Z][a-z]{2} \d{4} [\d:]{8}/g, '31 May 2025 09:00:00')
    .replaceAll(/(?<=archived )\d\d:\d\d, (?:just now|\d+ s ago)/g, '09:00, just now')
}

/** Runs the CLI on the data folder of this example; prints the command and its output. */
function typing({ folder }: Pick<Stage, 'folder'>) {
  const { PATH, NODE_COMPILE_CACHE } = process.env
  const env = { PATH, NODE_COMPILE_CACHE, CONCORD_HOME: join(folder, 'home'), CONCORD_UNSAFE_TEST: '1' }
  return (exits: number, ...args: string[]): string => {
    const { stdout, stderr, status } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8', env })
    assert.equal(status, exits, stderr)
    console.log(`$ concord ${plain(args.join(' '))}`)
    process.stdout.write(plain(exits === 0 ? stdout : stdout + stderr))
    return stdout
  }
}

/** Reads the id of every event in the files without Concord: one line of JSON each, compressed with gzip. */
async function idsInFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true })
  const files = names.filter((name) => name.endsWith('.jsonl.gz')).map((name) => readFile(join(folder, name)))
  const lines = (await Promise.all(files)).flatMap((bytes) => gunzipSync(bytes).toString().trimEnd().split('\n'))
  return lines.map((line) => (JSON.parse(line) as { event_id: string }).event_id).toSorted()
}

await runExample({ agoMs: YEAR_AND_DAY_MS }, async (stage) => {
  const { company, submit, reachStatus, folder, db } = stage
  const concord = typing(stage)
  const history = join(folder, 'home', 'history')
  const inTable = async () => {
    const rows = await db.query<{ event_id: string; event_type: string }>(
      'select event_id, event_type from concord.domain_events order by event_id',
    )
    return rows.map(({ event_id, event_type }) => [event_id, event_type] as const)
  }
  const payload = examplePayloads['Generate Report']
  const { command } = granted(await submit(company.people.ana, { task: 'Generate Report', payload }))
  await reachStatus(command.command_id, 'succeeded')
  const written = await inTable()
  console.log(`A year and a day ago Ana requested a report. ${written.length} events are in the table.`)

  concord(0, 'history', 'archive', '--before', '365', '--dry-run')
  assert.deepEqual(await inTable(), written)
  concord(0, 'history', 'archive', '--before', '365')
  concord(0, 'history', 'show', encodeId('command', command.command_id))
  concord(0, 'history', 'verify')

  const left = await inTable()
  assert.deepEqual(await idsInFiles(history), written.map(([id]) => id).toSorted())
  assert.deepEqual([...new Set(left.map(([, type]) => type))], ['history_archived'])
  console.log(
    `Counted without Concord: all ${written.length} are in the files; the table has ${left.length} events that locate them.`,
  )

  await cp(history, join(folder, 'copy'), { recursive: true })
  const files = (await readdir(history, { recursive: true })).filter((name) => name.endsWith('.jsonl.gz'))
  // The first file belongs to the organisation, which is older than its workspace. Its last eight bytes are the checksum and the length.
  const damaged = join(history, files.toSorted()[0] ?? '')
  const bytes = await readFile(damaged)
  const at = bytes.length - 8
  await writeFile(damaged, bytes.with(at, (bytes[at] ?? 0) ^ 1))
  console.log('The folder is copied. Then a bit of one file flips.')
  concord(75, 'history', 'verify')
  await cp(join(folder, 'copy'), history, { recursive: true })
  console.log('The copy is restored.')
  concord(0, 'history', 'verify')
})
