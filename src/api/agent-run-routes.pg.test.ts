/** Agent runs over HTTP: lists, a run, its steps and messages, and actions under a run. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { listTools } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { final, look, type Outside, scripted, toolsForRuns } from '#test/agent-project'
import { call, openTestApi, type TestApi } from '#test/api'
import { driveUntil } from '#test/agents'
import type { Api } from './api.ts'
import type { AgentRuntime } from '#domains/agents'

type Body = Record<string, unknown>

describe('agent runs over HTTP', () => {
  let api: TestApi
  let room: AgentRoom
  let app: Api
  const outside: Outside = { paid: [], looked: 0 }
  let release: () => void = () => {}
  /** An agent outside of Concord: its runtime answers only when the test lets it. */
  const remote: AgentRuntime = {
    name: 'remote',
    startAgentRun: () => new Promise((resolve) => (release = () => resolve({ text: null, calls: [], final: {} }))),
    resumeAgentRun: async () => ({ text: null, calls: [], final: {} }),
    cancelAgentRun: async () => {},
  }
  before(async () => {
    api = await openTestApi()
    const agents = [
      scripted('Looks', [{ say: 'Secret thought.', calls: [look(1)] }, final]),
      scripted('Remote', [final], {
        runtime: 'remote',
        tools: ['look', 'never', 'pay', 'propose_memory'],
        memory: { write_allowed: true },
        forbiddenTools: ['pay'],
        limits: { max_steps: 3 },
      }),
    ]
    room = await openAgentRoom(agents, toolsForRuns(outside), [remote], [], { clock: api.world, tenant: api.ours })
    app = api.with({
      work: { commands: room.world, approvals: room.approvals, webhooks: [], agents: room.agents },
    })
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const ask = async (method: string, path: string, body?: unknown, key = api.ours.people.writer.key) => {
    const asked = call(app, path, {
      method,
      key,
      ...(body === undefined ? {} : { body }),
      headers: { 'x-workspace': 'main' },
    })
    const answer = await driveUntil(room, asked)
    return { status: answer.status, body: (await answer.json()) as Body }
  }
  const get = (path: string, key?: string) => ask('GET', path, undefined, key)

  test('[AGT-10] a run, its steps and its messages can be read; other people see no message', async () => {
    const run = await room.runOf(await room.start('Looks'))
    const at = `/agent-runs/${encodeId('agent_run', run.agent_run_id)}`
    const list = (await get('/agent-runs?status=succeeded')).body['items'] as Body[]
    assert.deepEqual(
      list.map(({ agent_name, end_reason }) => [agent_name, end_reason]),
      [['Looks', 'final_answer_created']],
    )
    const detail = (await get(at)).body
    assert.deepEqual(
      [detail['status'], detail['step_count'], detail['manifest_hash']],
      ['succeeded', 2, run.manifest_hash],
    )
    const steps = (await get(`${at}/steps`)).body['items'] as Body[]
    assert.deepEqual(
      steps.map(({ step_index, tool_name, decision }) => [step_index, tool_name, decision]),
      [
        [0, 'look', 'allowed'],
        [1, null, 'allowed'],
      ],
    )
    assert.match(String(steps[0]?.['command_id']), /^cmd_/)
    assert.doesNotMatch(JSON.stringify([detail, steps]), /Secret thought/)
    const messages = (await get(`${at}/messages`)).body['items'] as Body[]
    assert.match(JSON.stringify(messages), /Secret thought/)
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['assistant', 'tool', 'assistant'],
    )
    const { reader, admin } = api.ours.people
    const others = await get(`${at}/messages`, reader.key)
    assert.deepEqual([others.status, others.body['code']], [403, 'agents.run.not_yours'])
    assert.equal((await get(`${at}/messages`, admin.key)).status, 200)
    for (const path of [at, `${at}/steps`, `${at}/messages`]) {
      const foreign = await get(path, api.theirs.people.admin.key)
      assert.deepEqual([foreign.status, foreign.body['code']], [404, 'agents.run.not_found'], path)
    }
  })

  test('[AGT-13] [AGT-08] an action under a run is a step and a command; outside of its scope it is refused', async () => {
    const commandId = await room.submit({}, { taskName: 'Remote' })
    await room.settle(commandId)
    const resting = room.rest()
    const run = await room.runOf(commandId)
    const at = `/agent-runs/${encodeId('agent_run', run.agent_run_id)}/actions`
    const act = (more: object, key?: string) =>
      ask('POST', at, { tool_name: 'look', payload: { n: 5 }, reason: 'r', ...more }, key)
    const first = await act({ idempotency_key: 'a' })
    assert.deepEqual([first.status, first.body['decision'], first.body['step_index']], [200, 'allowed', 0])
    const again = await act({ idempotency_key: 'a' })
    assert.deepEqual([again.body['command_id'], again.body['step_index']], [first.body['command_id'], 0])
    for (const other of [{ payload: { n: 6 } }, { tool_name: 'never', payload: { n: 5 } }]) {
      const reused = await act({ idempotency_key: 'a', ...other })
      const { code, path, facts } = reused.body
      assert.deepEqual([reused.status, code, path], [422, 'key_reused', 'idempotency_key'])
      assert.deepEqual(facts, { command_id: first.body['command_id'] })
    }
    const denied = await act({ tool_name: 'never', payload: { note: 'x' } })
    assert.deepEqual([denied.status, denied.body['decision'], denied.body['reasons']], [200, 'denied', ['Not here.']])
    for (const tool_name of ['pay', 'ask_owner', 'nothing']) {
      const refused = await act({ tool_name, payload: { note: 'x' } })
      assert.deepEqual([refused.status, refused.body['code']], [403, 'agents.tool.outside_scope'], tool_name)
    }
    const missing = await act({ tool_name: 'propose_memory', payload: { subject: 'customer:1' } })
    assert.deepEqual([missing.status, missing.body['code']], [422, 'agents.call.invalid'])
    const others = await act({}, api.ours.people.admin.key)
    assert.deepEqual([others.status, others.body['code']], [403, 'agents.run.not_yours'])
    assert.equal((await act({}, api.theirs.people.admin.key)).status, 404)
    assert.equal((await act({ surprise: 1 })).body['code'], 'unknown_field')
    assert.equal((await act({})).status, 200)
    assert.equal((await act({ payload: { n: 6 } })).body['code'], 'agents.run.no_steps')
    assert.deepEqual((await room.runOf(commandId)).step_count, 3)
    release()
    await resting
    await room.rest()
    const ended = await act({})
    assert.deepEqual([ended.status, ended.body['code']], [409, 'agents.run.ended'])
    assert.deepEqual(outside.paid, [])
  })

  test('a tool whose content no command may hold is refused without a run, before there is a command', async () => {
    const made = await ask('POST', '/keys', { name: 'k', role: 'writer', agent: 'k', tools: ['propose_memory'] })
    const commands = () => room.rows('select command_id from concord.commands order by command_id')
    const before = await commands()
    const content_ref = { agent_message_id: 'zzcontentzz', call_id: 'zzcontentzz', digest: '', size_bytes: 0 }
    for (const payload of [{ subject: 'customer:1', content: { note: 'zzcontentzz' } }, { content_ref }])
      for (const key of [String(made.body['key']), api.ours.people.writer.key]) {
        const body = { tool_name: 'propose_memory', payload, reason: 'r' }
        const refused = await ask('POST', '/agent-actions', body, key)
        assert.deepEqual([refused.status, refused.body['code']], [422, 'agents.call.by_reference'])
      }
    assert.deepEqual(await commands(), before)
    const agent = { name: 'k', tools: ['propose_memory', 'look'] }
    assert.deepEqual(
      listTools(room.world.catalog, agent).map(({ name }) => name),
      ['look'],
    )
  })

  test('a pre-flight: every tool of the agent; readers, unknown tasks and unknown fields are refused', async () => {
    const body = { task_name: 'Looks', payload: {} }
    const found = await ask('POST', '/preflights', body)
    assert.equal(found.status, 200, JSON.stringify(found.body))
    assert.deepEqual(
      (found.body['tools'] as { name: string }[]).map(({ name }) => name),
      ['look', 'pay', 'break_it', 'ask_owner', 'never'],
    )
    assert.equal((await ask('POST', '/preflights', body, api.ours.people.reader.key)).status, 403)
    const unknown = await ask('POST', '/preflights', { task_name: 'Lookz', payload: {} })
    assert.deepEqual([unknown.status, unknown.body['code']], [404, 'task_unknown'])
    assert.equal((await ask('POST', '/preflights', { ...body, more: 1 })).status, 422)
    const calls = [{ tool: 'ask_owner', calls_max: 1, arguments: { note: 'any' } }]
    const started = await ask('POST', '/preflights', { ...body, envelope: { calls } })
    assert.deepEqual([started.status, typeof started.body['command_id']], [202, 'string'], JSON.stringify(started.body))
    const none = await ask('POST', '/preflights', { ...body, envelope: { calls: [] } })
    assert.deepEqual([none.status, none.body['path']], [422, 'envelope.calls'])
  })
})
