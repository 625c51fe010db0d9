/** SQL: reads work, and two hundred statements that want to write are refused by the database, for a reading and for a writing login. */
import assert from 'node:assert/strict'
import { type AddressInfo, connect, createServer } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { openDb } from '#store'
import { openGateOn, type TestGate, testSecrets } from '#test/connectors'
import { openTestDb, type TestDb } from '#test/database'
import { onTestServer } from '#test/postgres'
import { hostileStatements } from '#test/hostile-sql'
import { selfSigned } from '#test/self-signed'
import { postgresConnector } from './postgres-connector.ts'
import { runSql } from './run-sql.ts'

const signal = new AbortController().signal

describe('postgres connector', () => {
  let opened: TestDb
  let target: TestDb
  let gate: TestGate
  const reader = `con_reader_${process.pid}`
  const writer = `con_writer_${process.pid}`
  const urls = new Map<string, string>()

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    target = await openTestDb({ migrated: false })
    for (const role of [reader, writer]) {
      await onTestServer((client) => client.query(`create role ${role} login password 'canary-pass-${role}'`))
      const url = new URL(target.url)
      url.username = role
      url.password = `canary-pass-${role}`
      urls.set(role, url.href)
    }
    await target.db.query(`create table accounts (id int primary key, owner text not null, balance numeric not null)`)
    await target.db.query(`insert into accounts select n, 'owner ' || n, n * 10 from generate_series(1, 50) n`)
    await target.db.query(`create sequence counter`)
    await target.db.query(
      `create function pay() returns int language sql security definer as 'update accounts set balance = balance + 1 returning 1'`,
    )
    await target.db.query(`create view rich as select * from accounts where balance > 400`)
    await target.db.query(`grant select on accounts, rich to ${reader}, ${writer}`)
    await target.db.query(
      `grant insert, update, delete, truncate on accounts to ${writer}; grant all on sequence counter to ${writer}`,
    )
    await target.db.query(`grant create, usage on schema public to ${writer}`)
    gate = await openGateOn(
      opened.db,
      [
        ['reader', 'reader', 60_000] as const,
        ['writer', 'writer', 60_000] as const,
        ['hurried', 'reader', 2_000] as const,
      ].map(([name, secret, timeout_ms]) =>
        postgresConnector({
          name,
          description: 'A database.',
          secret_ref: `vault://${secret}`,
          rows_max: 10,
          timeout_ms,
          output_max_bytes: 65_536,
        }),
      ),
      testSecrets({ reader: urls.get(reader) ?? '', writer: urls.get(writer) ?? '' }),
    )
  })
  after(async () => {
    await gate.close()
    await opened.close()
    await target.db.query(`drop owned by ${reader}, ${writer}`)
    await target.close()
    for (const role of [reader, writer]) await onTestServer((client) => client.query(`drop role ${role}`))
  })

  test('[CON-15] run_sql reads rows, with parameters apart from the text, up to its limit', async () => {
    const found = await gate.call('reader', 'run_sql', {
      sql: 'select id, owner, balance, balance > $2::int as rich, null as nothing from accounts where owner = $1',
      params: ['owner 7', 50],
    })
    assert.deepEqual(found.output, {
      columns: ['id', 'owner', 'balance', 'rich', 'nothing'],
      rows: [[7, 'owner 7', '70', true, null]],
      row_count: 1,
      truncated: false,
    })
    const many = await gate.call('reader', 'run_sql', { sql: 'select id from accounts order by id' })
    const { row_count, truncated } = many.output as { row_count: number; truncated: boolean }
    assert.deepEqual([row_count, truncated], [10, true])
    const injected = await gate.call('reader', 'run_sql', {
      sql: 'select count(*)::int from accounts where owner = $1',
      params: ["x' or '1'='1'; drop table accounts; --"],
    })
    assert.deepEqual((injected.output as { rows: number[][] }).rows, [[0]])
  })

  test('[SEC-06] parameters and rows are not on the record of the call, and the password is nowhere', async () => {
    const rows = await gate.invocations()
    const text = JSON.stringify(rows)
    assert.ok(rows.length > 0)
    assert.ok(!text.includes('owner 7') && !text.includes('canary-pass'))
    assert.deepEqual(rows[0]?.request_payload['params'], ['[pii]', '[pii]'])
  })

  test('time and size have their limits', async () => {
    const slow = await gate.call('hurried', 'run_sql', { sql: 'select pg_sleep(30)' })
    assert.deepEqual([slow.error?.error_class, slow.error?.happened], ['timeout', 'no'])
    const large = await gate.call('reader', 'run_sql', { sql: `select repeat('x', 100000000)` })
    assert.equal(large.ok, false)
    const deep = await gate.call('reader', 'run_sql', { sql: `select repeat('x', 70000)` })
    assert.equal(deep.ok, false)
  })

  test('the limit of size holds behind TLS, where the socket itself sees nothing', async () => {
    const real = new URL(urls.get(reader) ?? '')
    let passedBytes = 0
    const front = createServer((socket) => {
      // A client asks for TLS in the clear, and goes on in it after an S.
      socket.once('data', () => {
        socket.write('S')
        const inner = new TLSSocket(socket, { isServer: true, ...selfSigned('localhost') })
        const behind = connect(Number(real.port), decodeURIComponent(real.hostname))
        behind.on('data', (chunk) => (passedBytes += chunk.length))
        for (const each of [inner, behind, socket]) each.on('error', () => behind.destroy())
        inner.pipe(behind).pipe(inner)
      })
    })
    await new Promise<void>((done) => front.listen(0, '127.0.0.1', done))
    const url = new URL(real)
    url.host = `127.0.0.1:${(front.address() as AddressInfo).port}`
    url.searchParams.set('sslmode', 'no-verify')
    const run = { params: [], rowsMax: 10, bytesMax: 65_536, timeoutMs: 20_000, signal, checkLogin: false }
    const few = await runSql({ ...run, url: url.href, sql: 'select 1 as one' })
    assert.deepEqual(few.rows, [[1]])
    const large = runSql({ ...run, url: url.href, sql: `select repeat('x', 50000000)` })
    await assert.rejects(large, { name: 'ConnectorFailure' })
    assert.ok(passedBytes < 40_000_000, `${passedBytes} bytes were read`)
    await new Promise((done) => front.close(done))
  })

  test('[CON-17] another login behind the same reference is looked at anew', async (t) => {
    const values = { turning: urls.get(reader) ?? '' }
    const turning = postgresConnector({ name: 'turning', description: 'A database.', secret_ref: 'vault://turning' })
    const own = await openGateOn(opened.db, [turning], { vault: () => Promise.resolve(values.turning) }, gate.world)
    t.after(() => own.close())
    assert.equal((await own.call('turning', 'run_sql', { sql: 'select 1' })).ok, true)
    values.turning = urls.get(writer) ?? ''
    assert.equal((await own.call('turning', 'run_sql', { sql: 'select 1' })).error?.error_class, 'permission_denied')
  })

  test('mistakes are told by their code: names and syntax with words, data without', async () => {
    const cases: [string, unknown[], string, RegExp][] = [
      ['select * from nowhere', [], 'validation_error', /42P01.*nowhere/],
      ['selec 1', [], 'validation_error', /42601/],
      ['select 1; select 2', [], 'validation_error', /42601/],
      ['select $1::int', ['canary-data'], 'validation_error', /^The database refused the statement \(22P02\)\.$/],
      ['select * from pg_authid', [], 'permission_denied', /42501/],
      ['select 1 where false) select', [], 'validation_error', /42601/],
    ]
    for (const [sql, params, errorClass, message] of cases) {
      const result = await gate.call('reader', 'run_sql', { sql, params: params as string[] })
      assert.equal(result.error?.error_class, errorClass, sql)
      assert.match(result.error?.message ?? '', message)
    }
  })

  test('[CON-17] a login that can write is not used at all', async () => {
    const result = await gate.call('writer', 'run_sql', { sql: 'select 1' })
    assert.deepEqual([result.error?.error_class, result.error?.happened], ['permission_denied', 'no'])
    assert.match(result.error?.message ?? '', /select rights only/)
  })

  const statements = hostileStatements()

  test(`${statements.length} hostile statements write nothing: as a reading login, as a writing one and as the owner`, async () => {
    assert.ok(statements.length >= 200, String(statements.length))
    const before = await fingerprint()
    const owner = target.url
    for (const url of [urls.get(reader) ?? '', urls.get(writer) ?? '', owner]) {
      let refused = 0
      for (const sql of statements) {
        const run = { url, sql, params: [], rowsMax: 10, bytesMax: 65_536, timeoutMs: 1_000, signal, checkLogin: false }
        await runSql(run).catch(() => {
          refused += 1
        })
      }
      assert.deepEqual(await fingerprint(), before)
      // Control: what is only read must get through, or the count above would mean nothing.
      assert.ok(refused < statements.length && refused > statements.length * 0.8, `${refused} of ${statements.length}`)
    }
  })

  /** Everything that a statement could have changed, and nothing of what other tests do on the same server: rows, tables, sequences, functions, roles, settings, large objects. */
  async function fingerprint(): Promise<unknown> {
    const db = openDb({ url: target.url, poolMax: 1 })
    try {
      return await db.query(`select
        (select md5(string_agg(a::text, '|' order by id)) from accounts a) as accounts,
        (select string_agg(relname || relkind::text || relacl::text, ',' order by relname) from pg_class where relnamespace = 'public'::regnamespace) as tables,
        (select last_value::text || is_called::text from counter) as counter,
        (select string_agg(proname, ',' order by oid) from pg_proc where oid > 16384) as functions,
        (select string_agg(r::text, ',' order by rolname) from pg_roles r where rolname in ('${reader}', '${writer}') or rolname like 'evil%') as roles,
        (select count(*) from pg_database where datname like 'evil%') as databases,
        (select string_agg(nspname, ',' order by oid) from pg_namespace where nspname not like 'pg_t%') as schemas,
        (select count(*) from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase where d.datname = current_database()) as settings, (select count(*) from pg_largeobject_metadata) as large_objects,
        (select count(*) from pg_extension) as extensions, (select count(*) from pg_trigger) as triggers,
        (select count(*) from pg_prepared_xacts where gid = 'evil') as prepared, (select count(*) from pg_replication_slots where slot_name = 'evil') as slots,
        (select count(*) from pg_event_trigger) as event_triggers, (select string_agg(comment.description, ',') from pg_description comment where objoid = 'accounts'::regclass) as comments`)
    } finally {
      await db.close()
    }
  }
})
