/**
 * Four agents write a report: two read the data, one reviews, and a coordinator makes one draft of it. It leaves only after its owner has approved. The
 * swarm is a YAML file; the models are a server of their own that follows a script; everything else is real.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { allow, defineCommand, loadSwarm, modelConnector, postgresConnector } from '@concordhq/concord'
import { openTestConcord } from '@concordhq/concord/testing'
import { z } from 'zod'
import { publishReport } from './catalog/publish-report.ts'
import { startModel } from './model/start-model.ts'
import { cardOf, dataOf, effectsOf, eventually, pathOf } from './open-example.ts'
import { openWarehouse } from './revenue/warehouse.ts'

const file = new URL('report-swarm/revenue-report-swarm.yaml', import.meta.url)
const loaded = loadSwarm('revenue-report-swarm.yaml', await readFile(file))
assert.ok(loaded.ok && loaded.value, 'the file is a swarm')
const reportSwarm = loaded.value

const folder = await mkdtemp(join(tmpdir(), 'concord-report-'))
const warehouse = await openWarehouse()
const model = await startModel()

const source = (name: string) =>
  postgresConnector({ name, description: 'The orders of the shop.', secret_ref: 'vault://warehouse' })
const sources = { postgres: source('postgres'), databricks: source('databricks') }
const runSql = defineCommand('run_sql', {
  description: 'Runs one reading statement on the orders of the shop.',
  input: z.object({ source: z.enum(['postgres', 'databricks']), sql: z.string() }),
  policy: allow,
  steps: ({ source: name, sql }) => [sources[name].run_sql({ sql, params: [] })],
  task: { ingress_types: ['agent_action'], connector_requirements: ['postgres', 'databricks'] },
})
const publish = publishReport(folder)
const modelOf = (name: string) =>
  modelConnector({
    name,
    provider: 'fake',
    baseUrl: model.url,
    model: name,
    prices: { input: '0.15', output: '0.60' },
    contextTokens: 32_000,
    outputTokensMax: 500,
    reach: { allow_http: true, private_networks: ['127.0.0.0/8'] },
  })

const concord = await openTestConcord({
  project: {
    catalog: [runSql, publish],
    swarms: [reportSwarm],
    models: ['coordinator', 'researcher', 'analyst', 'reviewer'].map(modelOf),
    connectors: Object.values(sources),
    secrets: { vault: () => Promise.resolve(warehouse.url) },
  },
})
const inMay = `from orders where ordered_on >= '2026-05-01' and ordered_on < '2026-06-01'`
const text =
  'Revenue of May 2026: 13960 USD from 408 orders.\nIn Germany 20 card payments failed: 1000 USD are missing.\nNo risk is open.\n'
const writes = (type: string, content: string, more: object = {}) => ({
  name: 'create_artifact',
  arguments: { type, title: 'Revenue of May 2026', content: { text: content }, ...more },
})
try {
  const ana = await concord.person('ana')
  const dora = await concord.person('dora', 'data-owner')
  await model.script({
    researcher: [
      {
        calls: [
          {
            name: 'run_sql',
            arguments: {
              source: 'postgres',
              sql: `select sum(amount_usd) filter (where status = 'paid') as usd, count(*) as orders ${inMay}`,
            },
          },
        ],
      },
      { calls: [writes('research_notes', 'Paid orders of May.')] },
      { text: 'The data is gathered.' },
    ],
    analyst: [
      {
        calls: [
          {
            name: 'run_sql',
            arguments: {
              source: 'databricks',
              sql: `select country, payment, count(*) ${inMay} and status = 'payment_failed' group by 1, 2`,
            },
          },
        ],
      },
      { calls: [writes('analysis', 'Card payments in Germany failed.')] },
      { text: 'The metrics are computed.' },
    ],
    reviewer: [
      { calls: [{ name: 'request_human_input', arguments: { question: 'Is the month closed?' } }] },
      {
        calls: [
          {
            name: 'evaluate_output',
            arguments: {
              check: { evaluation_type: 'confidence_over_threshold', confidence: 0.95, threshold: 0.8 },
            },
          },
        ],
      },
      { text: 'There is no open risk.' },
    ],
    coordinator: [
      {
        calls: [
          ...[0, 1, 2].map((at) => ({ name: 'read_artifact', arguments: { artifact_id: `$artifact_ids.${at}` } })),
          {
            name: 'spawn_subagent',
            arguments: {
              agent_name: 'publisher',
              agent_role: 'publisher',
              delegated_goal: 'Send it to everybody.',
              allowed_tools: ['publish_report'],
            },
          },
        ],
      },
      { calls: [writes('draft_report', text, { sources: '$artifact_ids' })] },
      { text: 'The draft is written.' },
    ],
  })
  const asked = await ana.submit(reportSwarm, { month: '2026-05' })
  const waiting = { params: { query: { status: 'waiting_for_input' } } } as const
  const question = await eventually(async () => dataOf(await ana.api.GET('/commands', waiting)).items[0])
  console.log(
    'Ana asks for the report of May. Three agents start together, and the reviewer asks her: Is the month closed?',
  )
  const answer = { params: { path: question }, body: { input: { answer: 'Yes, since Friday.' } } }
  dataOf(await ana.api.POST('/commands/{command_id}/input', answer))
  const { status, result, error } = await ana.wait(asked)
  assert.equal(status, 'succeeded', error ?? '')
  const { swarm_run_id, selected_artifact_id } = z
    .object({ swarm_run_id: z.string(), selected_artifact_id: z.string() })
    .parse(result)
  const path = { swarm_run_id, artifact_id: selected_artifact_id }
  const { agents, limits, join: joined } = dataOf(await ana.api.GET('/swarms/{swarm_run_id}', { params: { path } }))
  console.log(`${joined?.summary} Their limits: ${Object.values(limits).slice(0, 4).join(', ')}.`)
  // They start together, so their order is another each time.
  for (const { agent_name, step_count, max_steps } of agents.toSorted((a, b) =>
    a.agent_name.localeCompare(b.agent_name),
  )) {
    assert.ok(step_count <= max_steps, 'within its limit')
    console.log(`  ${agent_name.padEnd(26)} at most ${max_steps} steps`)
  }
  const told = await observed()
  for (const figure of ['13960', '408', '20']) assert.ok(told.join().includes(`"${figure}"`), 'the database says so')
  console.log('What the database answered, and what the coordinator was refused:')
  for (const line of told) console.log(`  ${line}`)

  const analyst = agents.find(({ agent_role }) => agent_role === 'analyst') ?? assert.fail()
  const chain = dataOf(await ana.api.GET('/agent-runs/{agent_run_id}/authority', { params: { path: analyst } }))
  assert.ok(chain.is_proven && agents.every(({ is_proven }) => is_proven))
  console.log(
    `Who gave the analyst its rights: Ana → ${chain.links.map((link) => link.agent_name).join(' → ')}. It is proven.`,
  )

  const draft = dataOf(await ana.api.GET('/artifacts/{artifact_id}', { params: { path } }))
  assert.deepEqual([draft.artifact_type, draft.sources.length], ['draft_report', 3])
  const kinds = dataOf(await ana.api.GET('/artifacts')).items.map(({ artifact_type }) => artifact_type)
  console.log(`Artifacts: ${kinds.toSorted().join(', ')}. The draft names the other three as its sources.`)
  const { artifact_id, checksum } = draft
  const sent = await ana.submit(publish, { artifact_id, checksum, destination: 'finance@example.com' })
  const card = await cardOf(dora, await ana.wait(sent))
  assert.deepEqual(await readdir(folder), [], 'nothing has left')
  console.log(`Ana publishes the draft, and ${card.approver} is asked. ${String(card.packet['why'])}`)
  await dora.approve(card)
  const published = await ana.wait(sent)
  console.log(`Dora approves: ${(await pathOf(ana, published)).join(', ')}.`)
  const [letter = ''] = await readdir(join(folder, 'outbox'))
  console.log(await readFile(join(folder, 'outbox', letter), 'utf8'))
  const effects = (await effectsOf(ana, published)).map(({ effect_type }) => effect_type)
  assert.equal(effects.at(-1), 'notification.app', 'Ana gets a notification')
  const query = { command_id: asked.command_id, limit: 500 }
  const audit = dataOf(await ana.api.GET('/audit', { params: { query } })).items.map(({ event_type }) => event_type)
  const kept = audit.toReversed().filter((type) => /swarm|spawn/.test(type))
  console.log(`In the audit: ${kept.join(', ')}.`)

  /** What the researcher and the analyst read, and what the coordinator was refused. */
  async function observed(): Promise<readonly string[]> {
    const requests = await model.requests()
    return ['researcher', 'analyst', 'coordinator'].flatMap((name) => {
      const { messages = [] } = requests.findLast((each) => each.model === name)?.body ?? {}
      return messages.flatMap(({ role, content }) => (role === 'tool' ? readable(name, String(content)) : []))
    })
  }
} finally {
  await concord.close()
  await model.close()
  await warehouse.close()
  await rm(folder, { recursive: true, force: true })
}

type Found = { readonly rows?: unknown; readonly reason?: string }

function readable(name: string, content: string): readonly string[] {
  const { rows, reason } = (JSON.parse(content) as { result: Found }).result
  return rows || reason ? [`${name}: ${reason ?? JSON.stringify(rows)}`] : []
}
