/** What an embedded server is refused for, each with what was wrong, where, and what to do; nothing is ever damaged. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chown, mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import path from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import type { Refusal } from '#kernel/refusal'
import { aChild, aHome, aStoppedHome, ask, opened, removePattern, stopped } from '#test/embedded'
import { isAlive } from './postmaster.ts'
import { type EmbeddedOptions, openEmbeddedPostgres } from './server.ts'

after(removePattern)

async function refused(options: EmbeddedOptions): Promise<Refusal> {
  const answer = await openEmbeddedPostgres(options)
  if (!answer.ok) return answer
  await answer.value.stop()
  return assert.fail('it was opened')
}

test('a port that is taken: the refusal names the process; without a wish another port is found', async (t) => {
  const home = await aStoppedHome(t)
  const holder = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => holder.once('listening', resolve))
  t.after(() => holder.close())
  const address = holder.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  const answer = await refused({ home, port })
  assert.equal(answer.code, 'store.port.taken')
  assert.match(answer.reason, new RegExp(`port ${port} .* is taken`))
  if (process.platform === 'linux') assert.equal(answer.facts?.['pid'], process.pid)
  await writeFile(path.join(home, 'postgres.last-start.json'), JSON.stringify({ port, machine: '' }))
  const server = await opened({ home })
  assert.notEqual(server.port, port)
  await stopped(server)
})

test('a data directory of another major version, and one without its password file, are left as they are', async (t) => {
  const home = await aStoppedHome(t)
  for (const port of [0, -1, 65_536, 1.5, Number.NaN])
    assert.equal((await refused({ home, port })).code, 'store.port.invalid')
  await writeFile(path.join(home, 'postgres', 'PG_VERSION'), '15\n')
  const older = await refused({ home })
  assert.equal(older.code, 'store.home.wrong_version')
  assert.match(older.reason, /made by Postgres 15, and this is Postgres 18/)
  await writeFile(path.join(home, 'postgres', 'PG_VERSION'), '18\n')
  await rm(path.join(home, 'postgres.password'))
  const locked = await refused({ home })
  assert.equal(locked.code, 'store.home.not_ours')
  assert.match(locked.reason, /postgres\.password/)
})

test('a folder that Concord did not make is not touched', async (t) => {
  const home = await aHome(t)
  await mkdir(path.join(home, 'postgres'), { recursive: true })
  const stranger = path.join(home, 'postgres', 'thesis.txt')
  await writeFile(stranger, 'ten years of work')
  assert.equal((await refused({ home })).code, 'store.home.not_ours')
  assert.equal(await readFile(stranger, 'utf8'), 'ten years of work')
})

test('a live server of this directory that our password does not open is neither adopted nor disturbed', async (t) => {
  const home = await aStoppedHome(t)
  const server = await opened({ home })
  const file = path.join(home, 'postgres.password')
  const password = await readFile(file, 'utf8')
  await writeFile(file, 'not-the-password\n')
  const answer = await refused({ home })
  assert.equal(answer.code, 'store.home.foreign_server')
  assert.equal(answer.facts?.['pid'], server.pid)
  assert.doesNotMatch(JSON.stringify(answer), /not-the-password/)
  await ask(server.url, 'select')
  await writeFile(file, password)
  await stopped(server)
})

test('kill -9 in the middle of initdb: the next start removes the half and makes it whole', async (t) => {
  const halvesOf = async (home: string) =>
    (await readdir(home).catch(() => [])).filter((name) => /making-\w+$/.test(name))
  const isUnderWay = async (home: string) => {
    const [half] = await halvesOf(home)
    return half !== undefined && (await stat(path.join(home, half, 'PG_VERSION')).catch(() => undefined)) !== undefined
  }
  async function killedInTheMiddle(): Promise<string> {
    for (;;) {
      const home = await aHome(t)
      const child = aChild(t, { home })
      let isOver = false
      child.answer.catch(() => {}).finally(() => (isOver = true))
      while (!isOver && !(await isUnderWay(home))) await wait(2)
      await child.kill()
      if ((await halvesOf(home)).length === 1) return home
      // On a busy machine it may be whole before we look; then another one.
      await stopped(await opened({ home }))
    }
  }
  const home = await killedInTheMiddle()
  const messages: string[] = []
  const server = await opened({ home, log: (message) => messages.push(message) })
  assert.deepEqual(messages, ['removed an unfinished data directory', 'started Postgres'])
  assert.deepEqual(await halvesOf(home), [])
  await ask(server.url, 'select')
  await stopped(server)
})

async function aDeadPid(): Promise<number> {
  const child = spawn(process.execPath, ['-e', ''])
  await new Promise((resolve) => child.once('exit', resolve))
  return child.pid ?? 0
}

async function putPidFile(home: string, text: string): Promise<void> {
  const file = path.join(home, 'postgres', 'postmaster.pid')
  const { uid, gid } = await stat(path.dirname(file))
  await writeFile(file, text, { mode: 0o600 })
  await chown(file, uid, gid)
}

const pidLines = (pid: number, home: string) =>
  `${pid}\n${home}/postgres\n1700000000\n15999\n\n127.0.0.1\n  1 2\nready   \n`

test('a pid file that is stale, or names a program that is no server, or is empty', async (t) => {
  const home = await aStoppedHome(t)
  await putPidFile(home, pidLines(await aDeadPid(), home))
  const server = await opened({ home })
  assert.equal(server.isAttached, false)
  await stopped(server)

  await putPidFile(home, pidLines(process.pid, home))
  // Postgres itself passes over the number of its parent, which we are.
  const other = await opened({ home })
  assert.equal(other.isAttached, false)
  await stopped(other)

  await putPidFile(home, '')
  const answer = await refused({ home })
  assert.equal(answer.code, 'store.home.busy')
  assert.match(answer.reason, /lock file "postmaster\.pid" is empty/)
  assert.match(answer.hint ?? '', /remove .*postmaster\.pid/)
  await stat(path.join(home, 'postgres', 'postmaster.pid'))
})

test('a server that does not flush is adopted by tests alone', async (t) => {
  const home = await aStoppedHome(t)
  const unsafe = await opened({ home, unsafeForTests: true })
  const answer = await refused({ home })
  assert.equal(answer.code, 'store.server.unsafe_settings')
  assert.deepEqual(answer.facts?.['unsafe'], ['fsync=off', 'full_page_writes=off', 'synchronous_commit=off'])
  assert.equal(await isAlive(unsafe.pid), true, 'it is somebody else’s and stays')
  await stopped(unsafe)
})

test('settings of the role count too, and a server that we started and may not use does not stay behind', async (t) => {
  const home = await aStoppedHome(t)
  const server = await opened({ home })
  await ask(server.superuserUrl, 'alter role concord_service set synchronous_commit = off')
  await stopped(server)
  assert.deepEqual((await refused({ home })).facts?.['unsafe'], ['synchronous_commit=off'])
  await assert.rejects(stat(path.join(home, 'postgres', 'postmaster.pid')), { code: 'ENOENT' })
})

test('a home that is a file, and a start that Postgres refuses', async (t) => {
  const home = await aStoppedHome(t)
  const answer = await refused({ home: path.join(home, 'postgres.password') })
  assert.equal(answer.code, 'store.home.not_writable')
  await writeFile(path.join(home, 'postgres', 'postgresql.conf'), 'no_such_setting = 1\n')
  const failed = await refused({ home })
  assert.equal(failed.code, 'store.server.start_failed')
  assert.match(failed.reason, /no_such_setting/)
})

test('a writable place that accepts no folders is refused immediately, without endless retries', async () => {
  const answer = await openEmbeddedPostgres({ home: '/proc/concord-home' })
  assert.ok(!answer.ok)
  assert.equal(answer.code, 'store.home.not_writable')
})
