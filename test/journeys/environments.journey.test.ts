/** One project in several environments: the same catalog, limits for each environment, and its name before every queue of the engine. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { type CountedOutside, openCountedOutside } from '#test/counted-outside'
import { until } from '#test/until'
import { withServer } from '#test/with-server'

describe('a project in several environments', () => {
  let outside: CountedOutside
  const server = withServer({
    config() {
      const project = new URL('../support/projects/payments.ts', import.meta.url).href
      const environments = { staging: { queues: { connector_calls: { concurrency: 1 } } }, production: {} }
      return `import project from ${JSON.stringify(project)}\nexport default { ...project, environments: ${JSON.stringify(environments)} }\n`
    },
    async env() {
      outside = await openCountedOutside()
      return { CONCORD_LOG_LEVEL: 'error', OUTSIDE_URL: outside.url, CONCORD_ENVIRONMENT: 'staging' }
    },
  })
  after(() => outside?.close())

  test('an environment that the project does not have, or that is no valid name, stops the start with a hint', async () => {
    const start = (name: string) => server.with({ CONCORD_ENVIRONMENT: name }, '--json', 'up')
    const unknown = await start('stagin')
    assert.notEqual(unknown.code, 0)
    assert.match(unknown.err, /CONCORD_ENVIRONMENT.*Did you mean staging\?/)
    const invalid = await start('my_mac')
    assert.notEqual(invalid.code, 0)
    assert.match(invalid.err, /CONCORD_ENVIRONMENT.*is not an environment name/)
  })

  test('[OQ-10] in staging the limits of staging apply, and every turn of a command waits in a queue of staging', async () => {
    assert.equal(server.environment, 'staging')
    const headers = { authorization: `Bearer ${await server.adminKey()}`, 'content-type': 'application/json' }
    outside.hold('print')
    for (const task_name of ['Work', 'Print', 'Print', 'Print']) {
      const body = JSON.stringify({ task_name, payload: { note: 'x' } })
      assert.equal((await fetch(`${server.address}/commands`, { method: 'POST', headers, body })).status, 202)
    }
    const { db } = server.database
    const countSucceeded = async (type: string) =>
      (await db.query(`select from concord.commands where command_type = $1 and status = 'succeeded'`, [type])).length
    await until(async () => outside.underWay('print') === 1 && (await countSucceeded('work')) === 1, 'a full queue')
    outside.release('print')
    await until(async () => (await countSucceeded('print')) === 3, 'the end of all')
    assert.equal(outside.peak('print'), 1)
    const turns = await db.query<{ queue: string }>(
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
