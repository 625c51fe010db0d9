/** A URL never overrides our role or limits, and a server that does not grant the role is refused. */
import assert from 'node:assert/strict'
import { createServer, connect as connectTo, type AddressInfo } from 'node:net'
import { after, before, describe, test, type TestContext } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { openCheckedDb } from './check-server.ts'
import { type Db, openDb } from './db.ts'
import { openSession } from './migrate.ts'

const settings = `select current_user as role, current_setting('statement_timeout') as statement,
  current_setting('idle_in_transaction_session_timeout') as idle, current_setting('TimeZone') as zone,
  current_setting('application_name') as name, current_setting('search_path') as path, current_setting('lock_timeout') as lock`

const ours = { role: 'concord_engine', statement: '30s', idle: '10s', zone: 'UTC', name: 'concord', lock: '0' }

describe('an address with parameters', () => {
  let opened: TestDb
  before(async () => {
    opened = await openTestDb()
  })
  after(() => opened.close())

  const withParams = (params: Record<string, string>) => {
    const url = new URL(opened.url)
    for (const [name, value] of Object.entries(params)) url.searchParams.set(name, value)
    return url.href
  }
  async function using<T>(db: Db, work: (db: Db) => Promise<T>): Promise<T> {
    try {
      return await work(db)
    } finally {
      await db.close()
    }
  }

  const cases: readonly [title: string, params: Record<string, string>, path: string][] = [
    ['options that say something else', { options: '-c search_path=elsewhere' }, 'elsewhere'],
    [
      'options that say the opposite',
      { options: '-c role=none -c statement_timeout=0 -c idle_in_transaction_session_timeout=0 -c timezone=EST' },
      '"$user", public',
    ],
    [
      'limits and names of the driver',
      {
        statement_timeout: '0',
        idle_in_transaction_session_timeout: '0',
        query_timeout: '1',
        lock_timeout: '7',
        application_name: 'stranger',
        binary: 'true',
        replication: 'database',
        client_encoding: 'latin1',
      },
      '"$user", public',
    ],
  ]
  for (const [title, params, path] of cases) {
    test(`${title}: role and limits stay ours, on the pool and on connections of one's own`, async () => {
      await using(openDb({ url: withParams(params), role: 'concord_engine', poolMax: 1 }), async (db) => {
        assert.deepEqual(await db.query(settings), [{ ...ours, path }])
        const client = await db.connect('own')
        try {
          assert.deepEqual((await client.query(settings)).rows, [{ ...ours, name: 'own', path }])
        } finally {
          await client.end()
        }
      })
    })

    test(`${title}: a migrating session acts as the login and without a limit`, async () => {
      const client = await openSession(
        withParams({ ...params, ...(params['options'] ? {} : { options: '-c role=concord_app' }) }),
      )
      try {
        const { rows } = await client.query(`${settings}, session_user as login`)
        const { login, ...found } = rows[0]
        assert.deepEqual(found, {
          role: login,
          statement: '0',
          idle: '1min',
          zone: 'UTC',
          name: 'concord-migrate',
          path,
          lock: '0',
        })
      } finally {
        await client.end()
      }
    })
  }

  test('what names the server and the way to it stays', async () => {
    const { hostname, port } = new URL(opened.url)
    const url = new URL(withParams({ host: hostname, port, sslmode: 'disable' }))
    url.hostname = 'no-such-host.invalid'
    url.port = '1'
    await using(openDb({ url: url.href, poolMax: 1 }), async (db) => assert.equal((await db.query('select')).length, 1))
  })

  /** As some poolers do: everything is passed on, but the options of the first packet are not. */
  async function aPoolerWithoutOptions(t: TestContext): Promise<string> {
    const { hostname, port } = new URL(opened.url)
    const server = createServer((client) => {
      const real = connectTo(Number(port), hostname)
      for (const [one, other] of [
        [client, real],
        [real, client],
      ] as const) {
        one.on('error', () => other.destroy())
        one.on('close', () => other.destroy())
      }
      client.once('data', (first) => {
        const fields = first.subarray(8).toString().split('\0')
        const kept: string[] = []
        for (let index = 0; fields[index]; index += 2)
          if (fields[index] !== 'options') kept.push(fields[index] ?? '', fields[index + 1] ?? '')
        const body = Buffer.from(`${kept.join('\0')}\0\0`)
        const head = Buffer.alloc(8)
        head.writeUInt32BE(body.length + 8, 0)
        first.copy(head, 4, 4, 8)
        real.write(Buffer.concat([head, body]))
        client.pipe(real)
      })
      real.pipe(client)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => new Promise((resolve) => server.close(resolve)))
    const url = new URL(opened.url)
    url.hostname = '127.0.0.1'
    url.port = String((server.address() as AddressInfo).port)
    return url.href
  }

  test('a pooler that drops the options is detected before the first statement of any caller', async (t) => {
    const url = await aPoolerWithoutOptions(t)
    await using(openDb({ url, poolMax: 1 }), async (db) => assert.equal((await db.query('select')).length, 1))
    await using(openDb({ url, role: 'concord_engine', poolMax: 1 }), async (db) => {
      await assert.rejects(db.query('select'), { code: 'store.connection.role' })
      await assert.rejects(
        db.transaction(async () => assert.fail('it began')),
        { code: 'store.connection.role' },
      )
      await assert.rejects(db.connect(), { code: 'store.connection.role' })
    })
    const checked = await openCheckedDb({ url, role: 'concord_engine' }, { unsafeForTests: true })
    assert.ok(!checked.ok)
    assert.equal(checked.code, 'store.server.login_refused')
    assert.match(checked.reason, /concord_engine/)
  })
})
