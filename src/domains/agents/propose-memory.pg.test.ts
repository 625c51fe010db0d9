/** A run proposes memories: within its scope, with the consent that the schema requires, and only if its manifest lets it write. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  actingFor,
  decideCandidate,
  followCandidates,
  stopDefinitions,
  submitCommand,
  undoByDecision,
  undoDefinitions,
} from '#domains/commands'
import { createApiKey, revokeApiKey } from '#domains/identity'
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
      [...undoDefinitions(() => room.world), ...stopDefinitions(() => room.world)],
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
  /** Its command, and not the one that writes the memory. */
  const callOf = async (agentRunId: string) => {
    const [call] = await room.rows<{ command_id: string; payload: JsonObject }>(
      `select command_id, payload from concord.commands where agent_run_id = $1 and task_name = 'propose_memory'`,
      [agentRunId],
    )
    return call
  }
  const approve = async (candidateId: string) => {
    const owner = { ...room.tenant.people.admin.principal, orgRoles: ['data_owner'] }
    const say = { workspaceId: room.tenant.workspace.id, candidateId, decision: 'approved', reason: 'r' } as const
    accepted(await decideCandidate(room.world, room.approvals, byPerson(owner, TRACE), say))
    await room.rest()
  }
  const run = async (name: string, start = () => room.start(name)) => {
    const found = await room.runOf(await start())
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
    const call = await callOf(ended.agent_run_id)
    assert.deepEqual(Object.keys(call?.payload ?? {}), ['content_ref'])

    await approve(candidate.memory_candidate_id)
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
    const call = await callOf(ended.agent_run_id)
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

  const admin = async (taskName: string, payload: JsonObject) => {
    const by = byPerson(room.tenant.people.admin.principal, TRACE)
    const asked = { workspaceId: room.tenant.workspace.id, taskName, payload, requestId: 'r' }
    const { command } = accepted(await submitCommand(room.world, by, { ...asked, ingress: 'user_request' }))
    assert.equal(await room.settle(command.command_id), 'succeeded')
    return command.command_id
  }

  for (const scope of ['run', 'agent'])
    test(`a stop of the ${scope} holds up a memory that a person has let in, until the lift`, async () => {
      const { run: ended, candidates } = await run('Without Subject')
      const [candidate] = candidates
      assert.ok(candidate)
      const target = scope === 'run' ? encodeId('agent_run', ended.agent_run_id) : ended.agent_name
      const stopping = await admin('Stop Agents', { scope, target, reason: 'r' })
      const [stop] = await room.rows<{ stop_id: string }>('select stop_id from concord.stops where command_id = $1', [
        stopping,
      ])
      assert.ok(stop)
      await approve(candidate.memory_candidate_id)
      assert.deepEqual(
        (await candidatesOf(ended.agent_run_id)).map(({ memory_id }) => memory_id),
        [null],
      )
      await admin('Lift Stop', { stop_id: encodeId('stop', stop.stop_id), reason: 'r' })
      room.woken.push(candidate.command_id)
      await room.rest()
      const [written] = await candidatesOf(ended.agent_run_id)
      assert.equal(written?.status, 'accepted')
    })

  test('a memory that an agent with a key has proposed is not written after the key was revoked, unless an operator agrees', async () => {
    const { principal } = room.tenant.people.writer
    const agent = { name: 'key-agent', tools: ['Without Subject', 'propose_memory'] }
    const key = accepted(
      await createApiKey(room.clock, byPerson(principal, TRACE), { name: 'k', role: 'writer', agent }),
    )
    const { candidates } = await run('Without Subject', async () => {
      const { command } = accepted(
        await submitCommand(room.world, actingFor({ ...principal, agent }, TRACE), {
          workspaceId: room.tenant.workspace.id,
          taskName: 'Without Subject',
          payload: {},
          requestId: 'r',
          ingress: 'user_request',
        }),
      )
      await room.settle(command.command_id)
      await room.rest()
      return command.command_id
    })
    const [candidate] = candidates
    assert.ok(candidate)
    accepted(await revokeApiKey(room.clock, byPerson(principal, TRACE), key.stored.id))
    await approve(candidate.memory_candidate_id)
    assert.equal(await room.statusOf(candidate.command_id), 'blocked')
    assert.match(
      (
        await room.rows<{ approval_type: string }>(
          `select approval_type from concord.approvals where command_id = $1 and status = 'pending'`,
          [candidate.command_id],
        )
      )[0]?.approval_type ?? '',
      /requester_gone/,
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
