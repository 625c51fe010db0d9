/** A forgotten subject is gone from what runs have said and seen, and from every record of what they did. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import { connectorDefinitions, defineTool, expandCatalog, requestForget } from '#domains/commands'
import { defineConnector, openConnectors, openSecrets, succeeded } from '#domains/connectors'
import type { MemoryDeps } from '#domains/memory'
import { byPerson, bySystem } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { pendingOf } from '#test/commands'
import { realSleep } from '#test/connectors'
import { openTestDb, type TestDb } from '#test/database'
import { aModel, type FakeModel, startModel } from '#test/fake-model'
import { accepted, aTenant, aWorld, TRACE } from '#test/tenant'
import { defineAgent } from './agent-definition.ts'
import type { StoredAgentRun } from './agent-run.ts'
import { forgetMessages } from './forget-runs.ts'
import type { AgentAnswer, AgentRuntime, AgentTurn } from './agent-runtime.ts'

const ID = 'cust-42'
const WORD = 'zzillnesszz'
const about = `${ID} has ${WORD}`

/** Every shipped tool that takes content, in one answer. */
const calls: readonly Call[] = [
  { tool: 'create_artifact', payload: { type: 'analysis', title: about, content: { text: about } } },
  { tool: 'create_artifact', payload: { type: 'analysis', content: { json: { note: about } } } },
  { tool: 'create_report_draft', payload: { title: about, text: about } },
  { tool: 'retrieve_memory', payload: { text: about } },
  { tool: 'evaluate_output', payload: { check: { evaluation_type: 'pii_check', text: `${about} a@example.com` } } },
  {
    tool: 'propose_memory',
    payload: { subject: `customer:${ID}`, scope: 'user', memory_type: 'preference', content: { note: about } },
  },
]
const tools = [...new Set(calls.map(({ tool }) => tool))]

type Call = { readonly tool: string; readonly payload: JsonObject }

const answer = (made: readonly Call[]): AgentAnswer => ({
  text: about,
  calls: made.map(({ tool, payload }, index) => ({
    id: `c${index}`,
    actionType: 'tool_call',
    toolName: tool,
    payload,
    reason: 'It is the work.',
  })),
  final: null,
})

/** Its answers are not in the row of the run, as a transcript would be. */
class Writer implements AgentRuntime {
  readonly name = 'writer'
  calls: readonly Call[] = []
  next: (turn: AgentTurn) => Promise<readonly Call[]> = async () => []
  startAgentRun = async () => answer(this.calls)
  cancelAgentRun = async () => {}
  async resumeAgentRun(turn: AgentTurn): Promise<AgentAnswer> {
    const { next } = this
    this.next = async () => []
    const made = await next(turn)
    return made.length > 0 ? answer(made) : { text: null, calls: [], final: { text: about } }
  }
}

const agent = defineAgent('Writes', {
  input: z.object({}),
  goal: 'Write about the customer.',
  role: 'worker',
  tools,
  memory: { read_scopes: ['user'], write_allowed: true },
  artifacts: ['analysis', 'draft_report'],
  runtime: { name: 'writer' },
})

const subject = (id: string) => ({ subject_type: 'customer', subject_id: id })
const forget = async (room: AgentRoom, id: string) => {
  const { people, workspace } = room.tenant
  const asked = accepted(
    await requestForget(room.world, room.world.memory as MemoryDeps, byPerson(people.writer.principal, TRACE), {
      workspaceId: workspace.id,
      subject: subject(id),
      requestId: 'r',
    }),
  )
  const { command_id } = asked.command
  await room.settle(command_id)
  const owner = { ...people.admin.principal, orgRoles: ['data_owner'] }
  const approvalId = await pendingOf(room, command_id)
  const yes = { workspaceId: workspace.id, approvalId, decision: 'approved' as const, reason: 'The person asks.' }
  accepted(await decideApproval(room.approvals, byPerson(owner, TRACE), yes))
  await room.settle(command_id)
  assert.equal(await room.statusOf(command_id), 'succeeded')
}

/** The tables of Concord in which a row contains the text. */
const tablesWith = async (room: AgentRoom, text: string) => {
  const tables = await room.rows<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'concord' order by 1`,
  )
  const found: string[] = []
  for (const { name } of tables) {
    const rows = await room.rows(`select 1 from concord.${name} as t where t::text like $1 limit 1`, [`%${text}%`])
    if (rows.length > 0) found.push(name)
  }
  return found
}

describe('forgetting a subject of runs', () => {
  const writer = new Writer()
  let room: AgentRoom
  before(async () => {
    room = await openAgentRoom([agent], [], [writer])
  })
  after(() => room.close())

  test('a run used every tool that takes content; after the erasure no record contains what it said', async () => {
    writer.calls = calls
    const run = await room.runOf(await room.start('Writes'))
    assert.deepEqual([run.status, run.end_reason], ['succeeded', 'final_answer_created'])
    // An artifact is a document of its own, with its own holds and its own end. Its text is in the blob store.
    assert.deepEqual(await tablesWith(room, WORD), ['agent_messages', 'artifacts', 'memory_candidates'])
    assert.deepEqual(
      (await tablesWith(room, ID)).filter((name) => !['agent_messages', 'artifacts'].includes(name)),
      ['memory_candidates'],
      'no command, effect or event names the subject of a proposal',
    )
    const made = await room.rows<{ task_name: string; status: string; payload: JsonObject }>(
      `select task_name, status, payload from concord.commands where agent_run_id = $1 and task_name <> 'Write Memory'`,
      [run.agent_run_id],
    )
    assert.ok(
      made.every(({ status }) => status === 'succeeded'),
      JSON.stringify(made),
    )
    await forget(room, ID)
    assert.deepEqual(await tablesWith(room, WORD), ['artifacts'])
    assert.ok(!(await tablesWith(room, ID)).includes('agent_messages'))
  })
  const lineageOf = (id: string) => ({
    workspaceId: room.tenant.workspace.id,
    subject: subject(id),
    subjects: [subject(id)],
    memoryIds: [],
    commandIds: [],
  })
  const refOf = async (agentRunId: string) => {
    const [row] = await room.rows<{ content_ref: JsonObject }>(
      `select payload->'content_ref' as content_ref from concord.commands where agent_run_id = $1`,
      [agentRunId],
    )
    return row?.content_ref ?? {}
  }
  const said = async (run: StoredAgentRun) => JSON.stringify(await room.messagesOf(run))
  const draft = (payload: JsonObject) => [{ tool: 'create_report_draft', payload }]

  test('a reference reads only messages of its own run, and nothing that was erased', async () => {
    writer.calls = draft({ title: 'May', text: 'Revenue fell.' })
    const first = await room.runOf(await room.start('Writes'))
    writer.calls = draft({ content_ref: await refOf(first.agent_run_id) })
    assert.match(await said(await room.runOf(await room.start('Writes'))), /No call of the run has this content/)

    const erasedId = 'cust-43'
    writer.calls = draft({ title: erasedId, text: 'Revenue fell.' })
    writer.next = async ({ agentRunId }) => {
      const erasing = { erasureId: room.clock.newId(), actor: bySystem(TRACE), at: room.clock.now() }
      accepted(await room.db.transaction((tx) => forgetMessages.erase(tx, lineageOf(erasedId), erasing)))
      // This answer began before the erasure, so it is discarded.
      writer.next = async () => draft({ content_ref: await refOf(agentRunId) })
      return draft({ content_ref: await refOf(agentRunId) })
    }
    assert.match(await said(await room.runOf(await room.start('Writes'))), /The content of this call was erased/)
  })

  test('content that does not fit or holds a secret makes no command, and the agent gets the reason', async () => {
    writer.calls = [
      ...draft({ title: 'May', text: 7 }),
      ...draft({ title: 'May', text: `ghp_${'aB3dE6gH9j'.repeat(4).slice(0, 36)}` }),
    ]
    const run = await room.runOf(await room.start('Writes'))
    assert.match(await said(run), /agents\.call\.invalid.*expected string.*commands\.payload\.secret/)
    const made = await room.rows('select 1 from concord.commands where agent_run_id = $1', [run.agent_run_id])
    assert.equal(made.length, 0)
  })

  test('a subject is found by an id with any signs, as a whole word', async () => {
    const signs = [
      'a.b',
      'a-b',
      'a+b',
      'a_b',
      'a(b',
      'a[b',
      'a\\b',
      'a"b',
      'a@b.c',
      'a/b',
      'a*',
      'ü-1',
      'a$b',
      'a|b',
      'a b',
    ]
    writer.calls = signs.flatMap((id) => draft({ title: `of <${id}>`, text: `x${id}x` }))
    await room.start('Writes')
    const find = async (id: string) => (await forgetMessages.list(room.db, lineageOf(id))).length
    for (const id of signs) {
      assert.ok((await find(id)) > 0, id)
      assert.equal(await find(`${id}-none`), 0, id)
    }
    assert.equal(await find('zzillness'), 0, 'a part of a word')
  })
})

/** A desk that writes a note into another system, and gives it back. */
const desk = defineConnector({
  connector_type: 'desk',
  name: 'desk',
  description: 'Notes about customers.',
  operations: [
    {
      name: 'take_note',
      description: 'Writes a note.',
      input: z.strictObject({ note: z.string() }),
      output: z.strictObject({ stored: z.string() }),
      side_effect_class: 'keyed',
    },
  ],
  open: () => ({
    name: 'desk',
    connector_type: 'desk',
    capabilities: () => ['take_note'],
    call: async ({ input }) => succeeded({ stored: input['note'] ?? null }),
  }),
})

const asking = defineAgent('Asks', {
  input: z.object({}),
  goal: 'Write about the customer.',
  role: 'worker',
  tools: ['take_note'],
  connectors: ['desk'],
  model: { model: 'small', output_tokens_max: 200 },
  runtime: 'ai_sdk',
})

describe('forgetting a subject of runs that ask a model and call a connector', () => {
  let fake: FakeModel
  let opened: TestDb
  let room: AgentRoom
  before(async () => {
    fake = await startModel()
    opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
    const clock = aWorld(opened.db)
    const secrets = openSecrets({})
    const connectors = accepted(openConnectors([desk], { ...clock, sleep: realSleep, secrets }))
    const tool = defineTool({ connector: desk, operation: 'take_note', policy: [] })
    const { catalog } = expandCatalog([tool, ...connectorDefinitions(connectors)])
    room = await openAgentRoom([asking], catalog, [], [aModel(fake.url)], { clock, tenant: await aTenant(clock) })
  })
  after(async () => {
    await room.close()
    await opened.close()
    await fake.close()
  })

  test('after the erasure no message, step or call of a model or connector contains what was said; the calls stay', async () => {
    const noted = { name: 'take_note', arguments: { note: about } }
    await fake.script({ 'fake-small': [{ text: about, calls: [noted] }, { text: about }] })
    const run = await room.runOf(await room.start('Asks'))
    assert.deepEqual([run.status, run.end_reason], ['succeeded', 'final_answer_created'])
    const callsWith = (text: string) =>
      room.rows<{ connector_name: string }>(
        'select connector_name from concord.connector_invocations as t where t::text like $1',
        [`%${text}%`],
      )
    assert.deepEqual(await callsWith(WORD), [{ connector_name: 'desk' }], 'calls of a model are recorded by digest')
    await forget(room, ID)
    assert.deepEqual(await callsWith(WORD), [])
    assert.doesNotMatch(JSON.stringify([await room.stepsOf(run), await room.messagesOf(run)]), new RegExp(WORD))
    assert.equal((await callsWith('')).length, 3)
    // The payload and the result of a task of the project are kept.
    assert.deepEqual(await tablesWith(room, WORD), ['commands', 'domain_effects', 'journal'])
  })
})
