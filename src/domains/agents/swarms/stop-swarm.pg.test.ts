/** Swarms under a stop of agents: they wait for the lift, or end, and no agent of theirs asks a model meanwhile. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { submitCommand } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { openGateOn } from '#test/connectors'
import { aModel, startModel } from '#test/fake-model'
import { testSwarms } from '#test/swarm-project'
import { openSwarmRoom, type SwarmRoom } from '#test/swarms'
import { accepted, TRACE } from '#test/tenant'
import type { StoredAgentRun } from '../agent-run.ts'
import { openModels } from '../models/ask-model.ts'

describe('swarms under a stop', () => {
  let room: SwarmRoom
  before(async () => {
    room = await openSwarmRoom(testSwarms)
  })
  after(() => room.close())

  const admin = async (taskName: string, payload: JsonObject) => {
    const { principal } = room.tenant.people.admin
    const by = { id: `user:${principal.userId}`, kind: 'operator' as const, traceId: TRACE, principal }
    const request = { workspaceId: room.tenant.workspace.id, taskName, payload, requestId: 'r' }
    const { command } = accepted(await submitCommand(room.world, by, { ...request, ingress: 'user_request' }))
    assert.equal(await room.settle(command.command_id), 'succeeded')
    return command.command_id
  }
  const stop = async (scope: string, target: string | null = null, ends_runs = false) => {
    const asked = { scope, reason: 'r', ends_runs, ...(target === null ? {} : { target }) }
    const commandId = await admin('Stop Agents', asked)
    const [row] = await room.rows<{ stop_id: string }>('select stop_id from concord.stops where command_id = $1', [
      commandId,
    ])
    return async () => {
      await admin('Lift Stop', { stop_id: encodeId('stop', row?.stop_id ?? ''), reason: 'r' })
    }
  }
  /** What the sweeps of overdue runs and swarms do. */
  const wakeDue = async () => {
    for (const [kind, table] of [
      ['agent_run', 'agent_runs'],
      ['swarm_run', 'swarm_runs'],
    ] as const) {
      const due = await room.rows<{ id: string }>(
        `select ${kind}_id as id from concord.${table} where run_after <= $1 and completed_at is null and cancelled_at is null`,
        [room.clock.now()],
      )
      for (const { id } of due) room.others.push({ kind, id })
    }
    await room.rest()
  }
  const seen = async (commandId: string) => {
    const row = await room.swarmOf(commandId)
    return [row.status, row.end_reason, await room.statusOf(commandId)]
  }

  for (const name of ['all_of_them', 'by_people', 'in_parts', 'synthesis']) {
    test(`[SWM-33] ${name} waits for the lift of a stop at every step, and goes on where it stood`, async () => {
      const id = await room.begin(name)
      await room.settle(id)
      // A stop after each step of the swarm.
      for (let steps = 0; steps < 40; steps++) {
        const lift = await stop('all')
        await room.rest()
        const [status, reason] = await seen(id)
        if (status !== 'running' && status !== 'created') {
          await lift()
          break
        }
        assert.equal(reason, null)
        // The lift wakes what waited: nothing has to become due.
        await lift()
        await room.step()
        await room.step()
      }
      await room.rest()
      const waits = name === 'by_people'
      assert.deepEqual(await seen(id), waits ? ['running', null, 'running'] : ['succeeded', 'joined', 'succeeded'])
    })
  }

  test('[SWM-33] a stop that ends runs ends the swarm with its name', async () => {
    const id = await room.begin('all_of_them')
    await room.settle(id)
    const lift = await stop('all', null, true)
    await wakeDue()
    assert.deepEqual(await seen(id), ['failed', 'stopped', 'failed'])
    await lift()
  })

  test('[SWM-33] the gate asks for stops of the run that calls: a child, its name, its swarm; a coordinator', async (t) => {
    const fake = await startModel()
    const model = aModel(fake.url)
    const gate = await openGateOn(room.db, [model.connector])
    t.after(async () => {
      await gate.close()
      await fake.close()
    })
    await fake.script({ 'fake-small': [{ text: 'Hello.', times: 99 }] })
    const id = await room.begin('all_of_them')
    await room.settle(id)
    const findChild = () =>
      room.rows<StoredAgentRun>(
        `select r.* from concord.agent_runs r join concord.swarm_runs s using (swarm_run_id)
           join concord.domain_effects e on e.command_id = r.command_id and e.status = 'executing'
          where s.command_id = $1 and r.parent_agent_run_id is not null`,
        [id],
      )
    while ((await findChild()).length === 0) assert.ok(await room.step())
    const [child] = await findChild()
    const swarm = await room.swarmOf(id)
    const lead = (await room.runsOf(swarm)).find(({ agent_run_id }) => agent_run_id === swarm.coordinator_agent_run_id)
    assert.ok(child && lead)
    const { ask } = openModels([model], { db: room.db, now: room.clock.now, connectors: gate.connectors })
    let turn = 0
    const asks = async (run: StoredAgentRun) => {
      const asked = await ask({
        run: { ...run, budget_account_id: null },
        turn: turn++,
        call: 0,
        request: { model: 'small', messages: [{ role: 'user', content: 'Hello.' }], tools: [], outputTokensMax: 100 },
        signal: new AbortController().signal,
      })
      return asked.t === 'failed' ? asked.error.message : asked.t
    }
    assert.deepEqual([await asks(child), await asks(lead)], ['answered', 'answered'])
    for (const [scope, target, isLeadStopped] of [
      ['run', encodeId('agent_run', child.agent_run_id), false],
      ['agent', child.agent_name, false],
      ['agent', lead.agent_name, true],
      ['run', encodeId('agent_run', lead.agent_run_id), true],
      ['swarm', encodeId('swarm_run', swarm.swarm_run_id), true],
      ['all', null, true],
    ] as const) {
      const lift = await stop(scope, target)
      assert.match(await asks(child), /stop of agents/, `${scope} ${target}`)
      assert.match(await asks(lead), isLeadStopped ? /stop of agents/ : /^answered$/, `${scope} ${target}`)
      await lift()
    }
    assert.deepEqual([await asks(child), await asks(lead)], ['answered', 'answered'])
  })
})
