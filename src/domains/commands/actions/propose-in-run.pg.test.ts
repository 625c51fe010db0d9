/** Calls from inside a run: whose rights apply, which tools the run has, and what of a command names the run. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import type { AgentActionType } from '#kernel/agent-step'
import { agentActionTypes } from '#kernel/agent-step'
import { byPerson } from '#kernel/actor'
import { aRunAtWork, type TestRun } from '#test/agents'
import { decider, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { agenticTask, agentTools } from '#test/projects/commands'
import { insertRow } from '#test/store-rows'
import { accepted, TRACE } from '#test/tenant'
import { agentPolicies } from '../catalog/agent-policies.ts'
import { definitionName } from '../catalog/definitions.ts'
import { findBrokenInvariants } from '../invariants/find-broken-invariants.ts'
import { actingFor } from '../deps.ts'
import { findRequesterGone } from '../requester.ts'
import { submitCommand, type SubmitCommand } from '../submit.ts'
import { showRunWait } from '../run-waits.ts'
import { openWriter } from '../write-command.ts'
import { proposeInRun } from './propose-in-run.ts'

const OUTSIDE = { subject: 's', destination: 'external:finance@example.com' }
const NOTE = { tools: ['publish_note', 'read_books', 'Confirm Note'], connectors: ['mail'] }

describe('calls of a run', () => {
  let room: TestRoom
  let workspaceId: string
  const followed: string[] = []
  before(async () => {
    room = await openTestRoom(
      (deps) => {
        const wake: typeof deps.wake = async (process, options) => {
          if (process.kind === 'agent_run') followed.push(process.id)
          await deps.wake(process, options)
        }
        return { ...deps, wake, writes: openWriter({ ...deps, wake }) }
      },
      (clock) => [...agentTools(), ...agenticTask(clock)],
    )
    workspaceId = room.tenant.workspace.id
  })
  after(async () => {
    await room.world.writes.close()
    await room.close()
  })

  const call = (
    { agentRunId }: Pick<TestRun, 'agentRunId'>,
    toolName: string,
    stepIndex: number,
    payload: Record<string, string> = { subject: 's' },
    actionType: AgentActionType = 'tool_call',
  ) =>
    proposeInRun(
      room.world,
      { workspaceId, agentRunId, stepIndex, requestId: 'r' },
      { actionType, toolName, payload, reason: 'The goal needs it.' },
    )
  const codeOf = async (...of: Parameters<typeof call>) => {
    const called = await call(...of)
    return called.ok ? 'proposed' : called.code
  }
  const setRole = (role: string) =>
    room.rows('update identity.users set role = $1 where id = $2', [role, room.tenant.people.writer.principal.userId])
  const count = async () => (await room.rows('select 1 from concord.commands')).length

  test('a call is a command of the requester that names the run, and the same step again is the same command', async () => {
    const run = await aRunAtWork(room, NOTE)
    const { command, isNew } = accepted(await call(run, 'publish_note', 3))
    assert.deepEqual(
      [isNew, command.agent_run_id, command.ingress, command.requested_by, command.idempotency_key],
      [
        true,
        run.agentRunId,
        'agent_action',
        `user:${room.tenant.people.writer.principal.userId}`,
        `agent:${run.agentRunId}:3`,
      ],
    )
    const { run_as, metadata, follower } = command.context
    assert.deepEqual([run_as, metadata['step_index'], metadata['action_type']], ['agent', 3, 'tool_call'])
    assert.deepEqual(follower, { kind: 'agent_run', id: run.agentRunId })
    const again = accepted(await call(run, 'publish_note', 3))
    assert.deepEqual([again.isNew, again.command.command_id], [false, command.command_id])
    followed.length = 0
    await room.settle(command.command_id)
    assert.deepEqual(followed, [run.agentRunId], 'its end wakes the run')
  })

  test('each of the ten action types is on the command', async () => {
    const run = await aRunAtWork(room, NOTE)
    for (const [step, type] of agentActionTypes.entries()) {
      const { command } = accepted(await call(run, 'publish_note', step, { subject: type }, type))
      assert.equal(command.context.metadata['action_type'], type)
    }
  })

  test('a call that only reads ends in its first commit, and the run gets the answer without a wake', async () => {
    const admin = room.tenant.people.admin.principal
    const by = { id: `user:${admin.userId}`, role: 'admin' }
    const run = await aRunAtWork(room, NOTE)
    await room.rows(
      `update concord.commands set requested_by = $2, context = jsonb_set(context, '{metadata,role}', '"admin"') where command_id = $1`,
      [run.commandId, by.id],
    )
    followed.length = 0
    const { command } = accepted(await call(run, 'read_books', 0))
    assert.deepEqual([command.status, command.result, followed], ['succeeded', { total: '17' }, []])
  })

  test('[AGT-08] only tools of the manifest can be called; a forbidden one is refused although it is allowed; the refusal shows no other tool', async () => {
    const run = await aRunAtWork(room, { ...NOTE, forbidden: ['read_books'] })
    const before = await count()
    assert.equal(await codeOf(run, 'forbidden_note', 0), 'agents.tool.outside_scope')
    assert.equal(await codeOf(run, 'read_books', 1), 'agents.tool.outside_scope')
    assert.equal(await codeOf(run, 'Read Books', 1), 'agents.tool.outside_scope')
    const unknown = await call(run, 'forbiden_note', 2)
    assert.ok(!unknown.ok)
    assert.doesNotMatch(JSON.stringify(unknown), /forbidden_note|Forbidden/)
    assert.equal(await count(), before)
    const closed = await aRunAtWork(room, { tools: ['publish_note'] })
    const refused = await call(closed, 'publish_note', 0)
    assert.match(refused.ok ? '' : refused.reason, /no access to the connector "mail"/)
    const [audit] = await room.rows<{ count: number }>(
      `select count(*)::integer as count from concord.domain_events where event_type = 'command_rejected' and payload->>'code' = 'agents.tool.outside_scope'`,
    )
    assert.equal(audit?.count, 5, 'each refusal is on record')
  })

  test('[SWM-31] a child has no tool that a run above it may not use or that is forbidden to it, whatever its own row says', async () => {
    const parent = await aRunAtWork(room, {
      tools: ['publish_note', 'read_books'],
      forbidden: ['read_books'],
      connectors: ['mail'],
    })
    const below = { parent_agent_run_id: parent.agentRunId }
    const child = await aRunAtWork(room, NOTE, below)
    assert.equal(await codeOf(child, 'confirm_note', 0), 'agents.tool.outside_scope')
    assert.equal(await codeOf(child, 'read_books', 1), 'agents.tool.outside_scope')
    assert.equal(await codeOf(child, 'publish_note', 2), 'proposed')
    const delegating = await aRunAtWork(
      room,
      { tools: ['publish_note'], connectors: ['mail'] },
      { delegable_tools: '["confirm_note"]' },
    )
    assert.equal(await codeOf(delegating, 'confirm_note', 0), 'agents.tool.outside_scope')
    const heir = await aRunAtWork(room, NOTE, { parent_agent_run_id: delegating.agentRunId })
    assert.equal(await codeOf(heir, 'confirm_note', 1), 'proposed')
  })

  test('authority is that of the requester today: a person who lost the right to act loses it for the run too', async () => {
    const run = await aRunAtWork(room, NOTE)
    try {
      await setRole('reader')
      assert.equal(await codeOf(run, 'publish_note', 0), 'agents.tool.outside_scope')
    } finally {
      await setRole('writer')
    }
    assert.equal(await codeOf(run, 'publish_note', 1), 'proposed')
  })

  test('[AGT-09] a gate of the run, or of a run above it, asks for an approval that the tool does not', async () => {
    const gated = { manifest: JSON.stringify({ approval_gates: ['publish_note'] }) }
    const stateOf = async (run: TestRun) => {
      const { command } = accepted(await call(run, 'publish_note', 0))
      return room.settle(command.command_id)
    }
    assert.equal(await stateOf(await aRunAtWork(room, NOTE)), 'succeeded')
    const parent = await aRunAtWork(room, NOTE, gated)
    assert.equal(await stateOf(parent), 'waiting_for_approval')
    const child = await aRunAtWork(room, NOTE, { parent_agent_run_id: parent.agentRunId })
    const grandchild = await aRunAtWork(room, NOTE, { parent_agent_run_id: child.agentRunId })
    assert.equal(await stateOf(grandchild), 'waiting_for_approval')
  })

  test('a run of an agent has the tools of the keys of the agent that work in the workspace now', async () => {
    const { userId } = room.tenant.people.writer.principal
    const run = await aRunAtWork(room, NOTE)
    await room.rows(`update concord.commands set context = context || '{"agent":"bot"}' where command_id = $1`, [
      run.commandId,
    ])
    const [user] = await room.rows<{ org_id: string }>('select org_id from identity.users where id = $1', [userId])
    const elsewhere = { id: room.clock.newId(), org_id: user?.org_id, slug: 'elsewhere', name: 'Elsewhere' }
    await insertRow(room.db, 'identity.workspaces', elsewhere)
    const key = async (more: object) => {
      const id = room.clock.newId()
      await insertRow(room.db, 'identity.api_keys', {
        id,
        org_id: user?.org_id,
        user_id: userId,
        name: 'k',
        prefix: id,
        key_hash: createHash('sha256').update(id).digest(),
        role: 'writer',
        agent: 'bot',
        tools: '{"Publish Note"}',
        ...more,
      })
      return id
    }
    await key({ expires_at: '2020-01-01T00:00:00Z' })
    await key({ workspace_id: elsewhere.id })
    assert.equal(await codeOf(run, 'publish_note', 0), 'agents.tool.outside_scope')
    const living = await key({})
    const { command } = accepted(await call(run, 'publish_note', 1))
    await room.rows(`update identity.api_keys set expires_at = now() where id = $1`, [living])
    assert.equal(await findRequesterGone(room.world, command), true)
    await room.rows(`update identity.api_keys set expires_at = null where id = $1`, [living])
    assert.equal(await findRequesterGone(room.world, command), false)
  })

  test('policy asks for the scope again: a call that is decided after the requester lost the right is denied', async () => {
    const run = await aRunAtWork(room, NOTE)
    // Inserted as it was asked, without a decision.
    const { command } = accepted(await call(run, 'publish_note', 0, OUTSIDE))
    assert.equal(command.status, 'created')
    try {
      await setRole('reader')
      await room.settle(command.command_id)
    } finally {
      await setRole('writer')
    }
    const [row] = await room.rows<{
      status: string
      error: string
      trace: readonly { rule: string; answer: string }[]
    }>(
      `select c.status, c.error, e.payload->'trace' as trace from concord.commands c
         join concord.domain_events e on e.command_id = c.command_id and e.event_type = 'policy_evaluated' where c.command_id = $1`,
      [command.command_id],
    )
    assert.equal(row?.status, 'failed')
    assert.deepEqual(
      row?.trace.find(({ rule }) => rule === 'agent_scope'),
      { rule: 'agent_scope', category: 'permission', answer: 'deny' },
    )
  })

  test('no task open to agents can leave out the rules about runs, and they permit nothing by themselves', () => {
    const names = agentPolicies.map(definitionName)
    for (const { spec, policyNames, forAgents } of room.catalog.tasks.values()) {
      assert.deepEqual(
        names.filter((name) => forAgents.policyNames.includes(name)),
        names,
        spec.name,
      )
      assert.ok(!names.some((name) => policyNames.includes(name)), 'people are not asked about runs')
    }
    for (const { rule } of agentPolicies) {
      const input = {
        action: 'x',
        command: {},
        task: {},
        context: { facts: { agent_scope: null, agent_standing: null } },
      }
      assert.equal(rule.decide(input), undefined)
      assert.equal(rule.decide({ ...input, context: {} })?.decision, 'deny', 'an unknown scope is none')
    }
  })

  test('the statement that inserts a call asks whether its run is at work, and the end of the run waits for the call', async () => {
    const run = await aRunAtWork(room, NOTE)
    const end = `update concord.agent_runs set status = 'cancelling' where agent_run_id = $1`
    const { principal } = room.tenant.people.writer
    // As the gateway would after it has read the run.
    const submit = (more: Partial<SubmitCommand>) =>
      submitCommand(room.world, actingFor(principal, TRACE), {
        workspaceId,
        taskName: 'Publish Note',
        payload: { subject: 's' },
        ingress: 'agent_action',
        requestId: 'r',
        runAs: 'agent',
        run: { agentRunId: run.agentRunId, swarmRunId: null },
        ...more,
      })
    await room.db.transaction(async (tx) => {
      accepted(await submit({ tx }))
      const ending = room.db.transaction(async (other) => {
        await other.query(`set local lock_timeout = '20ms'`)
        await other.query(end, [run.agentRunId])
      })
      await assert.rejects(ending, { code: '55P03' })
    })
    await room.rows(end, [run.agentRunId])
    const before = await count()
    const late = await submit({})
    assert.deepEqual([late.ok ? '' : late.code, await count()], ['agents.run.ended', before])
  })

  test('a run that ended or is being cancelled proposes nothing; a run of another workspace is not found', async () => {
    const run = await aRunAtWork(room, NOTE, { status: 'cancelling' })
    assert.equal(await codeOf(run, 'publish_note', 0), 'agents.run.ended')
    const over = { status: 'succeeded', completed_at: new Date(), end_reason: 'final_answer_created' }
    assert.equal(await codeOf(await aRunAtWork(room, NOTE, over), 'publish_note', 0), 'agents.run.ended')
    assert.equal(await codeOf({ agentRunId: room.clock.newId() }, 'publish_note', 0), 'agents.run.not_found')
    assert.equal(await codeOf({ agentRunId: 'x' }, 'publish_note', 0), 'agents.run.not_found')
    const elsewhere = await proposeInRun(
      room.world,
      { workspaceId: room.clock.newId(), agentRunId: run.agentRunId, stepIndex: 0, requestId: 'r' },
      { actionType: 'tool_call', toolName: 'publish_note', payload: {}, reason: 'r' },
    )
    assert.equal(elsewhere.ok ? '' : elsewhere.code, 'agents.run.not_found')
  })

  test('the command of a run is running, and blocked only while a call of the run waits for a person', async () => {
    const commandId = await room.submit({}, { taskName: 'Find Out' })
    assert.equal(await room.settle(commandId), 'running')
    const run = await aRunAtWork(room, NOTE, { command_id: commandId })
    const show = (waitsForPeople: boolean) =>
      room.db.transaction((tx) => showRunWait(tx, room.world, { workspaceId, ...run, waitsForPeople }))
    const { command } = accepted(await call(run, 'publish_note', 0, OUTSIDE))
    followed.length = 0
    assert.equal(await room.settle(command.command_id), 'waiting_for_approval')
    assert.deepEqual(followed, [run.agentRunId], 'the question wakes the run')
    for (const times of [1, 2]) {
      await show(true)
      assert.equal(await room.settle(commandId), 'blocked', `${times}`)
    }
    followed.length = 0
    const say = { workspaceId, approvalId: await pendingOf(room, command.command_id), reason: 'r', traceId: TRACE }
    const owner = { ...decider(room), orgRoles: ['data-owner'] }
    accepted(await decideApproval(room.approvals, byPerson(owner, TRACE), { ...say, decision: 'approved' }))
    assert.deepEqual(followed, [run.agentRunId], 'the answer wakes the run')
    for (const times of [1, 2]) {
      await show(false)
      assert.equal(await room.settle(commandId), 'running', `${times}`)
    }
    assert.equal(await room.settle(command.command_id), 'succeeded')
    await room.rows(
      `update concord.agent_runs set status = 'succeeded', completed_at = now(), end_reason = 'final_answer_created' where agent_run_id = $1`,
      [run.agentRunId],
    )
    assert.equal(await room.settle(commandId), 'succeeded')
    await show(true)
    const path = await room.rows<{ to: string }>(
      `select payload->>'to' as to from concord.domain_events where command_id = $1 and event_type = 'status_changed' and payload->>'target_type' = 'command' order by seq`,
      [commandId],
    )
    assert.deepEqual(
      path.map(({ to }) => to),
      ['validated', 'running', 'blocked', 'running', 'succeeded'],
    )
  })

  test('the proposals violate no invariant', async () => {
    await room.settleWoken()
    assert.deepEqual(await findBrokenInvariants(room.db), [])
  })
})
