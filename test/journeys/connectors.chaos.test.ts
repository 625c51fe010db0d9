/** Concord sends two hundred secrets to a provider that returns all of them. None is in the database, the log or an answer afterwards. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { type ApiMode, type MisbehavingApi, openMisbehavingApi } from '#test/misbehaving-api'
import { until } from '#test/until'
import { withServer } from '#test/with-server'

const COUNT = 200
const ways: readonly ApiMode[] = [
  'echo',
  'echo_error',
  'unauthorized',
  'echo_redirect',
  'not_json',
  'lie',
  'fail_after',
  'cut_after',
]

describe('secrets of connectors', () => {
  const seed = randomBytes(6).toString('hex')
  const canaries = Array.from({ length: COUNT }, (_, at) => `user${at}:canary-${seed}-${at}-${'abcdefghij'[at % 10]}`)
  let api: MisbehavingApi
  let key: string
  let secrets: string
  const server = withServer({
    project: 'connectors',
    async env() {
      api = await openMisbehavingApi()
      // Outside the folder of the server, whose name has a space: a reference to a secret has none.
      secrets = await mkdtemp(join(tmpdir(), 'concord-secrets-'))
      for (const [at, canary] of canaries.entries()) await writeFile(join(secrets, String(at)), `${canary}\n`)
      return {
        CANARY_API: api.url,
        CANARY_COUNT: String(COUNT),
        CANARY_FOLDER: secrets,
        ...Object.fromEntries(canaries.map((canary, at) => [`CANARY_${at}`, canary])),
      }
    },
    async ready({ adminKey }) {
      key = await adminKey()
    },
  })
  after(async () => {
    await api?.close()
    if (secrets) await rm(secrets, { recursive: true, force: true })
  })

  async function ask(method: string, path: string, body?: object): Promise<{ status: number; text: string }> {
    const response = await fetch(`${server.address}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
    return { status: response.status, text: await response.text() }
  }

  /** Looks for the common part of all canaries, in plain text, in hex and in base64. */
  function findCanaries(text: string): readonly string[] {
    const marks = [
      `canary-${seed}`,
      Buffer.from(`canary-${seed}`).toString('hex'),
      ...[0, 1, 2].map((shift) =>
        Buffer.from(`${'x'.repeat(shift)}canary-${seed}`)
          .toString('base64')
          .slice(4, 20),
      ),
    ]
    return marks.filter((mark) => text.includes(mark))
  }

  test('[CON-09] [SEC-06] 200 secrets, returned in bodies, headers, errors and redirects: none is stored, and none is in an answer', async () => {
    const answers: string[] = []
    const ids: string[] = []
    for (let at = 0; at < COUNT; at += 1) {
      const payload = { canary: at, as: ways[at % ways.length] ?? 'echo', note: `call ${at}` }
      const { status, text } = await ask('POST', '/commands', { task_name: 'Tell', payload })
      assert.equal(status, 202, text)
      answers.push(text)
      ids.push((JSON.parse(text) as { command_id: string }).command_id)
    }
    // A secret in a payload is refused, and the refusal stores nothing.
    for (let at = 0; at < 20; at += 1) {
      const { status, text } = await ask('POST', '/commands', {
        task_name: 'Tell',
        payload: { canary: at, as: 'echo', pin: canaries[at] },
      })
      assert.equal(status, 422, text)
      answers.push(text)
    }
    await until(async () => {
      const [row] = await server.database.db.query<{ count: number }>(
        `select count(*)::int as count from concord.connector_invocations where completed_at is not null`,
      )
      return (row?.count ?? 0) >= COUNT
    }, 'all calls')
    await until(async () => {
      const [row] = await server.database.db.query<{ count: number }>(
        `select count(*)::int as count from concord.commands where completed_at is not null and ingress = 'user_request'`,
      )
      return (row?.count ?? 0) === COUNT
    }, 'all commands')
    // Control: the provider has received the secrets.
    const sent = JSON.stringify(api.requests)
    assert.ok(findCanaries(sent).length > 0)
    for (const id of ids)
      answers.push((await ask('GET', `/commands/${id}`)).text, (await ask('GET', `/commands/${id}/effects`)).text)
    for (let at = 0; at < COUNT; at += 10) {
      answers.push(
        (await ask('GET', `/connectors/canary_${at}`)).text,
        (await ask('GET', `/connectors/canary_${at}/invocations`)).text,
      )
    }
    answers.push((await ask('GET', '/audit?limit=100')).text, (await ask('GET', '/connectors')).text)
    assert.deepEqual(findCanaries(answers.join('\n')), [])

    const tables = await server.database.db.query<{ name: string }>(
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg_t%'`,
    )
    assert.ok(tables.length > 15)
    for (const { name } of tables) {
      const rows = await server.database.db.query<{ line: string }>(`select t::text as line from ${name} t`)
      assert.deepEqual(findCanaries(rows.map(({ line }) => line).join('\n')), [], name)
    }
  })

  test('[CON-08] the terminal lists connectors, shows one with its contracts, and its calls', async () => {
    const { concord } = server
    assert.match((await concord('connectors', 'list')).out, /canary_0 +http +low +none +tell/)
    const shown = await concord('connectors', 'show', 'canary_1')
    assert.match(shown.out, /authenticates by bearer/)
    assert.match(shown.out, /tell +none +low +by policy/)
    const calls = await concord('connectors', 'calls', 'canary_1')
    assert.match(calls.out, /tell +failed .*The provider answered 422/)
    const unknown = await concord('connectors', 'show', 'canari_1')
    assert.equal(unknown.code, 65)
    assert.match(unknown.err, /connectors\.connector\.not_found/)
    const listed = JSON.parse((await concord('connectors', 'calls', 'canary_0', '--json')).out) as {
      items: { status: string }[]
    }
    assert.deepEqual(
      listed.items.map(({ status }) => status),
      ['succeeded'],
    )
  })

  test('[SEC-06] no secret is in the log', async () => {
    const { out, err } = await server.stop('SIGTERM')
    assert.ok(out.length + err.length > 1_000)
    assert.deepEqual(findCanaries(out + err), [])
  })
})
