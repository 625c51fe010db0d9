/** Envelopes: calls that people approved before the run started, and everything outside of them. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import {
  ask as askPeople,
  COMMAND_KIND,
  countEnvelopeUse,
  defineCommand,
  defineEffect,
  type Definition,
  explainCommand,
  readCommand,
  stopDefinitions,
  submitCommand,
} from '#domains/commands'
import { grantOrgRole, revokeOrgRole } from '#domains/identity'
import { byPerson, bySystem } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { final, type Outside, scripted, toolsForRuns } from '#test/agent-project'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { pendingOf } from '#test/commands'
import { PoisonedWeb, poisonedTools } from '#test/poisoned'
import { accepted, anOrgRole, aPerson, aTenant, type TestPerson, TRACE } from '#test/tenant'

const ask = (note: string) => ({ tool: 'ask_owner', payload: { note } })
const transcript = [{ say: null, calls: [ask('a'), ask('b')] }, final] as never
const agents = [
  scripted('Payer', transcript),
  scripted('Payer of three', [{ say: null, calls: [ask('a'), ask('b'), ask('a')] }, final] as never),
  scripted(
    'Reading payer',
    [{ calls: [{ tool: 'fetch_page', payload: { url: 'u' } }] }, { calls: [ask('a')] }, final],
    {
      tools: ['fetch_page', 'ask_owner'],
      connectors: ['web'],
    },
  ),
  scripted('Pleader', [{ say: null, calls: [{ tool: 'plead', payload: { note: 'a' } }] }, final] as never, {
    tools: ['plead', 'request_approval', 'request_human_input', 'raise_budget'],
  }),
  scripted('Payer of all', [{ say: null, calls: [{ tool: 'pay_some', payload: {} }] }, final] as never, {
    tools: ['pay_some'],
  }),
  scripted('Monthly payer', [{ say: null, calls: [ask('a')] }, final] as never, {
    input: z.object({ month: z.string() }),
  }),
  scripted('Payer of others', [{ say: null, calls: [ask('mallory')] }, final] as never),
]
const calls = [{ tool: 'ask_owner', calls_max: 2, arguments: { note: { one_of: ['a', 'b'] } } }]

/** Tools that are outside of an envelope in ways of their own: an escalation, and an argument whose absence means everybody. */
function moreTools(outside: Outside): readonly Definition[] {
  const input = z.object({ note: z.string().optional(), amount: z.union([z.string(), z.int()]).optional() })
  const paying = defineEffect('work.pay_some', {
    input,
    class: 'keyed',
    async do({ input: { note = 'everybody' } }) {
      outside.paid.push(note)
      return {}
    },
  })
  const escalate = () => ({ decision: 'escalate' as const, reasons: ['r'], required_approvals: ['owner'] })
  const commands = [
    defineCommand('plead', { input, policy: escalate, steps: (given) => [paying(given)] }),
    defineCommand('pay_some', { input, policy: () => askPeople(1, 'owner'), steps: (given) => [paying(given)] }),
  ]
  return [...new Set(commands.flatMap(({ definitions }) => definitions))]
}

describe('envelopes', () => {
  const outside: Outside = { paid: [], looked: 0 }
  let room: AgentRoom
  let owner: TestPerson
  before(async () => {
    room = await openAgentRoom(agents, [
      ...toolsForRuns(outside),
      ...moreTools(outside),
      ...poisonedTools(new PoisonedWeb(), () => room),
      ...stopDefinitions(() => room.world),
    ])
    owner = await aPerson(room.clock, room.tenant, 'writer', 'owner')
    await anOrgRole(room.clock, room.tenant.orgId, 'owner', [owner])
  })
  after(() => room.close())
  afterEach(() => void outside.paid.splice(0))

  const request = async (task_name: string, more: JsonObject = {}) => {
    const id = await room.submit({ task_name, calls, ...more }, { taskName: 'Run Under Envelope' })
    await room.settle(id)
    return id
  }
  const approve = async (id: string, person = owner) => {
    const { principal } = person
    return decideApproval({ ...room.approvals, db: room.db }, byPerson({ ...principal, orgRoles: ['owner'] }, TRACE), {
      workspaceId: room.tenant.workspace.id,
      approvalId: await pendingOf(room, id),
      decision: 'approved',
    })
  }
  const run = async (task_name: string, more: JsonObject = {}, beforeRun?: (id: string) => Promise<unknown>) => {
    const id = await request(task_name, more)
    accepted(await approve(id))
    await beforeRun?.(id)
    await room.rest()
    return id
  }
  type Call = {
    readonly command_id: string
    readonly status: string
    readonly approvals: number
    readonly uses: number
  }
  const callsOf = (envelope: string) =>
    room.rows<Call>(
      `select k.command_id, k.status, (select count(*)::int from concord.approvals a where a.command_id = k.command_id) as approvals,
         (select count(*)::int from concord.domain_events v where v.command_id = k.command_id and v.event_type = 'envelope_used') as uses
       from concord.commands c join concord.agent_runs r using (command_id) join concord.commands k on k.agent_run_id = r.agent_run_id
       where c.idempotency_key = 'envelope:' || $1 order by k.created_at, k.command_id`,
      [envelope],
    )

  const statusesOf = async (envelope: string) => (await callsOf(envelope)).map(({ status }) => status)

  test('approved once: the stated calls run without asking, and why tells who agreed', async () => {
    const id = await run('Payer')
    assert.deepEqual(outside.paid.toSorted(), ['a', 'b'])
    const made = await callsOf(id)
    assert.deepEqual(
      made.map(({ status, approvals, uses }) => [status, approvals, uses]),
      [
        ['succeeded', 0, 1],
        ['succeeded', 0, 1],
      ],
    )
    assert.equal(await room.statusOf(id), 'succeeded')
    const [first] = made
    const { command } = accepted(await readCommand(room.db, room.tenant.workspace.id, first?.command_id ?? ''))
    const events = await room.rows<never>('select * from concord.domain_events where command_id = $1 order by seq', [
      command.command_id,
    ])
    const { chain } = explainCommand({ command }, events)
    assert.ok(chain.some(({ kind, text }) => kind === 'approval' && text.startsWith('Approved with the envelope cmd_')))
  })

  test('one call more than stated asks again; an argument outside of its bound asks again', async () => {
    const three = await callsOf(await run('Payer of three'))
    assert.deepEqual(three.map(({ status }) => status).toSorted(), ['succeeded', 'succeeded', 'waiting_for_approval'])
    assert.equal(outside.paid.length, 2)
    const other = await callsOf(await run('Payer of others'))
    assert.deepEqual(
      other.map(({ status, uses }) => [status, uses]),
      [['waiting_for_approval', 0]],
    )
    const [packet] = await room.rows<{ why: string }>(
      `select review_packet->>'why' as why from concord.approvals where command_id = $1`,
      [other[0]?.command_id],
    )
    assert.match(packet?.why ?? '', /outside of the envelope.*the argument note is outside of its bound/i)
  })

  test('asks again when the agent was redefined, the approver lost the role, or the time has passed', async () => {
    const agentsOfRoom = room.agents.agents as Map<string, unknown>
    // Before it starts, people are asked about the envelope again.
    for (const more of [
      { limits: { max_steps: 9 } },
      { goal: 'Pay mallory.' },
      { model: { model: 'other' } },
      { runtime: { name: 'scripted', transcript: [final] } },
      { connectors: ['bank'] },
      { forbiddenTools: ['never'] },
      { termination: { conditions: ['final_answer_created' as const] } },
      { memory: { subject: 'customer:7' } },
    ]) {
      const changed = async () => agentsOfRoom.set('Payer', scripted('Payer', transcript, more))
      assert.equal(await room.statusOf(await run('Payer', {}, changed)), 'waiting_for_approval', JSON.stringify(more))
      agentsOfRoom.set('Payer', agents[0])
    }
    const redefined = await run('Payer', {}, async (id) => {
      await room.turn(id)
      agentsOfRoom.set('Payer', scripted('Payer', transcript, { goal: 'Pay mallory.' }))
    })
    assert.deepEqual(await statusesOf(redefined), ['waiting_for_approval', 'waiting_for_approval'])
    agentsOfRoom.set('Payer', agents[0])
    const late = await run('Payer', { expires_in_minutes: 1 }, async () => room.clock.travel(61_000))
    assert.deepEqual(await statusesOf(late), ['waiting_for_approval', 'waiting_for_approval'])

    const role = { orgId: room.tenant.orgId, userId: owner.principal.userId, role: 'owner' }
    const system = bySystem(TRACE)
    const revoked = await run('Payer', {}, async () => accepted(await revokeOrgRole(room.clock, system, role)))
    assert.deepEqual(await statusesOf(revoked), ['waiting_for_approval', 'waiting_for_approval'])
    accepted(await grantOrgRole(room.clock, system, role))
    assert.deepEqual(outside.paid, [])
  })

  test('a run without the envelope is not covered, and nobody takes the key of its command', async () => {
    const plain = await room.start('Payer')
    const { agent_run_id } = await room.runOf(plain)
    const asked = await room.rows<{ status: string }>('select status from concord.commands where agent_run_id = $1', [
      agent_run_id,
    ])
    assert.ok(asked.every(({ status }) => status === 'waiting_for_approval'))
    const id = await request('Payer')
    const { writer } = room.tenant.people
    const taken = await submitCommand(room.world, byPerson(writer.principal, TRACE), {
      workspaceId: room.tenant.workspace.id,
      taskName: 'Payer',
      payload: {},
      idempotencyKey: `envelope:${id}`,
      ingress: 'user_request',
      requestId: 'r',
    })
    assert.equal(taken.ok ? 'accepted' : `${taken.code} ${taken.path}`, 'key_reserved idempotency_key')
    assert.deepEqual(outside.paid, [])
  })

  test('of another tenant it covers nothing, and its people do not approve it', async () => {
    const tenant = await aTenant(room.clock)
    const theirs = await openAgentRoom(agents, toolsForRuns(outside), [], [], { clock: room.clock, tenant })
    const stranger = await aPerson(room.clock, tenant, 'writer', 'stranger')
    await anOrgRole(room.clock, tenant.orgId, 'owner', [stranger])
    const id = await request('Payer')
    const byStranger = byPerson({ ...stranger.principal, orgRoles: ['owner'] }, TRACE)
    const inTheirs = await decideApproval({ ...room.approvals, db: room.db }, byStranger, {
      workspaceId: tenant.workspace.id,
      approvalId: await pendingOf(room, id),
      decision: 'approved',
    })
    assert.equal(inTheirs.ok ? 'approved' : inTheirs.code, 'row.not_found')
    accepted(await approve(id))
    await room.turn(id)
    // Even with the note and the key that only the effect of the envelope writes.
    const forged = await theirs.submit(
      {},
      {
        taskName: 'Payer',
        idempotencyKey: `envelope:${id}`,
        metadata: { envelope_id: id },
        follower: { kind: COMMAND_KIND, id },
      },
    )
    await theirs.settle(forged)
    await theirs.rest()
    const { agent_run_id } = await theirs.runOf(forged)
    const asked = await room.rows('select status from concord.commands where agent_run_id = $1', [agent_run_id])
    assert.deepEqual(asked, [{ status: 'waiting_for_approval' }, { status: 'waiting_for_approval' }])
    assert.equal(outside.paid.length, 0)
    await room.rest()
    assert.deepEqual(outside.paid.toSorted(), ['a', 'b'])
    await theirs.close()
  })

  test('a stop holds its calls until the lift; a stop that ends runs ends it, and nothing is paid', async () => {
    const administer = async (taskName: string, payload: JsonObject) => {
      const { principal } = room.tenant.people.admin
      const by = { id: `user:${principal.userId}`, kind: 'operator' as const, traceId: TRACE, principal }
      const request = { workspaceId: room.tenant.workspace.id, taskName, payload, requestId: 'r' }
      const { command } = accepted(await submitCommand(room.world, by, { ...request, ingress: 'user_request' }))
      assert.equal(await room.settle(command.command_id), 'succeeded')
      const [row] = await room.rows<{ stop_id: string }>('select stop_id from concord.stops where command_id = $1', [
        command.command_id,
      ])
      return { stop_id: encodeId('stop', row?.stop_id ?? room.tenant.workspace.id), reason: 'r' }
    }
    const stop = (ends_runs: boolean) =>
      administer('Stop Agents', { scope: 'agent', target: 'Payer', reason: 'r', ends_runs })
    let stopped = { stop_id: '', reason: '' }
    const held = await run('Payer', {}, async () => void (stopped = await stop(false)))
    assert.deepEqual([await callsOf(held), outside.paid], [[], []])
    await administer('Lift Stop', stopped)
    await room.rest()
    assert.deepEqual(outside.paid.splice(0).toSorted(), ['a', 'b'])
    assert.deepEqual(
      (await callsOf(held)).map(({ approvals, uses }) => [approvals, uses]),
      [
        [0, 1],
        [0, 1],
      ],
    )
    const ended = await run('Payer', {}, async () => void (stopped = await stop(true)))
    await administer('Lift Stop', stopped)
    await room.rest()
    assert.deepEqual([await callsOf(ended), outside.paid], [[], []])
    assert.equal(await room.statusOf(ended), 'failed')
  })

  test('untrusted content that has reached the agent asks again, unless the envelope names it', async () => {
    const foreseen = calls.map((each) => ({ ...each, untrusted: true }))
    for (const [of, expected] of [
      [calls, ['waiting_for_approval', 0]],
      [foreseen, ['succeeded', 1]],
    ] as const) {
      const made = await callsOf(await run('Reading payer', { calls: of as never }))
      assert.deepEqual(made.map(({ status, uses }) => [status, uses])[1], expected)
      const [row] = await room.rows<{ why: string }>(
        `select review_packet->>'why' as why from concord.approvals where command_id = $1`,
        [made[1]?.command_id],
      )
      if (of === calls)
        assert.match(row?.why ?? '', /outside of the envelope.*untrusted content has reached the agent/i)
      else assert.equal(row, undefined)
    }
    assert.deepEqual(outside.paid, ['a'])
  })

  test('is denied for tools that the agent does not have, for tasks without an agent, for questions to people and for ranges of texts', async () => {
    const errorOf = async (task_name: string, tool: string, bounds: JsonObject = {}) => {
      const id = await request(task_name, { calls: [{ tool, calls_max: 1, arguments: bounds }] })
      const [row] = await room.rows<{ status: string; error: string }>(
        'select status, error from concord.commands where command_id = $1',
        [id],
      )
      assert.equal(row?.status, 'failed')
      return row?.error ?? ''
    }
    assert.match(await errorOf('Payer', 'create_artifact'), /has no tool/)
    assert.match(await errorOf('ask_owner', 'ask_owner'), /is not an agent/)
    assert.match(await errorOf('Payer', 'ask_ownr'), /no tool/)
    for (const tool of ['request_approval', 'request_human_input', 'raise_budget'])
      assert.match(await errorOf('Pleader', tool), /it asks a person/)
    assert.match(await errorOf('Payer', 'ask_owner', { note: { max: 12.5 } }), /The argument note .* is no number/)
    const numbers = [{ tool: 'pay_some', calls_max: 1, arguments: { amount: { max: 10 }, note: 'any' } }]
    assert.equal(await room.statusOf(await request('Payer of all', { calls: numbers })), 'waiting_for_approval')
  })

  test('an input that the task does not take is refused before people are asked, and the facts do not copy it', async () => {
    for (const [input, why] of [
      [{ month: 3 }, /month: /],
      [{}, /month is missing/],
    ] as const) {
      const id = await request('Monthly payer', { input })
      assert.equal(await room.statusOf(id), 'failed')
      const [row] = await room.rows<{ error: string }>('select error from concord.commands where command_id = $1', [id])
      assert.match(row?.error ?? '', why)
    }
    const id = await run('Monthly payer', { input: { month: 'a-month-of-mine' } })
    assert.deepEqual(outside.paid, ['a'])
    const [row] = await room.rows<{ copies: number }>(
      `select (select count(*)::int from concord.domain_events v, regexp_matches(v.payload::text, 'a-month-of-mine', 'g')
         where v.command_id = $1 and v.event_type = 'policy_evaluated') as copies`,
      [id],
    )
    assert.equal(row?.copies, 1)
  })

  test('a call that leaves out a bounded argument asks, and so does an escalation', async () => {
    const bounds = { calls_max: 1, arguments: { note: { one_of: ['a'] } } }
    const all = await run('Payer of all', { calls: [{ tool: 'pay_some', ...bounds }] })
    assert.deepEqual(await statusesOf(all), ['waiting_for_approval'])
    const escalated = await run('Pleader', { calls: [{ tool: 'plead', ...bounds }] })
    assert.deepEqual(await statusesOf(escalated), ['waiting_for_approval'])
    assert.deepEqual(outside.paid, [])
  })

  test('covers nothing once it has ended, is cancelled, or does not run its task', async () => {
    for (const text of [
      'update concord.commands set cancellation_requested = true where command_id = $1',
      `update concord.commands set status = 'failed', completed_at = now() where command_id = $1`,
      `update concord.domain_effects set status = 'failed', completed_at = now() where command_id = $1 and effect_type = 'envelope.start'`,
    ]) {
      const id = await run('Payer', {}, async (envelope) => {
        await room.turn(envelope)
        await room.rows(text, [envelope])
      })
      assert.deepEqual(await statusesOf(id), ['waiting_for_approval', 'waiting_for_approval'], text)
    }
    assert.deepEqual(outside.paid, [])
  })

  test('the requester does not approve it, and the packet shows the calls with their bounds', async () => {
    const id = await request('Payer')
    const refused = await approve(id, room.tenant.people.writer)
    assert.equal(refused.ok, false)
    const [row] = await room.rows<{
      approver: string
      packet: { requested_action: { arguments: JsonObject }; why: string }
    }>('select approver, review_packet as packet from concord.approvals where command_id = $1', [id])
    assert.equal(row?.approver, 'role:owner')
    assert.deepEqual(row?.packet.requested_action.arguments['calls'], [{ ...calls[0], untrusted: false }])
    assert.match(row?.packet.why ?? '', /ask_owner up to 2 times/)
  })

  test('of many calls that see the last uses, as many as stated get one, and no use is given back', async () => {
    const id = await request('Payer')
    const command = { workspace_id: room.tenant.workspace.id }
    const use = { event_type: 'envelope_used', payload: { envelope_id: id, task_name: 'ask_owner', calls_max: 5 } }
    const count = countEnvelopeUse({ command, events: [use] } as never) ?? assert.fail('no use')
    const tries = await Promise.allSettled(Array.from({ length: 40 }, () => room.db.transaction((tx) => count(tx))))
    assert.equal(tries.filter(({ status }) => status === 'fulfilled').length, 5)
    for (const change of ['calls_used = 1', 'calls_max = 9'])
      await assert.rejects(
        room.rows(`update concord.envelope_calls set ${change} where envelope_id = $1`, [id]),
        /written once/,
      )
  })
})
