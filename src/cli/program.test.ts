/** The command tree: every usage mistake exits 64 with the nearest right word; the help is pinned word by word. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { Command } from 'commander'
import { Readable } from 'node:stream'
import { kindOf, refusals } from '#refusals'
import { type RefusalCode, refuse } from '#kernel/refusal'
import { createProgram, exitCodeOf, runProgram } from './program.ts'
import type { Terminal } from './terminal.ts'

let folder: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'concord-cli-'))
})
after(() => rm(folder, { recursive: true, force: true }))

async function run(args: readonly string[], environment: Record<string, string> = {}, instead: Partial<Terminal> = {}) {
  const text = { out: '', err: '' }
  const terminal: Terminal = {
    out: (line) => (text.out += line),
    err: (line) => (text.err += line),
    environment,
    folder,
    isTty: false,
    columns: undefined,
    now: () => new Date('2026-05-01T12:00:00.000Z'),
    zone: 'UTC',
    stdin: () => Readable.from([]),
    stop: new AbortController().signal,
    ...instead,
  }
  return { code: await runProgram(args, terminal), ...text }
}

describe('usage', () => {
  for (const [args, said] of [
    [['evnts'], /Did you mean events/],
    [['keys', 'revke', 'x'], /Did you mean revoke/],
    [['command-schedules', 'list'], /Did you mean schedules\?/],
    [['jobs', 'schedule', 'list'], /Did you mean schedules\?/],
    [['keys', 'create'], /--name/],
    [['keys', 'create', '--name', 'x', '--roel', 'y'], /Did you mean --role/],
    [
      ['keys', 'create', '--nmae', 'x'],
      /Unknown option '--nmae'\.\n {2}next {3}Did you mean --name\? `concord keys create --help`/,
    ],
    [['keys', 'create', '--nmae=x'], /Unknown option '--nmae'/],
    [['propose', 'x', '--raeson', 'y'], /Did you mean --reason/],
    [
      ['submit'],
      /Missing required argument 'task'\.\n {2}next {3}`concord submit --help` shows how\.\n {2}code {3}cli\.usage/,
    ],
    [['keys', 'create', '--name'], /argument missing/],
    [['migrate', 'down', '--to', 'abc', '--yes'], /number of a migration/],
    [['migrate', 'down', '--to', '3'], /Add --yes/],
    [['keys', 'revoke', 'key_1'], /Add --yes/],
  ] as const) {
    test(`concord ${args.join(' ')} exits 64`, async () => {
      const { code, err, out } = await run(args)
      assert.equal(code, 64, err)
      assert.match(err, said)
      assert.equal(out, '')
    })
  }

  test('a usage mistake is JSON where JSON was asked for', async () => {
    const { code, err } = await run(['keys', 'create', '--nmae', 'x', '--json'])
    assert.equal(code, 64)
    const { error } = JSON.parse(err) as { error: { code: string; message: string; hint: string } }
    assert.deepEqual([error.code, error.message], ['cli.usage', "Unknown option '--nmae'."])
    assert.match(error.hint, /--name/)
  })

  test('a noun without its verb shows the help to people, and a refusal to programs', async () => {
    for (const args of [[], ['keys'], ['memory', 'consent']]) {
      const shown = await run(args)
      assert.deepEqual([shown.code, shown.out], [64, ''])
      assert.match(shown.err, /^Usage: concord/)
      const { code, err, out } = await run([...args, '--json'])
      assert.deepEqual([code, out], [64, ''])
      const { error } = JSON.parse(err) as { error: { code: string; hint: string } }
      assert.deepEqual(
        [error.code, error.hint],
        ['cli.usage', `\`${['concord', ...args].join(' ')} --help\` shows how.`],
      )
    }
  })

  test('a fault is JSON where JSON was asked for, and names a next step', async () => {
    // A folder that is not a string is a programming error; a user cannot cause it.
    const broken = { folder: undefined as unknown as string }
    for (const args of [['doctor'], ['doctor', '--json']]) {
      const { code, err } = await run(args, {}, broken)
      assert.equal(code, 70)
      assert.match(err, /concord doctor/)
      if (args.includes('--json')) assert.match(err, /^\{"error":\{"code":"internal_error"/)
    }
  })

  test('the help of a noun has no heading of the program', async () => {
    assert.doesNotMatch((await run(['keys', '--help'])).out, /Run the service/)
  })

  test('help has priority over a mistake, and a negative number is not a flag', async () => {
    const { code, out } = await run(['keys', 'create', '--nmae', 'x', '--help'])
    assert.equal(code, 0)
    assert.match(out, /Usage: concord keys create/)
    assert.doesNotMatch((await run(['jobs', 'show', '-5'])).err, /Unknown option/)
  })

  test('completion prints a script that bash reads, made of the command tree', async () => {
    const { code, out, err } = await run(['completion', 'bash'])
    assert.equal(code, 0, err)
    const complete = (line: string) => {
      const words = line.split(' ')
      const asked = `COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}`
      const bash = spawnSync('bash', ['--norc', '-c', `${out}\n${asked}; _concord; echo "\${COMPREPLY[@]}"`], {
        encoding: 'utf8',
      })
      assert.equal(bash.stderr, '')
      return bash.stdout.trim()
    }
    assert.equal(complete('concord comm'), 'commands')
    assert.equal(complete('concord commands s'), 'show')
    assert.equal(complete('concord commands list --st'), '--status')
    assert.equal(complete('concord jobs schedules e'), 'enable')
    assert.equal(complete('concord commands show commands --js'), '--json')
    for (const shell of ['zsh', 'fish']) assert.match((await run(['completion', shell])).out, / jobs schedules/)
    const wrong = await run(['completion', 'bsh'])
    assert.deepEqual([wrong.code, wrong.out], [64, ''])
    assert.match(wrong.err, /Did you mean `bash`/)
  })

  test('help and version exit 0', async () => {
    assert.equal((await run(['--help'])).code, 0)
    assert.match((await run(['--version'])).out, /^\d+\.\d+\.\d+\n$/)
  })
})

describe('answers', () => {
  test('a server that is not there exits 69 and says how to start one, in words and in JSON', async () => {
    const environment = { CONCORD_KEY: 'ck_x', CONCORD_URL: 'http://127.0.0.1:9' }
    const words = await run(['keys', 'list'], environment)
    assert.equal(words.code, 69)
    assert.match(words.err, /concord up/)
    for (const args of [
      ['--json', 'keys', 'list'],
      ['keys', 'list', '--json'],
      ['keys', '--json', 'list'],
    ]) {
      const json = await run(args, environment)
      assert.equal((JSON.parse(json.err) as { error: { code: string } }).error.code, 'app.server.unreachable')
    }
  })

  test('without any key the answer names the variable and the file', async () => {
    const { code, err } = await run(['keys', 'list'])
    assert.equal(code, 77)
    assert.match(err, /CONCORD_KEY/)
    assert.match(err, /admin\.key/)
  })

  test('a broken setting exits 78 before anything is opened', async () => {
    for (const environment of [{ CONCORD_PORT: '0' }, { CONCORD_HMOE: 'x' }, { CONCORD_LOG_LEVEL: 'loud' }]) {
      for (const args of [['up'], ['doctor'], ['migrate', 'status'], ['keys', 'list']]) {
        assert.equal((await run(args, environment)).code, 78, `${args.join(' ')} ${JSON.stringify(environment)}`)
      }
    }
  })

  test('an invalid DATABASE_URL exits 78 and never shows its password', async () => {
    for (const url of ['not a url', 'mysql://u:hunter2@h/db', 'postgres://u:hunter2@h', 'postgres://u:hun%ter2@h/db']) {
      const { code, err } = await run(['migrate', 'status'], { DATABASE_URL: url })
      assert.equal(code, 78, err)
      assert.ok(!err.includes('hunter2') && !err.includes('hun%ter2'), err)
    }
  })

  test('settings are listed in words and in JSON', async () => {
    assert.match((await run(['doctor', '--settings'])).out, /CONCORD_PORT\s+7420[^]*OTEL_EXPORTER_OTLP_ENDPOINT\s+http/)
    const json = JSON.parse((await run(['--json', 'doctor', '--settings'])).out) as { settings: { variable: string }[] }
    assert.ok(json.settings.some((setting) => setting.variable === 'DATABASE_URL'))
  })

  test('every refusal code has an exit code between 64 and 78', () => {
    for (const code of Object.keys(refusals) as RefusalCode[]) {
      const exit = exitCodeOf(refuse(code, 'x'))
      assert.ok(exit >= 64 && exit <= 78, `${code} (${kindOf(code)}) exits ${exit}`)
    }
  })
})

/** Change the help on purpose: run with `PIN=accept`, look at the difference, commit it. */
test('the help of every command is as pinned', () => {
  const pin = new URL('../../test/tidy/pins/cli-help.txt', import.meta.url)
  const terminal: Terminal = {
    out() {},
    err() {},
    environment: {},
    folder: '/',
    isTty: false,
    columns: undefined,
    now: () => new Date('2026-05-01T12:00:00.000Z'),
    zone: 'UTC',
    stdin: () => Readable.from([]),
    stop: new AbortController().signal,
  }
  const pages: string[] = []
  const collect = (command: Command, path: string) => {
    pages.push(`# ${path}\n${command.configureHelp({ helpWidth: 100 }).helpInformation()}`)
    for (const child of command.commands) collect(child, `${path} ${child.name()}`)
  }
  collect(createProgram(terminal).program, 'concord')
  const help = pages.join('\n')
  if (process.env['PIN'] === 'accept') writeFileSync(pin, help)
  assert.equal(help, readFileSync(pin, 'utf8'))
})
