/** History of a year ago moves into files: counted, archived, read, verified, damaged and restored, with the CLI. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { openConcord, systemDeps } from '@concordhq/concord'
import { uuidV7Generator } from '@concordhq/concord/kernel'
import { examplePayloads } from './catalog/index.ts'
import { generateReport } from './catalog/generate-report.ts'

const program = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
const folder = await mkdtemp(join(tmpdir(), 'concord-example-'))
await using cleanup = new AsyncDisposableStack()
cleanup.defer(() => rm(folder, { recursive: true, force: true }))
const [home, history, copy] = [join(folder, 'home'), join(folder, 'home', 'history'), join(folder, 'copy')]

/** Replaces ids, times and byte counts that differ in every run with fixed ones, and removes payloads. */
function plain(text: string): string {
  return text
    .replaceAll(/(?<=(?:archive|database) {2}){.*$/gm, '{…}')
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170')
    .replaceAll(/\b1\d\.\d KiB/g, '16.7 KiB')
    .replaceAll(/_[0-9a-f]{32}/g, '_0197f3b2c4d57a8e9b0c1d2e3f405170')
    .replaceAll(/\d\d [A-Z][a-z]{2} \d{4} [\d:]{8}/g, '31 May 2025 09:00:00')
    .replaceAll(/(?<=archived )\d\d:\d\d, (?:just now|\d+ s ago)/g, '09:00, just now')
}

/** Runs the CLI on the data folder of this example; prints the command and its output. */
function concord(exits: number, ...args: string[]): void {
  const { PATH, NODE_COMPILE_CACHE } = process.env
  const env = { PATH, NODE_COMPILE_CACHE, CONCORD_HOME: home, CONCORD_UNSAFE_TEST: '1' }
  const { stdout, stderr, status } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8', env })
  assert.equal(status, exits, stderr)
  console.log(`$ concord ${plain(args.join(' '))}`)
  process.stdout.write(plain(exits === 0 ? stdout : stdout + stderr))
}

/** A year and a day ago, between two due times of the schedules that come with Concord. */
const agoMs = 366 * 86_400_000 + ((Date.now() + 150_000) % 300_000)
const now = () => new Date(Date.now() - agoMs)
const { randomBytes, ...system } = systemDeps()
const deps = { ...system, randomBytes, now, newId: uuidV7Generator(now, randomBytes) }
const settings = { CONCORD_LOG_LEVEL: 'error' }
const past = await openConcord({ project: { catalog: [generateReport] }, home, settings, deps })
const { command_id } = await past.wait(await past.submit(generateReport, examplePayloads['Generate Report']))
await past.close()
console.log('A year and a day ago a report was requested.')
concord(0, 'history', 'archive', '--before', '365', '--dry-run')
concord(0, 'history', 'archive', '--before', '365')
concord(0, 'history', 'show', command_id)
concord(0, 'history', 'verify')

const files = (await readdir(history, { recursive: true })).filter((name) => name.endsWith('.jsonl.gz')).toSorted()
const texts = await Promise.all(files.map(async (name) => gunzipSync(await readFile(join(history, name))).toString()))
const events = texts
  .flatMap((text) => text.trimEnd().split('\n'))
  .map((line) => JSON.parse(line) as { event_id: string })
console.log(`Counted without Concord: ${new Set(events.map(({ event_id }) => event_id)).size} events are in the files.`)

await cp(history, copy, { recursive: true })
// The first file belongs to the organisation, which is older than its workspace. Its last eight bytes are its checksum and its length.
const damaged = join(history, files[0] ?? '')
const bytes = await readFile(damaged)
const at = bytes.length - 8
await writeFile(damaged, bytes.with(at, (bytes[at] ?? 0) ^ 1))
console.log('The folder is copied. Then a bit of one file flips.')
concord(75, 'history', 'verify')
await cp(copy, history, { recursive: true })
console.log('The copy is restored.')
concord(0, 'history', 'verify')
