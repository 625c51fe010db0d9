/**
 * Prints the files with a function that runs for one command, from POST /commands to succeeded, and not while the server is
 * idle. It submits a report twice to a server of the checkout with the example project and measures the second command.
 *
 *   node scripts/count/measure-walk.ts [--root ../before]
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../test/support/concord-process.ts'
import { readFlags } from '../read-flags.ts'

/** Longer than the command takes; both windows have the same length. */
const WINDOW_MS = 5_000

const { values } = readFlags({ options: { root: { type: 'string', default: '.' } } })
const root = resolve(values.root)
const folder = mkdtempSync(join(tmpdir(), 'concord-walk-'))
// Under root the embedded server runs as another user, who needs access to the folder.
chmodSync(folder, 0o711)
const hook = fileURLToPath(new URL('./coverage-hook.ts', import.meta.url))
const server = spawn(
  process.execPath,
  ['--conditions=concord-source', '--import', hook, 'src/cli/main.ts', '--json', 'up'],
  {
    cwd: root,
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, CONCORD_HOME: join(folder, 'home'), CONCORD_PORT: await freePort(), WALK_FOLDER: folder },
  },
)
try {
  const { address, key_file } = await readyOf(server)
  const headers = {
    authorization: `Bearer ${readFileSync(key_file, 'utf8').trim()}`,
    'content-type': 'application/json',
  }
  const submit = async (month: string): Promise<string> => {
    const payload = { report_type: 'monthly_revenue', date_range: month }
    const body = JSON.stringify({ task_name: 'Generate Report', payload })
    const answer = await fetch(`${address}/commands`, { method: 'POST', headers, body })
    if (answer.status !== 202) throw new Error(await answer.text())
    return ((await answer.json()) as { command_id: string }).command_id
  }
  const ranSince = async (count: number): Promise<Record<string, string[]>> => {
    server.kill('SIGUSR2')
    const file = join(folder, `ran-${count}.json`)
    while (!existsSync(file)) await sleep(50)
    // The file exists before it is written.
    await sleep(200)
    return JSON.parse(readFileSync(file, 'utf8')) as Record<string, string[]>
  }
  await submit('2026-05')
  await sleep(WINDOW_MS)
  await ranSince(1)
  await sleep(WINDOW_MS)
  const idle = await ranSince(2)
  const id = await submit('2026-06')
  await sleep(WINDOW_MS)
  const walked = await ranSince(3)
  const { status } = (await (await fetch(`${address}/commands/${id}`, { headers })).json()) as { status: string }
  if (status !== 'succeeded') throw new Error(`The command is ${status}: the window is too short.`)
  const files = Object.entries(walked)
    .filter(([path, names]) => names.some((name) => !idle[path]?.includes(name)))
    .map(([path]) => path)
  console.log(files.toSorted().join('\n'))
  console.error(`${files.length} files`)
} finally {
  server.kill('SIGTERM')
  await new Promise((resolve) => server.once('exit', resolve))
  rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
}

async function readyOf({ stdout }: ChildProcess): Promise<{ address: string; key_file: string }> {
  if (stdout)
    for await (const line of createInterface({ input: stdout }))
      if (line.includes('"ready":true')) {
        stdout.resume()
        return JSON.parse(line) as { address: string; key_file: string }
      }
  throw new Error('The server ended before it was ready.')
}
