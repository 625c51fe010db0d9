/** Proposals of agents over HTTP: the decision in the answer, each kind of it, and what is refused at the agent. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type AgentApi, openAgentApi } from '#test/agents'

const OUTSIDE = { subject: 'May', destination: 'external:finance@example.com' }

describe('POST /agent-actions', () => {
  let agent: AgentApi
  before(async () => {
    agent = await openAgentApi()
  })
  after(() => agent.close())

  test('[API-04] [AGT-02] [POL-07] publishing to external:finance@example.com is answered with require_approval, the command and the approval', async () => {
    const { status, body } = await agent.propose(OUTSIDE)
    assert.equal(status, 202)
    assert.deepEqual(Object.keys(body), [
      'decision',
      'command_id',
      'approval_id',
      'status',
      'reasons',
      'output',
      'message',
      'trace_id',
    ])
    assert.deepEqual([body['decision'], body['status']], ['require_approval', 'waiting_for_approval'])
    assert.ok((body['reasons'] as string[]).includes('External sharing requires approval.'))
    const approval = await agent.get(`/approvals/${String(body['approval_id'])}`)
    assert.deepEqual([approval.status, approval.body['command_id']], [200, body['command_id']])
    const command = (await agent.get(`/commands/${String(body['command_id'])}`)).body
    assert.deepEqual([command['ingress'], command['status']], ['agent_action', 'waiting_for_approval'])
    const [row] = await agent.room.rows<{ metadata: object }>(
      `select context->'metadata' as metadata from concord.commands order by created_at desc, command_id desc limit 1`,
    )
    assert.deepEqual(row?.metadata, {
      action_type: 'tool_call',
      tool_name: 'publish_note',
      reason: 'The user asked for it.',
      // The tool's own level, since the agent named none.
      risk_level: 'medium',
      role: 'writer',
      org_roles: [],
    })
  })

  test('[AGT-03] [AGT-04] the wire form: the five fields of an action, the decision with command, approval, output and message', async () => {
    const action = { action_type: 'tool_call', tool_name: 'publish_note', payload: OUTSIDE, reason: 'Finance waits.' }
    const riskOf = async (more: object) => {
      const { status, body } = await agent.post('/agent-actions', { ...action, ...more })
      assert.equal(status, 202)
      const { decision, command_id, approval_id, output, message } = body
      assert.deepEqual([decision, output], ['require_approval', null])
      assert.match(String(command_id), /^cmd_/)
      assert.match(String(approval_id), /^appr_/)
      assert.match(String(message), /must agree/)
      const { body: packet } = await agent.get(`/approvals/${String(approval_id)}`)
      return JSON.stringify(packet).match(/"risk_level":"(\w+)"/)?.[1]
    }
    assert.equal(await riskOf({}), await riskOf({ risk_level: 'low' }), 'low unless given')
    assert.equal(await riskOf({ risk_level: 'high' }), 'high')
    const wrong = await agent.post('/agent-actions', { ...action, action_type: 'guess' })
    assert.equal(wrong.status, 422)
    const forged = await agent.post('/agent-actions', { ...action, agent_run_id: 'arun_1' })
    assert.equal(forged.status, 422)
    const [row] = await agent.room.rows<{ count: number }>(
      'select count(*)::integer as count from concord.commands where agent_run_id is not null',
    )
    assert.equal(row?.count, 0, 'no route names the run of a command')
  })

  test('[API-04] [AGT-02] the answer contains the decision of the governed path', async () => {
    const allowed = await agent.propose({ subject: 's', destination: 'internal' })
    assert.deepEqual([allowed.body['decision'], allowed.body['approval_id']], ['allow', null])
    const denied = await agent.propose({ subject: 's' }, { tool_name: 'Forbidden Note' })
    assert.deepEqual([denied.status, denied.body['decision'], denied.body['status']], [202, 'deny', 'failed'])
    assert.match(String(denied.body['message']), /^Denied\. Nothing is allowed here\./)
    const malformed = await agent.propose({ subject: 7 })
    assert.deepEqual([malformed.body['decision'], malformed.body['status']], ['deny', 'failed'])
    assert.match(String(malformed.body['message']), /subject/)
    const books = { tool_name: 'read_books' }
    const done = await agent.propose({ subject: 's' }, books, agent.api.ours.people.admin.key)
    assert.deepEqual(
      [done.body['decision'], done.body['status'], done.body['output']],
      ['allow', 'succeeded', { total: '17' }],
    )
  })

  test('the same key is the same proposal, answered with 200 and the same decision', async () => {
    const first = await agent.propose(OUTSIDE, { idempotency_key: 'step-1' })
    const again = await agent.propose(OUTSIDE, { idempotency_key: 'step-1' })
    assert.deepEqual([first.status, again.status], [202, 200])
    assert.deepEqual(again.body, first.body)
    const other = await agent.propose({ subject: 'other' }, { idempotency_key: 'step-1' })
    assert.deepEqual([other.status, other.body['code']], [422, 'key_reused'])
    const taken = await agent.post('/commands', {
      task_name: 'Publish Note',
      payload: {},
      idempotency_key: 'agent:action:x',
    })
    assert.equal(taken.body['code'], 'key_reserved')
  })

  test('an invalid proposal is refused with its code, and records an audit event and no command', async () => {
    const commands = await agent.count('commands')
    const refused: [object, string][] = [
      [{ tool_name: 'Work' }, '403 commands.tool.forbidden'],
      [{ tool_name: 'work' }, '403 commands.tool.forbidden'],
      [{ tool_name: 'publish_notes' }, '404 commands.tool.unknown'],
    ]
    for (const [more, expected] of refused) {
      const { status, body } = await agent.propose({ subject: 's' }, more)
      assert.equal(`${status} ${String(body['code'])}`, expected)
      assert.equal(body['path'], 'tool_name')
    }
    const audit = (await agent.get('/audit?event_type=command_rejected')).body as {
      items: { command_id: null; payload: Record<string, unknown>; actor: string }[]
    }
    assert.deepEqual(
      audit.items
        .slice(0, 3)
        .map(({ command_id, payload }) => [command_id, payload['ingress'], payload['task_name'], payload['code']]),
      refused
        .map(([more, expected]) => [
          null,
          'agent_action',
          (more as { tool_name: string }).tool_name,
          expected.split(' ')[1],
        ])
        .reverse(),
    )
    assert.equal(await agent.count('commands'), commands)
  })

  test('[API-04] an invalid body is refused with the field and a hint', async () => {
    const bad: [object, string][] = [
      [{ reason: undefined }, 'api.field.missing reason'],
      [{ reason: '  ' }, 'api.field.value reason'],
      [{ reason: 'x'.repeat(501) }, 'api.field.value reason'],
      [{ tool_name: undefined }, 'api.field.missing tool_name'],
      [{ tool_name: '' }, 'api.field.value tool_name'],
      [{ payload: [] }, 'api.field.type payload'],
      [{ action_type: 'spawn_subagent' }, 'api.field.value action_type'],
      [{ risk_level: 'none' }, 'api.field.value risk_level'],
      [{ idempotency_key: 'a\u200bb' }, 'key_characters '],
      [{ resaon: 'x' }, 'unknown_field resaon'],
      [{ requested_by: 'user:1' }, 'field_not_allowed requested_by'],
      [{ run_as: 'user' }, 'field_not_allowed run_as'],
      [{ decision: 'allow' }, 'unknown_field decision'],
    ]
    for (const [more, expected] of bad) {
      const { body } = await agent.propose({ subject: 's' }, more)
      const [code, path] = expected.split(' ')
      assert.equal(body['code'], code, `${JSON.stringify(more)}: ${JSON.stringify(body)}`)
      if (path !== '') assert.equal(body['path'], path)
    }
  })
})
