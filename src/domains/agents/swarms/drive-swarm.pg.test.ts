/** Swarms from their command to their end: modes, joins, limits, cancels. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { cancelCommand } from '#domains/commands'
import { listApprovals, decideApproval } from '#domains/approvals'
import { byPerson } from '#kernel/actor'
import { decider, pathOf } from '#test/commands'
import { testSwarms } from '#test/swarm-project'
import { netOf, openSwarmRoom, playedBy, type SwarmRoom } from '#test/swarms'
import { accepted, TRACE } from '#test/tenant'
import { defineSwarm } from './swarm-definition.ts'
import { templatePlanner } from './swarm-planner.ts'

type SwarmRow = Awaited<ReturnType<SwarmRoom['swarmOf']>>

describe('swarms', () => {
  let room: SwarmRoom
  /** What the planner of `overtaken` does before it returns an empty plan. */
  let overtaking: (() => Promise<void>) | undefined
  const overtaken = defineSwarm('overtaken', {
    objective: 'Do it.',
    execution_mode: 'parallel',
    join_strategy: 'all_success',
    coordinator: { agent_name: 'lead', agent_role: 'coordinator', allowed_tools: ['spawn_subagent', 'read_artifact'] },
    agents: [{ agent_name: 'a', agent_role: 'worker', delegated_goal: 'Do it.', allowed_tools: ['read_artifact'] }],
    runtime: playedBy(() => ({ final: { text: 'done' } })),
    createPlan: {
      async createSwarmPlan(command, context) {
        if (!overtaking) return templatePlanner.createSwarmPlan(command, context)
        await overtaking()
        return []
      },
    },
  })
  before(async () => {
    room = await openSwarmRoom([...testSwarms, overtaken])
  })
  after(() => room.close())

  /** How many of its agents were at work at the same time, at most. */
  const stepped = async (name: string) => {
    const id = await room.begin(name)
    await room.settle(id)
    let most = 0
    while (await room.step()) {
      const [count] = await room.rows<{ n: number }>(
        `select count(*)::int as n from concord.agent_runs r join concord.swarm_runs s using (swarm_run_id)
          where s.command_id = $1 and r.parent_agent_run_id is not null and r.completed_at is null`,
        [id],
      )
      most = Math.max(most, count?.n ?? 0)
    }
    const row = await room.swarmOf(id)
    return { row, most, runs: await room.runsOf(row), status: await room.statusOf(id) }
  }
  const ended = async (name: string) => {
    const id = await room.start(name)
    const row = await room.swarmOf(id)
    return { id, row, runs: await room.runsOf(row), status: await room.statusOf(id) }
  }

  test('[SWM-33] [SWM-06] a swarm loads, plans, starts its agents together, waits, joins and persists', async () => {
    const { row, runs, status, most } = await stepped('all_of_them')
    assert.deepEqual([row.status, row.end_reason, status, most], ['succeeded', 'joined', 'succeeded', 3])
    assert.equal(row.joined?.summary, 'All required agents completed.')
    assert.equal(runs[0]?.agent_run_id, row.coordinator_agent_run_id)
  })

  test('[SWM-05] one by one: no two agents overlap, and the next sees what the former made', async () => {
    const { row, most } = await stepped('one_by_one')
    assert.deepEqual([row.status, most], ['succeeded', 1])
    const told = (await room.invocationsOf(row)).map(
      ({ constraints }) => (constraints['artifact_ids'] as string[]).length,
    )
    assert.deepEqual(told, [0, 1, 2])
  })

  test('[ST-20] a command whose swarm runs is running, at every step of its agents', async () => {
    const id = await room.begin('all_of_them')
    await room.settle(id)
    const seen = new Set<string>()
    for (let isWorking = true; isWorking; isWorking = await room.step()) {
      const { status } = await room.swarmOf(id)
      if (status === 'running') seen.add(await room.statusOf(id))
    }
    assert.deepEqual([...seen], ['running'])
    assert.deepEqual(await pathOf(room, id), ['created', 'validated', 'running', 'succeeded'])
  })

  test('[SWM-29] parallelism: never more agents at work than the limit', async () => {
    const { row, most } = await stepped('two_at_once')
    assert.deepEqual([row.status, most], ['succeeded', 2])
  })

  test('[SWM-29] the cost: after a no to more, the agents are stopped and the swarm ends with the name of the limit', async () => {
    const { id, row, runs } = await ended('costly')
    assert.equal(row.status, 'running')
    await decide(runs[1]?.agent_run_id ?? null, 'rejected', 'raise_budget')
    await room.rest()
    const after = await room.swarmOf(id)
    assert.deepEqual([after.status, after.end_reason], ['failed', 'max_cost_units'])
    assert.ok((await room.runsOf(after)).every(({ completed_at }) => completed_at !== null))
  })

  test('[SWM-36] an optional agent that fails makes the swarm partial, and its command succeeds; a required one fails both', async () => {
    const optional = await ended('optional')
    assert.deepEqual([optional.row.status, optional.status], ['partially_succeeded', 'succeeded'])
    const required = await ended('required')
    assert.deepEqual([required.row.status, required.status], ['failed', 'failed'])
    assert.equal(required.runs.find(({ agent_name }) => agent_name === 'b')?.end_reason, 'max_steps_reached')
  })

  test('[SWM-13] race of five: the losers are cancelled or undone, and the ledger of the provider nets 0 for each of them', async () => {
    const { row, runs, status } = await ended('race')
    assert.deepEqual([row.status, status, row.joined?.losers.length], ['succeeded', 'succeeded', 4])
    const winner = runs.find(
      ({ agent_run_id, parent_agent_run_id }) => parent_agent_run_id && !row.joined?.losers.includes(agent_run_id),
    )
    for (const { agent_name, parent_agent_run_id } of runs)
      if (parent_agent_run_id)
        assert.equal(netOf(room.ledger, agent_name), agent_name === winner?.agent_name ? 1 : 0, agent_name)
    assert.ok(
      room.ledger.lines.some(({ amount }) => amount < 0),
      'a loser had paid',
    )
  })

  test('[SWM-07] competitive: the judge selects, and the other is undone', async () => {
    room.ledger.lines.length = 0
    const { row } = await ended('select')
    assert.deepEqual([row.status, row.joined?.confidence], ['succeeded', 0.7])
    assert.equal(netOf(room.ledger, 'a') + netOf(room.ledger, 'b'), 1)
  })

  test('[SWM-14] [ART-07] the coordinator reads artifacts and writes one; the join works without a single message', async () => {
    const id = await room.begin('synthesis')
    await room.settle(id)
    // Every message is emptied as soon as its agent has read it.
    while (await room.step())
      await room.rows(`update concord.agent_messages m set content = '', erased_at = now() from concord.agent_runs r
        where r.agent_run_id = m.agent_run_id and r.completed_at is not null and m.content <> ''`)
    const row = await room.swarmOf(id)
    assert.equal(row.status, 'succeeded')
    const [coordinator] = await room.runsOf(row)
    assert.deepEqual([coordinator?.end_reason, coordinator?.step_count], ['final_answer_created', 2])
    const [made] = await room.rows<{ agent_run_id: string; n: number }>(
      `select agent_run_id, jsonb_array_length(lineage->'sources') as n from concord.artifacts where artifact_id = $1`,
      [row.joined?.selected_artifact_id],
    )
    assert.deepEqual(made, { agent_run_id: row.coordinator_agent_run_id, n: 2 })
  })

  test('review-driven: what a reviewer does not pass is no result', async () => {
    assert.equal((await ended('reviewed')).row.status, 'succeeded')
    const { row } = await ended('refused')
    assert.deepEqual([row.status, row.joined?.selected_artifact_id], ['failed', null])
    // Its coordinator started no judge, so none is waited for.
    const { row: led } = await ended('led_without_judges')
    assert.deepEqual([led.status, led.joined?.summary], ['failed', 'No reviewer evaluated the result.'])
  })

  test('[SWM-16] human review: the approval of a person ends the join', async () => {
    const answers = [
      ['approved', 'succeeded'],
      ['rejected', 'failed'],
    ] as const
    for (const [decision, end] of answers) {
      const { id, row } = await ended('by_people')
      assert.equal(row.status, 'running')
      await decide(row.coordinator_agent_run_id, decision)
      await room.rest()
      const after = await room.swarmOf(id)
      assert.deepEqual([after.status, after.joined?.requires_human_review], [end, true])
    }
  })

  async function decide(agentRunId: string | null, decision: 'approved' | 'rejected', task = 'request_approval') {
    const [asked] = await room.rows<{ command_id: string }>(
      `select command_id from concord.commands where agent_run_id = $1 and task_name = $2`,
      [agentRunId, task],
    )
    const approver = decider(room)
    const who = { ...approver, orgRoles: [...approver.orgRoles, 'approver'] }
    const workspaceId = room.tenant.workspace.id
    const { items } = await listApprovals(room.db, who, { workspaceId, commandId: asked?.command_id ?? '', limit: 5 })
    const approvalId = items[0]?.approval_id ?? ''
    accepted(
      await decideApproval(room.approvals, byPerson(who, TRACE), { workspaceId, approvalId, decision, reason: 'so' }),
    )
  }

  test('map_reduce puts the parts together, in the order of their names', async () => {
    const { row } = await ended('in_parts')
    assert.equal(row.status, 'succeeded')
    const [made] = await room.rows<{ artifact_type: string }>(
      'select artifact_type from concord.artifacts where artifact_id = $1',
      [row.joined?.selected_artifact_id],
    )
    assert.equal(made?.artifact_type, 'final_report')
  })

  test('[SWM-09] hierarchical: an agent starts agents within the limits of the swarm; deeper than the limit is denied and on record', async () => {
    const { row, runs } = await ended('nested')
    assert.deepEqual([row.status, runs.map(({ spawn_depth }) => spawn_depth)], ['succeeded', [0, 1, 2, 2]])
    const deep = await ended('too_deep')
    assert.deepEqual([deep.row.status, deep.runs.length], ['succeeded', 2])
    const denied = await room.rows<{ reasons: string }>(
      `select payload->>'reasons' as reasons from concord.domain_events where event_type = 'spawn_denied' and swarm_run_id = $1`,
      [deep.row.swarm_run_id],
    )
    assert.equal(denied.length, 2)
    assert.match(denied[0]?.reasons ?? '', /Spawn depth exceeded\./)
  })

  for (const [name, reason, status] of [
    ['too_many', 'max_agents', 'failed'],
    ['too_long', 'max_total_steps', 'failed'],
    ['bad_plan', 'plan_refused', 'failed'],
    ['unjudged', 'plan_refused', 'failed'],
    ['broken_planner', 'plan_refused', 'failed'],
  ] as const) {
    test(`[SWM-29] [SWM-34] ${name} ends cleanly with the reason ${reason}`, async () => {
      const { row, runs, status: command } = await ended(name)
      assert.deepEqual([row.status, row.end_reason, command], [status, reason, 'failed'])
      assert.ok(runs.every(({ completed_at }) => completed_at !== null))
    })
  }

  test('[SWM-29] the wall clock: a swarm that is late expires after its agents were stopped', async () => {
    const { id } = await ended('late')
    room.clock.travel(61_000)
    room.others.push({ kind: 'swarm_run', id: (await room.swarmOf(id)).swarm_run_id })
    await room.rest()
    const row = await room.swarmOf(id)
    assert.deepEqual([row.status, row.end_reason], ['expired', 'deadline_passed'])
    assert.ok((await room.runsOf(row)).every(({ completed_at }) => completed_at !== null))
  })

  test('[CAN-12] the failure of a child that is terminal cancels the command of its parent, and the other children first', async () => {
    const { row, runs, status } = await ended('terminal')
    assert.deepEqual([row.status, status], ['cancelled', 'cancelled'])
    const [leader, ...children] = runs
    for (const { completed_at } of children)
      assert.ok(completed_at && leader?.completed_at && completed_at <= leader.completed_at)
  })

  test('[CAN-12] a terminal child of a child cancels its parent alone, once, and the join decides about the rest', async () => {
    const { row, runs, status } = await ended('nested_terminal')
    assert.deepEqual(
      [row.status, status, runs.map((run) => run.status)],
      ['failed', 'failed', ['cancelled', 'cancelled', 'failed']],
    )
  })

  test('[CAN-10] a cancel before the first turn of a swarm leaves no run alive', async () => {
    const commandId = await room.begin('all_of_them')
    await room.settle(commandId)
    assert.equal((await room.swarmOf(commandId)).status, 'created')
    const actor = byPerson(room.tenant.people.writer.principal, TRACE)
    accepted(await cancelCommand(room.world, actor, { workspaceId: room.tenant.workspace.id, commandId }))
    await room.settle(commandId)
    await room.rest()
    const row = await room.swarmOf(commandId)
    assert.deepEqual([row.status, await room.statusOf(commandId)], ['cancelled', 'cancelled'])
    assert.deepEqual(
      (await room.runsOf(row)).map(({ status }) => status),
      ['cancelled'],
    )
  })

  test('[SWM-33] a turn that was taken over writes nothing: the plan of the later turn stands', async () => {
    const id = await room.begin('overtaken')
    await room.settle(id)
    overtaking = async () => {
      overtaking = undefined
      room.others.push({ kind: 'swarm_run', id: (await room.swarmOf(id)).swarm_run_id })
      await room.step()
    }
    await room.rest()
    const row = await room.swarmOf(id)
    assert.deepEqual([row.status, row.plan?.length], ['succeeded', 1])
    const planned = await room.rows(
      `select 1 from concord.domain_events where event_type = 'swarm_planned' and swarm_run_id = $1`,
      [row.swarm_run_id],
    )
    assert.equal(planned.length, 1)
  })

  test('[CAN-10] a cancel reaches the children first, in the mode of the command: graceful keeps, compensating undoes in reverse order', async () => {
    for (const mode of ['graceful', 'compensate_then_stop'] as const) {
      room.ledger.lines.length = 0
      const id = await room.start('by_people_paid')
      const actor = { ...byPerson(room.tenant.people.writer.principal, TRACE) }
      accepted(
        await cancelCommand(room.world, actor, {
          workspaceId: room.tenant.workspace.id,
          commandId: id,
          cancellationMode: mode,
        }),
      )
      await room.settle(id)
      await room.rest()
      const row = await room.swarmOf(id)
      assert.deepEqual([row.status, await room.statusOf(id)], ['cancelled', 'cancelled'])
      const keys = room.ledger.lines.map(({ key, amount }) => `${key}${amount}`)
      assert.deepEqual(keys.slice(0, 4).toSorted(), ['a11', 'a21', 'b11', 'b21'])
      if (mode === 'graceful') assert.equal(keys.length, 4)
      else {
        assert.ok(
          ['a1', 'a2', 'b1', 'b2'].every((key) => netOf(room.ledger, key) === 0),
          keys.join(' '),
        )
        for (const agentName of ['a', 'b'])
          assert.ok(keys.indexOf(`${agentName}2-1`) < keys.indexOf(`${agentName}1-1`), 'reverse order')
      }
    }
  })

  test('[SWM-13] an undo that fails keeps no other from being undone; it is on record and alerts operators', async () => {
    const ends = {
      async join(_id: string, row: SwarmRow) {
        await decide(row.coordinator_agent_run_id, 'rejected')
      },
      async cancel(commandId: string) {
        const actor = { ...byPerson(room.tenant.people.writer.principal, TRACE) }
        const workspaceId = room.tenant.workspace.id
        const cancellationMode = 'compensate_then_stop'
        accepted(await cancelCommand(room.world, actor, { workspaceId, commandId, cancellationMode }))
        await room.settle(commandId)
      },
    }
    room.ledger.kept.add('b2')
    for (const [name, end] of Object.entries(ends)) {
      room.ledger.lines.length = 0
      const { id, row } = await ended('by_people_paid')
      await end(id, row)
      await room.rest()
      const after = await room.swarmOf(id)
      assert.equal(after.status, name === 'join' ? 'failed' : 'cancelled')
      const nets = ['a1', 'a2', 'b1', 'b2'].map((key) => netOf(room.ledger, key))
      assert.deepEqual(nets, [0, 0, 0, 1], name)
      const [noted, ...more] = await room.rows<{ n: number }>(
        `select jsonb_array_length(payload->'command_ids') as n from concord.domain_events where event_type = 'undo_failed' and swarm_run_id = $1`,
        [row.swarm_run_id],
      )
      assert.deepEqual([noted, more], [{ n: 1 }, []])
      const alerted = await room.rows(
        `select 1 from concord.domain_events e join concord.commands u using (command_id) join concord.commands c
           on c.task_name = 'pay' and u.payload->>'command_id' = concord.shown_id('cmd', c.command_id)
           join concord.agent_runs r on r.agent_run_id = c.agent_run_id
          where e.event_type = 'compensation_drift' and r.swarm_run_id = $1`,
        [row.swarm_run_id],
      )
      assert.equal(alerted.length, 1)
    }
    room.ledger.kept.clear()
  })

  test('[SWM-34] a coordinator can plan: it starts the agents itself', async () => {
    const { row, runs } = await ended('planned_by_agent')
    assert.deepEqual([row.status, row.plan, runs.length], ['succeeded', [], 3])
    assert.ok((await room.invocationsOf(row)).every(({ invocation_type }) => invocation_type === 'spawn'))
  })
})
