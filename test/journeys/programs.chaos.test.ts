/**
 * Programs as agents of a real server, in each dialect: a call ends the program, a person decides, the next turn goes on. Kills of the server in
 * between change nothing, and the budget of the run holds.
 */
import assert from 'node:assert/strict'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { type FakeModel, type ModelScripts, startModel } from '#test/fake-model'
import { until } from '#test/until'
import { withServer } from '#test/with-server'

const MODEL_KEY = 'sk-the-key-of-the-provider'
/** After a kill the turn of a run is free when its lease has ended. */
const PATIENT_MS = 120_000

type Approval = { readonly approval_id: string; readonly command_id: string }
type Run = {
  readonly agent_run_id: string
  readonly status: string
  readonly end_reason: string | null
  readonly step_count: number
  /** The text of its last answer. */
  readonly said: string | null
}

describe('programs as agents of a server', () => {
  let fake: FakeModel
  let report: { artifact_id: string; checksum: string }
  const keys = { owner: '', operator: '' }
  const server = withServer({
    async env(folder) {
      fake = await startModel({}, { key: MODEL_KEY })
      const project = new URL('../support/projects/programs.ts', import.meta.url).href
      const options = JSON.stringify({ modelUrl: fake.url, folder: join(folder, 'examples') })
      const text = `import { programsProject } from ${JSON.stringify(project)}\nexport default programsProject(${options})\n`
      await writeFile(join(folder, 'concord.config.mjs'), text)
      return { MODEL_KEY }
    },
    async ready({ hire, concord }) {
      keys.owner = await hire('dora', 'data-owner')
      keys.operator = await hire('olga', 'operator')
      const payload = '{"report_type":"monthly_revenue","date_range":"2026-05"}'
      const made = await concord('submit', 'Generate Report', '--payload', payload, '--wait', '--json')
      assert.equal(made.code, 0, made.err)
      report = (JSON.parse(made.out) as { result: typeof report }).result
    },
  })
  after(() => fake.close())

  const script = (answer: Exclude<ModelScripts[string], 'obedient'>[number]) => fake.script({ 'fake-small': [answer] })
  const publish = (name: string) => ({
    name: 'publish_report',
    arguments: {
      artifact_id: report.artifact_id,
      checksum: report.checksum,
      destination: `external:${name}@example.com`,
    },
  })
  async function submit(runtime: string): Promise<string> {
    const { code, out, err } = await server.concord('submit', `Write With ${runtime}`, '--payload', '{}', '--json')
    assert.equal(code, 0, err)
    return (JSON.parse(out) as { command_id: string }).command_id
  }
  const runOf = async (commandId: string) => {
    const [run] = await server.database.db.query<Run>(
      `select r.agent_run_id, r.status, r.end_reason, r.step_count,
         (select m.content from concord.agent_messages as m where m.agent_run_id = r.agent_run_id and m.message_role = 'assistant'
           order by m.position desc limit 1) as said
         from concord.agent_runs as r where 'cmd_' || replace(command_id::text, '-', '') = $1`,
      [commandId],
    )
    return run
  }
  async function ended(commandId: string): Promise<Run> {
    const isOver = async () => ((await runOf(commandId))?.end_reason ?? null) !== null
    await until(isOver, 'the end of the run')
    return (await runOf(commandId)) as Run
  }
  async function ask(key: string, method: string, path: string, body?: object) {
    const response = await fetch(`${server.address}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    return (await response.json()) as Record<string, unknown>
  }
  const open = async (key: string) => (await ask(key, 'GET', '/approvals'))['items'] as readonly Approval[]
  const asked = (key: string) => until(async () => (await open(key)).length === 1, 'an approval')
  async function decide(key: string, decision: 'approved' | 'rejected'): Promise<void> {
    await asked(key)
    const [approval] = await open(key)
    await ask(key, 'POST', `/approvals/${approval?.approval_id}/resolve`, { decision, reason: 'I have looked at it.' })
  }
  const letters = async () => {
    const names = await readdir(join(server.folder, 'examples', 'outbox')).catch(() => [])
    return names.filter((name) => !name.includes('draft')).length
  }
  /** The processes of programs of the run. */
  async function programsOf(commandId: string): Promise<number> {
    const { agent_run_id } = (await runOf(commandId)) as Run
    const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
    const marks = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')))
    return marks.filter((mark) => mark.includes(`CONCORD_AGENT_TURN=${agent_run_id}`)).length
  }
  const observations = async ({ agent_run_id }: Run) => {
    const rows = await server.database.db.query<{ content: string }>(
      `select content from concord.agent_messages where agent_run_id = $1 and message_role = 'tool' order by position`,
      [agent_run_id],
    )
    return rows.map(({ content }) => (JSON.parse(content) as { decision: string }).decision)
  }

  for (const dialect of ['concord', 'claude', 'codex'] as const)
    test(`[AGT-16] ${dialect}: a call that waits ends the program, the server is killed, a person approves, and the next turn goes on`, {
      timeout: 3 * PATIENT_MS,
    }, async () => {
      const before = await letters()
      await script({ text: 'I publish.', calls: [publish(dialect), { name: 'wipe_disk', arguments: { path: '/' } }] })
      const commandId = await submit(dialect)
      await asked(keys.owner)
      assert.equal(await programsOf(commandId), 0, 'while a person decides, nothing runs')
      const [first, ...more] = await fake.requests()
      assert.ok(first && more.length === 0)
      const { tools } = first.body as unknown as { tools: { function: { name: string } }[] }
      assert.deepEqual(
        tools.map((tool) => tool.function.name),
        ['publish_report'],
        'the tools of the run, and none of the program',
      )
      await script({ text: 'Published.' })
      await server.stop('SIGKILL')
      await server.serve()
      await decide(keys.owner, 'approved')
      const run = await ended(commandId)
      assert.deepEqual([run.status, run.end_reason, run.step_count], ['succeeded', 'final_answer_created', 3])
      assert.match(run.said ?? '', /Published\. Keys of a provider: 0\./)
      assert.deepEqual((await observations(run)).toSorted(), ['approved', 'denied'])
      const [second, ...others] = await fake.requests()
      assert.equal(others.length, 0)
      const said = JSON.stringify(second?.body.messages)
      assert.match(said, /I publish\./)
      assert.match(said, /wipe_disk/)
      assert.equal(await letters(), before + 1)
      assert.equal(await programsOf(commandId), 0)
    })

  test('kill -9 of the server while the program waits for its model: the program ends too, and another turn is made', {
    timeout: 3 * PATIENT_MS,
  }, async () => {
    await script({ text: 'Here it is.', trouble: 'silent' })
    const commandId = await submit('codex')
    await until(async () => (await fake.requests()).length === 1, 'the first request')
    assert.ok((await programsOf(commandId)) > 0)
    await server.stop('SIGKILL')
    await until(async () => (await programsOf(commandId)) === 0, 'the end of the program')
    await server.serve()
    const run = await ended(commandId)
    assert.deepEqual([run.status, run.step_count], ['succeeded', 1])
    const made = (await fake.requests()).map(({ key }) => key)
    assert.deepEqual([made.length, new Set(made).size], [2, 1])
  })

  test('a cancel of the command ends the program that is under way', { timeout: 3 * PATIENT_MS }, async () => {
    await script({ text: 'Here it is.', trouble: 'silent' })
    const commandId = await submit('claude')
    await until(async () => (await fake.requests()).length === 1, 'the request')
    assert.equal((await server.concord('cancel', commandId, '--reason', 'No longer wanted.')).code, 0)
    const run = await ended(commandId)
    assert.deepEqual([run.status, run.end_reason], ['cancelled', 'human_cancelled'])
    assert.equal(await programsOf(commandId), 0)
  })

  test('[OPS-05] a program that asks its model again and again stops at the budget of its run, asks for more, and hands back what it has', {
    timeout: 3 * PATIENT_MS,
  }, async () => {
    await script({ text: 'More.' })
    const commandId = await submit('greedy')
    await asked(keys.operator)
    assert.equal(await programsOf(commandId), 0)
    const { length } = await fake.requests()
    assert.ok(length > 1, 'several calls in one turn')
    await decide(keys.operator, 'rejected')
    const run = await ended(commandId)
    assert.deepEqual([run.status, run.end_reason], ['succeeded', 'budget_exhausted'])
    assert.equal((await fake.requests()).length, length + 1, 'one call of the last turn')
    const [account] = await server.database.db.query<{ spent: number; open: number; excess: number }>(
      `select spent_units::float as spent, reserved_units::float as open, excess_units::float as excess
         from concord.budget_accounts where account_id = $1`,
      [run.agent_run_id],
    )
    assert.ok(account && account.spent > 0 && account.spent <= 4)
    assert.deepEqual([account.open, account.excess], [0, 0])
  })
})
