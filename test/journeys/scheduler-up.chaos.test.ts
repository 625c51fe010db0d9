/** The scheduler inside `concord up`: it owns the file, answers HTTP requests and the command line, and stops with the server. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { freePort, runConcord, type Served, serveConcord } from '#test/concord-process'
import { openTestDb, type TestDb } from '#test/database'
import { isAlive, openJobsHome } from '#test/jobs-home'
import { until } from '#test/until'

type Finding = { check: string; status: string; found: string }
type Report = { job: { job_id: string; status: string }; run: { status: string; error: string | null } | null }

describe('the scheduler in concord up', () => {
  let database: TestDb
  before(async () => {
    database = await openTestDb()
  })
  after(() => database.close())

  async function openServerHome(t: TestContext) {
    const home = openJobsHome(t, {
      CONCORD_PORT: await freePort(),
      DATABASE_URL: database.url,
      CONCORD_UNSAFE_TEST: '1',
      CONCORD_SCHEDULER_FILE: 'machine.db',
      CONCORD_SCHEDULER_GRACE: '90s',
      CONCORD_SCHEDULER_HTTP: 'any',
    })
    const serve = async () => {
      const server = await serveConcord(home.options)
      home.started.push(server)
      return server
    }
    const request = async <T>(
      { address, keyFile }: Served,
      method: string,
      path: string,
      body?: unknown,
    ): Promise<T> => {
      const response = await fetch(`${address}/scheduler${path}`, {
        method,
        headers: {
          authorization: `Bearer ${readFileSync(keyFile, 'utf8').trim()}`,
          'content-type': 'application/json',
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      assert.ok(response.ok, `${response.status} ${text}`)
      return (path.endsWith('/logs') ? text : JSON.parse(text)) as T
    }
    return { ...home, serve, request }
  }
  const refusesRequests = ({ address }: Served) =>
    until(
      () =>
        fetch(`${address}/health`).then(
          () => false,
          () => true,
        ),
      'no more requests',
    )
  const command = (script: string, cwd: string) => ({
    job_type: 'command',
    params: { command: 'sh', args: ['-c', script], cwd },
  })

  test('the server runs jobs from HTTP and the command line; doctor reports it; a second owner is refused', async (t) => {
    const { folder, serve, request, concord, invoke, linesOf } = await openServerHome(t)
    const server = await serve()
    const job = await request<{ job_id: string }>(server, 'POST', '/jobs', command('echo http >> ran', folder))
    await until(() => linesOf('ran').length === 1)
    await concord('jobs', 'add', '--', 'sh', '-c', 'echo cli >> ran')
    await until(() => linesOf('ran').length === 2)
    const direct = JSON.parse(
      await concord('jobs', 'run-direct', '--wait', '90s', '--json', '--', 'sh', '-c', 'echo direct >> ran'),
    ) as Report
    assert.equal(direct.run?.status, 'COMPLETED')
    const asked = await request<{ job_id: string }>(server, 'POST', '/direct_runs', {
      ...command('echo out', folder),
      wait: '60s',
    })
    await until(async () => (await request<Report>(server, 'GET', `/jobs/${asked.job_id}`)).job.status === 'finished')
    assert.equal(await request<string>(server, 'GET', `/jobs/${asked.job_id}/logs`), 'out\n')
    assert.deepEqual(linesOf('ran'), ['http', 'cli', 'direct'])
    assert.ok(existsSync(join(folder, 'machine.db')))
    const { findings } = JSON.parse(await concord('doctor', '--json')) as { findings: Finding[] }
    const finding = findings.find((each) => each.check === 'scheduler')
    assert.deepEqual([finding?.status, /sound and running/.test(finding?.found ?? '')], ['well', true])
    const second = await invoke('scheduler', 'run')
    assert.equal(second.code, 75)
    assert.equal((await request<Report>(server, 'GET', `/jobs/${job.job_id}`)).run?.status, 'COMPLETED')
    server.child.kill('SIGTERM')
    assert.equal((await server.ended).code, 0)
  })

  test('[SCH-107] [SCH-108] the first signal lets the running job end; the next start continues; the second signal is immediate', async (t) => {
    const { folder, serve, request, linesOf } = await openServerHome(t)
    const server = await serve()
    const first = await request<{ job_id: string }>(
      server,
      'POST',
      '/jobs',
      command('echo $$ >> pids; while [ ! -e go ]; do sleep 0.02; done; echo first >> ran', folder),
    )
    await request(server, 'POST', '/jobs', command('echo $$ >> pids; echo second >> ran; exec sleep 600', folder))
    await until(() => linesOf('pids').length === 1)
    server.child.kill('SIGTERM')
    await refusesRequests(server)
    writeFileSync(join(folder, 'go'), '')
    assert.equal((await server.ended).code, 0)
    assert.deepEqual(linesOf('ran'), ['first'])
    const again = await serve()
    await until(() => linesOf('ran').length === 2)
    assert.equal((await request<Report>(again, 'GET', `/jobs/${first.job_id}`)).run?.status, 'COMPLETED')
    again.child.kill('SIGTERM')
    await refusesRequests(again)
    again.child.kill('SIGTERM')
    assert.equal((await again.ended).code, 143)
    await until(() => linesOf('pids').every((pid) => !isAlive(Number(pid))))
  })

  test('a file of another owner, and incomplete or invalid settings, stop the start with a hint', async (t) => {
    const { options, startScheduler, invoke } = await openServerHome(t)
    const owner = await startScheduler('--file', 'machine.db')
    const locked = await invoke('up')
    assert.equal(locked.code, 75)
    assert.match(locked.err, new RegExp(`process ${owner.child.pid}`))
    owner.child.kill('SIGTERM')
    await owner.ended
    const wrong: Record<string, string>[] = [
      { CONCORD_SCHEDULER_WORKERS: '0' },
      { CONCORD_SCHEDULER_KEEP: '5 minutes' },
      { CONCORD_SCHEDULER_WEBHOOK: 'https://example.com' },
      { CONCORD_SCHEDULER_TYPES: 'absent.json' },
    ]
    for (const more of wrong) {
      const { code, err } = await runConcord(['up'], { ...options, env: { ...options.env, ...more } })
      assert.deepEqual([code, err.includes(Object.keys(more)[0] ?? '')], [78, true], err)
    }
  })

  test('when the scheduler is off, doctor says how to switch it on', async (t) => {
    const { options } = await openServerHome(t)
    const { CONCORD_SCHEDULER_FILE: _, ...off } = options.env
    const { out } = await runConcord(['doctor', '--json'], { ...options, env: off })
    const { findings } = JSON.parse(out) as { findings: Finding[] }
    assert.match(findings.find((each) => each.check === 'scheduler')?.found ?? '', /off; CONCORD_SCHEDULER_FILE/)
  })
})
