/**
 * An agent finds out why revenue dropped: it reads a database, remembers with consent, drafts a report, and asks before anything leaves. The model
 * is a server of its own that follows a script; everything else is real.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { allow, defineAgent, defineCommand, defineSwarm, modelConnector, postgresConnector } from '@concordhq/concord'
import { openTestConcord } from '@concordhq/concord/testing'
import { z } from 'zod'
import { publishReport } from './catalog/publish-report.ts'
import { generateReport } from './catalog/generate-report.ts'
import { startModel } from './model/start-model.ts'
import { dataOf, eventsOf, eventually, pathOf } from './open-example.ts'
import { openWarehouse } from './revenue/warehouse.ts'

const folder = await mkdtemp(join(tmpdir(), 'concord-revenue-'))
const warehouse = await openWarehouse()
const model = await startModel()

const sql = postgresConnector({
  name: 'warehouse',
  description: 'The orders of the shop.',
  secret_ref: 'vault://warehouse',
})
const runSql = defineCommand('run_sql', {
  description: 'Runs one reading statement on the orders of the shop.',
  input: z.object({ sql: z.string() }),
  policy: allow,
  steps: (given) => [sql.run_sql({ ...given, params: [] })],
  task: { ingress_types: ['agent_action'], connector_requirements: ['warehouse'] },
})
const investigate = defineAgent('Investigate Revenue Anomaly', {
  commandType: 'investigate_revenue_anomaly',
  input: z.object({ week: z.string(), user_id: z.string() }),
  goal: ({ week }) => `Find out why the revenue of the week of ${week} dropped, and draft a summary.`,
  role: 'coordinator',
  tools: ['run_sql', 'retrieve_memory', 'create_report_draft', 'request_human_input', 'publish_report'],
  forbiddenTools: ['send_external_email', 'mutate_production_table'],
  connectors: ['warehouse', 'sharing'],
  memory: {
    subject: 'user:{user_id}',
    schemas: ['user.report_preferences'],
    read_scopes: ['user', 'team', 'project'],
    write_allowed: true,
  },
  approvalGates: ['publish_report', 'send_notification_external'],
  limits: { max_steps: 12 },
  termination: { conditions: ['final_answer_created', 'human_cancelled', 'max_steps_reached', 'policy_denied'] },
  runtime: 'ai_sdk',
  model: { model: 'analyst', output_tokens_max: 500 },
  artifacts: ['draft_report'],
})

/** The same with an analyst, who reads the data: the coordinator writes the draft from what the analyst has found. */
const withAnalyst = defineSwarm('investigate_with_analyst', {
  objective: 'Find out why the revenue of the week of 2026-05-18 dropped, and draft a summary.',
  execution_mode: 'parallel',
  join_strategy: 'coordinator_synthesis',
  coordinator: {
    agent_name: 'coordinator',
    agent_role: 'coordinator',
    allowed_tools: ['spawn_subagent', 'read_artifact', 'create_report_draft'],
    allowed_connectors: ['warehouse'],
    model: { model: 'coordinator', output_tokens_max: 500 },
  },
  agents: [
    {
      agent_name: 'analyst',
      agent_role: 'analyst',
      delegated_goal: 'Find the country and the way of payment.',
      allowed_tools: ['run_sql', 'create_artifact'],
      allowed_connectors: ['warehouse'],
    },
  ],
  runtime: { name: 'ai_sdk' },
  model: { model: 'analyst', output_tokens_max: 500 },
})

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
    catalog: [runSql, generateReport, publishReport(folder)],
    agents: [investigate],
    swarms: [withAnalyst],
    models: ['analyst', 'coordinator'].map(modelOf),
    connectors: [sql],
    secrets: { vault: () => Promise.resolve(warehouse.url) },
    memory: {
      schemas: [
        {
          name: 'user.report_preferences',
          subject_type: 'user',
          memory_types: ['preference'],
          visibility: ['user'],
          consent: { required: true },
          confidence: { direct_from: 0.8 },
          expiration: { after_days: 365 },
          supersession: 'supersede',
          retrieval: ['subject'],
          write_policy: 'direct',
          sensitivity: 'internal',
        },
      ],
    },
  },
})
const query = (text: string) => ({ name: 'run_sql', arguments: { sql: text } })
const paid = `sum(amount_usd) filter (where status = 'paid')`
try {
  const ana = await concord.person('ana')
  const dora = await concord.person('dora', 'data-owner')
  const { user_id } = dataOf(await ana.api.GET('/me'))
  const about = { subject: `user:${user_id}`, memory_type: 'preference', scope: 'user' } as const
  const wish = { ...about, schema_name: 'user.report_preferences', confidence: 1, content: { style: 'three lines' } }
  const remember = () => ana.api.POST('/memory', { body: wish })
  assert.equal((await remember()).error?.code, 'memory.consent.missing')
  dataOf(await ana.api.POST('/memory/consents', { body: about }))
  await ana.wait(dataOf(await remember()).command_id)
  console.log('Ana likes short reports. It is remembered after she has consented.')

  await model.script({
    analyst: [
      {
        calls: [
          query(
            `select date_trunc('week', ordered_on)::date as week, ${paid} as usd from orders group by 1 order by 1 desc limit 4`,
          ),
        ],
      },
      {
        calls: [
          query(`select country, ${paid} as usd from orders where ordered_on >= '2026-05-18' group by 1 order by 1`),
          query(
            `select payment, status, count(*) from orders where ordered_on >= '2026-05-18' and country = 'DE' group by 1, 2 order by 1`,
          ),
        ],
      },
      { calls: [query(`update orders set status = 'paid' where status = 'payment_failed'`)] },
      { calls: [{ name: 'retrieve_memory', arguments: { subject: about.subject } }] },
      {
        calls: [
          {
            name: 'create_report_draft',
            arguments: {
              title: 'Revenue of the week of 2026-05-18',
              text: 'Revenue fell from 4400 to 3400 USD.\nAll of it is missing in Germany.\nAll 20 card payments there failed.\n',
            },
          },
        ],
      },
      {
        calls: [
          {
            name: 'publish_report',
            arguments: { artifact_id: '$artifact_id', checksum: '$digest', destination: 'finance@example.com' },
          },
        ],
      },
      { text: 'Card payments in Germany failed all week. The report is published.' },
    ],
  })
  const asked = await ana.submit(investigate, { week: '2026-05-18', user_id })
  const card = await eventually(async () => (await dora.inbox())[0])
  assert.deepEqual(await readdir(folder), [], 'nothing has left')
  console.log(`The run waits for ${card.approver}. ${shortIds(String(card.packet['why']))}`)
  await dora.approve(card)
  const done = await ana.wait(asked)
  assert.deepEqual([done.status, done.result?.end_reason], ['succeeded', 'final_answer_created'], done.error ?? '')
  console.log(`Dora approves. The run: ${(await pathOf(ana, done)).join(', ')}.`)
  for (const line of (await observed()).slice(0, 5)) console.log(`  ${line}`)
  const [letter = ''] = await readdir(join(folder, 'outbox'))
  console.log(await readFile(join(folder, 'outbox', letter), 'utf8'))

  await model.script({
    analyst: [
      {
        calls: [
          { name: 'mutate_production_table', arguments: {} },
          { name: 'send_external_email', arguments: {} },
        ],
      },
      { text: 'Done.' },
    ],
  })
  const calls = concord.calls.length
  const ended = await ana.wait(await ana.submit(investigate, { week: '2026-05-11', user_id }))
  assert.deepEqual([ended.status, ended.error_class], ['failed', 'policy_denied'])
  assert.equal(concord.calls.slice(calls).filter(({ effect }) => !effect.startsWith('connector.analyst.')).length, 0)
  assert.deepEqual([(await readdir(join(folder, 'outbox'))).length, await warehouse.countFailed()], [1, 20])
  console.log(`A model that calls forbidden tools: ${ended.status}, ${ended.error}`)

  const germany = query(
    `select payment, count(*) from orders where ordered_on >= '2026-05-18' and country = 'DE' and status = 'payment_failed' group by 1`,
  )
  const note = { type: 'analysis', content: { text: 'All 20 card payments in Germany failed.' } }
  const draft = { title: 'Revenue of the week of 2026-05-18', text: 'Card payments in Germany failed.\n' }
  const coordinator = [
    { calls: [{ name: 'create_report_draft', arguments: draft }] },
    { text: 'The draft is written.' },
  ] as const
  const analyst = [
    { calls: [query('delete from orders')] },
    { calls: [germany] },
    { calls: [{ name: 'create_artifact', arguments: note }] },
    { text: 'Cards in Germany.' },
  ]
  await model.script({ coordinator, analyst })
  const together = await ana.wait(await ana.submit(withAnalyst, {}))
  assert.equal(together.status, 'succeeded', together.error ?? '')
  const { items: runs } = dataOf(await ana.api.GET('/agent-runs'))
  const team = runs.filter(({ swarm_run_id }) => swarm_run_id !== null).toReversed()
  const ends = team.map(({ agent_name, step_count, end_reason }) => `${agent_name} ${step_count} steps, ${end_reason}`)
  console.log(`With an analyst: ${ends.join('; ')}.`)
  assert.equal(await warehouse.countFailed(), 20)

  const report = await ana.wait(
    await ana.submit(generateReport, { report_type: 'monthly_revenue', date_range: '2026-05' }),
  )
  const typesOf = async (command: { command_id: string }) =>
    (await eventsOf(ana, command)).map((each) => each.event_type)
  const { items } = dataOf(await ana.api.GET('/commands'))
  const others = items.filter(({ command_id }) => command_id !== report.command_id)
  const known = new Set((await Promise.all(others.map(typesOf))).flat())
  assert.ok((await typesOf(report)).every((type) => known.has(type)))
  const kinds = dataOf(await ana.api.GET('/artifacts')).items.map(({ artifact_type }) => artifact_type)
  console.log(`A report without an agent is a command with the same events. Artifacts: ${kinds.toSorted().join(', ')}.`)

  /** What the model was told about its calls. */
  async function observed(): Promise<readonly string[]> {
    const { messages = [] } = (await model.requests()).at(-1)?.body ?? {}
    return messages.flatMap(({ role, content }) => (role === 'tool' ? [readable(String(content))] : []))
  }
} finally {
  await concord.close()
  await model.close()
  await warehouse.close()
  await rm(folder, { recursive: true, force: true })
}

type Found = { readonly rows?: unknown; readonly memories?: unknown; readonly error?: string }

function readable(content: string): string {
  const { decision, result } = JSON.parse(content) as { decision: string; result: Found }
  const { rows, memories, error } = result
  return `${decision}: ${error ?? JSON.stringify(rows ?? memories)}`.replaceAll(/"memory_id":"\w+",/g, '')
}

function shortIds(text: string): string {
  return text.replaceAll(/\b(inv|cmd|agent)_[0-9a-f]{32}/g, '$1_…')
}
