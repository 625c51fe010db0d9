/** The helper programs of the examples, as a newcomer uses them. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { freePort } from '#test/concord-process'
import { until } from '#test/until'

function start(t: TestContext, program: string, args: readonly string[], env: Record<string, string> = {}) {
  const file = fileURLToPath(new URL(program, import.meta.url))
  // Standard input ends at once, as for a background program of a script.
  const child: ChildProcess = spawn(process.execPath, [file, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', ...env },
  })
  t.after(() => child.kill('SIGKILL'))
  let [out, err] = ['', '']
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (out += text))
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (err += text))
  const ended = new Promise<{ code: number | null; out: string; err: string }>((resolve) =>
    child.once('close', (code) => resolve({ code, out, err })),
  )
  return { child, ended, said: () => out }
}

test('the vendor lives without a terminal, and a second one says that its port is taken', async (t) => {
  const port = await freePort()
  const first = start(t, './hotel-vendor.ts', ['--port', port])
  await until(() => first.said().includes('"ready":true'))
  const second = await start(t, './hotel-vendor.ts', ['--port', port]).ended
  assert.equal(second.code, 1)
  assert.match(second.err, new RegExp(`cannot start: port ${port} is taken: .*--port`))
  assert.equal(second.err.includes('    at '), false)
  // Its standard input ended long before the second program failed.
  assert.equal((await fetch(`http://127.0.0.1:${port}/ledger`)).status, 200)
  assert.equal(first.child.exitCode, null)
})

test('hiring without a server says what to do, and nothing on standard output', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'concord-hire-'))
  t.after(() => rm(home, { recursive: true, force: true }))
  const port = await freePort()
  const noKey = await start(t, './hire-approvers.ts', [], { CONCORD_HOME: home }).ended
  assert.deepEqual([noKey.code, noKey.out], [1, ''])
  assert.match(noKey.err, /there is no .*admin\.key\n {2}next {3}start the server first/)
  await writeFile(join(home, 'admin.key'), 'ck_none\n')
  const noServer = await start(t, './hire-approvers.ts', [], { CONCORD_HOME: home, CONCORD_PORT: port }).ended
  assert.deepEqual([noServer.code, noServer.out], [1, ''])
  assert.match(noServer.err, new RegExp(`nothing answers at http://127\\.0\\.0\\.1:${port}\\n.*CONCORD_URL`))
  const wrong = await start(t, './hire-approvers.ts', [], { CONCORD_PROT: '1' }).ended
  assert.match(wrong.err, /Did you mean CONCORD_PORT/)
})

test('hiring asks the server of CONCORD_URL, and passes on what it says', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'concord-hire-'))
  t.after(() => rm(home, { recursive: true, force: true }))
  await writeFile(join(home, 'admin.key'), 'ck_old\n')
  // A server that does not know the key, like any other installation.
  const other = createServer((_request, response) =>
    response.writeHead(401, { 'content-type': 'application/problem+json' }).end('{"detail":"Who are you?"}'),
  ).listen(0, '127.0.0.1')
  await new Promise((resolve) => other.once('listening', resolve))
  t.after(() => other.close())
  const address = other.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  const { code, err } = await start(t, './hire-approvers.ts', [], { CONCORD_HOME: home, CONCORD_URL: url }).ended
  assert.equal(code, 1)
  assert.match(err, /POST \/people at http.*: Who are you\?\n {2}next {3}is .*admin\.key the key of http/)
  assert.equal(err.includes('    at '), false)
})
