/** What an agent does is what a person does: each of the twelve actions of a swarm leaves the record that it leaves everywhere in Concord. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { allow, cancelCommand, COMMAND_KIND, defineCommand, defineEffect, EffectPending } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { testSwarms } from '#test/swarm-project'
import { calls, openSwarmRoom, pays, playedBy, type SwarmRoom, writes } from '#test/swarms'
import { accepted, TRACE } from '#test/tenant'
import { defineSwarm } from './swarm-definition.ts'
import type { StoredSwarmRun } from './swarm-run.ts'

let isLongOver = false
const long = defineEffect('test.long', {
  input: z.object({}),
  class: 'queryable',
  outward: false,
  do: () => Promise.reject(EffectPending.ofProcess('agent_run', '00000000-0000-7000-8000-000000000000')),
  find: async () => (isLongOver ? { found: true, result: { over: true } } : { found: false }),
})
const notified: string[] = []
const notify = defineEffect('test.notify', {
  input: z.object({ to: z.string() }),
  class: 'keyed',
  async do({ input }) {
    notified.push(input.to)
    return { to: input.to }
  },
})
const asTool = { policy: allow, task: { ingress_types: ['agent_action' as const] } }
const tools = [
  defineCommand('run_long', { input: z.object({}), steps: () => [long({})], ...asTool }),
  defineCommand('send_note', { input: z.object({ to: z.string() }), steps: (input) => [notify(input)], ...asTool }),
]

const memory_scope = {
  subject_type: 'customer',
  subject_id: 'c1',
  allowed_memory_types: ['preference'],
  allow_semantic_retrieval: false,
  max_results: 1,
}
const swarm = defineSwarm('journey', {
  objective: 'Do all that an agent can do.',
  execution_mode: 'parallel',
  join_strategy: 'human_review',
  coordinator: {
    agent_name: 'lead',
    agent_role: 'coordinator',
    allowed_tools: ['spawn_subagent', 'request_approval'],
    memory_scope,
  },
  agents: [
    {
      agent_name: 'a',
      agent_role: 'worker',
      delegated_goal: 'Do it.',
      allowed_tools: ['pay', 'run_long', 'send_note', 'create_artifact', 'propose_memory', 'evaluate_output'],
      memory_scope,
      runtime: playedBy(
        calls(
          [pays('journey'), writes('the result'), { tool: 'send_note', to: 'ada' }],
          [
            {
              tool: 'propose_memory',
              subject: 'customer:c1',
              scope: 'user',
              memory_type: 'preference',
              content: { seat: 'aisle' },
            },
            { tool: 'evaluate_output', check: { evaluation_type: 'pii_check', text: 'Revenue fell.' } },
            { tool: 'run_long' },
          ],
        ),
      ),
    },
  ],
})

describe('the twelve actions of a swarm', () => {
  let room: SwarmRoom
  let commandId: string
  before(async () => {
    room = await openSwarmRoom(
      [swarm, ...testSwarms],
      1,
      undefined,
      tools.flatMap(({ definitions }) => definitions),
    )
    commandId = await room.start('journey')
  })
  after(() => room.close())

  const count = async (from: string, more: readonly unknown[] = []) =>
    (
      await room.rows<{ n: number }>(
        `with s as (select * from concord.swarm_runs where command_id = $1),
              runs as (select r.* from concord.agent_runs r join s using (swarm_run_id)),
              made as (select c.* from concord.commands c join runs using (agent_run_id))
         select count(*)::int as n from ${from}`,
        [commandId, ...more],
      )
    )[0]?.n
  const child = `(select agent_run_id from runs where agent_name = 'a')`

  /** Each with the records that it leaves: a query and how many rows it finds. */
  const actions: readonly (readonly [action: string, record: string, from: string, rows: number])[] = [
    [
      'start a swarm',
      'command',
      `s join concord.domain_effects e using (command_id) where e.effect_type = 'swarm.run'`,
      1,
    ],
    [
      'start an agent',
      'command with invocation',
      `concord.agent_invocations i join made c using (command_id) where c.task_name = 'Spawn Subagent' and i.child_agent_run_id = ${child}`,
      1,
    ],
    [
      'call a tool',
      'command decided by policy',
      `made c join concord.domain_events e using (command_id) where c.task_name = 'pay' and e.event_type = 'policy_evaluated' and c.status = 'succeeded'`,
      1,
    ],
    [
      'call a long tool',
      'command that the run awaits without a turn',
      `made c join runs r on r.agent_run_id = c.agent_run_id where c.task_name = 'run_long' and c.status = 'running' and r.status = 'waiting_for_tool' and r.turn_token is null`,
      1,
    ],
    [
      'propose a memory',
      'candidate, no memory',
      `concord.memory_candidates m where m.agent_run_id = ${child} and m.memory_id is null`,
      1,
    ],
    [
      'make an output',
      'artifact of run and swarm',
      `concord.artifacts a join s using (swarm_run_id) where a.agent_run_id = ${child} and a.artifact_type = 'analysis'`,
      1,
    ],
    [
      'notify somebody',
      'domain effect',
      `concord.domain_effects e join made using (command_id) where e.effect_type = 'test.notify' and e.status = 'succeeded'`,
      1,
    ],
    [
      'review an output',
      'evaluation',
      `concord.artifacts a join s using (swarm_run_id) where a.agent_run_id = ${child} and a.artifact_type = 'evaluation_result'`,
      1,
    ],
    [
      'be traced',
      'one step for each call, and the audit of the swarm',
      `concord.domain_events e join s using (swarm_run_id) where (e.purpose = 'agent_step' and e.agent_run_id = ${child} and e.step_index < 3) or e.event_type in ('swarm_started', 'swarm_planned', 'subagent_spawned')`,
      6,
    ],
  ]
  for (const [action, record, from, rows] of actions)
    test(`[SWM-03] to ${action} leaves its record: ${record}`, async () => {
      assert.equal(await count(from), rows)
    })

  test('[SWM-03] to ask a person leaves an approval; the note is sent once', async () => {
    isLongOver = true
    const [open] = await room.rows<{ command_id: string }>(
      `select command_id from concord.commands where task_name = 'run_long' and completed_at is null`,
    )
    await room.world.wake({ kind: COMMAND_KIND, id: open?.command_id ?? '' })
    await room.rest()
    const asked = `concord.approvals p join made c using (command_id) where c.task_name = 'request_approval'`
    assert.equal(await count(`${asked} and p.status = 'pending'`), 1)
    assert.deepEqual(notified, ['ada'])
  })

  test('[SWM-08] nothing that a review-driven swarm made is published before its reviewers passed it, for every requester', async () => {
    const publish = async (row: StoredSwarmRun) => {
      const [made] = await room.rows<{ artifact_id: string; checksum: string }>(
        `select artifact_id, checksum from concord.artifacts where swarm_run_id = $1 and artifact_type = 'analysis'`,
        [row.swarm_run_id],
      )
      assert.ok(made)
      const payload = { ...made, artifact_id: encodeId('artifact', made.artifact_id), destination: 'internal' }
      const id = await room.submit(payload, { taskName: 'Publish Artifact' })
      const status = await room.settle(id)
      const [command] = await room.rows<{ error: string | null }>(
        'select error from concord.commands where command_id = $1',
        [id],
      )
      return [status, command?.error?.includes('No reviewer of its swarm has passed the artifact.') ?? false]
    }
    const ended = async (name: string) => room.swarmOf(await room.start(name))
    const row = await ended('publishing')
    const runs = await room.runsOf(row)
    const early = await room.rows<{ error: string }>(
      `select error from concord.commands where agent_run_id = $1 and command_type = 'publish_artifact'`,
      [runs[1]?.agent_run_id],
    )
    assert.equal(early.length, 1)
    assert.match(early[0]?.error ?? '', /No reviewer of its swarm has passed/, 'an agent of it asked before the review')
    assert.equal(row.status, 'succeeded')
    assert.deepEqual(await publish(row), ['succeeded', false])
    assert.deepEqual(await publish(await ended('refused')), ['failed', true])
    assert.deepEqual(await publish(await ended('one_by_one')), ['succeeded', false], 'no review-driven swarm made it')
  })

  test('[SWM-03] to stop is a cancellation, and to reverse is a compensation: the payment of the agent is taken back', async () => {
    const actor = byPerson(room.tenant.people.writer.principal, TRACE)
    const workspaceId = room.tenant.workspace.id
    const cancellationMode = 'compensate_then_stop'
    accepted(await cancelCommand(room.world, actor, { workspaceId, commandId, cancellationMode }))
    await room.settle(commandId)
    await room.rest()
    assert.equal(
      await count(`concord.commands c where c.command_id = $1 and c.status = 'cancelled' and c.cancellation_requested`),
      1,
    )
    assert.equal(
      await count(
        `concord.domain_effects u join concord.domain_effects e on u.compensates_effect_id = e.domain_effect_id join made c on c.command_id = e.command_id
          where c.task_name = 'pay' and u.status = 'succeeded'`,
      ),
      1,
    )
    assert.deepEqual(
      room.ledger.lines.map(({ amount }) => amount),
      [1, -1],
    )
  })
})
