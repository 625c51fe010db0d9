/** The embedded server as a user meets it: first start, next start, crashes of both sides, two openers, the end. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { aChild, aHome, aStoppedHome, ask, opened, removePattern, stopped } from '#test/embedded'
import { migrateUp } from '../migrate.ts'
import { isAlive } from './postmaster.ts'

after(removePattern)

test('the first start makes a safe server, and stop leaves no process', async (t) => {
  const home = await aHome(t, "a home with spaces, ünïcode and a 'quote'")
  const server = await opened({ home })
  assert.equal(server.isAttached, false)
  assert.equal(Math.floor(server.version / 10_000), 18)
  assert.deepEqual(await ask(server.url, 'select current_database() as database'), [{ database: 'concord' }])
  const [settings] = await ask(
    server.superuserUrl,
    `
    select current_setting('data_checksums') as checksums, current_setting('fsync') as fsync,
           current_setting('full_page_writes') as pages, current_setting('synchronous_commit') as sync,
           current_setting('server_encoding') as encoding, datlocale as locale,
           current_setting('listen_addresses') as listens, current_setting('unix_socket_directories') as sockets
      from pg_database where datname = 'concord'`,
  )
  assert.deepEqual(settings, {
    checksums: 'on',
    fsync: 'on',
    pages: 'on',
    sync: 'on',
    encoding: 'UTF8',
    locale: 'C.UTF-8',
    listens: '127.0.0.1',
    sockets: '',
  })
  assert.equal(await stopped(server), 'stopped')
  assert.equal(await isAlive(server.pid), false)
  await assert.rejects(ask(server.url, 'select'), { code: 'ECONNREFUSED' })
  assert.deepEqual(
    (await readdir(home)).filter((name) => name.includes('making')),
    [],
  )
})

test('only the owner can read the password, and no login works without it', async (t) => {
  const home = await aStoppedHome(t)
  const server = await opened({ home })
  for (const name of ['postgres.password', 'postgres.service-password']) {
    const file = path.join(home, name)
    assert.equal((await stat(file)).mode & 0o777, 0o600)
    assert.match((await readFile(file, 'utf8')).trim(), /^[\w-]{43}$/, '32 bytes as base64url')
  }
  const rules = await ask<{ method: string }>(
    server.superuserUrl,
    'select distinct auth_method as method from pg_hba_file_rules',
  )
  assert.deepEqual(rules, [{ method: 'scram-sha-256' }])
  const stored = await ask<{ hash: string }>(
    server.superuserUrl,
    `select rolpassword as hash from pg_authid where rolname in ('concord', 'concord_service')`,
  )
  assert.equal(stored.length, 2)
  for (const { hash } of stored) assert.match(hash, /^SCRAM-SHA-256\$/)
  for (const guess of ['', 'password', 'postgres', 'concord']) {
    const url = new URL(server.url)
    url.password = guess
    await assert.rejects(ask(url.href, 'select'), `the password "${guess}" must not open the server`)
  }
  await stopped(server)
})

test('the login of the service owns its database and nothing more: it is no superuser and reads no files', async (t) => {
  const home = await aStoppedHome(t)
  const server = await opened({ home })
  const secret = path.join(home, 'secret')
  await writeFile(secret, 'for the owner of the home alone', { mode: 0o600 })
  const migrated = await migrateUp(server.url)
  assert.ok(migrated.ok && migrated.value.steps.length > 0)
  for (const role of ['concord_engine', 'none']) {
    const asRole = (text: string) => ask(server.url, `set role ${role}; ${text}`)
    for (const text of [
      `select pg_read_file('${secret}')`,
      `create table stolen (line text); copy stolen from '${secret}'`,
      `copy (select 1) to program 'true'`,
      `select rolpassword from pg_authid`,
      `grant pg_read_server_files to current_user`,
      `create role root superuser`,
      `alter role concord password 'x'`,
      `set role concord`,
    ])
      await assert.rejects(asRole(text), { code: '42501' }, `${role}: ${text}`)
  }
  const [who] = await ask(
    server.url,
    `select rolname, rolsuper, rolreplication, rolbypassrls from pg_roles where rolname = session_user`,
  )
  assert.deepEqual(who, { rolname: 'concord_service', rolsuper: false, rolreplication: false, rolbypassrls: false })
  assert.equal(await stopped(server), 'stopped')
})

test('a lost password of the service is made anew; the superuser’s opens the way', async (t) => {
  const home = await aStoppedHome(t)
  const file = path.join(home, 'postgres.service-password')
  const before = await readFile(file, 'utf8')
  await rm(file)
  const server = await opened({ home })
  assert.notEqual(await readFile(file, 'utf8'), before)
  await ask(server.url, 'select')
  assert.equal(await stopped(server), 'stopped')
})

test('after the parent was killed the next one adopts the running server, with its data and its port', async (t) => {
  const home = await aStoppedHome(t)
  const parent = aChild(t, { home })
  const first = await parent.answer
  assert.ok(first.ok)
  await ask(first.value.url, 'create table kept (id int)')
  await parent.kill()
  assert.equal(await isAlive(first.value.pid), true, 'the postmaster outlives its parent')
  const second = await opened({ home })
  assert.deepEqual([second.isAttached, second.pid, second.url], [true, first.value.pid, first.value.url])
  await ask(second.url, 'insert into kept values (1)')
  assert.equal(await stopped(second), 'stopped')
})

test('after kill -9 of the postmaster the next start recovers what was acknowledged, on the same port', async (t) => {
  const home = await aStoppedHome(t)
  const first = await opened({ home })
  await ask(first.url, 'create table kept as select generate_series(1, 1000) as id')
  process.kill(first.pid, 'SIGKILL')
  // The first handle is still held: a program that notices the death of its server opens the home again.
  const second = await opened({ home })
  assert.notEqual(second.pid, first.pid)
  assert.deepEqual([second.isAttached, second.port], [false, first.port])
  assert.deepEqual(await ask(second.url, 'select count(*)::int as kept from kept'), [{ kept: 1000 }])
  assert.equal(await stopped(first), 'left_to_others')
  assert.equal(await stopped(second), 'stopped')
})

test('two processes open one home at once: one starts, one adopts, and only the last one stops it', async (t) => {
  const home = await aHome(t)
  const children = [aChild(t, { home }), aChild(t, { home })] as const
  const answers = await Promise.all(children.map((child) => child.answer))
  const servers = answers.map((answer) => {
    assert.ok(answer.ok)
    return answer.value
  })
  assert.deepEqual(
    servers.map((server) => server.isAttached).sort((one, other) => Number(one) - Number(other)),
    [false, true],
  )
  assert.equal(servers[0]?.pid, servers[1]?.pid)
  assert.deepEqual(await children[0].stop(), { ok: true, value: 'left_to_others' })
  await ask(servers[1]?.url ?? '', 'select')
  assert.deepEqual(await children[1].stop(), { ok: true, value: 'stopped' })
  assert.equal(await isAlive(servers[0]?.pid ?? 0), false)
})

test('a process that opens the home twice and closes one of them still counts as a user', async (t) => {
  const home = await aStoppedHome(t)
  const [first, second] = [await opened({ home }), await opened({ home })]
  const child = aChild(t, { home })
  assert.ok((await child.answer).ok)
  assert.deepEqual(await child.stop(), { ok: true, value: 'left_to_others' })
  assert.equal(await stopped(first), 'left_to_others')
  const other = aChild(t, { home })
  assert.ok((await other.answer).ok)
  assert.deepEqual(await other.stop(), { ok: true, value: 'left_to_others' })
  await ask(second.url, 'select')
  assert.equal(await stopped(second), 'stopped')
})

test('a killed server counts as stopped, and a process that reuses its number is not touched', async (t) => {
  const home = await aStoppedHome(t)
  const server = await opened({ home })
  process.kill(server.pid, 'SIGKILL')
  while (await isAlive(server.pid)) await wait(10)
  const stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  t.after(() => stranger.kill('SIGKILL'))
  const pidFile = path.join(server.dataDir, 'postmaster.pid')
  const lines = (await readFile(pidFile, 'utf8')).split('\n')
  await writeFile(pidFile, [String(stranger.pid), ...lines.slice(1)].join('\n'))
  assert.equal(await stopped(server), 'stopped')
  assert.deepEqual([stranger.exitCode, stranger.signalCode, await isAlive(stranger.pid ?? 0)], [null, null, true])
})

test('a user that was killed counts no more: the last living one stops the server', async (t) => {
  const home = await aStoppedHome(t)
  const child = aChild(t, { home })
  assert.ok((await child.answer).ok)
  const server = await opened({ home })
  await child.kill()
  assert.equal(await stopped(server), 'stopped')
  assert.equal(await stopped(server), 'stopped', 'a second stop is the same stop')
})
