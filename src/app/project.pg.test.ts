/** The YAML files of a project: they join its code, and what is wrong in them is refused with its place. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { after, describe, test } from 'node:test'
import { ConcordError } from '#client'
import { actingFor, anyHost, openCatalog, shippedPolicies, submitCommand } from '#domains/commands'
import { openScheduleBench } from '#test/schedules'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { openConcord } from './open-concord.ts'
import { loadProject } from './project.ts'

const example = fileURLToPath(new URL('../../examples/yaml-project/', import.meta.url))

/** A project that names `definitions` and has these files. */
async function aProject(files: Readonly<Record<string, string>>, definitions: unknown = './concord/*.yaml') {
  const folder = await mkdtemp(join(tmpdir(), 'concord-project-'))
  after(() => rm(folder, { recursive: true, force: true }))
  await mkdir(join(folder, 'concord'))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, 'concord', name), text)
  const task = `defineTask({ name: 'In code', description: 'd', command_type: 'greet', function_name: 'greet' })`
  await writeFile(
    join(folder, 'concord.config.mjs'),
    `import { defineTask } from ${JSON.stringify(new URL('../index.ts', import.meta.url).href)}
export default { definitions: ${JSON.stringify(definitions)}, catalog: [${task}] }
`,
  )
  return loadProject(folder)
}

const task = (name: string, more = '') =>
  `task:\n  name: ${name}\n  command_type: greet\n  execution: { mode: async, function_name: greet }\n${more}`

describe('definitions in YAML', () => {
  test('[YML-01] [YML-06] [YML-08] [YML-09] the task, command type, approval type and schedule of the example are served', async () => {
    const project = accepted(await loadProject(example))
    const bench = await openScheduleBench()
    after(() => bench.close())
    const work = await bench.restart(project.catalog, project)
    const { tenant } = bench
    const { command } = accepted(
      await submitCommand(work.commands, actingFor(tenant.people.writer.principal, TRACE), {
        workspaceId: tenant.workspace.id,
        taskName: 'Greet',
        payload: { name: 'Grace' },
        ingress: 'user_request',
        requestId: 'req_1',
      }),
    )
    assert.equal(command.contract_key, 'greet:Grace')
    const read = async () => {
      const [row] = await bench.opened.db.query<{ status: string; result: unknown }>(
        'select status, result from concord.commands where command_id = $1',
        [command.command_id],
      )
      return row
    }
    await until(async () => (await read())?.status === 'succeeded', 'the greeting')
    assert.deepEqual((await read())?.result, { greeting: 'Hello, Grace.' })
    const [schedule] = await bench.opened.db.query(
      `select command_type, cron from schedules.command_schedules where name = 'monday_greeting' and removed_at is null`,
    )
    assert.deepEqual(schedule, { command_type: 'greet', cron: '0 9 * * 1' })
    assert.equal(accepted(work.approvals.types.find('greeting_approval')).expirationMinutes, 90)
  })

  test('[YML-05] a file with `join_strategy` is a swarm: it is served like one from code, and a wrong limit is refused with its file and path', async () => {
    const swarm = (steps: string) => `name: report_swarm
objective: Write a report.
execution_mode: parallel
join_strategy: all_success
limits: { max_agents: 4, max_depth: 1, max_total_steps: ${steps}, max_cost_units: 50 }
coordinator: { agent_name: lead, agent_role: coordinator, allowed_tools: [spawn_subagent] }
agents:
  - { agent_name: writer, agent_role: worker, delegated_goal: Write., allowed_tools: [create_artifact] }
`
    const { swarms, catalog } = accepted(await aProject({ 'swarm.yaml': swarm('80') }))
    assert.deepEqual(
      swarms?.map(({ name, swarm: { limits } }) => [name, limits.max_agents, limits.max_total_steps]),
      [['report_swarm', 4, 80]],
    )
    assert.ok(swarms[0]?.definitions.every((each) => catalog.includes(each)))
    for (const steps of ['0', '.nan', '1e309']) {
      const refused = await aProject({ 'swarm.yaml': swarm(steps) })
      assert.ok(!refused.ok, steps)
      assert.match(`${refused.reason} ${refused.path}`, /^concord\/swarm\.yaml.*limits\.max_total_steps/, steps)
    }
    const twice = await aProject({ 'a.yaml': swarm('80'), 'b.yaml': swarm('80') })
    assert.ok(!twice.ok && twice.reason.includes('is defined in'))
  })

  test('files are read in the order of their paths, from one pattern or several', async () => {
    const files = { 'b.yaml': task('B'), 'a.yaml': task('A'), 'c.yml': task('C') }
    const { catalog } = accepted(await aProject(files, ['./concord/*.yaml', './concord/*.yml']))
    assert.deepEqual(
      catalog.flatMap((each) => (each.kind === 'task' ? [each.spec.name] : [])),
      ['In code', 'A', 'B', 'C'],
    )
  })

  test('a file that matches two patterns is read once, a pattern may be absolute, and folders are skipped', async () => {
    const elsewhere = await mkdtemp(join(tmpdir(), 'concord-definitions-'))
    after(() => rm(elsewhere, { recursive: true, force: true }))
    await writeFile(join(elsewhere, 'c.yaml'), task('C'))
    await mkdir(join(elsewhere, 'folder.yaml'))
    const patterns = ['./concord/*.yaml', './concord/a.*', join(elsewhere, '*.yaml')]
    const { catalog } = accepted(await aProject({ 'a.yaml': task('A'), 'b.yaml': task('B') }, patterns))
    assert.deepEqual(
      catalog.flatMap((each) => (each.kind === 'task' ? [each.spec.name] : [])),
      ['In code', 'A', 'B', 'C'],
    )
    const empty = await aProject({}, join(elsewhere, 'folder.*'))
    assert.equal(empty.ok ? 'loaded' : empty.code, 'app.project.invalid')
  })

  for (const [title, files, code, reason] of [
    [
      'an unknown field',
      { 'a.yaml': task('A', '  polices: [permission]\n') },
      'unknown_field',
      /^concord\/a\.yaml:5: task has no field "polices"\./,
    ],
    [
      'a value of the wrong kind',
      { 'a.yaml': task('A', '  max_attempts: many\n') },
      'commands.definition.invalid',
      /^concord\/a\.yaml:5: task\.max_attempts: /,
    ],
    ['a broken file', { 'a.yaml': 'task:\n\tname: A\n' }, 'yaml_syntax', /^concord\/a\.yaml:2:/],
    [
      'a name that another file has',
      { 'a.yaml': task('A'), 'b.yaml': task('A') },
      'commands.definition.invalid',
      /^concord\/b\.yaml:1: the task "A" is defined in concord\/a\.yaml:1 too\.$/,
    ],
    [
      'a name that the code has',
      { 'a.yaml': task('In code') },
      'commands.definition.invalid',
      /^concord\/a\.yaml:1: the task "In code" is defined in concord\.config\.mjs too\.$/,
    ],
    ['a pattern without a file', {}, 'app.project.invalid', /No file matches the pattern '\.\/concord\/\*\.yaml'\.$/],
  ] as const) {
    test(`[YML-10] ${title} is refused with its place`, async () => {
      const loaded = await aProject(files)
      assert.ok(!loaded.ok)
      assert.equal(loaded.code, code)
      assert.match(loaded.reason, reason)
    })
  }
})

describe('the code of a project', () => {
  const index = JSON.stringify(new URL('../index.ts', import.meta.url).href)

  async function aConfig(text: string) {
    const folder = await mkdtemp(join(tmpdir(), 'concord-project-'))
    after(() => rm(folder, { recursive: true, force: true }))
    const file = join(folder, 'concord.config.ts')
    await writeFile(file, text)
    return { file, loaded: await loadProject(folder) }
  }

  for (const [title, text, line, reason] of [
    ['a syntax error', 'export default {\n  catalog: [],\n  a = 1,\n}\n', 3, /Invalid shorthand/],
    ['an exception', 'const none: any = undefined\nexport default none.catalog\n', 2, /Cannot read/],
    [
      'a missing export',
      `import { defineComand } from ${index}\nexport default { catalog: [defineComand] }\n`,
      1,
      /defineComand/,
    ],
    [
      'a definition that throws',
      `import { defineCommand } from ${index}\n\nexport default { catalog: [\n  defineCommand('x', { input: {} as any, policy: [], steps: () => [] }),\n] }\n`,
      4,
      /./,
    ],
  ] as const) {
    test(`${title} is refused with its file and line`, async () => {
      const { file, loaded } = await aConfig(text)
      assert.ok(!loaded.ok)
      assert.deepEqual([loaded.code, loaded.path], ['app.project.invalid', `${file}:${line}`])
      assert.ok(loaded.reason.startsWith(`${file}:${line}: `), loaded.reason)
      assert.match(loaded.reason, reason)
    })
  }

  test('every error of a catalog names the file and line of its definition, and the nearest name', async () => {
    const { file, loaded } = await aConfig(`import { defineFunction, defineTask } from ${index}
const greet = defineFunction({ name: 'greet', plan: () => [] })
const task = defineTask({ name: 'Greet', description: 'd', command_type: 'greet', function_name: 'gret' })
export default { catalog: [greet, task] }
`)
    const opened = openCatalog([...shippedPolicies, ...accepted(loaded).catalog], anyHost)
    assert.ok(!opened.ok)
    const lines = opened.reason.split('\n')
    assert.ok(
      lines.includes(`${file}:3: "Greet" names "gret", which is not defined. Did you mean \`greet\`?`),
      opened.reason,
    )
    const findings = (opened.facts?.['findings'] ?? []) as readonly unknown[]
    assert.equal(lines.length - 1, findings.length)
  })

  test('an entry of agents or swarms that no define function made is refused with its place in that list', async () => {
    for (const [list, define] of [
      ['agents', 'defineAgent'],
      ['swarms', 'defineSwarm'],
    ] as const) {
      const { file, loaded } = await aConfig(`export default { catalog: [], ${list}: [{ name: 'Keep Stock' }] }\n`)
      assert.ok(!loaded.ok)
      assert.deepEqual(
        [loaded.code, loaded.path, loaded.reason],
        ['app.project.invalid', `${list}.0`, `${file}: \`${list}.0\` is not what ${define} returns.`],
      )
    }
  })

  test('a webhook with a secret that anybody can guess stops the start, with its place', async () => {
    const starts = (secret: unknown) => {
      const webhooks = [{ name: 'carrier', secret: secret as Uint8Array, map: () => undefined }]
      // With a secret that is long enough, the start fails only at this database.
      return openConcord({ project: { catalog: [], webhooks }, databaseUrl: 'postgres://127.0.0.1:1/none' })
    }
    for (const secret of [Buffer.from(''), Buffer.alloc(15, 7), undefined, 'a text of more than 16 bytes'])
      await assert.rejects(starts(secret), (error) => {
        assert.ok(error instanceof ConcordError)
        assert.deepEqual([error.code, error.path], ['app.project.invalid', 'webhooks.carrier.secret'])
        assert.match(error.message, /The secret of the webhook "carrier" has fewer than 16 bytes/)
        return true
      })
    await assert.rejects(starts(Buffer.alloc(16, 7)), (error) => {
      assert.ok(error instanceof ConcordError)
      assert.notEqual(error.code, 'app.project.invalid')
      return true
    })
  })
})
