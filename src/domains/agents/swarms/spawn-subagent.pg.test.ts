/** Spawns: what a child may get, how many there can be, and the proof of every authority. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { cancelCommand, type Catalog, proposeInRun } from '#domains/commands'
import { byPerson, bySystem } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { testSwarms } from '#test/swarm-project'
import { openSwarmRoom, type SwarmRoom } from '#test/swarms'
import { pendingOf } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { actInRun } from '../act-in-run.ts'
import { RUN_KIND } from '../deps.ts'
import { readSwarmTree } from './read-swarm.ts'
import { type StoredSwarmRun, SWARM_KIND } from './swarm-run.ts'
import { verifyAuthority } from './verify-authority.ts'

const request: JsonObject = {
  agent_name: 'x',
  agent_role: 'worker',
  delegated_goal: 'help',
  allowed_tools: ['create_artifact'],
  max_steps: 1,
}

describe('spawns', () => {
  let room: SwarmRoom
  let swarm: StoredSwarmRun
  let step = 100
  before(async () => {
    room = await openSwarmRoom(testSwarms)
  })
  after(() => room.close())

  /** A swarm that waits for a person, so that its coordinator can start more agents. */
  async function aSwarm() {
    swarm = await room.swarmOf(await room.start('by_people'))
  }
  const propose = async (payload: JsonObject, catalog = room.catalog) => {
    const proposed = await tryPropose(payload, catalog)
    return accepted(proposed).command.command_id
  }
  const tryPropose = (payload: JsonObject, catalog: Catalog) =>
    proposeInRun(
      { ...room.world, catalog },
      {
        workspaceId: room.tenant.workspace.id,
        agentRunId: swarm.coordinator_agent_run_id ?? '',
        stepIndex: step++,
        requestId: 'r',
        process: { kind: SWARM_KIND, id: swarm.swarm_run_id },
      },
      { actionType: 'spawn_subagent', toolName: 'spawn_subagent', payload, reason: 'help' },
    )
  const errorOf = async (commandId: string) =>
    (
      await room.rows<{ error: string | null }>('select error from concord.commands where command_id = $1', [commandId])
    )[0]?.error ?? ''

  test('[SWM-18] [SWM-19] a spawn is a command; a request outside of the authority of its parent leaves no run and no invocation', async () => {
    await aSwarm()
    const before = (await room.runsOf(swarm)).length
    const wide: readonly (readonly [JsonObject, RegExp])[] = [
      [{ allowed_tools: ['spawn_subagent', 'pay_salaries'] }, /tools outside parent scope/],
      [{ allowed_connectors: ['mail'] }, /connectors outside parent scope/],
      [{ memory_scope: { max_results: 1 } }, /memory outside parent scope/],
      [{ context_scope: { month: 'May' } }, /context outside parent scope/],
      [{ max_steps: 21 }, /more steps than its parent/],
      [{ swarm_run_id: encodeId('swarm_run', room.clock.newId()) }, /in its own swarm/],
      [{ parent_agent_run_id: encodeId('agent_run', room.clock.newId()) }, /only for itself/],
    ]
    for (const [change, reason] of wide) {
      const id = await propose({ ...request, ...change })
      await room.settle(id)
      await room.rest()
      assert.match(await errorOf(id), reason)
      assert.equal(await room.statusOf(id), 'failed')
    }
    const unknown = await propose({ ...request, delegable_tools: ['pay'] })
    assert.equal(await room.settle(unknown), 'failed')
    assert.equal((await room.runsOf(swarm)).length, before)
    assert.equal((await room.invocationsOf(swarm)).length, before - 1)
  })

  test('a coordinator loses a tool that the definition of its swarm has lost, and all of them with the swarm', async () => {
    await aSwarm()
    const task = room.catalog.tasks.get('by_people')
    assert.ok(task)
    const { metadata } = task.spec
    const changed = (swarm_coordinator: JsonObject) =>
      new Map(room.catalog.tasks).set('by_people', {
        ...task,
        spec: { ...task.spec, metadata: { ...metadata, swarm_coordinator } },
      })
    const without = new Map(room.catalog.tasks)
    without.delete('by_people')
    const narrower = changed({ name: 'lead', callable_tools: ['create_artifact'] })
    const renamed = changed({ name: 'other', callable_tools: ['spawn_subagent'] })
    for (const tasks of [narrower, renamed, without]) {
      const refused = await tryPropose(request, { ...room.catalog, tasks })
      assert.match(refused.ok ? '' : refused.reason, /The role of the agent does not cover it/)
    }
    assert.equal((await tryPropose(request, room.catalog)).ok, true)
  })

  /** Acts from outside, while the room works. */
  async function act(payload: JsonObject) {
    const { principal } = room.tenant.people.writer
    const agentRunId = swarm.coordinator_agent_run_id ?? ''
    const input = { workspaceId: room.tenant.workspace.id, agentRunId, requestId: 'r', action_type: 'spawn_subagent' }
    let isDone = false
    const acting = actInRun(room.agents, principal, { ...input, payload, reason: 'help' }).finally(() => {
      isDone = true
    })
    while (!isDone) {
      await room.settleWoken()
      await new Promise((resolve) => setImmediate(resolve))
    }
    return accepted(await acting)
  }

  test('[SWM-20] [SWM-19] a spawn is answered with its decision, the child, the command and every reason: allowed, denied, require_approval', async () => {
    await aSwarm()
    const { max_steps: _one, ...plain } = request
    const allowed = await act(plain)
    assert.deepEqual([allowed.decision, allowed.reasons], ['allowed', []])
    const child = (await room.runsOf(swarm)).find(({ agent_name }) => agent_name === 'x')
    assert.equal(child?.max_steps, 10, 'the default')
    assert.equal(allowed.child_agent_run_id, encodeId('agent_run', child?.agent_run_id ?? ''))
    assert.equal(allowed.command_id, encodeId('command', child?.command_id ?? ''))
    const denied = await act({ ...request, allowed_tools: ['pay_salaries'], allowed_connectors: ['mail'] })
    assert.deepEqual([denied.decision, denied.child_agent_run_id], ['denied', null])
    assert.deepEqual(denied.reasons, [
      'Child requested tools outside parent scope.',
      'Child requested connectors outside parent scope.',
    ])
    assert.match(denied.command_id, /^cmd_/)
    swarm = await room.swarmOf(await room.start('gated'))
    const asked = await act(request)
    assert.deepEqual([asked.decision, asked.child_agent_run_id], ['require_approval', null])
    assert.deepEqual(asked.reasons, ['The agent has an approval gate for this tool.'])
    assert.match(asked.command_id, /^cmd_/)
  })

  test('[SWM-25] the roles of children come from the declaration of their parent, copied into its runtime_config', async () => {
    swarm = await room.swarmOf(await room.start('by_role'))
    const [coordinator, manager, ...more] = await room.runsOf(swarm)
    assert.deepEqual(more, [], 'a clerk is no child of a manager')
    assert.deepEqual(
      [coordinator, manager].map((run) => run?.runtime_config['allowed_child_roles']),
      [['manager'], ['worker']],
    )
    const [denied] = await room.rows<{ reasons: readonly string[] }>(
      `select payload->'reasons' as reasons from concord.domain_events where event_type = 'spawn_denied' and swarm_run_id = $1`,
      [swarm.swarm_run_id],
    )
    assert.match(denied?.reasons.join() ?? '', /Role not allowed: clerk/)
    swarm = await room.swarmOf(await room.start('of_managers'))
    const refused = await propose(request)
    await room.settle(refused)
    assert.match(await errorOf(refused), /Role not allowed: worker/)
    // One that the swarm does not declare has the roles of its parent, not all.
    await room.settle(await propose({ ...request, agent_role: 'manager' }))
    await room.rest()
    const undeclared = (await room.runsOf(swarm)).find(({ agent_name }) => agent_name === 'x')
    assert.deepEqual(undeclared?.runtime_config['allowed_child_roles'], ['manager'])
  })

  const accountOf = async (id: string) => {
    const [account] = await room.rows<{ limit: number; carved: number; parent: string | null; is_closed: boolean }>(
      `select limit_units::float as limit, carved_units::float as carved, parent_account_id as parent, closed_at is not null as is_closed
         from concord.budget_accounts where account_id = $1`,
      [id],
    )
    return account
  }

  test('[SWM-28] [SWM-22] the cost limit of a child is carved out of its parent’s and returned at its end; ten at once never carve more than there is', async () => {
    const commandId = await room.start('carved')
    swarm = await room.swarmOf(commandId)
    const [lead, planned] = await room.runsOf(swarm)
    assert.ok(lead && planned)
    const parent = swarm.swarm_run_id
    assert.equal(lead.budget_account_id, parent)
    assert.equal(planned.budget_account_id, planned.agent_run_id)
    assert.deepEqual(await accountOf(planned.agent_run_id), { limit: 4, carved: 0, parent, is_closed: true })
    assert.deepEqual(await accountOf(parent), { limit: 10, carved: 0, parent: null, is_closed: false })
    const waits = { ...request, allowed_tools: ['request_approval'], max_steps: 2 }
    const tooWide = await act({ ...waits, max_cost_units: 10.000_001, deadline_minutes: 61 })
    assert.deepEqual(tooWide.reasons, [
      'Child requested more cost than its parent has left.',
      'Child requested a later deadline than its parent.',
    ])
    const ids = await Promise.all(Array.from({ length: 10 }, () => propose({ ...waits, max_cost_units: 3 })))
    await Promise.all(ids.map((id) => room.settle(id)))
    await room.rest()
    const errors = await Promise.all(ids.map(errorOf))
    assert.equal(errors.filter((error) => error.includes('more cost than its parent has left')).length, 7)
    assert.equal((await accountOf(parent))?.carved, 9)
    accepted(
      await cancelCommand(room.world, bySystem(TRACE), {
        workspaceId: swarm.workspace_id,
        commandId,
        reason: 'enough',
      }),
    )
    await room.settle(commandId)
    await room.rest()
    assert.deepEqual(await accountOf(parent), { limit: 10, carved: 0, parent: null, is_closed: true })
    const open = await room.rows(
      'select 1 from concord.budget_accounts where parent_account_id = $1 and closed_at is null',
      [parent],
    )
    assert.equal(open.length, 0)
  })

  test('[SWM-28] a child has its own deadline, or that of its parent, and ends by it', async () => {
    swarm = await room.swarmOf(await room.start('carved'))
    const [, planned] = await room.runsOf(swarm)
    assert.ok(planned)
    assert.equal(planned.deadline_at?.getTime(), planned.created_at.getTime() + 30 * 60_000)
    const waits = { ...request, allowed_tools: ['request_approval'], max_steps: 2, deadline_minutes: 5 }
    await room.settle(await propose(waits))
    await room.rest()
    const child = (await room.runsOf(swarm)).find(({ agent_name }) => agent_name === 'x')
    assert.ok(child)
    assert.equal(child.status, 'waiting_for_approval')
    room.clock.travel(5 * 60_000)
    room.others.push({ kind: RUN_KIND, id: child.agent_run_id })
    await room.rest()
    const ended = (await room.runsOf(swarm)).find(({ agent_name }) => agent_name === 'x')
    assert.equal(ended?.end_reason, 'deadline_passed')
    assert.equal((await room.swarmOf(swarm.command_id)).end_reason, null, 'the swarm goes on')
  })

  test('a child that has used up its own limit does not end the swarm, which has money left', async () => {
    const row = await room.swarmOf(await room.start('poor_child'))
    const asked = (await room.runsOf(row)).find(({ agent_name }) => agent_name === 'b')
    const [raise] = await room.rows<{ command_id: string }>(
      'select command_id from concord.commands where agent_run_id = $1',
      [asked?.agent_run_id],
    )
    const approvalId = await pendingOf(room, raise?.command_id ?? '')
    const no = { workspaceId: row.workspace_id, approvalId, decision: 'rejected' as const, reason: 'Too much.' }
    const operator = { ...room.tenant.people.admin.principal, orgRoles: ['operator'] }
    accepted(await decideApproval(room.approvals, byPerson(operator, TRACE), no))
    await room.rest()
    assert.equal((await room.runsOf(row)).find(({ agent_name }) => agent_name === 'b')?.end_reason, 'budget_exhausted')
    assert.deepEqual((await room.swarmOf(row.command_id)).end_reason, 'joined')
  })

  test('[SWM-24] ten spawns at once at a limit of 5: with the coordinator exactly five runs exist, and each other one is denied', async () => {
    await aSwarm()
    const ids = await Promise.all(Array.from({ length: 10 }, () => propose(request)))
    // All pass policy before the first is counted, then their effects race for the lock of the swarm.
    await Promise.all(ids.map((id) => room.settle(id)))
    await room.rest()
    assert.equal((await room.runsOf(swarm)).length, 5)
    const errors = await Promise.all(ids.map(errorOf))
    assert.equal(errors.filter((error) => error.includes('Swarm agent limit exceeded.')).length, 7)
  })

  test('a turn that is given again changes nothing: every turn three times, and the same end with the same payments', async () => {
    const again = await openSwarmRoom(testSwarms, 3)
    try {
      for (const [name, expected] of [
        ['race', 1],
        ['select', 1],
        ['synthesis', 0],
      ] as const) {
        again.ledger.lines.length = 0
        const row = await again.swarmOf(await again.start(name))
        assert.deepEqual(
          [row.status, (await again.runsOf(row)).length],
          ['succeeded', row.definition.agents.length + 1],
        )
        const paid = again.ledger.lines.filter(({ amount }) => amount > 0).map(({ key }) => key)
        assert.equal(new Set(paid).size, paid.length, 'nobody paid twice')
        const net = again.ledger.lines.reduce((sum, { amount }) => sum + amount, 0)
        assert.equal(net, expected)
      }
    } finally {
      await again.close()
    }
  })

  test('the chain of authority is proven up to the person; a row that says otherwise is not', async () => {
    const { row } = { row: await room.swarmOf(await room.start('nested')) }
    const tree = accepted(await readSwarmTree(room.db, row.workspace_id, row.swarm_run_id))
    assert.deepEqual(
      tree.proofs.map(({ fault }) => fault),
      [null, null, null, null],
    )
    const person = `user:${room.tenant.people.writer.principal.userId}`
    const faultsOf = (change: (run: (typeof tree.runs)[number], at: number) => object) =>
      verifyAuthority(
        tree.runs.map((run, at) => ({ ...run, ...change(run, at) })),
        person,
      ).map(({ fault }) => fault)
    assert.deepEqual(
      faultsOf((_, at) => (at === 2 ? { allowed_tools: ['pay'] } : {})),
      [null, null, 'other_hash', null],
    )
    assert.deepEqual(
      faultsOf((_, at) => (at === 0 ? { authority_hash: 'x' } : {})),
      ['other_hash', 'other_parent', null, null],
    )
    assert.deepEqual(
      faultsOf((_, at) => (at === 3 ? { manifest: {} } : {})),
      [null, null, null, 'other_manifest'],
    )
    assert.equal(verifyAuthority(tree.runs, 'user:somebody')[0]?.fault, 'other_hash')
    assert.equal(verifyAuthority(tree.runs.slice(1), person)[0]?.fault, 'no_parent')
  })
})
