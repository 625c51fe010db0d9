/**
 * The package as a user gets it: packed, installed by npm in an empty folder, without the checkout. `init` creates a project, its test
 * passes, an example prints what the guide shows, and `dev` restarts on a change.
 */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { freePort, plainEnvironment } from '#test/concord-process'
import { until } from '#test/until'

const root = join(import.meta.dirname, '../..')
const run = promisify(execFile)
/** Without the settings of npm and the programs of this checkout. */
function userEnvironment(): NodeJS.ProcessEnv {
  const { PATH = '', ...rest } = plainEnvironment()
  const own = Object.entries(rest).filter(([name]) => !/^(npm_|NODE_|INIT_CWD)/.test(name))
  const path = PATH.split(delimiter).filter((folder) => !folder.startsWith(root))
  return { ...Object.fromEntries(own), PATH: path.join(delimiter) }
}

/** An install of 140 MB, and Node itself. */
const MINUTES_MAX = 10

test('the packed package in an empty folder: install, init, test, example, dev', {
  timeout: MINUTES_MAX * 60_000,
}, async (t) => {
  const registry = await run('npm', ['ping', '--fetch-retries=0', '--fetch-timeout=20000']).catch(() => undefined)
  if (!registry) return t.skip('npm reaches no registry')
  const scratch = await mkdtemp(join(tmpdir(), 'concord-package-'))
  t.after(() => rm(scratch, { recursive: true, force: true, maxRetries: 5 }))
  const port = await freePort()
  const env = { ...userEnvironment(), CONCORD_PORT: port, CONCORD_URL: `http://127.0.0.1:${port}` }
  const npm = (cwd: string, ...args: string[]) => run('npm', args, { cwd, env })

  const packed = (await npm(root, 'pack', '--pack-destination', scratch)).stdout.trim().split('\n').at(-1) ?? ''
  const tarball = join(scratch, packed)
  await npm(scratch, 'exec', '--yes', `--package=${tarball}`, '--', 'concord', 'init', 'refunds')
  const project = join(scratch, 'refunds')
  await npm(project, 'install', '--prefer-offline', '--no-audit', '--no-fund', tarball)
  assert.match((await npm(project, 'test')).stdout, /pass 1\n.*fail 0/)
  await npm(project, 'run', 'check')

  const example = '08-refund.ts'
  await copyFile(join(project, 'node_modules/@concordhq/concord/examples', example), join(project, example))
  const { stdout } = await npm(project, 'exec', '--', 'node', example)
  const guide = await readFile(join(root, 'docs/guides/define-commands.md'), 'utf8')
  assert.ok(guide.includes(`output=examples/${example}\n${stdout}\`\`\``), stdout)

  const dev = spawn('npm', ['run', '-s', 'dev'], { cwd: project, env, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => dev.kill('SIGKILL'))
  let said = ''
  dev.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  await until(() => said.includes('Concord is ready'), 'the start of dev')
  const file = join(project, 'refund.ts')
  await writeFile(file, (await readFile(file, 'utf8')).replace('Above 5000.', 'Too much.'))
  await until(() => /refund\.ts changed: restarted in \d+ ms/.test(said), 'the restart')
  const payload = JSON.stringify({ order_id: 'o1', amount: 6_000 })
  const denied = await npm(project, 'exec', '--', 'concord', 'submit', 'refund', '--payload', payload, '--wait').catch(
    (error: { stdout: string; stderr: string }) => error,
  )
  assert.match(denied.stdout + denied.stderr, /Too much\./)
  dev.kill('SIGTERM')
  await new Promise((resolve) => dev.once('exit', resolve))
})
