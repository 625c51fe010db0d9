/** The layers between an agent and the world, one test each: take one away and its test fails. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type AgentApi, openAgentApi, propose } from '#test/agents'
import { aPerson, anOrgRole, type TestPerson } from '#test/tenant'

const OUTSIDE = { subject: 'May', destination: 'external:finance@example.com' }

describe('the layers of safety', () => {
  let agent: AgentApi
  let owner: TestPerson
  let accountant: TestPerson
  before(async () => {
    agent = await openAgentApi()
    const { api } = agent
    owner = await aPerson(api.world, api.ours, 'writer', 'owner')
    accountant = await aPerson(api.world, api.ours, 'writer', 'accountant')
    await anOrgRole(api.world, api.ours.orgId, 'data-owner', [owner])
    await anOrgRole(api.world, api.ours.orgId, 'finance', [accountant])
  })
  after(() => agent.close())

  const calls = () => agent.room.provider.calls.length
  const codeOf = ({ status, body }: { status: number; body: Record<string, unknown> }) =>
    `${status} ${String(body['code'] ?? body['decision'])}`

  test('[SEC-01] authentication: without a credential, or with a false one, nothing is read and nothing is written', async () => {
    const before = await agent.api.fingerprint()
    for (const key of ['', 'ck_000000000000_nobody', `${owner.key}x`])
      assert.equal(codeOf(await agent.propose(OUTSIDE, {}, key)), '401 unauthenticated')
    assert.equal(await agent.api.fingerprint(), before)
  })

  test('[SEC-01] permission: a read-only key proposes nothing, and the rule denies a caller that passes the route', async () => {
    const { reader } = agent.api.ours.people
    const commands = await agent.count('commands')
    assert.equal(codeOf(await agent.propose(OUTSIDE, {}, reader.key)), '403 identity.role.insufficient')
    assert.equal(await agent.count('commands'), commands)
    const past = await propose(agent.room, reader.principal, { toolName: 'publish_note' })
    assert.equal(past.ok && past.value.decision, 'deny')
  })

  test('[SEC-01] tool allowlist: a task that is not open to agents is forbidden, for any requester', async () => {
    for (const key of [agent.api.ours.people.writer.key, agent.api.ours.people.admin.key])
      for (const tool_name of ['Work', 'Booking', 'echo'])
        assert.equal(codeOf(await agent.propose({ subject: 's' }, { tool_name }, key)), '403 commands.tool.forbidden')
  })

  test('[SEC-01] connector scope: a tool that reaches for a connector which its contract does not name is stopped before the call', async () => {
    const before = calls()
    const { body } = await agent.propose({ subject: 's' }, { tool_name: 'sneak' })
    await agent.room.settleWoken()
    const command = (await agent.get(`/commands/${String(body['command_id'])}`)).body
    assert.deepEqual([command['status'], command['error_class']], ['failed', 'validation_error'])
    assert.match(String(command['error']), /connector.hotel.book_a.*contract does not allow/)
    assert.equal(calls(), before)
  })

  test('[SEC-01] data scope: an agent reads the books only for people who may read them', async () => {
    const books = { tool_name: 'read_books' }
    assert.equal(codeOf(await agent.propose({ subject: 's' }, books)), '202 deny')
    assert.equal(codeOf(await agent.propose({ subject: 's' }, books, accountant.key)), '202 allow')
  })

  test('[SEC-01] approval: what leaves the organisation waits for the owner of the data, and only for that person', async () => {
    const before = calls()
    const { body } = await agent.propose(OUTSIDE)
    const resolve = (key: string) =>
      agent.post(`/approvals/${String(body['approval_id'])}/resolve`, { decision: 'approved', reason: 'so' }, key)
    const { writer, admin } = agent.api.ours.people
    assert.equal((await resolve(writer.key)).body['code'], 'self_approval')
    assert.equal((await resolve(admin.key)).body['code'], 'approvals.approver.not_asked')
    assert.equal(calls(), before)
    assert.equal((await resolve(owner.key)).status, 200)
    await agent.room.settleWoken()
    assert.equal(calls(), before + 1)
  })

  test('[SEC-01] secret references: a secret is refused in every field; a reference to it is accepted', async () => {
    const secret = 'sk_live_4242424242424242424242'
    for (const payload of [
      { subject: secret },
      { subject: 's', api_key: secret },
      { subject: 's', api_key: 'hunter2' },
    ])
      assert.equal(codeOf(await agent.propose(payload)), '422 commands.payload.secret')
    assert.equal(codeOf(await agent.propose({ subject: 's', api_key: 'vault://team/mail' })), '202 allow')
    const rows = await agent.room.rows<{ said: string }>('select payload::text as said from concord.domain_events')
    assert.ok(!rows.some(({ said }) => said.includes('4242424242') || said.includes('hunter2')))
  })

  test('[SEC-01] tenant isolation: what ours proposes does not exist for theirs, and their key is their own', async () => {
    const ours = await agent.propose(OUTSIDE, { idempotency_key: 'shared' })
    const theirs = agent.api.theirs.people.writer.key
    assert.equal((await agent.get(`/commands/${String(ours.body['command_id'])}`, theirs)).status, 404)
    assert.equal((await agent.get(`/approvals/${String(ours.body['approval_id'])}`, theirs)).status, 404)
    const own = await agent.propose(OUTSIDE, { idempotency_key: 'shared' }, theirs)
    assert.equal(own.status, 202)
    assert.notEqual(own.body['command_id'], ours.body['command_id'])
  })

  test('[SEC-01] audit: who proposed what with which reason, what was decided and what was turned away is on record, and stays', async () => {
    const { body } = await agent.propose(OUTSIDE, { reason: 'For the audit.' })
    const id = String(body['command_id'])
    const { items } = (await agent.get(`/commands/${id}/events`)).body as {
      items: { event_type: string; actor: string; purpose: string; payload: Record<string, unknown> }[]
    }
    const [created, evaluated] = ['command_created', 'policy_evaluated'].map((type) =>
      items.find(({ event_type }) => event_type === type),
    )
    assert.deepEqual([created?.purpose, created?.payload['ingress']], ['audit', 'agent_action'])
    assert.match(created?.actor ?? '', /^user_/)
    assert.deepEqual([evaluated?.purpose, evaluated?.payload['decision']], ['audit', 'require_approval'])
    const why = (await agent.get(`/commands/${id}/explanation`)).body as { chain: { text: string }[] }
    assert.match(why.chain[0]?.text ?? '', /^An agent of .* proposed Publish Note, because: For the audit\.$/)
    await assert.rejects(agent.room.rows(`update concord.domain_events set actor = 'nobody'`), /permission denied/)
    await assert.rejects(agent.room.rows('delete from concord.domain_events'), /permission denied/)
  })
})
