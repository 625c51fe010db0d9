/** A newcomer's first minutes with the real program: start it, create a key, follow events, stop it and start it again. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { endProcess, freePort, runConcord, serveConcord, spawnConcord } from '#test/concord-process'
import { until } from '#test/until'

let folder: string
let env: Record<string, string>

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'concord journey '))
  env = { CONCORD_HOME: join(folder, 'home of ours'), CONCORD_PORT: await freePort() }
})
after(() => rm(folder, { recursive: true, force: true }))

async function serve(t: TestContext) {
  const server = await serveConcord({ env })
  t.after(() => endProcess(server))
  return server
}

describe('the first minutes', () => {
  test('up serves, the key works, events arrive, and SIGTERM stops the server and its database', async (t) => {
    const server = await serve(t)
    const health = (await (await fetch(`${server.address}/health`)).json()) as {
      status: string
      schema: { ok: boolean }
    }
    assert.deepEqual([health.status, health.schema.ok], ['ok', true])

    const mode = (await stat(server.keyFile)).mode & 0o777
    assert.equal(mode.toString(8), '600')
    const made = await runConcord(['--json', 'keys', 'create', '--name', 'journey', '--role', 'reader'], { env })
    assert.equal(made.code, 0, made.err)
    const { key, key_id } = JSON.parse(made.out) as { key: string; key_id: string }
    assert.match(key, /^ck_/)

    const tail = await runConcord(['--json', 'events', 'tail', '--from-start', '--once'], { env })
    assert.equal(tail.code, 0, tail.err)
    const types = tail.out
      .trim()
      .split('\n')
      .map((line) => (JSON.parse(line) as { event_type: string }).event_type)
    assert.ok(types.includes('workspace_created'), tail.out)

    const listed = await runConcord(['keys', 'list'], { env })
    assert.match(listed.out, /journey/)
    assert.ok(!listed.out.includes(key.slice(20)), 'the secret of a key is never listed')
    assert.equal((await runConcord(['keys', 'revoke', key_id], { env })).code, 64)
    assert.equal((await runConcord(['keys', 'revoke', key_id, '--yes'], { env })).code, 0)
    const refused = await runConcord(['keys', 'list'], { env: { ...env, CONCORD_KEY: key } })
    assert.equal(refused.code, 77)

    const doctor = await runConcord(['--json', 'doctor'], { env })
    const { findings } = JSON.parse(doctor.out) as { findings: { check: string; status: string }[] }
    assert.deepEqual(
      findings.filter((finding) => finding.status !== 'well'),
      [],
    )

    server.child.kill('SIGTERM')
    assert.equal((await server.ended).code, 0)
    await assert.rejects(fetch(`${server.address}/health`))
    const pid = Number(
      (await readFile(join(env['CONCORD_HOME'] ?? '', 'postgres/postmaster.pid'), 'utf8').catch(() => '0')).split(
        '\n',
      )[0],
    )
    assert.equal(pid, 0, 'Postgres was stopped with the service')
  })

  test('a second start keeps the key, and a port in use is reported with the process that holds it', async (t) => {
    const blocker = createServer().listen(Number(env['CONCORD_PORT']), '127.0.0.1')
    await new Promise((resolve) => blocker.once('listening', resolve))
    const taken = await runConcord(['up'], { env })
    assert.equal(taken.code, 78)
    assert.match(taken.err, /app\.port\.taken/)
    assert.match(taken.err, new RegExp(`process ${process.pid}`))
    await new Promise((resolve) => blocker.close(resolve))

    const key = await readFile(join(env['CONCORD_HOME'] ?? '', 'admin.key'), 'utf8')
    const server = await serve(t)
    assert.equal(await readFile(server.keyFile, 'utf8'), key)
    const me = await fetch(`${server.address}/me`, { headers: { authorization: `Bearer ${key.trim()}` } })
    assert.equal(me.status, 200)
    await endProcess(server, 'SIGKILL')
  })

  test('after kill -9 the next start adopts the database that kept running', async (t) => {
    const server = await serve(t)
    const status = await runConcord(['--json', 'migrate', 'status'], { env })
    assert.equal(status.code, 0, status.err)
    assert.deepEqual((JSON.parse(status.out) as { pending: string[] }).pending, [])
    server.child.kill('SIGINT')
    assert.equal((await server.ended).code, 0)
  })

  test('a killed database restarts by itself and keeps its data', async (t) => {
    const server = await serve(t)
    const made = await runConcord(['--json', 'keys', 'create', '--name', 'before the kill'], { env })
    assert.equal(made.code, 0, made.err)
    const pidFile = join(env['CONCORD_HOME'] ?? '', 'postgres/postmaster.pid')
    const findPid = async () => Number((await readFile(pidFile, 'utf8').catch(() => '')).split('\n')[0])
    const pid = await findPid()
    process.kill(pid, 'SIGKILL')
    // The pid file may be missing for too short a time to see, so the test waits for another pid.
    await until(async () => ![0, pid].includes(await findPid()), 'another Postgres')
    await until(async () => (await fetch(`${server.address}/health`)).status === 200, 'its health')
    const { key } = JSON.parse(made.out) as { key: string }
    const listed = await runConcord(['events', 'tail', '--from-start', '--once'], { env: { ...env, CONCORD_KEY: key } })
    assert.equal(listed.code, 0, listed.err)
    server.child.kill('SIGTERM')
    assert.equal((await server.ended).code, 0)
  })

  test('a closed pipe ends the tail quietly', async (t) => {
    await serve(t)
    const tail = spawnConcord(['events', 'tail', '--from-start'], { env })
    tail.child.stdout?.destroy()
    const ended = await tail.ended
    assert.equal(ended.code, 0, ended.err)
    assert.ok(!ended.err.includes('    at '), ended.err)
  })
})
