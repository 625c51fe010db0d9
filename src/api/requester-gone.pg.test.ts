/** A command whose requester may no longer act when its wait is over: an operator is asked, and nothing begins before the answer. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { actingFor, findBrokenInvariants, fireSchedule } from '#domains/commands'
import { type AgentApi, openAgentApi } from '#test/agents'
import { historyFaults } from '#test/commands'
import { decodeId, encodeId } from '#kernel/ids'
import { accepted, anOrgRole, aPerson, type TestPerson, TRACE } from '#test/tenant'

const OUTSIDE = { subject: 'May', destination: 'external:finance@example.com' }

type Approval = { readonly approval_id: string; readonly approval_type: string; readonly approver: string }

describe('a requester who may no longer act', () => {
  let room: AgentApi
  let admin: TestPerson
  let owner: TestPerson
  let operator: TestPerson
  before(async () => {
    room = await openAgentApi()
    admin = room.api.ours.people.admin
    const person = () => aPerson(room.api.world, { orgId: room.api.ours.orgId, slug: room.api.ours.slug }, 'writer')
    owner = await person()
    operator = await person()
    await anOrgRole(room.api.world, room.api.ours.orgId, 'data-owner', [owner])
    await anOrgRole(room.api.world, room.api.ours.orgId, 'operator', [operator])
    await anOrgRole(room.api.world, room.api.ours.orgId, 'insiders', [owner, operator])
  })
  after(() => room.close())

  const userId = ({ principal }: TestPerson) => `user_${principal.userId.replaceAll('-', '')}`
  async function ask<T>(path: string, body: unknown, key: string): Promise<T> {
    const answer = await room.post(path, body, key)
    assert.ok(answer.status < 300, JSON.stringify(answer.body))
    return answer.body as T
  }
  async function open(commandId: string, by = operator): Promise<Approval> {
    const { items } = (await room.get(`/approvals?command_id=${commandId}`, by.key)).body as { items: Approval[] }
    return items[0] ?? assert.fail('nobody is asked')
  }
  const decide = ({ approval_id }: Approval, by: TestPerson, decision = 'approved') =>
    ask(`/approvals/${approval_id}/resolve`, { decision, reason: 'I looked at it.' }, by.key)
  async function stateOf(commandId: string): Promise<string> {
    await room.room.settleWoken()
    return String((await room.get(`/commands/${commandId}`, admin.key)).body['status'])
  }
  const done = async (commandId: string) =>
    (
      (await room.get(`/commands/${commandId}/effects`, admin.key)).body as {
        items: { effect_type: string; status: string }[]
      }
    ).items.filter(({ effect_type, status }) => status === 'succeeded' && !/approval|input/.test(effect_type))

  /** A new person asks; then something happens to the person, and the owner of the data agrees. */
  async function agreedAfter(
    what: (person: TestPerson) => Promise<unknown>,
    role: 'writer' | 'admin' = 'writer',
  ): Promise<string> {
    const person = await aPerson(room.api.world, { orgId: room.api.ours.orgId, slug: room.api.ours.slug }, role)
    const { command_id } = await ask<{ command_id: string }>(
      '/commands',
      { task_name: 'Publish Note', payload: OUTSIDE, idempotency_key: person.keyId },
      person.key,
    )
    await room.room.settleWoken()
    const asked = await open(command_id)
    await what(person)
    await decide(asked, owner)
    return command_id
  }
  const leaves = (person: TestPerson) => ask(`/people/${userId(person)}/deactivate`, {}, admin.key)
  const reads = (person: TestPerson) => ask(`/people/${userId(person)}/role`, { role: 'reader' }, admin.key)
  const isShutOut = () =>
    room.room.rows(`update identity.workspaces set access_role_id = (select id from identity.org_roles where slug = 'insiders')
      where id = '${room.api.ours.workspace.id}'`)

  const writes = (person: TestPerson) => ask(`/people/${userId(person)}/role`, { role: 'writer' }, admin.key)
  for (const [title, what, role] of [
    ['left', leaves, 'writer'],
    ['may only read', reads, 'writer'],
    ['may not enter the workspace', isShutOut, 'writer'],
    ['is no longer an administrator', writes, 'admin'],
  ] as const) {
    test(`[M4] ${title}: after the approval an operator is asked, and nothing begins`, async () => {
      const commandId = await agreedAfter(what, role)
      assert.equal(await stateOf(commandId), 'blocked')
      assert.deepEqual(await done(commandId), [])
      const question = await open(commandId)
      assert.deepEqual([question.approval_type, question.approver], ['requester_gone', 'role:operator'])
      await decide(question, operator)
      assert.equal(await stateOf(commandId), 'succeeded')
      assert.ok((await done(commandId)).length > 0)
      await room.room.rows(`update identity.workspaces set access_role_id = null`)
    })
  }

  test('[M4] a no of the operator ends the command, and it has done nothing', async () => {
    const commandId = await agreedAfter(leaves)
    await stateOf(commandId)
    await decide(await open(commandId), operator, 'rejected')
    assert.equal(await stateOf(commandId), 'failed')
    assert.deepEqual(await done(commandId), [])
  })

  test('[M4] cancelling the command closes the question', async () => {
    const commandId = await agreedAfter(leaves)
    await stateOf(commandId)
    const { approval_id } = await open(commandId)
    await ask(`/commands/${commandId}/cancel`, {}, admin.key)
    assert.equal(await stateOf(commandId), 'cancelled')
    assert.equal((await room.get(`/approvals/${approval_id}`)).body['status'], 'cancelled')
  })

  test('[M4] a person who may still act is not asked about', async () => {
    const commandId = await agreedAfter((person) => ask(`/people/${userId(person)}/role`, { role: 'admin' }, admin.key))
    assert.equal(await stateOf(commandId), 'succeeded')
  })

  test('[M4] the same holds after a wait for input', async () => {
    const person = await aPerson(room.api.world, { orgId: room.api.ours.orgId, slug: room.api.ours.slug }, 'writer')
    const { command_id } = await ask<{ command_id: string }>(
      '/commands',
      { task_name: 'Publish Note', payload: { destination: 'internal' }, idempotency_key: person.keyId },
      person.key,
    )
    assert.equal(await stateOf(command_id), 'waiting_for_input')
    await leaves(person)
    await ask(`/commands/${command_id}/input`, { input: { subject: 'May' } }, admin.key)
    assert.equal(await stateOf(command_id), 'blocked')
    assert.deepEqual(await done(command_id), [])
    assert.equal((await open(command_id)).approval_type, 'requester_gone')
  })

  test('[6] [M4] policy decides after a wait with the role and the org roles of now', async () => {
    const { orgId, slug } = room.api.ours
    const person = await aPerson(room.api.world, { orgId, slug }, 'admin')
    const { command_id } = await ask<{ command_id: string }>(
      '/commands',
      { task_name: 'Publish Note', payload: { destination: 'internal' }, idempotency_key: person.keyId },
      person.key,
    )
    assert.equal(await stateOf(command_id), 'waiting_for_input')
    await writes(person)
    await anOrgRole(room.api.world, orgId, 'late', [person])
    room.room.clock.travel(60_000)
    await ask(`/commands/${command_id}/input`, { input: { subject: 'May' } }, person.key)
    assert.equal(await stateOf(command_id), 'blocked')
    const { items } = (await room.get(`/commands/${command_id}/events`, admin.key)).body as {
      items: { event_type: string; payload: { input: { context: { metadata: Record<string, unknown> } } } }[]
    }
    const judged = items.findLast(({ event_type }) => event_type === 'policy_evaluated')
    const { role, org_roles } = judged?.payload.input.context.metadata ?? {}
    assert.deepEqual([role, org_roles], ['writer', ['late']])
  })

  test('[6] the same holds for a command of a schedule', async () => {
    const { orgId, slug, workspace } = room.api.ours
    await anOrgRole(room.api.world, orgId, 'owner', [owner])
    const person = await aPerson(room.api.world, { orgId, slug }, 'admin')
    const payload = { subject: 'due', steps: ['connector.hotel.book_a'], decide: 'require_approval' }
    const due = { workspaceId: workspace.id, dueAt: room.room.clock.now(), traceId: TRACE, requestId: 'req_due' }
    const by = actingFor(person.principal, TRACE)
    const spec = { name: 'nightly', command_type: 'work', payload }
    const { command } = accepted(await fireSchedule(room.room.world, spec, { ...due, by }))
    const commandId = encodeId('command', command.command_id)
    await room.room.settle(command.command_id)
    const asked = await open(commandId, owner)
    await writes(person)
    await decide(asked, owner)
    assert.equal(await stateOf(commandId), 'blocked')
    assert.deepEqual(await done(commandId), [])
    assert.equal((await open(commandId)).approval_type, 'requester_gone')
  })

  const [FIRST, SECOND] = ['connector.hotel.book_a', 'connector.hotel.book_b']
  /** The person leaves after the first attempts of the provider, and the due time of the next attempt passes. */
  async function leftAmong(...modes: AgentApi['room']['provider']['modes']): Promise<string> {
    const person = await aPerson(room.api.world, { orgId: room.api.ours.orgId, slug: room.api.ours.slug }, 'writer')
    const payload = { subject: person.keyId, steps: [FIRST, SECOND] }
    room.room.provider.modes.push(...modes)
    const { command_id } = await ask<{ command_id: string }>('/commands', { task_name: 'Fragile', payload }, person.key)
    assert.equal(await stateOf(command_id), 'running')
    await leaves(person)
    room.room.clock.travel(60_000)
    await room.room.settle(accepted(decodeId('command', command_id)))
    assert.equal(await stateOf(command_id), 'blocked')
    return command_id
  }
  const effectsOf = async (commandId: string) =>
    (
      (await room.get(`/commands/${commandId}/effects`, admin.key)).body as {
        items: { effect_type: string; status: string }[]
      }
    ).items.map(({ effect_type, status }) => [effect_type.replace('connector.hotel.', ''), status])

  test('[2e] [EFF-25] an effect in doubt is settled before anybody is asked; the no then fails the command and its contract undoes what was done', async () => {
    const commandId = await leftAmong('fail_after')
    assert.deepEqual(await effectsOf(commandId), [
      ['book_a', 'succeeded'],
      ['book_b', 'planned'],
    ])
    await decide(await open(commandId), operator, 'rejected')
    assert.equal(await stateOf(commandId), 'compensated')
    assert.deepEqual((await effectsOf(commandId)).at(-1), ['compensation.hotel.cancel_a', 'succeeded'])
  })

  test('[2e] an attempt that failed for certain ends with the no, and `next` names the operator before', async () => {
    const commandId = await leftAmong('ok', 'fail_before')
    const { next, waiting_reason } = (await room.get(`/commands/${commandId}`, admin.key)).body as {
      next: { action: string; by: string[] }[]
      waiting_reason: string
    }
    assert.equal(waiting_reason, 'an operator who says whether it continues without its requester')
    assert.deepEqual(next[0], {
      action: 'decide_approval',
      by: ['operator'],
      what: 'Say whether it continues, because its requester may no longer act.',
    })
    await decide(await open(commandId), operator, 'rejected')
    assert.equal(await stateOf(commandId), 'compensated')
    assert.deepEqual(
      (await effectsOf(commandId)).map(([, status]) => status),
      ['succeeded', 'failed', 'succeeded'],
    )
    const again = await leftAmong('ok', 'fail_before')
    await decide(await open(again), operator)
    assert.equal(await stateOf(again), 'succeeded')
  })

  test('[2e] a no to a question that was asked about an effect in doubt ends nothing before the doubt is settled', async () => {
    const commandId = await leftAmong('ok', 'fail_before')
    await room.room.rows(
      `update concord.domain_effects set read_back = '{"outcome":"unknown"}' where status = 'executing'`,
    )
    await decide(await open(commandId), operator, 'rejected')
    assert.equal(await stateOf(commandId), 'succeeded')
  })

  test('[2e] no answer leaves an effect under way on a command that has ended', async () => {
    assert.deepEqual(await findBrokenInvariants(room.room.db), [])
    assert.deepEqual(await historyFaults(room.room), [])
  })
})
