/** Secrets of every known shape at the doors of a real server. None is in the database, the log, the metrics or the file of the jobs afterwards. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { everyRow } from '#test/login'
import { proofSize } from '#test/proof-size'
import { secretCanaries } from '#test/secret-canaries'
import { until } from '#test/until'
import { withServer } from '#test/with-server'

const SEED = 20261117
/** The quick tier sends every twelfth secret to a door, and all of them to some door. */
const EVERY = proofSize(1, 12) === 1 ? 12 : 1
const JOBS = 'jobs.db'

describe('secrets at a real server', () => {
  const canaries = secretCanaries(SEED)
  const inMetadata = `plain${randomBytes(8).toString('hex')}`
  const inResult = `plain${randomBytes(8).toString('hex')}`
  let key: string
  const server = withServer({
    project: 'notes',
    env: () => ({
      CONCORD_SCHEDULER_FILE: JOBS,
      CONCORD_LOG_LEVEL: 'trace',
      CONCORD_RATE_LIMIT: '10000000',
      NOTES_shaped: JSON.stringify({ from: canaries[0]?.text }),
      NOTES_named: JSON.stringify({ login: { password: inMetadata } }),
      NOTES_ANSWER_login: JSON.stringify({
        session: { access_token: inResult, token_count: 3 },
        headers: [{ name: 'X-Api-Key', value: inResult }],
      }),
    }),
    async ready({ adminKey }) {
      key = await adminKey()
    },
  })
  const planted = new Set<string>([inMetadata, inResult, canaries[0]?.core ?? ''])

  async function send(path: string, body: object, method = 'POST') {
    const response = await fetch(`${server.address}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const text = await response.text()
    return { status: response.status, text, body: JSON.parse(text) as Record<string, string> }
  }

  const memory = (more: object) =>
    send('/memory', {
      subject: 'customer:4711',
      scope: 'user',
      memory_type: 'preference',
      content: { a: 'b' },
      ...more,
    })
  const schedule = (more: object) =>
    send('/schedules', { name: 'n', command_type: 'note', cron: '0 0 1 1 *', payload: { subject: 's' }, ...more })
  const params = { topic: 'sea' }
  const doors: Readonly<Record<string, (text: string) => ReturnType<typeof send>>> = {
    'a proposal': (text) =>
      send('/agent-actions', { tool_name: 'note', payload: { subject: text }, reason: 'Because.' }),
    'the name of a schedule': (text) => schedule({ name: text }),
    'the payload of a schedule': (text) => schedule({ payload: { subject: text } }),
    'the cron of a schedule': (text) => schedule({ cron: text }),
    'the content of a memory': (text) => memory({ content: { note: [text] } }),
    'the subject of a memory': (text) => memory({ subject: `customer:${text}` }),
    'the key of a fact': (text) => memory({ fact_key: text }),
    'the subject of a hold': (text) => send('/memory/holds', { subject: `customer:${text}`, reason: 'Case 17' }),
    'the params of a job': (text) => send('/scheduler/jobs', { job_type: 'story', params: { args: ['echo', text] } }),
    'the name of a template': (text) => send('/scheduler/templates', { name: text, job_type: 'story', params }),
    'the params of a template': (text) =>
      send('/scheduler/templates', { name: 't', job_type: 'story', params: { ...params, env: { NOTE: text } } }),
    'a group of jobs': (text) =>
      send('/scheduler/groups', {
        mode: 'sequential',
        jobs: [{ job_type: 'story', params: { args: ['echo', text] } }],
      }),
    'a reservation': (text) => send('/scheduler/reservations', { reserved_by: text }),
  }
  for (const [number, [door, plant]] of Object.entries(doors).entries()) {
    test(`[M5] [L15] [SEC-06] a secret in ${door} is refused, and the answer does not repeat it`, async () => {
      for (const { name, text, core } of canaries.filter((_, at) => (at + number) % EVERY === 0)) {
        planted.add(core)
        const answer = await plant(text)
        assert.equal(answer.status, 422, `${name}: ${answer.text}`)
        assert.match(answer.body['code'] ?? '', /[.]secret$/, name)
        assert.equal(answer.text.includes(core), false, `${name} is repeated`)
      }
    })
  }

  test('[M5] [SEC-06] the value of a secret name is refused in jobs and in memory', async () => {
    const value = () => {
      const hex = `plain${randomBytes(8).toString('hex')}`
      planted.add(hex)
      return hex
    }
    for (const name of ['password', 'clientSecret', 'API_TOKEN', 'x-api-key']) {
      const secret = value()
      const env = { ...params, set: { [name]: secret } }
      for (const answer of [
        await send('/scheduler/jobs', { job_type: 'story', params: env }),
        await send('/scheduler/templates', { name: 't', job_type: 'story', params: env }),
        await memory({ content: { [name]: value() } }),
      ])
        assert.match(answer.body['code'] ?? '', /[.]secret$/, `${name}: ${answer.text}`)
      const local = await server.concord('jobs', 'add', '--type', 'story', '--params', JSON.stringify(env))
      assert.notEqual(local.code, 0, local.out)
      assert.match(local.err, /has the name of a secret/)
      assert.equal(local.err.includes(secret), false)
    }
    // The schema of params describes a password, and holds none.
    const properties = { password: { type: 'string', description: 'A reference.' } }
    const kept = { name: 'kept', job_type: 'story', params, params_schema: { type: 'object', properties } }
    const answer = await send('/scheduler/templates', kept)
    assert.equal(answer.status, 201, answer.text)
  })

  test('[M5] [L15] [SEC-06] the reason of a hold is stored without the secret in it', async () => {
    for (const { name, text, core } of canaries.slice(0, 10)) {
      planted.add(core)
      const held = await send('/memory/holds', { subject: 'customer:held', reason: `Because of ${text}` })
      assert.equal(held.status, 201, `${name}: ${held.text}`)
      assert.equal(held.text.includes(core), false, name)
    }
  })

  test('[H4] [SEC-06] a secret in the words of a person is refused in memory and in commands, and words about it are kept', async () => {
    const doors = [
      (text: string) => memory({ content: { note: text } }),
      (text: string) => send('/commands', { task_name: 'Note', payload: { subject: 's', text } }),
    ]
    for (const door of doors) {
      for (const text of [
        'My password is swordfish',
        'The pin is 1234',
        'passcode: tulip',
        'Set the wifi password to swordfish.',
        'swordfish is my password',
        '{"password":"q","user":"ada"}',
        'password=$3cr3t',
        'login --password swordfish',
        'token=mine://swordfish',
      ]) {
        const answer = await door(text)
        assert.equal(answer.status, 422, `${text}: ${answer.text}`)
        assert.match(answer.body['code'] ?? '', /[.]secret$/, text)
      }
      for (const text of ['The password is stored in Vault', 'Reset the password', 'password=vault://team/db'])
        assert.equal((await door(text)).status, 202, text)
    }
  })

  test('[H4] [SEC-06] the result of an effect is stored without what the name of a field makes a secret', async () => {
    const { body } = await send('/commands', { task_name: 'Note', payload: { subject: 'login' } })
    let result: object | undefined
    await until(async () => {
      const [row] = await server.database.db.query<{ result: { answer?: object } | null }>(
        `select result from concord.domain_effects where command_id = $1`,
        [body['command_id']?.replace(/^cmd_/, '')],
      )
      result = row?.result?.answer
      return result !== undefined
    }, 'the result of the effect')
    assert.deepEqual(result, {
      session: { access_token: '[redacted]', token_count: 3 },
      headers: [{ name: 'X-Api-Key', value: '[redacted]' }],
    })
  })

  test('[M5] [SEC-06] an artifact with a secret in its metadata is not written', async () => {
    for (const subject of ['shaped', 'named']) {
      const { body } = await send('/commands', { task_name: 'Note', payload: { subject } })
      await until(async () => {
        const [row] = await server.database.db.query<{ status: string }>(
          `select status from concord.commands where command_id = $1`,
          [body['command_id']?.replace(/^cmd_/, '')],
        )
        return row?.status === 'failed'
      }, 'the command to fail')
    }
    const stored = `select 1 from concord.artifacts a join concord.commands c using (command_id)
      where c.payload->>'subject' in ('shaped', 'named')`
    assert.deepEqual(await server.database.db.query(stored), [])
  })

  test('[L15] a cron expression has at most 500 characters', async () => {
    for (const cron of [`${'*/1,'.repeat(2_000)}1 * * * *`, `0${' '.repeat(8_000)}0 1 1 *`]) {
      const answer = await schedule({ cron })
      assert.deepEqual([answer.status, answer.body['code']], [422, 'cron_value'])
      const plan = { name: 'long', job_type: 'story', params }
      const { template_id } = (await send('/scheduler/templates', { ...plan, name: `long ${cron.length}` })).body
      const local = await send('/scheduler/schedules', { template_id, name: 'long', cron_expression: cron })
      assert.deepEqual([local.status, local.body['code']], [422, 'cron_value'])
    }
  })

  test('[M5] [L15] [SEC-06] none of them is in a table, the log, the metrics or the file of the jobs', async () => {
    const control = `control${randomBytes(8).toString('hex')}`
    assert.equal((await memory({ content: { note: control } })).status, 202)
    const job = await send('/scheduler/jobs', { job_type: 'story', params: { args: ['echo', control] } })
    assert.equal(job.status, 201, job.text)
    const metrics = await (await fetch(`${server.address}/metrics`)).text()
    const { rows } = await everyRow(server.database.url)
    const { err, out } = await server.stop('SIGTERM')
    const file = join(server.folder, JOBS)
    const jobs = await Promise.all([file, `${file}-wal`].map((path) => readFile(path, 'latin1').catch(() => '')))
    assert.ok(rows.includes(control), 'the search sees the rows')
    assert.ok(jobs.join('').includes(control), 'the search sees the jobs')
    assert.ok(err.includes('/scheduler/jobs') && metrics.includes('/scheduler/jobs'), 'the search sees log and metrics')
    assert.ok(planted.size > 100, String(planted.size))
    for (const [place, text] of Object.entries({ rows, err, out, metrics, jobs: jobs.join('') }))
      for (const core of planted) assert.equal(text.includes(core), false, `${core} is in ${place}`)
  })
})
