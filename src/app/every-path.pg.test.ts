/** Every way to act that there is today, on the path as a process opens it: each is a command, and policy has the say about each. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { actingFor, submitCommand } from '#domains/commands'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { compileRules } from '#kernel/policy/policy'
import { type AgentWork, openAgentWork } from '#test/agents'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'

describe('every way to act', () => {
  let agent: AgentWork
  before(async () => {
    agent = await openAgentWork()
  })
  after(() => agent?.close())

  test('an agent of a person without rights is stopped on every path', async () => {
    const before = agent.api.requests.length
    const { principal: reader } = agent.tenant.people.reader
    const note = { note: 'Hello.', destination: 'internal' }
    const artifact = {
      artifact_id: encodeId('artifact', agent.work.commands.newId()),
      checksum: `sha256:${'0'.repeat(64)}`,
    }
    const candidate = { memory_candidate_id: agent.work.commands.newId() }
    const target = { command_id: encodeId('command', agent.work.commands.newId()) }
    const ways: [string, JsonObject][] = [
      ['call_partner', note],
      ['notify_partner', note],
      ['sync_partner', note],
      ['publish_artifact', { ...artifact, destination: 'internal' }],
      ['write_memory', candidate],
      ['undo_command', target],
    ]
    for (const [toolName, payload] of ways) {
      const stopped = await agent.ask(toolName, payload, reader)
      assert.deepEqual([stopped.decision, await agent.restOf(stopped)], ['deny', 'failed'], toolName)
      assert.ok(stopped.reasons.includes('The requester may not act in this workspace.'), toolName)
      const rows = await agent.db.query(
        `select 1 from concord.domain_events where command_id = $1 and event_type in ('command_created', 'policy_evaluated')`,
        [accepted(decodeId('command', stopped.command_id))],
      )
      assert.equal(rows.length, 2, toolName)
    }
    assert.equal(agent.api.requests.length, before)
  })

  test('under a policy that denies all, every way to act is a command that stops there: requests, schedules, tools, sharing, publishing, syncing, remembering, undoing', async () => {
    const { principal } = agent.tenant.people.writer
    const artifact = await agent.write('price_list')
    const remember = await agent.aRememberingRun()
    const counts = async () => [
      agent.api.requests.length,
      agent.mail.taken.length,
      await agent.publications(),
      (await agent.db.query('select 1 from concord.memory_records')).length,
      (await agent.db.query('select 1 from concord.domain_effects')).length,
    ]
    const denyAll = accepted(
      compileRules('deny_all', [
        { name: 'deny_all', category: 'environment', actions: '*', decide: () => ({ decision: 'deny' }) },
      ]),
    )
    for (const task of agent.work.commands.catalog.tasks.values()) {
      Object.assign(task, { policy: denyAll, forAgents: { ...task.forAgents, policy: denyAll } })
    }
    const before = await counts()
    const submit = async (
      taskName: string,
      ingress: 'user_request' | 'scheduled_trigger',
      payload: JsonObject = {},
    ) => {
      const base = { workspaceId: agent.tenant.workspace.id, requestId: 'r', taskName, ingress, payload }
      return accepted(await submitCommand(agent.work.commands, actingFor(principal, TRACE), base)).command.command_id
    }
    const propose = async (toolName: string, payload: JsonObject) =>
      accepted(decodeId('command', (await agent.ask(toolName, payload)).command_id))
    const inside = { note: 'Hello.', destination: 'internal' }
    const shared = { note: 'Hello.', destination: 'finance@example.com' }
    const target = { command_id: encodeId('command', agent.work.commands.newId()) }
    const paths = {
      'user request': await submit('Publish Artifact', 'user_request', { ...artifact, destination: 'internal' }),
      schedule: await submit('Sync Connector Metadata', 'scheduled_trigger'),
      'tool call': await propose('call_partner', inside),
      'external share': await propose('send_notification', shared),
      'artifact publication': await propose('publish_artifact', { ...artifact, destination: 'internal' }),
      'connector sync': await propose('sync_partner', inside),
      'memory write': accepted(await remember({ seat: 'aisle' })).command.command_id,
      compensation: await propose('undo_command', target),
    }
    for (const [path, id] of Object.entries(paths)) {
      const read = () =>
        agent.db.query<{ status: string }>(
          `select c.status, c.error_class, e.payload->>'decision' as decision from concord.commands as c
             join concord.domain_events as e on e.command_id = c.command_id and e.event_type = 'policy_evaluated' where c.command_id = $1`,
          [id],
        )
      await until(async () => (await read())[0]?.status === 'failed', path)
      assert.deepEqual(await read(), [{ status: 'failed', error_class: 'policy_denied', decision: 'deny' }], path)
    }
    assert.deepEqual(await counts(), before)
  })
})
