/** Payloads from flags, files and standard input: what cannot be read exits 65 or 77 with its name, before anything is sent. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { kindOf } from '#refusals'
import { runAgainst } from '#test/recorded-server'
import { exitCodeOf } from './program.ts'
import { refuseUnreadable } from './json-source.ts'

let folder: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'concord-json-'))
  await mkdir(join(folder, 'a-folder'))
  await writeFile(join(folder, 'empty.json'), '')
  await writeFile(join(folder, 'blank.json'), ' \n')
  await writeFile(join(folder, 'list.json'), '[1]')
  await writeFile(join(folder, 'twice.json'), '{"a":{"b":1,"b":2}}')
  await writeFile(join(folder, 'latin.json'), Buffer.from([0x7b, 0xe9, 0x7d]))
  await writeFile(join(folder, 'marked.json'), '\ufeff{"order":"17"}')
  await writeFile(join(folder, 'huge.json'), '')
  await truncate(join(folder, 'huge.json'), 2 ** 31)
  await writeFile(join(folder, 'exact.json'), `{"a":"${'x'.repeat(1_048_576 - 8)}"}`)
  await writeFile(join(folder, 'over.json'), `{"a":"${'x'.repeat(1_048_576 - 7)}"}`)
})
after(() => rm(folder, { recursive: true, force: true }))

const submit = (...args: string[]) =>
  runAgainst({ 'POST /commands': { command_id: 'cmd_1', status: 'queued' } }, ['--json', 'submit', 'T', ...args], {
    folder,
  })

describe('a payload', () => {
  for (const [file, code] of [
    ['missing.json', 'cli.file.invalid'],
    ['a-folder', 'cli.file.invalid'],
    ['empty.json/inside', 'cli.file.invalid'],
    ['empty.json', 'body_missing'],
    ['blank.json', 'body_missing'],
    ['list.json', 'json_not_object'],
    ['twice.json', 'json_duplicate_key'],
    ['latin.json', 'invalid_unicode'],
    ['huge.json', 'body_too_large'],
    ['over.json', 'body_too_large'],
    ['/dev/zero', 'body_too_large'],
    ['/dev/null', 'body_missing'],
  ] as const) {
    test(`--file ${file} exits 65 as ${code}, with its name`, async () => {
      const { code: exit, err, heard } = await submit('--file', file)
      const { error } = JSON.parse(err) as { error: { code: string; path: string; message: string; hint?: string } }
      assert.deepEqual([exit, error.code, heard.length], [65, code, 0])
      assert.ok(error.path.startsWith(file) && error.message.includes(file), err)
      assert.ok(error.hint)
    })
  }

  test('a file that this user may not read exits 77 with its name', () => {
    const refusal = refuseUnreadable('secret.json', 'EACCES')
    assert.deepEqual([exitCodeOf(refusal), refusal.path, kindOf(refusal.code)], [77, 'secret.json', 'forbidden'])
    assert.match(refusal.reason, /secret\.json/)
  })

  test('a file in a subfolder is read; a byte order mark is removed; 1 MiB is accepted', async () => {
    const { code, heard, err } = await submit('--file', 'marked.json')
    assert.equal(code, 0, err)
    assert.deepEqual(heard[0]?.body, { task_name: 'T', payload: { order: '17' } })
    assert.equal((await submit('--file', 'exact.json')).code, 0)
  })

  test('--payload is guarded like a body, and the place is named', async () => {
    const { code, err, heard } = await submit('--payload', '{"a":{"__proto__":1}}')
    assert.deepEqual([code, heard.length], [65, 0])
    assert.match(err, /--payload: a\.__proto__/)
    assert.match((await submit('--payload', '{a:1}')).err, /Line 1, column 2/)
  })
})

test('standard input comes from the terminal that the command was given', async () => {
  const { code, heard } = await runAgainst(
    { 'POST /commands': { command_id: 'cmd_1', status: 'queued' } },
    ['--json', 'submit', 'T', '-'],
    { folder, stdin: '{"order":"18"}' },
  )
  assert.equal(code, 0)
  assert.deepEqual(heard[0]?.body, { task_name: 'T', payload: { order: '18' } })
})

/** Runs the real program, because standard input belongs to the process. No server answers, which the exit code shows. */
describe('standard input', () => {
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const pipe = (text: string, ...args: string[]) =>
    new Promise<{ code: number | null; err: string }>((resolve) => {
      const child = spawn(process.execPath, [main, '--json', 'submit', 'T', ...args], {
        env: { PATH: process.env['PATH'], CONCORD_KEY: 'ck_x', CONCORD_URL: 'http://127.0.0.1:9' },
        cwd: folder,
      })
      let err = ''
      child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
      child.on('close', (code) => resolve({ code, err }))
      child.stdin.on('error', () => undefined)
      child.stdin.end(text)
    })

  for (const args of [['-'], ['--file', '-']]) {
    test(`${args.join(' ')} reads it`, async () => {
      assert.equal((await pipe('{"a":1}', ...args)).code, 69)
      const empty = await pipe('', ...args)
      assert.equal(empty.code, 65)
      assert.match(empty.err, /body_missing.*standard input/)
      assert.match((await pipe('x'.repeat(2_000_000), ...args)).err, /body_too_large/)
    })
  }
})
