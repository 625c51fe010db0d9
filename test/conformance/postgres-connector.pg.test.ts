/** The Postgres connector under the suite: a real server behind a proxy that misbehaves. */
import { connect, createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { postgresConnector } from '#domains/connectors'
import { testSecrets } from '#test/connectors'
import { openTestDb } from '#test/database'
import { onTestServer } from '#test/postgres'
import { describeConnector } from './connector.case.ts'

type DoorMode = 'open' | 'refuse' | 'garbage' | 'silent'

describeConnector('postgres', async () => {
  const target = await openTestDb({ migrated: false })
  const role = `con_suite_${process.pid}`
  const password = 'canary-sql-0123456789'
  await onTestServer((client) => client.query(`create role ${role} login password '${password}'`))
  const real = new URL(target.url)
  const host = real.searchParams.get('host') ?? real.hostname
  let mode: DoorMode = 'open'
  let letGo = 0
  const sockets = new Set<Socket>()
  const door = createServer((socket) => {
    sockets.add(socket)
    socket
      .on('error', () => {})
      .on('close', () => {
        sockets.delete(socket)
        if (mode === 'silent') letGo += 1
      })
    if (mode === 'refuse') return void socket.destroy()
    if (mode === 'garbage') return void socket.end('HTTP/1.1 400 Bad Request\r\n\r\nno')
    if (mode === 'silent') return void socket.resume()
    const inner = host.startsWith('/')
      ? connect(`${host}/.s.PGSQL.${real.port || '5432'}`)
      : connect(Number(real.port || '5432'), host)
    inner.on('error', () => socket.destroy())
    socket.on('close', () => inner.destroy())
    socket.pipe(inner).pipe(socket)
    return undefined
  })
  await new Promise<void>((done) => door.listen(0, '127.0.0.1', done))
  const { port } = door.address() as AddressInfo
  const url = `postgres://${role}:${password}@127.0.0.1:${port}/${target.name}`
  const declare = (name: string, timeout_ms: number) =>
    postgresConnector({
      name,
      description: 'A database.',
      secret_ref: 'vault://sql',
      rows_max: 5,
      timeout_ms,
      output_max_bytes: 10_000,
    })
  const sql = (text: string, connector?: string) => ({
    capability: 'run_sql',
    input: { sql: text },
    ...(connector ? { connector } : {}),
  })
  const set = (to: DoorMode) => () => {
    mode = to
  }
  return {
    definitions: [declare('sql', 30_000), declare('hurried', 200)],
    secrets: testSecrets({ sql: url }),
    canaries: [password],
    good: sql('select 1 as one'),
    trouble: {
      slow: {
        arrange: set('open'),
        call: sql('select pg_sleep(60)', 'hurried'),
        ends: ['timeout', 'temporary_database_error'],
      },
      failing: { arrange: set('refuse'), call: sql('select 1'), ends: ['temporary_database_error'] },
      lying: { arrange: set('garbage'), call: sql('select 1'), ends: ['temporary_database_error'] },
      duplicated: { arrange: set('open'), call: sql('select 1'), ends: 'ok' },
      hanging: {
        arrange: set('silent'),
        call: sql('select 1', 'hurried'),
        ends: ['timeout', 'temporary_database_error'],
      },
      oversized: {
        arrange: set('open'),
        call: sql(`select repeat('x', 1000000)`),
        ends: ['validation_error', 'temporary_database_error'],
      },
      malformed: { arrange: set('open'), call: sql('selec'), ends: ['validation_error'] },
    },
    echoes: [
      `select current_setting('application_name'), '${password}'`,
      `select '${password}'::int`,
      `select ${password}`,
    ].map((text) => () => Promise.resolve(sql(text))),
    endless: { call: sql('select 1'), arrange: set('silent'), isReleased: () => letGo > 0 },
    behave: set('open'),
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((done) => door.close(done))
      await target.close()
      await onTestServer((client) => client.query(`drop role ${role}`))
    },
  }
})
