/** A stop reaches the server and its database however they were started, and neither goes on without its data folder. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { endProcess, freePort, plainEnvironment, serveConcord, spawnConcord } from '#test/concord-process'
import { until } from '#test/until'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

describe('stopping', () => {
  let folder: string
  let home: string
  let env: Record<string, string>
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'concord-stop-'))
    home = join(folder, 'home')
    env = { CONCORD_HOME: home, CONCORD_PORT: await freePort() }
  })
  after(() => rm(folder, { recursive: true, force: true }))

  const findPostgres = async () =>
    Number((await readFile(join(home, 'postgres/postmaster.pid'), 'utf8')).split('\n')[0])

  test('SIGTERM to npm stops the server and its database', async (t) => {
    const npm = spawn('npm', ['start'], {
      cwd: ROOT,
      env: { ...plainEnvironment(), ...env },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    t.after(() => npm.kill('SIGKILL'))
    const address = `http://127.0.0.1:${env['CONCORD_PORT']}`
    const answers = () =>
      fetch(`${address}/health`).then(
        () => true,
        () => false,
      )
    await until(answers, 'the server')
    const postgres = await findPostgres()
    npm.kill('SIGTERM')
    await until(async () => !(await answers()), 'the end of the server')
    await until(async () => !isAlive(postgres), 'the end of Postgres')
  })

  test('a server and a worker whose data folder is deleted stop, say so, and make no empty one', async (t) => {
    const server = await serveConcord({ env })
    t.after(() => endProcess(server, 'SIGKILL'))
    const worker = spawnConcord(['--json', 'worker'], { env })
    t.after(() => endProcess(worker, 'SIGKILL'))
    await worker.line((text) => text.includes('"ready":true'))
    const postgres = await findPostgres()
    await rm(home, { recursive: true, force: true, maxRetries: 5 })
    await mkdir(home)
    for (const { ended } of [server, worker]) {
      const { code, err } = await ended
      assert.equal(code, 69, err)
      assert.match(err, /store\.home\.gone/)
      assert.ok(err.includes(home), err)
    }
    await until(async () => !isAlive(postgres), 'the end of Postgres')
    assert.deepEqual(await readdir(home), [])
  })
})
