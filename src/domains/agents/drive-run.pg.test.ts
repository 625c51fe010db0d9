/** A run from its command to its end: answers, calls, waits, and every end. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { cancelCommand, supplyInput } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { final, look, type Outside, scripted, toolsForRuns } from '#test/agent-project'
import { decider, pathOf, pendingOf } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import type { AgentRuntime } from './agent-runtime.ts'
import type { StoredAgentRun } from './agent-run.ts'

const pay = (note: string) => ({ tool: 'pay', payload: { note } })
const owner = (note: string) => ({ tool: 'ask_owner', payload: { note } })
const looping = [{ calls: [look(1)], repeat: true }]

const agents = [
  scripted('Two Calls', [{ say: 'First.', calls: [pay('a'), look(7)] }, final]),
  scripted('Asks Owner', [{ calls: [owner('b')] }, { final: { heard: '$observation' } }]),
  scripted(
    'Asks Person',
    [
      { calls: [{ action: 'request_human_input', payload: { question: 'Which month?' } }] },
      { final: { heard: '$observation' } },
    ],
    { tools: ['request_human_input'] },
  ),
  scripted(
    'Three Steps',
    Array.from({ length: 5 }, (_, n) => ({ calls: [look(n)] })),
    { limits: { max_steps: 3 } },
  ),
  scripted('One Step', [{ calls: [look(1)] }], { limits: { max_steps: 1 } }),
  scripted('No Answer', [{ calls: [look(1)] }], { limits: { max_steps: 4 } }),
  scripted('Denied', [{ calls: [{ tool: 'never', payload: { note: 'x' } }] }, final]),
  scripted('Denied Ends', [{ calls: [{ tool: 'never', payload: { note: 'x' } }] }, final], {
    termination: { conditions: ['policy_denied'] },
  }),
  scripted('Loops', looping),
  scripted('Deadline', [{ calls: [owner('late')] }, final], { limits: { deadline_minutes: 5 } }),
  scripted('Outside', [{ calls: [{ tool: 'pay', payload: { note: 'no' } }] }, final], { tools: ['look'] }),
  scripted('Forbidden', [{ calls: [pay('no')] }, final], { tools: ['look', 'pay'], forbiddenTools: ['pay'] }),
  scripted('Beside', [{ calls: [owner('c'), pay('no')] }, final], { tools: ['ask_owner'] }),
  scripted('Breaks', [{ calls: [{ tool: 'break_it' }, { tool: 'look', payload: { n: 'not a number' } }] }, final]),
  scripted('Gated', [{ calls: [pay('gate')] }, final], { approvalGates: ['pay'] }),
  scripted('Words', [{ say: 'Let me think.' }, final]),
  scripted('Waits Elsewhere', [final], { runtime: 'watched' }),
  scripted('Never Answers', [final], { runtime: 'silent', limits: { deadline_minutes: 1 } }),
  scripted('Fails Late', [final], { runtime: 'failing', limits: { deadline_minutes: 1 } }),
]

describe('the turns of an agent run', () => {
  let room: AgentRoom
  const outside: Outside = { paid: [], looked: 0 }
  const cancelled: string[] = []
  let answers = 0
  const watched: AgentRuntime = {
    name: 'watched',
    async startAgentRun() {
      answers += 1
      return {
        text: null,
        calls: [{ id: '1', actionType: 'tool_call', toolName: 'ask_owner', payload: { note: 'w' }, reason: 'r' }],
        final: null,
      }
    },
    resumeAgentRun: async () => ({ text: null, calls: [], final: {} }),
    cancelAgentRun: async (id, reason) => void cancelled.push(`${id} ${reason}`),
  }
  /** Works until its signal is aborted. */
  const silent: AgentRuntime = {
    ...watched,
    name: 'silent',
    startAgentRun: ({ signal }) =>
      new Promise(() => signal.addEventListener('abort', () => room.clock.travel(1_000), { once: true })),
  }
  const failing: AgentRuntime = {
    ...watched,
    name: 'failing',
    async startAgentRun() {
      room.clock.travel(59_500)
      throw new Error('It has no answer.')
    },
  }
  before(async () => {
    room = await openAgentRoom(agents, toolsForRuns(outside), [watched, silent, failing])
  })
  after(() => room.close())

  const endOf = async (commandId: string) => {
    const run = await room.runOf(commandId)
    return [run.status, run.end_reason, await room.statusOf(commandId)]
  }
  const callsOf = (run: StoredAgentRun) =>
    room.rows<{ command_id: string; status: string; key: string; task_name: string }>(
      `select command_id, status, idempotency_key as key, task_name from concord.commands where agent_run_id = $1 order by idempotency_key`,
      [run.agent_run_id],
    )
  const observed = async (commandId: string) => {
    const messages = await room.messagesOf(await room.runOf(commandId))
    return messages
      .filter(({ role }) => role === 'tool')
      .map(({ content }) => content as { decision: string; content: unknown })
  }
  const decide = async (commandId: string, decision: 'approved' | 'rejected', reason: string) => {
    const [call] = await callsOf(await room.runOf(commandId))
    const approvalId = await pendingOf(room, call?.command_id ?? '')
    const say = { workspaceId: room.tenant.workspace.id, approvalId, decision, reason, traceId: TRACE }
    accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), say))
    await room.rest()
  }

  test('[AGT-17] [AGT-02] a run asks, proposes the calls of an answer as commands of its own, observes, and ends with its answer', async () => {
    const commandId = await room.start('Two Calls')
    const run = await room.runOf(commandId)
    assert.deepEqual(await endOf(commandId), ['succeeded', 'final_answer_created', 'succeeded'])
    assert.deepEqual([run.step_count, outside.paid], [3, ['a']])
    const calls = await callsOf(run)
    assert.deepEqual(
      calls.map(({ key, status, task_name }) => [key, status, task_name]),
      [
        [`agent:${run.agent_run_id}:0`, 'succeeded', 'pay'],
        [`agent:${run.agent_run_id}:1`, 'succeeded', 'look'],
      ],
    )
    assert.deepEqual(
      (await observed(commandId)).map(({ decision, content }) => [decision, content]),
      [
        ['done', { paid: 'a' }],
        ['done', { seen: 7 }],
      ],
    )
  })

  test('a run whose runtime has failed does not wait past its deadline for the next try', async () => {
    const run = await room.runOf(await room.start('Fails Late'))
    assert.deepEqual([run.status, run.metadata.failures, run.run_after], ['running', 1, run.deadline_at])
  })

  test('[AGT-10] [AGT-06] [OQ-04] each step is an event with digests, written by Concord; the content is in the messages alone', async () => {
    const run = await room.runOf(await room.start('Two Calls'))
    const steps = await room.stepsOf(run)
    assert.deepEqual(
      steps.map(({ step_index, event_type, tool_name }) => [step_index, event_type, tool_name]),
      [
        [0, 'tool_call', 'pay'],
        [1, 'tool_call', 'look'],
        [2, 'final_answer', null],
      ],
    )
    assert.equal(run.step_count, steps.length)
    const [first] = steps
    assert.match(JSON.stringify(first?.payload), /"digest":"[0-9a-f]{64}"/)
    assert.equal(first?.payload['decision'], 'allowed')
    assert.ok(first?.payload['created_command_id'])
    const [journal] = await room.rows<{ text: string }>(
      `select string_agg(payload::text, ' ') as text from concord.domain_events where agent_run_id = $1`,
      [run.agent_run_id],
    )
    assert.doesNotMatch(journal?.text ?? '', /First\.|seen|"a"/, 'no content in the events')
    const rows = await room.rows('select digest, size_bytes from concord.agent_messages where agent_run_id = $1', [
      run.agent_run_id,
    ])
    assert.equal(rows.length, 4)
  })

  test('[ST-20] a run waits for the decision of a person; decision and reason are the next observation', async () => {
    const commandId = await room.start('Asks Owner')
    assert.deepEqual((await room.runOf(commandId)).status, 'waiting_for_approval')
    assert.equal(await room.statusOf(commandId), 'blocked')
    const { turn_token, run_after } = await room.runOf(commandId)
    assert.deepEqual([turn_token, run_after], [null, null], 'a run that waits has no turn and no timer')
    await decide(commandId, 'approved', 'Go ahead.')
    assert.deepEqual(await endOf(commandId), ['succeeded', 'final_answer_created', 'succeeded'])
    const [seen] = await observed(commandId)
    assert.deepEqual([seen?.decision, seen?.content], ['approved', { result: { paid: 'b' }, reason: 'Go ahead.' }])
    const rejected = await room.start('Asks Owner')
    await decide(rejected, 'rejected', 'Too much.')
    const [refused] = await observed(rejected)
    assert.deepEqual([refused?.decision, refused?.content], ['rejected', { reason: 'Too much.' }])
    assert.deepEqual(await pathOf(room, commandId), [
      'created',
      'validated',
      'running',
      'blocked',
      'running',
      'succeeded',
    ])
    const [call] = await callsOf(await room.runOf(commandId))
    const asked = await pathOf(room, call?.command_id ?? '')
    assert.ok(asked.includes('waiting_for_approval'), 'the approval belongs to the command of the call')
  })

  test('[ST-20] a run that waits for nobody leaves its command running: created, validated, running, succeeded', async () => {
    const commandId = await room.start('Two Calls')
    assert.equal((await callsOf(await room.runOf(commandId))).length, 2)
    assert.deepEqual(await pathOf(room, commandId), ['created', 'validated', 'running', 'succeeded'])
  })

  test('a run asks a person for input, and the answer is its observation', async () => {
    const commandId = await room.start('Asks Person')
    const run = await room.runOf(commandId)
    assert.equal(run.status, 'waiting_for_input')
    const [call] = await callsOf(run)
    const { principal } = room.tenant.people.writer
    const by = { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
    const input = { workspaceId: room.tenant.workspace.id, commandId: call?.command_id ?? '', input: { answer: 'May' } }
    accepted(await supplyInput(room.world, by, input))
    await room.rest()
    const [seen] = await observed(commandId)
    assert.deepEqual([seen?.decision, seen?.content], ['answered', 'May'])
    assert.deepEqual(await endOf(commandId), ['succeeded', 'final_answer_created', 'succeeded'])
  })

  test('[AGT-06] at max_steps the run ends; step_count equals max_steps and no further call is made', async () => {
    const before = outside.looked
    const commandId = await room.start('Three Steps')
    assert.deepEqual(await endOf(commandId), ['failed', 'max_steps_reached', 'failed'])
    const run = await room.runOf(commandId)
    assert.deepEqual([run.step_count, (await room.stepsOf(run)).length, outside.looked - before], [3, 3, 2])
  })

  test('[AGT-06] without an answer in its transcript a run has no result, whatever it observed', async () => {
    for (const [agent, steps] of [
      ['One Step', 1],
      ['No Answer', 4],
    ] as const) {
      const commandId = await room.start(agent)
      assert.deepEqual(await endOf(commandId), ['failed', 'max_steps_reached', 'failed'])
      assert.equal((await room.runOf(commandId)).step_count, steps)
    }
  })

  test('a denial is an observation, and ends the run where its termination names it', async () => {
    const goesOn = await room.start('Denied')
    assert.deepEqual(await endOf(goesOn), ['succeeded', 'final_answer_created', 'succeeded'])
    assert.equal((await observed(goesOn))[0]?.decision, 'denied')
    const ends = await room.start('Denied Ends')
    assert.deepEqual(await endOf(ends), ['failed', 'policy_denied', 'failed'])
    assert.deepEqual(outside.paid.includes('x'), false)
  })

  test('the same call with the same observation three times ends the run', async () => {
    const before = outside.looked
    const commandId = await room.start('Loops')
    assert.deepEqual(await endOf(commandId), ['failed', 'loop_detected', 'failed'])
    assert.equal(outside.looked - before, 3)
  })

  test('a run whose deadline has passed cancels its open calls and expires', async () => {
    const commandId = await room.start('Deadline')
    const run = await room.runOf(commandId)
    assert.equal(run.run_after?.getTime(), run.deadline_at?.getTime())
    room.clock.travel(6 * 60_000)
    room.others.push({ kind: 'agent_run', id: run.agent_run_id })
    await room.rest()
    assert.deepEqual(await endOf(commandId), ['expired', 'deadline_passed', 'failed'])
    assert.deepEqual(
      (await callsOf(run)).map(({ status }) => status),
      ['cancelled'],
    )
  })

  test('an answer that is under way at the deadline is given up, and the run expires', {
    timeout: 30_000,
  }, async () => {
    const commandId = await room.submit({}, { taskName: 'Never Answers' })
    await room.settle(commandId)
    room.clock.travel(59_800)
    await room.rest()
    assert.deepEqual(await endOf(commandId), ['expired', 'deadline_passed', 'failed'])
    const { agent_run_id } = await room.runOf(commandId)
    assert.deepEqual(cancelled.splice(0), [`${agent_run_id} deadline_passed`])
  })

  test('[CAN-15] a cancel of the command cancels the open calls, tells the runtime, then ends the run', async () => {
    const commandId = await room.start('Waits Elsewhere')
    const run = await room.runOf(commandId)
    assert.equal(run.status, 'waiting_for_approval')
    const { principal } = room.tenant.people.writer
    const by = { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
    accepted(
      await cancelCommand(room.world, by, { workspaceId: room.tenant.workspace.id, commandId, reason: 'Stop it.' }),
    )
    await room.rest()
    assert.deepEqual(await endOf(commandId), ['cancelled', 'human_cancelled', 'cancelled'])
    assert.deepEqual(cancelled, [`${run.agent_run_id} human_cancelled`])
    assert.deepEqual(
      (await callsOf(run)).map(({ status }) => status),
      ['cancelled'],
    )
    assert.equal(answers, 1)
    assert.equal(outside.paid.includes('w'), false)
  })

  test('[AGT-08] a tool outside of the manifest or forbidden is refused, on record, and is an observation', async () => {
    for (const name of ['Outside', 'Forbidden']) {
      const commandId = await room.start(name)
      const run = await room.runOf(commandId)
      assert.deepEqual(await endOf(commandId), ['succeeded', 'final_answer_created', 'succeeded'])
      assert.equal((await observed(commandId))[0]?.decision, 'denied', name)
      assert.deepEqual(await callsOf(run), [])
      assert.deepEqual(run.allowed_tools, ['look'])
    }
    assert.equal(outside.paid.includes('no'), false)
    const rejected = await room.rows(`select 1 from concord.domain_events where event_type = 'command_rejected'
      and payload->>'code' = 'agents.tool.outside_scope'`)
    assert.equal(rejected.length, 2)
  })

  test('a refused call beside an open one is refused once, and is an observation before the other one ends', async () => {
    const refusals = () => room.rows(`select 1 from concord.domain_events where event_type = 'command_rejected'`)
    const before = (await refusals()).length
    const commandId = await room.start('Beside')
    const run = await room.runOf(commandId)
    for (let wakes = 0; wakes < 3; wakes++) {
      room.others.push({ kind: 'agent_run', id: run.agent_run_id })
      await room.rest()
    }
    const decisions = async () => (await observed(commandId)).map(({ decision }) => decision)
    assert.deepEqual([(await refusals()).length - before, await decisions()], [1, ['denied']])
    await decide(commandId, 'approved', 'Yes.')
    assert.deepEqual(await endOf(commandId), ['succeeded', 'final_answer_created', 'succeeded'])
    assert.deepEqual([(await refusals()).length - before, await decisions()], [1, ['denied', 'approved']])
    assert.deepEqual(
      (await room.stepsOf(run)).map(({ step_index, payload }) => [step_index, payload['decision']]),
      [
        [0, 'allowed'],
        [1, 'denied'],
        [2, 'allowed'],
      ],
    )
  })

  test('[AGT-09] a gate of the agent asks for an approval that the tool itself does not; all ten parts are on the row', async () => {
    const commandId = await room.start('Gated')
    const run = await room.runOf(commandId)
    assert.equal(run.status, 'waiting_for_approval')
    assert.equal(outside.paid.includes('gate'), false)
    await decide(commandId, 'approved', 'Yes.')
    assert.deepEqual([(await room.runOf(commandId)).status, outside.paid.includes('gate')], ['succeeded', true])
    const { goal, allowed_tools, forbidden_tools, memory_scope, allowed_connectors, max_steps, termination, manifest } =
      run
    assert.deepEqual(
      { goal, allowed_tools, forbidden_tools, memory_scope, allowed_connectors, max_steps, termination },
      {
        goal: 'Do the work.',
        allowed_tools: ['look', 'pay', 'break_it', 'ask_owner', 'never'],
        forbidden_tools: [],
        memory_scope: {},
        allowed_connectors: [],
        max_steps: 20,
        termination: { conditions: ['final_answer_created', 'human_cancelled', 'max_steps_reached'] },
      },
    )
    const [skill] = manifest['skills'] as readonly Record<string, unknown>[]
    assert.deepEqual(manifest['approval_gates'], ['pay'])
    assert.deepEqual(manifest['limits'], { max_steps: 20, max_cost_units: null, deadline_minutes: null })
    assert.deepEqual([skill?.['artifact_scope'], skill?.['memory_scope']], [{ write: [] }, { read: [], write: [] }])
    const frozen = room.db.query(`update concord.agent_runs set manifest = '{}' where agent_run_id = $1`, [
      run.agent_run_id,
    ])
    await assert.rejects(frozen, /authority/)
  })

  test('a call that fails or has wrong arguments is an observation; an answer without calls is a step', async () => {
    const broken = await observed(await room.start('Breaks'))
    assert.deepEqual(
      broken.map(({ decision }) => decision),
      ['failed', 'failed'],
    )
    const words = await room.start('Words')
    const run = await room.runOf(words)
    assert.deepEqual([run.status, run.step_count], ['succeeded', 2])
    assert.deepEqual(
      (await room.stepsOf(run)).map(({ event_type }) => event_type),
      ['observe', 'final_answer'],
    )
  })
})
