/** Actions from outside of Concord, while the agent of the run works on an answer, after a crash, and with content. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { cancelCommand, submitCommand } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import { decodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { type Outside, scripted, toolsForRuns } from '#test/agent-project'
import { driveUntil } from '#test/agents'
import { answer } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { actInRun } from './act-in-run.ts'
import type { AgentObservation, AgentRuntime } from './agent-runtime.ts'
import { RUN_KIND } from './deps.ts'
import { runInvariants } from './run-invariants.ts'

describe('actions from outside of Concord', () => {
  const outside: Outside = { paid: [], looked: 0 }
  let room: AgentRoom
  /** What happens while the first answer of the agent is under way. */
  let meanwhile: (agentRunId: string) => Promise<void> = async () => {}
  /** The same for the second. */
  let later = meanwhile
  const seen: AgentObservation[] = []
  const pay = { id: 'own', actionType: 'tool_call', toolName: 'pay', payload: { note: 'own' }, reason: 'r' } as const
  const working: AgentRuntime = {
    name: 'working',
    async startAgentRun({ agentRunId }) {
      await meanwhile(agentRunId)
      return { text: null, calls: [pay], final: null }
    },
    async resumeAgentRun({ agentRunId }, observations) {
      seen.push(...observations)
      await later(agentRunId)
      return { text: null, calls: [], final: {} }
    },
    async cancelAgentRun() {},
  }
  before(async () => {
    const tools = ['pay', 'ask_owner', 'create_report_draft', 'propose_memory']
    const terms = { runtime: 'working', tools, memory: { write_allowed: true } }
    room = await openAgentRoom([scripted('Working', [], terms)], toolsForRuns(outside), [working])
  })
  after(() => room.close())
  beforeEach(() => {
    outside.paid.length = 0
    seen.length = 0
    meanwhile = later = async () => {}
  })

  type Action = Partial<Parameters<typeof actInRun>[2]> & { readonly payload: JsonObject }
  const act = (agentRunId: string, action: Action, deps = room.agents) =>
    actInRun(deps, room.tenant.people.writer.principal, {
      workspaceId: room.tenant.workspace.id,
      agentRunId,
      requestId: 'r',
      action_type: 'tool_call',
      tool_name: 'pay',
      reason: 'r',
      ...action,
    })
  const keysOf = async (agentRunId: string) =>
    (
      await room.rows<{ key: string }>(
        `select split_part(idempotency_key, ':', 3) as key from concord.commands where agent_run_id = $1 order by 1`,
        [agentRunId],
      )
    ).map(({ key }) => key)

  test('[AGT-13] [AGT-10] an action whose decision comes after the next answer of the agent is done once, and so is the call of the answer', async () => {
    let acting: ReturnType<typeof act> | undefined
    meanwhile = async (agentRunId) => {
      acting = act(agentRunId, { payload: { note: 'outside' }, idempotency_key: 'one' })
      // It is proposed, and nobody has decided about it.
      while ((await keysOf(agentRunId)).length === 0) await new Promise((resolve) => setImmediate(resolve))
    }
    const command = await room.start('Working')
    await room.rest()
    assert.ok(acting)
    const acted = accepted(await driveUntil(room, acting))
    const run = await room.runOf(command)
    assert.deepEqual([run.status, run.step_count, acted.step_index], ['succeeded', 3, 0])
    assert.deepEqual(outside.paid.toSorted(), ['outside', 'own'])
    assert.deepEqual(await keysOf(run.agent_run_id), ['0', '1'])
    assert.deepEqual(
      seen.map(({ callId, decision }) => [callId, decision]),
      [['own', 'done']],
    )
    assert.deepEqual(
      (await room.stepsOf(run)).map(({ step_index }) => step_index),
      [0, 1, 2],
    )
    const again = accepted(await act(run.agent_run_id, { payload: { note: 'outside' }, idempotency_key: 'one' }))
    assert.deepEqual([again.command_id, again.decision], [acted.command_id, 'allowed'], 'also after the end of the run')
  })

  test('[AGT-13] a request whose process died before the decision is proposed once, however often it is sent again', async () => {
    const ids = new Set<string>()
    const request = { payload: { note: 'outside' }, idempotency_key: 'one' }
    meanwhile = async (agentRunId) => {
      const died = { ...room.agents.commands, sleep: () => Promise.reject(new Error('died')) }
      await assert.rejects(act(agentRunId, request, { ...room.agents, commands: died }), /died/)
      const asked = Array.from({ length: 10 }, () => act(agentRunId, request))
      for (const acted of await driveUntil(room, Promise.all(asked))) ids.add(accepted(acted).command_id)
      const other = accepted(await driveUntil(room, act(agentRunId, { payload: { note: 'other' } })))
      assert.equal(other.step_index, 1)
    }
    later = async (agentRunId) => {
      ids.add(accepted(await driveUntil(room, act(agentRunId, request))).command_id)
    }
    const run = await room.runOf(await room.start('Working'))
    assert.equal(ids.size, 1)
    assert.deepEqual(outside.paid.toSorted(), ['other', 'outside', 'own'])
    assert.equal(run.step_count, 4)
    for (const { code, sql } of runInvariants) assert.deepEqual(await room.rows(sql), [], code)
  })

  const askOwner = async (agentRunId: string) => {
    const asked = accepted(
      await driveUntil(room, act(agentRunId, { tool_name: 'ask_owner', payload: { note: 'outside' } })),
    )
    assert.equal(asked.decision, 'require_approval')
    return accepted(decodeId('command', asked.command_id))
  }

  test('a cancelled run cancels the actions from outside that are open: no approval can let them through any more', async () => {
    let action = ''
    meanwhile = async (agentRunId) => {
      action = await askOwner(agentRunId)
      const [run] = await room.rows<{ command_id: string }>(
        'select command_id from concord.agent_runs where agent_run_id = $1',
        [agentRunId],
      )
      const by = { id: 'system', kind: 'system' as const, traceId: TRACE }
      const commandId = run?.command_id ?? ''
      accepted(await cancelCommand(room.world, by, { workspaceId: room.tenant.workspace.id, commandId, reason: 'r' }))
      await room.settleWoken()
    }
    const run = await room.runOf(await room.start('Working'))
    assert.deepEqual([run.status, await room.statusOf(action)], ['cancelled', 'cancelled'])
    await assert.rejects(answer(room, action, 'approved'), /no pending approval/)
    assert.deepEqual(outside.paid, [])
  })

  test('a run with a final answer ends after its actions from outside have ended', async () => {
    let action = ''
    later = async (agentRunId) => {
      action = await askOwner(agentRunId)
    }
    const command = await room.start('Working')
    assert.deepEqual(
      [(await room.runOf(command)).status, await room.statusOf(command)],
      ['waiting_for_approval', 'blocked'],
    )
    await answer(room, action, 'approved')
    await room.rest()
    assert.deepEqual([(await room.runOf(command)).status, await room.statusOf(command)], ['succeeded', 'succeeded'])
    assert.deepEqual(outside.paid, ['own', 'outside'])
  })

  test('a run whose runtime fails for good ends after its actions from outside have ended', async () => {
    let action = ''
    later = async (agentRunId) => {
      if (action === '') action = await askOwner(agentRunId)
      throw new Error('The runtime is broken.')
    }
    const command = await room.start('Working')
    const { agent_run_id: id } = await room.runOf(command)
    for (let tries = 0; tries < 5; tries++) {
      room.clock.travel(130_000)
      room.others.push({ kind: RUN_KIND, id })
      await room.rest()
    }
    assert.equal((await room.runOf(command)).status, 'running')
    await answer(room, action, 'rejected')
    await room.rest()
    assert.deepEqual([(await room.runOf(command)).status, await room.statusOf(action)], ['failed', 'failed'])
  })

  test('an action has no more rights than the key that is used for it', async () => {
    const { principal } = room.tenant.people.admin
    const roles: unknown[] = []
    meanwhile = async (agentRunId) => {
      for (const role of ['writer', 'reader'] as const) {
        const acted = await driveUntil(
          room,
          actInRun(
            room.agents,
            { ...principal, role },
            {
              workspaceId: room.tenant.workspace.id,
              agentRunId,
              requestId: 'r',
              action_type: 'tool_call',
              tool_name: 'pay',
              payload: { note: role },
              reason: 'r',
            },
          ),
        )
        roles.push(acted.ok ? 'proposed' : acted.code)
      }
    }
    const { command } = accepted(
      await submitCommand(room.world, byPerson(principal, TRACE), {
        workspaceId: room.tenant.workspace.id,
        taskName: 'Working',
        payload: {},
        requestId: 'r',
        ingress: 'user_request',
      }),
    )
    await room.settle(command.command_id)
    await room.rest()
    assert.deepEqual(roles, ['proposed', 'agents.tool.outside_scope'])
    const made = await room.rows(
      `select context->'metadata'->>'role' as role from concord.commands where agent_run_id = $1 order by idempotency_key`,
      [(await room.runOf(command.command_id)).agent_run_id],
    )
    assert.deepEqual(made, [{ role: 'writer' }, { role: 'admin' }])
  })

  test('the content of an action is in its message alone: no command, no effect and no event holds it', async () => {
    const word = 'zzcontentzz'
    const draft = { title: word, text: word, sources: [] }
    const memory = { subject: `customer:${word}`, scope: 'user', memory_type: 'fact', content: { note: word } }
    const decisions: unknown[] = []
    meanwhile = async (agentRunId) => {
      for (const [tool_name, payload] of [
        ['create_report_draft', draft],
        ['propose_memory', memory],
      ] as const) {
        const decided = await driveUntil(room, act(agentRunId, { tool_name, payload }))
        decisions.push(decided.ok ? decided.value.decision : decided)
      }
    }
    const run = await room.runOf(await room.start('Working'))
    assert.deepEqual([...decisions, run.status], ['allowed', 'allowed', 'succeeded'])
    const ended = await room.rows(
      `select distinct status, error from concord.commands where agent_run_id = $1 and task_name <> 'Write Memory'`,
      [run.agent_run_id],
    )
    assert.deepEqual(ended, [{ status: 'succeeded', error: null }])
    for (const table of ['commands', 'domain_effects', 'domain_events'])
      assert.deepEqual(await room.rows(`select from concord.${table} as t where t::text like '%${word}%'`), [], table)
    const held = await room.rows(
      `select from concord.agent_messages where agent_run_id = $1 and content like '%${word}%'`,
      [run.agent_run_id],
    )
    assert.equal(held.length, 2)
  })
})
