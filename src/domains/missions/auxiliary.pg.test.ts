/** What planners, hooks, verifiers and missions inside missions may cost, and that it is counted. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { openAccount } from '#domains/budgets'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { assertSound, units } from '#test/budgets'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, TRACE } from '#test/tenant'
import { raiseMissionBudget } from './raise-limit.ts'
import { COUNTERS_DIFFER } from './repair-missions.ts'

describe('the money of planners, hooks and verifiers', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const accountOf = async (id: string) => {
    const [account] = await room.rows<Record<'limit' | 'reserved' | 'spent' | 'excess', string> & { closed: boolean }>(
      `select round(limit_units, 2) as limit, round(reserved_units, 2) as reserved, round(spent_units, 2) as spent,
         round(excess_units, 2) as excess, closed_at is not null as closed from concord.budget_accounts where account_id = $1`,
      [id],
    )
    return account
  }
  const sound = async (id: string) => {
    const { workspace_id: workspaceId, command_id: commandId } = await room.missionOf(id)
    await assertSound(room.db, { workspaceId, commandId })
  }
  /** A task that says what it cost. */
  const costing = (name: string, cost: string, more: JsonObject = {}) =>
    planTask(name, { run: { task: 'Step', payload: { name, usage: { cost, tokens: 100 } } }, ...more })
  const budget = (hard_limit: string, more: JsonObject = {}) => ({ budget: { hard_limit, ...more } })

  /** As an agent of the command does. */
  const openFor = (workspaceId: string, commandId: string, limit: string) =>
    openAccount(room.db, {
      accountId: randomUUID(),
      workspaceId,
      commandId,
      parentId: null,
      limit: units(limit),
      at: room.clock.now(),
    })
  const commandKeyed = async (key: string) => {
    const [row] = await room.rows<{ command_id: string }>(
      'select command_id from concord.commands where idempotency_key = $1',
      [key],
    )
    return row?.command_id ?? ''
  }
  /** A planner whose result is `plan`. */
  const plannerOf = (name: string, plan: unknown, more: JsonObject = {}) => ({
    planner: {
      task: 'Step',
      payload: { name, from: plan as JsonObject, usage: { cost: '0.40', tokens: 7 } },
      path: '/from',
      ...more,
    },
  })
  const planned = async (config: JsonObject, more: JsonObject) => {
    const { id, command_id } = await room.create(undefined as never, { autonomy: 'full_auto', ...config }, more)
    await room.settle(command_id)
    await room.rest()
    return room.missionOf(id)
  }

  test('[MIS-154] [MIS-195] a planner spends within the limit of its mission, and its cost is counted once', async () => {
    const plan = aPlan(costing('pa', '0.10', { max_cost: '0.50' }))
    const run = await planned(budget('1.00'), plannerOf('pl1', plan, { max_cost: '0.50' }))
    assert.deepEqual([run.state, run.total_cost, run.total_tokens], ['completed', '0.500000', 107])
    assert.deepEqual(await accountOf(run.id), {
      limit: '1.00',
      reserved: '0.00',
      spent: '0.50',
      excess: '0.00',
      closed: true,
    })
    await sound(run.id)
    room.plays.set('pl2', 'waits')
    const held = await planned(budget('1.00'), plannerOf('pl2', plan, { max_cost: '0.50' }))
    const asked = await commandKeyed(`mission:${held.id}:plan`)
    assert.equal((await accountOf(held.id))?.reserved, '0.50')
    assert.equal(accepted(await openFor(held.workspace_id, asked, '5')).limit_units, '0.500000')
    room.plays.set('pl3', 'waits')
    const free = await planned(budget('1.00'), plannerOf('pl3', plan))
    const unpaid = await openFor(free.workspace_id, await commandKeyed(`mission:${free.id}:plan`), '5')
    assert.equal(unpaid.ok, false, 'without a max_cost it may cost nothing')
    const dear = await planned(budget('1.00'), plannerOf('pl4', plan, { max_cost: '1.01' }))
    assert.deepEqual([dear.state, dear.total_cost], ['failed', '0.000000'])
    assert.ok(!room.calls.includes('pl4'))
    const open = await planned({}, plannerOf('pl5', plan))
    assert.deepEqual([open.state, open.total_cost], ['completed', '0.500000'])
    const doctor = await room.rows(`select r.id from missions.orchestration_runs as r where ${COUNTERS_DIFFER}`)
    assert.deepEqual(doctor, [])
  })

  test('[MIS-154] [MIS-195] a verifier that may cost something is reserved, counted, and waits for a person who raises the limit', async () => {
    const verify = [{ agent: 'Step', payload: { name: 'w1', usage: { cost: '0.30' } }, max_cost: '0.40' }]
    room.plays.set('w1', 'waits')
    const judged = costing('wa', '0.60', {
      max_cost: '0.60',
      verify: verify.map(({ agent, ...more }) => ({ task: agent, ...more })),
    })
    const { id, workspace_id: workspaceId } = await room.run(aPlan(judged), budget('1.00'))
    const [task] = await room.tasksOf(id)
    assert.equal(task?.state, 'verifying')
    assert.deepEqual(await accountOf(id), {
      limit: '1.00',
      reserved: '0.40',
      spent: '0.60',
      excess: '0.00',
      closed: false,
    })
    assert.equal(accepted(await openFor(workspaceId, task.review_command_id ?? '', '5')).limit_units, '0.400000')
    const dear = await room.run(aPlan(judged), budget('0.90'))
    assert.deepEqual([dear.state, (await room.tasksOf(dear.id))[0]?.state], ['budget_exceeded', 'verifying'])
    room.plays.delete('w1')
    const by = byPerson(room.tenant.people.writer.principal, TRACE)
    accepted(
      await raiseMissionBudget({ commands: room.world }, by, { workspaceId, missionId: dear.id, hardLimit: '2' }),
    )
    await room.rest()
    const after = await room.missionOf(dear.id)
    assert.deepEqual([after.total_cost, (await room.tasksOf(dear.id))[0]?.state], ['0.900000', 'awaiting_human'])
    await sound(dear.id)
  })

  test('[MIS-154] [MIS-015] hooks spend within the limit of their mission, and one that does not fit stops it', async () => {
    const hook = (name: string, max_cost: string) => ({
      task: 'Step',
      payload: { name, usage: { cost: '0.10' } },
      max_cost,
    })
    const hooks = { before_run: hook('hb', '0.20'), after_run: hook('ha', '0.20') }
    const plan = aPlan(costing('hx', '0.50', { max_cost: '0.50' }))
    const paid = await room.run(plan, { hooks, ...budget('0.80') })
    assert.deepEqual([paid.state, paid.total_cost], ['completed', '0.700000'])
    await sound(paid.id)
    const { id, state, workspace_id: workspaceId } = await room.run(plan, { hooks, ...budget('0.75') })
    assert.deepEqual([state, await room.statesOf(id)], ['budget_exceeded', { hx: 'completed' }])
    const by = byPerson(room.tenant.people.writer.principal, TRACE)
    accepted(await raiseMissionBudget({ commands: room.world }, by, { workspaceId, missionId: id, hardLimit: '1' }))
    await room.rest()
    const run = await room.missionOf(id)
    assert.deepEqual([run.state, run.total_cost], ['completed', '0.700000'])
    const dear = await room.run(plan, { hooks: { before_run: hook('hb', '0.20') }, ...budget('0.15') })
    assert.deepEqual([dear.state, await room.statesOf(dear.id)], ['budget_exceeded', { hx: 'queued' }])
  })

  test('[MIS-154] a mission inside another may cost what its attempt may, also without a limit of its own', async () => {
    const nested = (max_cost: string, cost: string) =>
      planTask('in', {
        max_cost,
        run: {
          task: 'Run Mission',
          payload: {
            goal: 'Inside',
            plan: aPlan(costing('n', cost, { max_cost: '5' })) as unknown as JsonObject,
            config: { autonomy: 'full_auto' },
          },
        },
      })
    const fits = await room.run(aPlan(nested('5', '0.25')), budget('6'))
    assert.deepEqual([fits.state, fits.total_cost], ['completed', '0.250000'])
    const run = await room.run(aPlan(nested('0.5', '0.25')), budget('6'))
    assert.equal(run.state, 'running')
    const [inner] = await room.rows<{ state: string; limit: string }>(
      `select r.state, round(a.limit_units, 2) as limit from missions.orchestration_runs as r
        join missions.orchestration_tasks as t on t.command_id = r.command_id left join concord.budget_accounts as a on a.account_id = r.account_id
       where t.run_id = $1`,
      [run.id],
    )
    assert.deepEqual(inner, { state: 'budget_exceeded', limit: '0.50' })
    const open = await room.run(aPlan(nested('5', '0.25')))
    assert.deepEqual([open.state, open.total_cost], ['completed', '0.250000'])
  })
})
