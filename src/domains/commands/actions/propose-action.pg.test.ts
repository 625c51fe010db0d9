/** Proposals of agents: whose rights apply, what an agent can reach, and that every action is a governed command. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { createApiKey, type Principal, revokeApiKey } from '#domains/identity'
import { openDb } from '#store'
import { propose, type Proposal } from '#test/agents'
import { answer, decider, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { oldWorld, untilVisible } from '#test/history'
import { agentTools } from '#test/projects/commands'
import { accepted, TRACE } from '#test/tenant'
import { fireSchedule } from '../scheduled-commands.ts'
import { archiveHistory } from '../history/archive-history.ts'
import { submitCommand } from '../submit.ts'
import { explainCommand } from '../explain-command.ts'
import { findCommand } from '../command-table.ts'
import { listCommandEvents } from '../read-commands.ts'
import { actingFor } from '../deps.ts'
import { findBrokenInvariants } from '../invariants/find-broken-invariants.ts'
import { agentGateway } from './propose-action.ts'
import { byPerson } from '#kernel/actor'

const OUTSIDE = { subject: 's', destination: 'external:finance@example.com' }

describe('proposals of agents', () => {
  let room: TestRoom
  let writer: Principal
  let workspaceId: string
  before(async () => {
    room = await openTestRoom(undefined, agentTools)
    writer = room.tenant.people.writer.principal
    workspaceId = room.tenant.workspace.id
  })
  after(() => room.close())

  const ask = async (action: Proposal, by = writer) => accepted(await propose(room, by, action))
  const codeOf = async (action: Proposal, by = writer) => {
    const proposed = await propose(room, by, action)
    return proposed.ok ? proposed.value.decision : proposed.code
  }
  const countOf = async (table: string) =>
    (await room.rows<{ count: number }>(`select count(*)::integer as count from ${table}`))[0]?.count
  const contextOf = async (commandId: string) =>
    (
      await room.rows<{ context: { run_as: string; user_id: string; metadata: Record<string, unknown> } }>(
        'select context from concord.commands where command_id = $1',
        [commandId],
      )
    )[0]?.context ?? assert.fail('no command')

  test('[SEC-07] run_as says whose authority applies: a person’s own, a service’s, or that of an agent for a person', async () => {
    const person = await contextOf(await room.submit({ subject: 's' }))
    assert.deepEqual([person.run_as, person.user_id, person.metadata['role']], ['user', writer.userId, 'writer'])
    const nightly = { name: 'nightly', command_type: 'work', payload: { subject: 's' } }
    const firing = { workspaceId, dueAt: room.clock.now(), traceId: TRACE, requestId: 'r' }
    const fired = accepted(await fireSchedule(room.world, nightly, firing))
    const service = await contextOf(fired.command.command_id)
    assert.deepEqual([service.run_as, service.metadata['role']], ['service', 'system'])
    const { command } = await ask({ toolName: 'publish_note' })
    const agent = await contextOf(command.command_id)
    assert.deepEqual([agent.run_as, agent.user_id, agent.metadata['role']], ['agent', writer.userId, 'writer'])
    assert.equal(command.requested_by, `user:${writer.userId}`)
  })

  test('[SEC-07] an agent has only the rights of its requester: no claimed role, no rights without a requester, no operator rights', async () => {
    const { reader, admin } = room.tenant.people
    assert.equal(await codeOf({ toolName: 'publish_note' }, reader.principal), 'deny')
    assert.equal(await codeOf({ toolName: 'read_books' }), 'deny')
    assert.equal(await codeOf({ toolName: 'read_books' }, { ...writer, orgRoles: ['finance'] }), 'allow')
    assert.equal(await codeOf({ toolName: 'read_books' }, admin.principal), 'allow')
    // Rights come from the credential; claims in the payload are ignored.
    const claims = { subject: 's', role: 'admin', org_roles: ['finance'] } as never
    assert.equal(await codeOf({ toolName: 'read_books', payload: claims }), 'deny')
    const forged = {
      metadata: { role: 'admin', org_roles: ['finance'] },
      taskName: 'Read Books',
      payload: { subject: 's' },
    }
    const base = { workspaceId, ingress: 'agent_action' as const, requestId: 'r', runAs: 'agent' as const }
    const by = actingFor(writer, TRACE)
    const beside = accepted(await submitCommand(room.world, by, { ...base, ...forged })).command.command_id
    await room.settle(beside)
    assert.deepEqual([await room.statusOf(beside), (await contextOf(beside)).metadata['role']], ['failed', 'writer'])
    // An agent without a requester has no rights, and never those of Concord itself.
    const alone = { id: 'agent:1', kind: 'user' as const, traceId: TRACE }
    const nobody = accepted(await submitCommand(room.world, alone, { ...base, ...forged })).command.command_id
    await room.settle(nobody)
    assert.deepEqual([await room.statusOf(nobody), (await contextOf(nobody)).metadata['role']], ['failed', 'none'])
    // The agent of an administrator acts as a user, not as an operator.
    const asked = await ask({ toolName: 'publish_note' }, admin.principal)
    const [created] = await listCommandEvents(room.db, workspaceId, asked.command.command_id, {
      afterSeq: null,
      limit: 1,
    })
    assert.equal(created?.actor, `user:${admin.principal.userId}`)
  })

  test('[SEC-07] [POL-13] the risk that an agent declares can raise the risk of the tool but never lower it', async () => {
    const riskOf = async (riskLevel: 'low' | 'high' | undefined) => {
      const { command } = await ask({ toolName: 'publish_note', riskLevel })
      const events = await listCommandEvents(room.db, workspaceId, command.command_id, { afterSeq: null, limit: 50 })
      const evaluated = events.find(({ event_type }) => event_type === 'policy_evaluated')
      return (evaluated?.payload['input'] as { task: { risk_level: string } } | undefined)?.task.risk_level
    }
    assert.equal(await riskOf(undefined), 'medium')
    assert.equal(await riskOf('high'), 'high')
    assert.equal(await riskOf('low'), 'medium')
  })

  test('[PRM-07] an agent gets one function: it reaches nothing else of Concord, and the result is plain data', async () => {
    const by = { ...actingFor(writer, TRACE), principal: writer }
    const gateway = agentGateway(room.world, by, { workspaceId, requestId: 'r', waitMs: 0 })
    const reached = new Set<unknown>()
    const walk = (value: unknown): void => {
      if ((typeof value !== 'object' && typeof value !== 'function') || value === null || reached.has(value)) return
      reached.add(value)
      for (const key of Reflect.ownKeys(value)) walk(Reflect.getOwnPropertyDescriptor(value, key)?.value)
    }
    const insides = [room.world, room.world.db, room.world.catalog, room.world.writes, room.world.inserts, by, writer]
    const held = (value: unknown) => {
      reached.clear()
      walk(value)
      return insides.filter((inside) => reached.has(inside))
    }
    assert.ok(Object.isFrozen(gateway))
    assert.deepEqual(Object.keys(gateway), ['propose'])
    assert.deepEqual(held(gateway), [])
    assert.equal(held({ world: room.world }).length >= 3, true, 'the walk itself works')
    const answered = await gateway.propose({ toolName: 'publish_note', payload: OUTSIDE, reason: 'r' })
    assert.deepEqual(structuredClone(answered), answered, 'no function, no class, no handle')
    assert.deepEqual(held(answered), [])
    // Extra fields cannot change the person or the workspace.
    const theirs = { workspaceId: room.clock.newId(), requestId: 'x', runAs: 'service', ingress: 'user_request' }
    const slipped = { toolName: 'publish_note', payload: { subject: 's' }, reason: 'r', ...theirs }
    const before = await countOf('concord.commands')
    const own = await gateway.propose(slipped)
    assert.equal(await countOf('concord.commands'), Number(before) + 1)
    const rows = await room.rows(
      `select workspace_id, ingress, context->>'run_as' as run_as from concord.commands order by created_at desc, command_id desc limit 1`,
    )
    assert.deepEqual(rows, [{ workspace_id: workspaceId, ingress: 'agent_action', run_as: 'agent' }])
    assert.equal('ok' in own, false)
    await room.settleWoken()
  })

  test('[PRM-07] an agent cannot set rights, policy, state, approvals, effects, records or audit', async () => {
    const calls = room.provider.calls.length
    const { command, decision, approvalId, status } = await ask({ toolName: 'publish_note', payload: OUTSIDE })
    assert.deepEqual([decision, status], ['require_approval', 'waiting_for_approval'])
    assert.equal(room.provider.calls.length, calls, 'no effect before the decision')
    const attempt = (extra: object) => codeOf({ toolName: 'publish_note', payload: { ...OUTSIDE, ...extra } })
    // The contract has no fields for a decision, a consent or a state, so such a payload is denied.
    for (const claim of [{ decision: 'allow' }, { approved: true }, { status: 'approved' }, { run_as: 'user' }])
      assert.equal(await attempt(claim), 'deny', JSON.stringify(claim))
    const say = { workspaceId, approvalId: approvalId ?? '', decision: 'approved', reason: 'r', traceId: TRACE }
    const self = await decideApproval(room.approvals, byPerson({ ...writer, orgRoles: ['data-owner'] }, TRACE), say)
    assert.equal(self.ok ? '' : self.code, 'self_approval')
    const robot = { ...decider(room), externalId: 'agent:7', orgRoles: ['data-owner'] }
    const machine = await decideApproval(room.approvals, byPerson(robot, TRACE), say)
    assert.equal(machine.ok ? '' : machine.code, 'agents_cannot_decide')
    assert.equal(await room.statusOf(command.command_id), 'waiting_for_approval')
    assert.equal(room.provider.calls.length, calls)
    accepted(await decideApproval(room.approvals, byPerson({ ...decider(room), orgRoles: ['data-owner'] }, TRACE), say))
    assert.equal(await room.settle(command.command_id), 'succeeded')
    assert.equal(room.provider.calls.length, calls + 1)
  })

  test('the review packet shows that an agent proposed it, and its reason without hidden characters', async () => {
    const reason = 'Finance waits.\u202e Approve quickly. token sk_live_4242424242424242424242'
    const { command } = await ask({ toolName: 'publish_note', payload: { ...OUTSIDE, subject: 'seen' }, reason })
    const [row] = await room.rows<{ packet: { why: string } }>(
      'select review_packet as packet from concord.approvals where command_id = $1',
      [command.command_id],
    )
    const why = JSON.stringify(row?.packet)
    assert.match(why, /Proposed by an agent, which says: /)
    assert.match(why, /Finance waits\./)
    assert.doesNotMatch(why, /\u202e|sk_live_4242/)
    const found = await findCommand(room.db, workspaceId, command.command_id)
    assert.ok(found)
    const events = await listCommandEvents(room.db, workspaceId, command.command_id, { afterSeq: null, limit: 50 })
    assert.match(
      explainCommand(found, events).chain[0]?.text ?? '',
      /^An agent of .* proposed Publish Note, because: Finance/,
    )
  })

  test('[SEC-07] an agent cannot use the self-approval of its requester: another person is asked', async () => {
    const owner = { ...writer, orgRoles: ['owner'] }
    const decide = async (commandId: string, by: Principal) => {
      const terms = { workspaceId, approvalId: await pendingOf(room, commandId), traceId: TRACE }
      const decided = await decideApproval(room.approvals, byPerson(by, TRACE), {
        ...terms,
        decision: 'approved',
        reason: 'so',
      })
      return decided.ok ? 'approved' : decided.code
    }
    const person = await room.submit({ subject: 's' }, { taskName: 'Confirm Note' })
    assert.equal(await room.settle(person), 'waiting_for_approval')
    assert.equal(await decide(person, owner), 'approved')
    const { command, decision } = await ask({ toolName: 'confirm_note' }, owner)
    assert.equal(decision, 'require_approval')
    assert.equal(await decide(command.command_id, owner), 'self_approval')
    const { principal: admin } = room.tenant.people.admin
    assert.equal(await decide(command.command_id, { ...admin, orgRoles: ['owner'] }), 'approved')
  })

  test('policy is evaluated on every path: a rule that denies everything stops each of them', async () => {
    const calls = room.provider.calls.length
    const stopped = [
      await room.submit({ subject: 's', decide: 'deny' }),
      (await ask({ toolName: 'forbidden_note', payload: { subject: 's' } })).command.command_id,
      (await ask({ toolName: 'forbidden_note', payload: OUTSIDE })).command.command_id,
    ]
    for (const id of stopped) {
      await room.settle(id)
      const rows = await room.rows(
        `select c.status, c.error_class, e.payload->>'decision' as decision from concord.commands c
           join concord.domain_events e on e.command_id = c.command_id and e.event_type = 'policy_evaluated' where c.command_id = $1`,
        [id],
      )
      assert.deepEqual(rows, [{ status: 'failed', error_class: 'policy_denied', decision: 'deny' }])
    }
    assert.equal(room.provider.calls.length, calls)
  })

  test('a repeated proposal is the same command; its key collides with no other key, and no other request can use it', async () => {
    const action = { toolName: 'publish_note', payload: { subject: 'once' }, idempotencyKey: 'step-1' }
    const [first, again] = [await ask(action), await ask(action)]
    assert.deepEqual([again.isNew, again.command.command_id], [false, first.command.command_id])
    assert.equal(again.decision, first.decision)
    assert.equal(first.command.idempotency_key, 'agent:action:step-1')
    assert.equal(await codeOf({ ...action, payload: { subject: 'other' } }), 'key_reused')
    const key = { idempotencyKey: 'agent:action:step-2', taskName: 'Publish Note', payload: { subject: 's' } }
    const by = actingFor(writer, TRACE)
    const taken = await submitCommand(room.world, by, { ...key, workspaceId, ingress: 'user_request', requestId: 'r' })
    assert.equal(taken.ok ? '' : taken.code, 'key_reserved')
  })

  test('an invalid key is refused before it gets its prefix', async () => {
    for (const idempotencyKey of ['', ' step-1', 'step\u200b-1'])
      assert.equal(await codeOf({ toolName: 'publish_note', idempotencyKey }), 'key_characters', idempotencyKey)
  })

  test('a decision is never guessed: a proposal without a worker is recorded and undecided', async () => {
    room.woken.length = 0
    const by = { ...actingFor(writer, TRACE), principal: writer }
    const gateway = agentGateway(room.world, by, { workspaceId, requestId: 'r', waitMs: 30 })
    const open = await gateway.propose({ toolName: 'publish_note', payload: OUTSIDE, reason: 'r' })
    assert.ok('decision' in open)
    assert.deepEqual([open.decision, open.status, open.approval_id], [null, 'created', null])
    await room.settleWoken()
    assert.ok(
      await pendingOf(
        room,
        (
          await room.rows<{ command_id: string }>(
            'select command_id from concord.commands order by created_at desc, command_id desc limit 1',
          )
        )[0]?.command_id ?? '',
      ),
    )
  })

  test('a repeated proposal whose events are archived is answered from its row, and the message names the archive', async () => {
    const action = { toolName: 'publish_note', payload: { subject: 'old' }, idempotencyKey: 'long-ago' }
    const first = await ask(action)
    assert.equal(await room.settle(first.command.command_id), 'succeeded')
    const folder = await mkdtemp(join(tmpdir(), 'concord-history-'))
    const owner = openDb({ url: room.db.config.url, poolMax: 2 })
    const { endedBefore, ...world } = oldWorld(owner, folder)
    await untilVisible(owner)
    accepted(await archiveHistory(world, { endedBefore, traceId: TRACE }))
    await owner.close()
    await rm(folder, { recursive: true })
    const again = await ask(action)
    assert.deepEqual([first.decision, again.isNew, again.decision], ['allow', false, null])
    assert.equal(again.message, 'Its decision is in the archive. It has succeeded.')
  })

  test('a tool that was taken from the key of the agent while people were asked does not run after the yes, unless an operator agrees', async () => {
    const keyed = async (...tools: string[]) => {
      const agent = { name: 'narrow', tools }
      const key = { name: tools.join(), role: 'writer', agent } as const
      return accepted(await createApiKey(room.clock, byPerson(writer, TRACE), key)).stored
    }
    const wide = await keyed('Confirm Note', 'Read Books')
    const agent = { name: 'narrow', tools: ['Confirm Note'] }
    const approved = async () => {
      const { command } = await ask({ toolName: 'confirm_note' }, { ...writer, agent })
      return command.command_id
    }
    const [first, second] = [await approved(), await approved()]
    await answer(room, first, 'approved')
    assert.equal(await room.settle(first), 'succeeded')
    accepted(await revokeApiKey(room.clock, byPerson(writer, TRACE), wide.id))
    await keyed('Read Books')
    await answer(room, second, 'approved')
    assert.equal(await room.settle(second), 'blocked')
    const [asked] = await room.rows(
      `select approval_type from concord.approvals where command_id = $1 and status = 'pending'`,
      [second],
    )
    assert.deepEqual(asked, { approval_type: 'requester_gone' })
    await answer(room, second, 'rejected')
    await room.settle(second)
  })

  test('the proposals violate no invariant', async () => {
    assert.deepEqual(await findBrokenInvariants(room.db), [])
  })
})
