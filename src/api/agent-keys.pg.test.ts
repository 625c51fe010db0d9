/** The keys of agents over HTTP: which routes they open, which tools they cover, who makes and ends them, and what the record says. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { ApiKeyView, CreatedApiKeyView } from '#domains/identity'
import { type AgentApi, openAgentApi } from '#test/agents'
import { call } from '#test/api'
import { anOrgRole } from '#test/tenant'

type Operation = { readonly 'x-role'?: string | null; readonly 'x-agents'?: boolean; readonly operationId: string }
const { paths } = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8')) as {
  readonly paths: Record<string, Record<string, Operation>>
}

const OUTSIDE = { subject: 'May', destination: 'external:finance@example.com' }
const INSIDE = { subject: 'May', destination: 'internal' }

describe('the key of an agent', () => {
  let room: AgentApi
  before(async () => {
    room = await openAgentApi()
  })
  after(() => room.close())

  async function make(more: object = {}, by = room.api.ours.people.writer.key): Promise<CreatedApiKeyView> {
    const body = { name: 'planner', role: 'writer', agent: 'planner', tools: ['publish_note'], ...more }
    const { status, body: made } = await room.post('/keys', body, by)
    assert.equal(status, 201, JSON.stringify(made))
    return made as CreatedApiKeyView
  }
  const outcome = ({ status, body }: Awaited<ReturnType<AgentApi['get']>>) =>
    `${status} ${(body as { code?: string })['code'] ?? 'ok'}`

  test('[D4] [M1] opens only the routes that are declared open to agents', async () => {
    const { key } = await make()
    const opened: string[] = []
    for (const [path, methods] of Object.entries(paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        if (operation['x-role'] === null || operation['x-role'] === undefined) continue
        const status = await answerOf(path.replaceAll(/\{\w+\}/g, 'x'), method, key)
        const isClosed = status === '403 api.route.closed_to_agents'
        assert.equal(isClosed, operation['x-agents'] !== true, `${method} ${path}: ${status}`)
        if (!isClosed) opened.push(operation.operationId)
      }
    }
    assert.deepEqual(opened.toSorted(), [
      'actInRun',
      'describeMe',
      'explainCommand',
      'getAgentRun',
      'getAgentRunAuthority',
      'getBudget',
      'getCommand',
      'listCommandEffects',
      'listCommandEvents',
      'listTaskTypes',
      'proposeAction',
      'serveMcp',
    ])
  })

  /** All routes are mounted. The guard refuses before any service is reached, so most services are empty. */
  async function answerOf(path: string, method: string, key: string): Promise<string> {
    const none = {} as never
    const { world: commands, approvals } = room.room
    const work = {
      commands,
      approvals,
      artifacts: none,
      schedules: none,
      connectors: none,
      memory: none,
      agents: none,
      flow: none,
      webhooks: [],
    }
    const body = method === 'get' || method === 'delete' ? {} : { body: {} }
    const sent = { method: method.toUpperCase(), key, ...body, headers: { 'x-workspace': 'main' } }
    const answer = await call(room.api.with({ work, scheduler: none, mcp: none }), path, sent)
    const { code = 'ok' } = (await answer.json()) as { code?: string }
    return `${answer.status} ${code}`
  }

  test('[D4] proposes, and is refused where people submit, no matter who owns it', async () => {
    const { writer, admin } = room.api.ours.people
    for (const owner of [writer, admin]) {
      const { key } = await make({}, owner.key)
      const proposed = await room.propose(INSIDE, {}, key)
      assert.deepEqual([proposed.status, proposed.body['decision']], [202, 'allow'])
      const command = { task_name: 'Publish Note', payload: INSIDE }
      for (const [path, body] of [
        ['/commands', command],
        ['/commands/preview', command],
        [`/commands/${String(proposed.body['command_id'])}/cancel`, {}],
        ['/keys', { name: 'second', role: 'writer', agent: 'x', tools: ['publish_note'] }],
      ] as const) {
        const refused = await room.post(path, body, key)
        assert.equal(outcome(refused), '403 api.route.closed_to_agents', path)
        assert.match(String(refused.body['hint']), /POST \/agent-actions/)
      }
    }
  })

  test('[M1] an approver whose agent has a key decides with their own key only', async () => {
    const { admin } = room.api.ours.people
    await anOrgRole(room.api.world, room.api.ours.orgId, 'data-owner', [admin])
    const { key } = await make({}, admin.key)
    const asked = await room.propose(OUTSIDE)
    const path = `/approvals/${String(asked.body['approval_id'])}/resolve`
    const yes = { decision: 'approved' }
    assert.equal(outcome(await room.post(path, yes, key)), '403 api.route.closed_to_agents')
    assert.equal(outcome(await room.post(path, yes, admin.key)), '200 ok')
    const [decided] = await room.room.rows<{ payload: { by_key_id: string } }>(
      `select payload from concord.domain_events where event_type = 'approval_decided' order by created_at desc limit 1`,
    )
    assert.equal(decided?.payload.by_key_id, admin.keyId)
  })

  test('[M1] a vote with the key of an agent breaks a constraint of the database', async () => {
    const { key_id } = await make()
    await room.propose(OUTSIDE, { idempotency_key: 'constraint' })
    const uuid = key_id.slice(4).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')
    const vote = (more: string) =>
      room.room.rows(`update concord.approvals set vote_key_id = '${uuid}'${more} where status = 'pending'`)
    await assert.rejects(vote(''), /approvals_vote_key_fk/)
    await assert.rejects(vote(', vote_key_is_agent = true'), /approvals_vote_key_ck/)
  })

  test('[D4] reads what the same agent of the same person proposed, and nothing else', async () => {
    const { admin } = room.api.ours.people
    const mine = await make()
    const proposed = await room.propose(INSIDE, { idempotency_key: 'read-1' }, mine.key)
    const path = `/commands/${String(proposed.body['command_id'])}`
    const renewed = await make({ name: 'renewed' })
    const other = await make({ agent: 'other' })
    const namesake = await make({}, admin.key)
    const byPerson = await room.propose(INSIDE, { idempotency_key: 'read-2' })
    for (const part of ['', '/effects', '/events', '/explanation']) {
      for (const { key } of [mine, renewed]) assert.equal(outcome(await room.get(`${path}${part}`, key)), '200 ok')
      for (const { key } of [other, namesake]) {
        assert.equal(outcome(await room.get(`${path}${part}`, key)), '404 commands.command.not_found', part)
      }
      const people = `/commands/${String(byPerson.body['command_id'])}${part}`
      assert.equal(outcome(await room.get(people, mine.key)), '404 commands.command.not_found', part)
    }
    const again = await room.propose(INSIDE, { idempotency_key: 'read-1' }, other.key)
    assert.equal(outcome(again), '409 commands.proposal.of_another')
    assert.doesNotMatch(JSON.stringify(again.body), /cmd_/)
    assert.equal((await room.propose(INSIDE, { idempotency_key: 'read-1' }, renewed.key)).status, 200)
  })

  test('[D4] covers its tools, by whatever name they are proposed, and lists only those', async () => {
    const { key } = await make()
    for (const tool_name of ['Publish Note', 'publish_note']) {
      assert.equal((await room.propose(INSIDE, { tool_name }, key)).status, 202, tool_name)
    }
    for (const tool_name of ['Forbidden Note', 'forbidden_note', 'read_books']) {
      const refused = await room.propose({ subject: 's' }, { tool_name }, key)
      assert.equal(outcome(refused), '403 commands.tool.outside_scope', tool_name)
      assert.deepEqual(refused.body['facts'], { tools: ['Publish Note'] })
    }
    assert.equal(
      outcome(await room.propose({ subject: 's' }, { tool_name: 'Work' }, key)),
      '403 commands.tool.forbidden',
    )
    const { items } = (await room.get('/task-types', key)).body as { items: { task_name: string }[] }
    assert.deepEqual(
      items.map(({ task_name }) => task_name),
      ['Publish Note'],
    )
  })

  test('[D4] everybody who may act makes one for themselves, never wider than themselves', async () => {
    const { reader, writer, admin } = room.api.ours.people
    const ask = async (by: string, more: object) =>
      outcome(await room.post('/keys', { name: 'k', role: 'writer', agent: 'a', tools: ['publish_note'], ...more }, by))
    assert.equal(await ask(writer.key, {}), '201 ok')
    assert.equal(await ask(writer.key, { role: 'admin' }), '403 identity.key.role_too_high')
    assert.equal(await ask(admin.key, { role: 'admin' }), '403 identity.key.role_too_high')
    assert.equal(await ask(reader.key, {}), '403 identity.role.insufficient')
    assert.equal(await ask(writer.key, { agent: undefined, tools: undefined }), '403 identity.role.insufficient')
    assert.equal(await ask(writer.key, { tools: undefined }), '422 api.field.missing')
    assert.equal(await ask(writer.key, { agent: undefined }), '422 api.field.missing')
    assert.equal(await ask(writer.key, { tools: [] }), '422 api.field.value')
    assert.equal(await ask(writer.key, { tools: ['Publish Note', 'Work'] }), '403 commands.tool.forbidden')
    assert.equal(await ask(writer.key, { tools: ['nothing'] }), '404 commands.tool.unknown')
    const elsewhere = { workspace_id: room.api.theirs.workspace.id }
    assert.equal(await ask(writer.key, elsewhere), '404 workspace_unknown')
  })

  test('[D4] is listed with its kind and agent, and a revocation by its owner ends it at once', async () => {
    const { writer, reader } = room.api.ours.people
    const made = await make({ name: 'short-lived' })
    const { items } = (await room.get('/keys')).body as { items: ApiKeyView[] }
    const listed = items.find(({ key_id }) => key_id === made.key_id)
    assert.deepEqual([listed?.kind, listed?.agent, listed?.tools], ['agent', 'planner', ['Publish Note']])
    assert.ok(items.every(({ user_id }) => user_id === made.user_id))
    const app = room.api.app
    const revoke = (key: string) => call(app, `/keys/${made.key_id}`, { method: 'DELETE', key })
    assert.equal((await revoke(reader.key)).status, 404)
    assert.equal((await room.get('/me', made.key)).status, 200)
    assert.equal((await revoke(writer.key)).status, 200)
    assert.equal(outcome(await room.propose(INSIDE, {}, made.key)), '401 unauthenticated')
  })

  test('[8] what an agent proposed begins after the revocation of its key only if an operator agrees', async () => {
    const { admin, writer } = room.api.ours.people
    const made = await make({ agent: 'dismissed' })
    const asked = await room.propose({ ...OUTSIDE, subject: 'revoked' }, {}, made.key)
    assert.equal((await call(room.api.app, `/keys/${made.key_id}`, { method: 'DELETE', key: writer.key })).status, 200)
    const path = `/approvals/${String(asked.body['approval_id'])}/resolve`
    assert.equal(outcome(await room.post(path, { decision: 'approved' }, admin.key)), '200 ok')
    await room.room.settleWoken()
    const view = (await room.get(`/commands/${String(asked.body['command_id'])}`)).body
    assert.deepEqual(
      [view['status'], view['waiting_reason']],
      ['blocked', 'an operator who says whether it continues without its requester'],
    )
  })

  test('[D4] the audit names the key and the agent of a proposal and of a refused one', async () => {
    const made = await make({ agent: 'named-in-audit' })
    await room.propose(INSIDE, { idempotency_key: 'audit-1' }, made.key)
    await room.propose({ subject: 's' }, { tool_name: 'read_books' }, made.key)
    const { items } = (await room.get('/audit?limit=100')).body as {
      items: { event_type: string; payload: Record<string, unknown> }[]
    }
    const ofAgent = items.filter(({ payload }) => payload['by_agent'] === 'named-in-audit')
    assert.deepEqual(ofAgent.map(({ event_type }) => event_type).toSorted(), ['command_created', 'command_rejected'])
    const uuid = made.key_id.slice(4)
    for (const { payload } of ofAgent) assert.equal(String(payload['by_key_id']).replaceAll('-', ''), uuid)
  })
})
