/** The steps after a start can be pasted, and the program of a checkout runs from any folder. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { version } from '#app/version'
import { nextSteps, programName } from './up.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
const address = 'http://127.0.0.1:7420'
const home = '/srv/concord data'

test('they go all the way: submit and wait, why, the artifact, the inbox', () => {
  const lines = nextSteps({ environment: {}, folder: ROOT }, { address, home, taskNames: ['Generate Report'] })
  const verbs = lines.slice(1).map((line) => /^\.\/concord ([a-z-]+(?: list| get)?)/.exec(line)?.[1])
  assert.deepEqual(verbs, ['task-types', 'submit', 'why', 'artifacts list', 'artifacts get', 'inbox', 'events'])
  assert.match(lines[2] ?? '', /"Generate Report" --payload '\{.*\}' --wait$/)
})

test('a project without the example task does not mention it; another port is printed', () => {
  const lines = nextSteps(
    { environment: { CONCORD_PORT: '8000' }, folder: ROOT },
    { address, home, taskNames: ['Pay'] },
  )
  assert.equal(
    lines.some((line) => line.includes('submit')),
    false,
  )
  assert.equal(lines[0], `export CONCORD_URL=${address}`)
  assert.equal(lines[2], './concord task-types')
})

test('another data folder is printed too, because it has the key', () => {
  const [first] = nextSteps({ environment: { CONCORD_HOME: 'x' }, folder: ROOT }, { address, home, taskNames: [] })
  assert.equal(first, `export CONCORD_HOME='${home}'`)
  const environment = { CONCORD_HOME: 'x', CONCORD_PORT: '8000' }
  const [both] = nextSteps({ environment, folder: ROOT }, { address, home: '/srv/a', taskNames: [] })
  assert.equal(both, `export CONCORD_URL=${address} CONCORD_HOME=/srv/a`)
})

test('the name of the program: of this checkout, of a checkout elsewhere, of a package', () => {
  assert.equal(programName('file:///home/ana/a%20b/src/cli/next-steps.ts', '/home/ana/a b'), './concord')
  assert.equal(programName('file:///home/ana/a%20b/src/cli/next-steps.ts', '/tmp'), "'/home/ana/a b/concord'")
  assert.equal(programName('file:///opt/concord/dist/cli/next-steps.js', '/tmp'), 'npx concord')
})

const run = (file: string, cwd: string) =>
  new Promise<{ code: unknown; out: string; err: string }>((resolve) => {
    execFile(file, ['--version'], { cwd }, (error, out, err) => resolve({ code: error?.code ?? 0, out, err }))
  })

test('./concord runs from another folder and through a link, and says what is missing before the install', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'concord checkout '))
  t.after(() => rm(folder, { recursive: true, force: true }))
  await symlink(join(ROOT, 'concord'), join(folder, 'link'))
  for (const file of [join(ROOT, 'concord'), join(folder, 'link')])
    assert.deepEqual(await run(file, folder), { code: 0, out: `${version}\n`, err: '' })
  await copyFile(join(ROOT, 'concord'), join(folder, 'concord'))
  const bare = await run(join(folder, 'concord'), '/')
  assert.equal(bare.code, 69)
  assert.match(bare.err, /not installed yet; first run: cd '.*' && npm ci/)
})
