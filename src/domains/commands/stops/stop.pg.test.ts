/** Stops of agents: what they cover, who may stop and lift, and that nothing of an agent begins after the commit of a stop. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { propose } from '#test/agents'
import type { Process } from '#runtime'
import { dateAlerts, decider, nextFence, pendingOf } from '#test/commands'
import { proofSize } from '#test/proof-size'
import { openStoppableRoom, type StoppableRoom } from '#test/stoppable'
import { aStoreRowsOf, insertRow, rowsOf } from '#test/store-rows'
import { accepted, TRACE } from '#test/tenant'
import { openAlertDrive, openAlertSweep } from '../alerts.ts'
import { cancelCommand } from '../cancel-command.ts'
import { actingFor } from '../deps.ts'
import { findBrokenInvariants } from '../invariants/find-broken-invariants.ts'
import type { Alert } from '../incidents.ts'
import { findStop, insertStop, listStops } from './stop.ts'
import { requestLift, stopAgents } from './stop-task.ts'

describe('stops of agents', () => {
  let room: StoppableRoom
  let workspaceId: string
  before(async () => {
    room = await openStoppableRoom()
    workspaceId = room.tenant.workspace.id
  })
  after(() => room.close())

  const stop = async (scope: string, target?: string) => {
    const asked = { scope, reason: 'It does harm.', ends_runs: false, ...(target === undefined ? {} : { target }) }
    const { commandId, status } = await room.admin('Stop Agents', asked)
    assert.equal(status, 'succeeded')
    const [row] = await room.rows<{ stop_id: string }>('select stop_id from concord.stops where command_id = $1', [
      commandId,
    ])
    return row?.stop_id ?? assert.fail('no stop')
  }
  const lift = async (stopId: string) => {
    const { status } = await room.admin('Lift Stop', { stop_id: encodeId('stop', stopId), reason: 'It is repaired.' })
    assert.equal(status, 'succeeded')
    await room.settleWoken()
  }
  const aRun = async (agentName: string, swarm: string, parent?: string) => {
    const command = await room.submit({ subject: 'run' })
    const child = room.clock.newId()
    const ids = { workspace: workspaceId, command, swarm, child, ...(parent === undefined ? {} : { agent: parent }) }
    const invocation = rowsOf['concord.agent_invocations'](aStoreRowsOf(ids))
    const row = {
      agent_run_id: child,
      workspace_id: workspaceId,
      command_id: command,
      agent_name: agentName,
      agent_role: 'analyst',
      status: 'running',
      goal: 'find out',
      swarm_run_id: swarm,
      allowed_tools: JSON.stringify(['trip']),
      allowed_connectors: JSON.stringify(['hotel']),
    }
    // A child exists only with its invocation.
    const above = { parent_agent_run_id: parent, spawn_depth: 1, invocation_id: invocation.invocation_id }
    await room.db.transaction(async (tx) => {
      await insertRow(tx, 'concord.agent_runs', parent === undefined ? row : { ...row, ...above })
      if (parent !== undefined) await insertRow(tx, 'concord.agent_invocations', invocation)
    })
    return child
  }
  const aSwarm = async () => {
    const swarm = room.clock.newId()
    await insertRow(room.db, 'concord.swarm_runs', {
      swarm_run_id: swarm,
      workspace_id: workspaceId,
      command_id: await room.submit({ subject: 'swarm' }),
      status: 'running',
      objective: 'find out',
      execution_mode: 'parallel',
      join_strategy: 'all_success',
    })
    return swarm
  }
  const begunOf = async (commandId: string) =>
    (
      await room.rows<{ status: string }>(
        `select status from concord.domain_effects where command_id = $1 and status <> 'planned' and compensates_effect_id is null`,
        [commandId],
      )
    ).length

  test('a stop of all agents refuses their proposals, with who to ask, and leaves people alone', async () => {
    const stopId = await stop('all')
    const refused = await propose(room, room.tenant.people.writer.principal, { toolName: 'publish_note' })
    assert.ok(!refused.ok)
    assert.deepEqual([refused.code, refused.facts], ['commands.agent.stopped', { stop_id: encodeId('stop', stopId) }])
    await assert.rejects(room.trip('s', { agent: 'ada' }), /commands.agent.stopped/)
    const person = await room.submit({ subject: 'p', steps: ['connector.hotel.book_a'] })
    assert.equal(await room.settle(person), 'succeeded')
    await lift(stopId)
    assert.equal(await room.settle(await room.trip('after', { agent: 'ada' })), 'succeeded')
  })

  test('a command that is on record is not decided during a stop, and goes on after the lift', async () => {
    const commandId = await room.trip('on record', { agent: 'ada' })
    const stopId = await stop('agent', 'ada')
    assert.equal(await room.settle(commandId), 'validated')
    assert.equal(await room.settle(commandId), 'validated')
    await lift(stopId)
    assert.equal(await room.statusOf(commandId), 'succeeded')
    assert.equal(await begunOf(commandId), 2)
  })

  test('a command under way begins no further effect, waits as blocked, and goes on after the lift', async () => {
    const commandId = await room.trip('between', { agent: 'ada', count: 3 })
    room.provider.modes.push('ok', 'rate_limited')
    await room.settle(commandId)
    const before = room.provider.calls.length
    const stopId = await stop('all')
    room.clock.travel(3_600_000)
    assert.equal(await room.settle(commandId), 'blocked')
    // Another turn changes nothing while the stop is in force.
    assert.equal(await room.settle(commandId), 'blocked')
    assert.equal(room.provider.calls.length, before, 'no call during the stop')
    const [row] = await room.rows<{ error: string; reason: string }>(
      `select c.error, e.payload->>'reason' as reason from concord.commands c join concord.domain_events e using (command_id)
        where c.command_id = $1 and e.payload->>'to' = 'blocked'`,
      [commandId],
    )
    assert.deepEqual(row, { error: 'A stop of agents is in force.', reason: 'stopped' })
    await lift(stopId)
    assert.equal(await room.statusOf(commandId), 'succeeded')
    assert.equal(await begunOf(commandId), 3)
    assert.equal([...room.provider.applied.values()].filter((times) => times > 1).length, 0)
  })

  test('undoing goes on during a stop', async () => {
    const commandId = await room.trip('undone', { agent: 'ada', count: 3 })
    room.provider.modes.push('ok', 'ok', 'rate_limited')
    await room.settle(commandId)
    const stopId = await stop('all')
    const by = actingFor(room.tenant.people.admin.principal, TRACE)
    const mode = 'compensate_then_stop'
    accepted(await cancelCommand(room.world, by, { workspaceId, commandId, cancellationMode: mode, reason: 'r' }))
    assert.equal(await room.settle(commandId), 'cancelled')
    const undone = room.provider.calls.filter((call) => call.startsWith('hotel.cancel_'))
    assert.equal(undone.length, 2)
    await lift(stopId)
  })

  test('an approval during a stop does not begin the command', async () => {
    const proposed = accepted(
      await propose(room, room.tenant.people.writer.principal, {
        toolName: 'publish_note',
        payload: { subject: 's', destination: 'external:finance@example.com' },
      }),
    )
    const commandId = proposed.command.command_id
    const stopId = await stop('all')
    const calls = room.provider.calls.length
    const person = byPerson({ ...decider(room), orgRoles: ['data-owner'] }, TRACE)
    const say = {
      workspaceId,
      approvalId: await pendingOf(room, commandId),
      decision: 'approved',
      reason: 'r',
      traceId: TRACE,
    }
    accepted(await decideApproval(room.approvals, person, say))
    assert.equal(await room.settle(commandId), 'blocked')
    assert.equal(room.provider.calls.length, calls)
    await lift(stopId)
    assert.equal(await room.statusOf(commandId), 'succeeded')
  })

  test('a stop covers what it names: an agent by key and by run, a run with its children, a swarm', async () => {
    const [first, swarm] = [await aSwarm(), await aSwarm()]
    const top = await aRun('ada', first)
    const child = await aRun('bert', first, top)
    const other = await aRun('cleo', swarm)
    const covered = async (agent: string | null, runId: string | null) =>
      (await findStop(room.db, { workspaceId, agent, runId })) !== undefined
    const table = async () => [
      await covered('ada', null),
      await covered('cleo', null),
      await covered(null, top),
      await covered(null, child),
      await covered(null, other),
    ]
    for (const [scope, target, expected] of [
      ['all', undefined, [true, true, true, true, true]],
      ['agent', 'ada', [true, false, true, true, false]],
      ['agent', 'bert', [false, false, false, true, false]],
      ['run', encodeId('agent_run', top), [false, false, true, true, false]],
      ['run', encodeId('agent_run', child), [false, false, false, true, false]],
      ['swarm', encodeId('swarm_run', swarm), [false, false, false, false, true]],
      ['swarm', encodeId('swarm_run', first), [false, false, true, true, false]],
    ] as const) {
      const stopId = await stop(scope, target)
      assert.deepEqual(await table(), expected, `${scope} ${target}`)
      // The begin asks the same question.
      if (expected[3]) await assert.rejects(room.trip('covered', { runId: child }), /commands.agent.stopped/)
      else assert.equal(await room.settle(await room.trip('free', { runId: child })), 'succeeded')
      await lift(stopId)
      assert.deepEqual(await table(), [false, false, false, false, false])
    }
  })

  test('only administrators and operators stop; an operator lifts with the approval of another operator; agents do neither', async () => {
    const { writer, admin } = room.tenant.people
    const asked = { workspaceId, requestId: 'r', scope: 'all' as const, ends_runs: false, reason: 'r' }
    const stopAs = async (orgRoles: readonly string[]) => {
      const { command } = accepted(
        await stopAgents(room.world, actingFor({ ...writer.principal, orgRoles }, TRACE), asked),
      )
      return room.settle(command.command_id)
    }
    assert.equal(await stopAs([]), 'failed')
    assert.equal(await stopAs(['operator']), 'succeeded')
    const [inForce] = await listStops(room.db, workspaceId, { isInForce: true, beforeId: null, limit: 5 })
    const stopId = inForce?.stop_id ?? assert.fail('no stop')
    const operator = { ...writer.principal, orgRoles: ['operator'] }
    const request = { workspaceId, requestId: 'r', stopId, reason: 'r' }
    const { command } = accepted(await requestLift(room.world, actingFor(operator, TRACE), request))
    assert.equal(await room.settle(command.command_id), 'waiting_for_approval')
    const approvalId = await pendingOf(room, command.command_id)
    const say = { workspaceId, approvalId, decision: 'approved', reason: 'r', traceId: TRACE }
    const self = await decideApproval(room.approvals, byPerson(operator, TRACE), say)
    assert.equal(self.ok ? '' : self.code, 'self_approval')
    assert.ok(await findStop(room.db, { workspaceId, agent: 'ada', runId: null }), 'still in force')
    const another = byPerson({ ...admin.principal, orgRoles: ['operator'] }, TRACE)
    accepted(await decideApproval(room.approvals, another, say))
    assert.equal(await room.settle(command.command_id), 'succeeded')
    assert.equal(await findStop(room.db, { workspaceId, agent: 'ada', runId: null }), undefined)
    const agent = await propose(room, admin.principal, { toolName: 'stop_agents', payload: asked })
    assert.equal(agent.ok ? '' : agent.code, 'commands.tool.forbidden')
  })

  test('bad targets are refused with their path; a stop is lifted once; an id of another workspace is missing', async () => {
    const by = actingFor(room.tenant.people.admin.principal, TRACE)
    const base = { workspaceId, requestId: 'r', ends_runs: false, reason: 'r' }
    const codeOf = async (scope: 'all' | 'agent' | 'run' | 'swarm', target?: string) => {
      const decided = await stopAgents(room.world, by, { ...base, scope, target })
      return decided.ok ? 'accepted' : [decided.code, decided.path]
    }
    assert.deepEqual(await codeOf('all', 'x'), ['commands.stop.target', 'target'])
    assert.deepEqual(await codeOf('agent'), ['commands.stop.target', 'target'])
    assert.deepEqual(await codeOf('run', 'x'), ['id_format', 'target'])
    const nobody = encodeId('agent_run', room.clock.newId())
    assert.deepEqual(await codeOf('run', nobody), ['commands.stop.target_unknown', 'target'])
    const stopId = await stop('agent', 'zoe')
    await lift(stopId)
    const again = await room.admin('Lift Stop', { stop_id: encodeId('stop', stopId), reason: 'r' })
    assert.equal(again.status, 'failed')
    await assert.rejects(
      room.rows(`update concord.stops set reason = 'x' where stop_id = $1`, [stopId]),
      /written once/,
    )
  })

  test('a name that no key, no run and no agent of the project has is refused with the nearest: it would stop nobody', async () => {
    const by = actingFor(room.tenant.people.admin.principal, TRACE)
    const ask = (target: string) =>
      stopAgents(room.world, by, {
        workspaceId,
        requestId: 'r',
        ends_runs: false,
        reason: 'r',
        scope: 'agent',
        target,
      })
    await room.trip('with a key', { agent: 'planner' })
    await aRun('Keep Stock', await aSwarm())
    for (const [typed, meant] of [
      ['plannr', 'planner'],
      ['Keep Stok', 'Keep Stock'],
    ] as const) {
      const refused = await ask(typed)
      assert.ok(!refused.ok)
      assert.deepEqual(
        [refused.code, refused.path, refused.reason, refused.hint],
        ['commands.stop.target_unknown', 'target', `There is no agent "${typed}".`, `Did you mean \`${meant}\`?`],
      )
      accepted(await ask(meant))
    }
    const stops = await listStops(room.db, workspaceId, { isInForce: true, beforeId: null, limit: 100 })
    assert.deepEqual(new Set(stops.map(({ target }) => target)), new Set(['Keep Stock', 'planner']))
    for (const { stop_id } of stops) await lift(stop_id)
  })

  test('stops and lifts are audited with who and what', async () => {
    const stopId = await stop('agent', 'zoe')
    await lift(stopId)
    const events = await room.rows<{ event_type: string; actor: string; purpose: string }>(
      `select event_type, actor, purpose from concord.domain_events where payload->>'stop_id' = $1 and event_type in ('agents_stopped', 'stop_lifted') order by event_type`,
      [stopId],
    )
    const actor = `user:${room.tenant.people.admin.principal.userId}`
    assert.deepEqual(
      events.map(({ event_type, actor: by, purpose }) => [event_type, by, purpose]),
      [
        ['agents_stopped', actor, 'audit'],
        ['stop_lifted', actor, 'audit'],
      ],
    )
  })

  test('[OPS-03] every stop reaches the people on call once: who stopped what', async () => {
    const heard: Alert[] = []
    const woken: string[] = []
    const pager = { name: 'pager', deliver: async (_id: string, alert: Alert) => void heard.push(alert) }
    const wake = async ({ id }: Process) => void woken.push(id)
    const deps = { ...room.clock, wake, channels: [pager] }
    await dateAlerts(room, room.clock.now())
    await openAlertSweep(deps)()
    woken.length = 0
    const stopIds = [await stop('all'), await stop('agent', 'ada')]
    assert.deepEqual([await openAlertSweep(deps)(), await openAlertSweep(deps)()], [2, 0])
    for (const id of [...woken, ...woken]) assert.deepEqual(await openAlertDrive(deps)(id, nextFence()), { t: 'done' })
    const admin = encodeId('user', room.tenant.people.admin.principal.userId)
    assert.deepEqual(
      heard.map(({ type, what, on_call }) => [type, what, on_call]),
      ['all agents', 'the agent ada'].map((who) => ['agents.stopped', `${admin} stopped ${who}.`, [admin]]),
    )
    for (const stopId of stopIds) await lift(stopId)
  })

  test('under load no effect begins after the commit of a stop, and everything rests as blocked or ended', {
    timeout: 300_000,
  }, async () => {
    for (let round = 0; round < proofSize(4, 100); round++) {
      const ids = await Promise.all(
        Array.from({ length: 8 }, (_, n) => room.trip(`load ${round} ${n}`, { agent: `load-${n % 3}`, count: 3 })),
      )
      const newcomers: Promise<string | undefined>[] = []
      const settled = ids.map((id) => room.settle(id))
      const busy = Array.from({ length: 6 }, async (_, n) => {
        const made = room.trip(`late ${round} ${n}`, { agent: 'load-9' }).catch(() => undefined)
        newcomers.push(made)
        const id = await made
        if (id !== undefined) await room.settle(id)
      })
      const begun = `select count(*)::integer as count from concord.domain_effects where status <> 'planned'`
      const created = `select count(*)::integer as count from concord.commands where context->>'run_as' = 'agent'`
      const commandId = (
        await room.admin('Stop Agents', { scope: 'agent', target: 'nobody', reason: 'r', ends_runs: false })
      ).commandId
      const stopId = room.clock.newId()
      // The lock is held, so nothing of an agent commits between these counts and the commit.
      const counted = await room.db.transaction(async (tx) => {
        await insertStop(tx, room.world, {
          stop_id: stopId,
          workspace_id: workspaceId,
          command_id: commandId,
          scope: 'all',
          target: null,
          ends_runs: false,
          reason: 'r',
          stopped_by: 'user:x',
          created_at: room.clock.now(),
        })
        return [await tx.query<{ count: number }>(begun), await tx.query<{ count: number }>(created)]
      })
      await Promise.all([...settled, ...busy])
      assert.deepEqual([await room.rows(begun), await room.rows(created)], counted, `round ${round}`)
      const states = await room.rows<{ status: string }>(
        'select distinct status from concord.commands where command_id = any($1)',
        [ids],
      )
      for (const { status } of states) assert.ok(['blocked', 'validated', 'succeeded'].includes(status), status)
      await lift(stopId)
      for (const id of ids) assert.equal(await room.settle(id), 'succeeded')
      room.woken.length = 0
    }
    assert.equal([...room.provider.applied.values()].filter((times) => times > 1).length, 0)
  })

  test('the stops violate no invariant', async () => {
    assert.deepEqual(await findBrokenInvariants(room.db), [])
  })
})
