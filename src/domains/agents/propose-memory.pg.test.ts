/** A run proposes memories: within its scope, with the consent that the schema requires, and only if its manifest lets it write. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideCandidate, followCandidates, undoByDecision, undoDefinitions } from '#domains/commands'
import { grantConsent, type MemoryDeps } from '#domains/memory'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { final, scripted } from '#test/agent-project'
import { ada } from '#test/memory'
import { accepted, TRACE } from '#test/tenant'

const SCHEMA = 'customer.notes'
const schema = {
  name: SCHEMA,
  subject_type: 'customer',
  memory_types: ['preference'],
  visibility: ['user'],
  consent: { required: true },
  expiration: { after_days: null },
  supersession: 'ask',
  retrieval: ['subject'],
  write_policy: 'direct',
}
type Payload = { readonly [name: string]: string | { readonly seat?: string } }
const about = (id: string, more: Payload = {}): Payload => ({
  subject: `customer:${id}`,
  scope: 'user',
  memory_type: 'preference',
  content: { seat: 'aisle' },
  ...more,
})
const tools = ['retrieve_memory', 'propose_memory']
const memory = { subject: 'customer:c1', schemas: [SCHEMA], write_allowed: true, memory_types: ['preference'] } as const
const proposing = (name: string, payload: Payload, more: object = { memory }) =>
  scripted(name, [{ calls: [{ action: 'propose_memory', payload }] }, final], { tools, ...more })

const agents = [
  proposing('Remembers', about('c1')),
  proposing('Remembers With Schema', about('c1', { schema_name: SCHEMA, fact_key: 'notes' })),
  proposing('Other Subject', about('c2')),
  proposing('Other Type', about('c1', { memory_type: 'fact' })),
  proposing('Other Schema', about('c1', { schema_name: 'customer.cards' })),
  proposing('Not Allowed', about('c1'), { memory: { ...memory, write_allowed: false } }),
  proposing('Without Subject', about('c9'), { memory: { write_allowed: true, memory_types: ['preference'] } }),
  proposing('Wrong Type', about('c9', { memory_type: 'fact' }), {
    memory: { write_allowed: true, memory_types: ['preference'] },
  }),
  proposing('Broken', { subject: 'customer:c1', content: {} }),
  proposing('Empty', {}),
]

describe('memories that a run proposes', () => {
  let room: AgentRoom
  before(async () => {
    room = await openAgentRoom(
      agents,
      undoDefinitions(() => room.world),
      [],
      [],
      undefined,
      [schema],
    )
  })
  after(() => room.close())

  const store = () => room.world.memory as MemoryDeps
  const candidatesOf = (agentRunId: string) =>
    room.rows<{ memory_candidate_id: string; command_id: string; status: string; memory_id: string | null }>(
      'select memory_candidate_id, command_id, status, memory_id from concord.memory_candidates where agent_run_id = $1',
      [agentRunId],
    )
  const run = async (name: string) => {
    const found = await room.runOf(await room.start(name))
    assert.deepEqual([found.status, found.end_reason], ['succeeded', 'final_answer_created'], name)
    await followCandidates(store(), { traceId: TRACE })
    const messages = await room.messagesOf(found)
    const seen = messages.find(({ role }) => role === 'tool')?.content as { decision: string; content: JsonObject }
    return { run: found, seen, candidates: await candidatesOf(found.agent_run_id) }
  }

  test('[MEM-13] a run proposes a memory: the step names the candidate, a person decides, and its command holds no content', async () => {
    const { run: ended, seen, candidates } = await run('Remembers')
    const [candidate, ...more] = candidates
    assert.ok(candidate && more.length === 0)
    assert.equal(candidate.status, 'awaiting_approval')
    const shown = encodeId('memory_candidate', candidate.memory_candidate_id)
    assert.deepEqual(
      [seen.decision, seen.content],
      ['done', { memory_candidate_id: shown, command_id: encodeId('command', candidate.command_id) }],
    )
    const [step] = await room.stepsOf(ended)
    assert.deepEqual([step?.event_type, step?.payload['created_memory_id']], ['propose_memory', shown])
    const [call] = await room.rows<{ payload: JsonObject }>(
      'select payload from concord.commands where agent_run_id = $1',
      [ended.agent_run_id],
    )
    assert.deepEqual(Object.keys(call?.payload ?? {}), ['content_ref'])

    const owner = { ...room.tenant.people.admin.principal, orgRoles: ['data_owner'] }
    const say = { workspaceId: room.tenant.workspace.id, candidateId: candidate.memory_candidate_id }
    const yes = { ...say, decision: 'approved', reason: 'She told us.' } as const
    accepted(await decideCandidate(room.world, room.approvals, byPerson(owner, TRACE), yes))
    await room.rest()
    const [written] = await candidatesOf(ended.agent_run_id)
    assert.equal(written?.status, 'accepted')
    const records = await room.rows('select content from concord.memory_records where memory_id = $1', [
      written.memory_id,
    ])
    assert.deepEqual(records, [{ content: { seat: 'aisle' } }])
  })

  test('without write_allowed the tool is refused, whatever its list of tools says', async () => {
    const { seen, candidates } = await run('Not Allowed')
    assert.equal(seen.decision, 'denied')
    assert.match(JSON.stringify(seen.content), /agents\.tool\.outside_scope.*may not write memory/)
    assert.deepEqual(candidates, [])
  })

  test('a subject, type or schema outside of its scope is refused, and so is a memory that is none', async () => {
    const refused: readonly (readonly [string, RegExp])[] = [
      ['Other Subject', /The subject is outside the memory scope of this run/],
      ['Other Type', /The memory_type is outside/],
      ['Other Schema', /The schema_name is outside/],
      ['Wrong Type', /The memory_type is outside/],
      ['Broken', /agents\.call\.invalid.*scope/],
      ['Empty', /agents\.call\.invalid.*subject/],
    ]
    for (const [name, why] of refused) {
      const { seen, candidates } = await run(name)
      assert.equal(seen.decision, 'failed', name)
      assert.match(JSON.stringify(seen.content), why, name)
      assert.deepEqual(candidates, [], name)
    }
    const free = await run('Without Subject')
    assert.equal(free.candidates.length, 1)
  })

  test('an undo of the call withdraws a proposal that nobody has decided', async () => {
    const { run: ended, candidates } = await run('Without Subject')
    const [call] = await room.rows<{ command_id: string }>(
      'select command_id from concord.commands where agent_run_id = $1',
      [ended.agent_run_id],
    )
    const follower = { kind: 'agent_run', id: ended.agent_run_id }
    const undo = () =>
      undoByDecision(
        room.world,
        { traceId: TRACE },
        { workspaceId: room.tenant.workspace.id, commandId: call?.command_id ?? '', requestId: 'r', follower },
      )
    await undo()
    await room.rest()
    assert.equal(await undo(), 'done')
    assert.equal(await room.statusOf(candidates[0]?.command_id ?? ''), 'cancelled')
    await followCandidates(store(), { traceId: TRACE })
    assert.deepEqual(
      (await candidatesOf(ended.agent_run_id)).map(({ status }) => status),
      ['rejected'],
    )
  })

  test('without the consent that the schema requires nothing is stored; with it a person is asked', async () => {
    const without = await run('Remembers With Schema')
    assert.match(JSON.stringify(without.seen.content), /requires the consent of the subject/)
    assert.deepEqual(without.candidates, [])
    const { id: workspaceId } = room.tenant.workspace
    const to = { subject_type: 'customer', subject_id: 'c1', memory_type: 'preference', scope: 'user' } as const
    accepted(await grantConsent(store(), ada, { workspaceId, ...to }))
    const consented = await run('Remembers With Schema')
    assert.deepEqual(
      consented.candidates.map(({ status }) => status),
      ['awaiting_approval'],
    )
  })
})
