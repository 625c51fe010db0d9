/** `concord init` writes a whole project or nothing. That the project works is shown by scripts/pack-check.ts and the tests of the package. */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { test, type TestContext } from 'node:test'
import { runProgram } from './program.ts'

async function aFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'concord-init-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** Not a terminal: nothing can be asked. */
async function init(folder: string, ...args: readonly string[]) {
  let [out, err] = ['', '']
  const code = await runProgram(['init', ...args], {
    out: (text) => (out += text),
    err: (text) => (err += text),
    environment: {},
    folder,
    isTty: false,
    columns: undefined,
    now: () => new Date('2026-05-01T12:00:00.000Z'),
    stdin: () => Readable.from([]),
    stop: new AbortController().signal,
  })
  return { code, out, err }
}

test('init creates a project in a new folder, with the versions of this release', async (t) => {
  const folder = await aFolder(t)
  const { code, out } = await init(folder, 'My Refunds')
  assert.equal(code, 0)
  const made = join(folder, 'My Refunds')
  assert.deepEqual((await readdir(made)).toSorted(), [
    '.editorconfig',
    '.gitignore',
    'concord.config.ts',
    'package.json',
    'refund.test.ts',
    'refund.ts',
    'tsconfig.json',
  ])
  const own = JSON.parse(await readFile('package.json', 'utf8')) as { version: string; dependencies: { zod: string } }
  const { name, dependencies } = JSON.parse(await readFile(join(made, 'package.json'), 'utf8')) as typeof own & {
    name: string
  }
  assert.deepEqual(
    [name, dependencies],
    ['my-refunds', { '@concordhq/concord': own.version, zod: own.dependencies.zod }],
  )
  const guide = await readFile('docs/guides/start-a-project.md', 'utf8')
  for (const name of ['refund.ts', 'refund.test.ts'])
    assert.ok(guide.includes(`\`\`\`ts\n${await readFile(join(made, name), 'utf8')}\`\`\``), `the guide shows ${name}`)
  assert.match(out, /npm install\n.*npm test/s)
})

test('init refuses a folder that has one of its files, and a folder that cannot be made, and writes nothing', async (t) => {
  const folder = await aFolder(t)
  await writeFile(join(folder, 'refund.ts'), 'mine')
  const there = await init(folder, '--json')
  assert.equal(there.code, 64)
  const { error } = JSON.parse(there.err) as { error: Record<string, string> }
  assert.deepEqual([error['code'], error['path']], ['cli.init.exists', join(folder, 'refund.ts')])
  assert.match(error['hint'] ?? '', /concord init <folder>/)

  const below = await init(folder, 'refund.ts/x')
  assert.equal(below.code, 77)
  assert.match(below.err, /cli\.file\.unwritable/)
  assert.deepEqual((await readdir(folder)).toSorted(), ['refund.ts'])
  assert.equal(await readFile(join(folder, 'refund.ts'), 'utf8'), 'mine')
})
