/** `concord dev` as a real program: a change restarts it on the same database, and a mistake is shown with its place. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { endProcess, freePort, spawnConcord } from '#test/concord-process'
import { until } from '#test/until'

const index = JSON.stringify(new URL('../index.ts', import.meta.url).href)

/** A project that defines one command of this name. */
const configOf = (name: string) => `import { allow, defineCommand, defineEffect } from ${index}
import { z } from 'zod'
const put = defineEffect('work.put', { input: z.object({ id: z.string() }), class: 'read', do: async () => ({}) })
const command = defineCommand('${name}', { input: put.input, policy: () => allow(), steps: (input) => [put(input)] })
export default { catalog: [command] }
`

async function aFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'concord-dev-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  return folder
}

test('a change restarts the program on the same Postgres, and a mistake is shown until it is fixed', async (t) => {
  const folder = await aFolder(t)
  const config = join(folder, 'concord.config.ts')
  await symlink(join(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))
  await writeFile(config, configOf('first'))
  const running = spawnConcord(['dev', '--json'], { env: { CONCORD_PORT: await freePort() }, cwd: folder })
  t.after(() => endProcess(running))
  let out = ''
  let err = ''
  running.child.stdout?.on('data', (text: string) => (out += text))
  running.child.stderr?.setEncoding('utf8').on('data', (text: string) => (err += text))
  const starts = () => out.split('\n').filter((line) => line.includes('"ready":true'))
  const postgres = async () => (await readFile(join(folder, '.concord/postgres/postmaster.pid'), 'utf8')).split('\n')[0]
  await until(() => starts().length === 1, 'the first start')
  const { address, key_file } = JSON.parse(starts()[0] ?? '{}') as { address: string; key_file: string }
  const headers = { authorization: `Bearer ${(await readFile(key_file, 'utf8')).trim()}` }
  const tasks = async () =>
    (await (await fetch(`${address}/task-types`, { headers })).text()).match(/"(first|second)"/)?.[1]
  assert.equal(await tasks(), 'first')
  const pid = await postgres()

  await writeFile(join(folder, 'not-a-source.txt'), 'x')
  await writeFile(config, configOf('second'))
  await until(() => starts().length === 2, 'the restart')
  assert.equal(await tasks(), 'second')
  assert.equal(await postgres(), pid)

  await writeFile(config, 'export default {\n  catalog = [],\n}\n')
  await until(() => err.includes('app.project.invalid'), 'the mistake')
  assert.ok(err.includes(`${config}:2: `), err)
  await writeFile(config, configOf('first'))
  await until(() => starts().length === 3, 'the start after the mistake')
  assert.equal(await tasks(), 'first')

  running.child.kill('SIGTERM')
  assert.equal((await running.ended).code, 0)
  await assert.rejects(fetch(`${address}/health`))
  await assert.rejects(postgres(), { code: 'ENOENT' })
})

test('without a project dev is refused, up says that it has none, and both name init', async (t) => {
  const folder = await aFolder(t)
  const { code, err } = await spawnConcord(['dev'], { env: {}, cwd: folder }).ended
  assert.equal(code, 78)
  assert.match(err, /There is no concord\.config\.ts in .*\n.*\n.*concord init.*\n.*app\.project\.missing/)
  const up = spawnConcord(['up'], { env: {}, cwd: folder })
  t.after(() => endProcess(up))
  assert.match(await up.line((line) => line.includes('project')), /none in this folder; `concord init` creates one/)
})

/** A project with one model and one agent that asks a model of this name. */
const agentConfigOf = (prices: string, asked: string) => `import { defineAgent, modelConnector } from ${index}
import { z } from 'zod'
const model = modelConnector({ name: 'small', provider: 'fake', baseUrl: 'https://models.example.com/v1', model: 'fake-small', prices: ${prices},
  contextTokens: 8000, outputTokensMax: 500 })
const agent = defineAgent('Writes', { input: z.object({}), goal: 'Write.', role: 'worker', tools: [], model: { model: '${asked}' }, runtime: 'ai_sdk' })
export default { catalog: [], models: [model], agents: [agent] }
`

test('a process whose agent names an unknown model, or whose model has no price, exits with 78 and says where', async (t) => {
  const folder = await aFolder(t)
  await symlink(join(import.meta.dirname, '../../node_modules'), join(folder, 'node_modules'))
  const start = async (program: string, prices: string, asked: string) => {
    await writeFile(join(folder, 'concord.config.ts'), agentConfigOf(prices, asked))
    return spawnConcord([program], { env: { CONCORD_PORT: await freePort() }, cwd: folder }).ended
  }
  const known = `{ input: '0.15', output: '0.60' }`
  const unknown = await start('up', known, 'smal')
  assert.equal(unknown.code, 78, unknown.err)
  assert.match(unknown.err, /There is no model "smal"[\s\S]*Did you mean `small`\?[\s\S]*agents\.model\.unknown/)
  for (const prices of ['{}', `{ input: '0.15' }`, `{ input: 'free', output: '1' }`]) {
    const unpriced = await start('up', prices, 'small')
    assert.equal(unpriced.code, 78, unpriced.err)
    assert.match(unpriced.err, /prices\.(input|output) must be a decimal/)
  }
})
