/** One project in several environments: the same catalog, limits by the name of the environment, and that name before every queue in the engine. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { freePort, runConcord, type Served, serveConcord } from '#test/concord-process'
import { type CountedOutside, openCountedOutside } from '#test/counted-outside'
import { openTestDb, type TestDb } from '#test/database'
import { until } from '#test/until'

describe('a project in several environments', () => {
  let folder: string
  let outside: CountedOutside
  let database: TestDb
  let env: Record<string, string>
  let server: Served | undefined

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'concord-environments-'))
    outside = await openCountedOutside()
    database = await openTestDb()
    const project = JSON.stringify(new URL('../support/coordination-project.ts', import.meta.url).href)
    const environments = { staging: { queues: { connector_calls: { concurrency: 1 } } }, production: {} }
    const text = `import project from ${project}\nexport default { ...project, environments: ${JSON.stringify(environments)} }\n`
    await writeFile(join(folder, 'concord.config.mjs'), text)
    env = {
      CONCORD_HOME: join(folder, 'home'),
      CONCORD_PORT: await freePort(),
      DATABASE_URL: database.url,
      CONCORD_UNSAFE_TEST: '1',
      CONCORD_LOG_LEVEL: 'error',
      OUTSIDE_URL: outside.url,
    }
  })
  after(async () => {
    server?.child.kill('SIGTERM')
    await server?.ended
    await database?.close()
    await outside?.close()
    await rm(folder, { recursive: true, force: true })
  })

  test('an environment that the project does not have, or that is no name, stops the start with what to do', async () => {
    const start = (name: string) =>
      runConcord(['--json', 'up'], { env: { ...env, CONCORD_ENVIRONMENT: name }, cwd: folder })
    const unknown = await start('stagin')
    assert.notEqual(unknown.code, 0)
    assert.match(unknown.err, /CONCORD_ENVIRONMENT.*Did you mean staging\?/)
    const strange = await start('my_mac')
    assert.notEqual(strange.code, 0)
    assert.match(strange.err, /CONCORD_ENVIRONMENT.*is not an environment name/)
  })

  test('[OQ-10] in staging the limits of staging hold, and every turn of a command waits under a name of staging', async () => {
    server = await serveConcord({ env: { ...env, CONCORD_ENVIRONMENT: 'staging' }, cwd: folder })
    assert.equal(server.environment, 'staging')
    const key = (await readFile(server.keyFile, 'utf8')).trim()
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    outside.hold('print')
    const { address } = server
    for (const task_name of ['Work', 'Print', 'Print', 'Print']) {
      const body = JSON.stringify({ task_name, payload: { subject: 'x' } })
      assert.equal((await fetch(`${address}/commands`, { method: 'POST', headers, body })).status, 202)
    }
    const ended = async (type: string) =>
      (await database.db.query(`select from concord.commands where command_type = $1 and status = 'succeeded'`, [type]))
        .length
    await until(async () => outside.underWay('print') === 1 && (await ended('work')) === 1, 'a full queue')
    outside.release('print')
    await until(async () => (await ended('print')) === 3, 'the end of all')
    assert.equal(outside.peak('print'), 1)
    const turns = await database.db.query<{ queue: string }>(
      `select distinct split_part(w.queue_name, ':', 2) as queue from dbos.workflow_status w
       join dbos.workflow_input i using (workflow_uuid) where i.inputs like '%"kind":"command"%'`,
    )
    const queues = turns.map(({ queue }) => queue)
    assert.ok(queues.includes('staging__connector_calls'))
    assert.deepEqual(
      queues.filter((queue) => !queue.startsWith('staging__')),
      [],
    )
  })
})
