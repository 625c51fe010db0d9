/** The money of missions: limits, reservations, settlements, and what happens when an attempt does not fit. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { openAccount, reserveCost, settleCost } from '#domains/budgets'
import { cancelCommand } from '#domains/commands'
import { byPerson, bySystem } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { assertSound, units } from '#test/budgets'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { countStatements } from '#test/round-trips'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { reconcileMissions } from './reconcile-missions.ts'
import { lockMission } from './mission.ts'
import { raiseMissionBudget } from './raise-limit.ts'

describe('the money of missions', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const typesOf = async (id: string) => (await room.eventsOf(id)).map(({ event_type }) => event_type)
  const payloadsOf = async (id: string, type: string) =>
    (await room.eventsOf(id)).flatMap(({ event_type, payload }) => (event_type === type ? [payload] : []))
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

  test('[MIS-050] [MIS-094] [MIS-195] [MIS-271] what tasks cost is counted in their rows, the mission and its account, and the rest is returned', async () => {
    const plan = aPlan(
      costing('a', '0.250000', { max_cost: '1.00' }),
      costing('b', '0.003', { max_cost: '1.00', depends_on: ['a'] }),
    )
    const run = await room.run(plan, budget('2.00'))
    assert.deepEqual([run.state, run.total_cost, run.total_tokens], ['completed', '0.253000', 200])
    const tasks = await room.tasksOf(run.id)
    assert.deepEqual(
      tasks.map(({ cost, tokens_used }) => [cost, tokens_used]),
      [
        ['0.250000', 100],
        ['0.003000', 100],
      ],
    )
    assert.deepEqual(await accountOf(run.id), {
      limit: '2.00',
      reserved: '0.00',
      spent: '0.25',
      excess: '0.00',
      closed: true,
    })
    assert.deepEqual(await payloadsOf(run.id, 'cost_snapshot'), [
      { run_id: run.id, total_cost: '0.250000', total_tokens: 100, by_task: { [tasks[0]?.id ?? '']: '0.250000' } },
      { run_id: run.id, total_cost: '0.253000', total_tokens: 200, by_task: { [tasks[1]?.id ?? '']: '0.003000' } },
    ])
    const [completed] = await payloadsOf(run.id, 'run_completed')
    assert.deepEqual([completed?.['total_cost'], completed?.['total_tokens']], ['0.253000', 200])
    await sound(run.id)
  })

  test('[MIS-154] [MIS-246] an attempt starts if its cost fits exactly, and nothing starts that does not fit', async () => {
    const equal = await room.run(
      aPlan(costing('e1', '1', { max_cost: '1' }), costing('e2', '1', { max_cost: '1', depends_on: ['e1'] })),
      budget('2'),
    )
    assert.deepEqual([equal.state, equal.total_cost], ['completed', '2.000000'])
    const above = await room.run(
      aPlan(
        costing('f1', '1', { max_cost: '1' }),
        costing('f2', '1', { max_cost: '1.000001', depends_on: ['f1'] }),
        planTask('f3', { depends_on: ['f2'] }),
      ),
      budget('2'),
    )
    assert.deepEqual([above.state, above.state_type, above.total_cost], ['budget_exceeded', 'paused', '1.000000'])
    assert.deepEqual(await room.statesOf(above.id), { f1: 'completed', f2: 'queued', f3: 'pending' })
    assert.ok(!room.calls.includes('f2'))
    const exceeded = (await room.eventsOf(above.id)).filter(({ event_type }) => event_type === 'run_budget_exceeded')
    assert.deepEqual(
      exceeded.map(({ payload, actor_type }) => [payload, actor_type]),
      [[{ current_cost: '1.000000', hard_limit: '2.000000' }, 'system']],
    )
    const [card] = await room.rows<{ status: string }>('select status from missions.board_tasks where source_id = $1', [
      above.id,
    ])
    assert.equal(card?.status, 'review')
    await sound(above.id)
  })

  test('tasks that start together are reserved in their order, as many as fit, and what runs is settled after the stop', async () => {
    const tasks = Array.from({ length: 5 }, (_, n) => costing(`g${n}`, '0.50', { max_cost: '1.00' }))
    const run = await room.run(aPlan(...tasks), budget('3.20'))
    assert.equal(run.state, 'budget_exceeded')
    assert.deepEqual(await room.statesOf(run.id), {
      g0: 'completed',
      g1: 'completed',
      g2: 'completed',
      g3: 'queued',
      g4: 'queued',
    })
    assert.deepEqual(await accountOf(run.id), {
      limit: '3.20',
      reserved: '0.00',
      spent: '1.50',
      excess: '0.00',
      closed: false,
    })
    assert.equal(run.total_cost, '1.500000')
    await sound(run.id)
  })

  test('a task that reports more than was reserved for it is recorded in full, and stops the mission above its limit', async () => {
    const plan = () => aPlan(costing('h1', '3.00', { max_cost: '1.00' }), planTask('h2', { depends_on: ['h1'] }))
    const fitting = await room.run(plan(), budget('10'))
    assert.deepEqual([fitting.state, fitting.total_cost], ['completed', '3.000000'])
    assert.equal((await accountOf(fitting.id))?.excess, '2.00')
    const run = await room.run(plan(), budget('2.50'))
    assert.deepEqual([run.state, run.total_cost], ['budget_exceeded', '3.000000'])
    assert.deepEqual(await room.statesOf(run.id), { h1: 'completed', h2: 'queued' })
    assert.deepEqual(await accountOf(run.id), {
      limit: '2.50',
      reserved: '0.00',
      spent: '1.00',
      excess: '2.00',
      closed: false,
    })
    const huge = await room.run(aPlan(costing('h3', '999999999.999999', { max_cost: '1' })), budget('10'))
    assert.deepEqual([huge.state, huge.total_cost], ['budget_exceeded', '9999.999999'])
    await sound(huge.id)
  })

  test('[MIS-163] [MIS-245] a cost above the soft limit is reported once, and an equal one is not', async () => {
    const each = ['1', '1', '1', '1'].map((cost, n) =>
      costing(`s${n}`, cost, n > 0 ? { depends_on: [`s${n - 1}`] } : {}),
    )
    const run = await room.run(aPlan(...each), { budget: { soft_limit: '2' } })
    assert.deepEqual([run.state, run.total_cost, run.account_id], ['completed', '4.000000', null])
    assert.deepEqual(await payloadsOf(run.id, 'run_budget_warning'), [
      { current_cost: '3.000000', soft_limit: '2.000000', percent_used: 150 },
    ])
  })

  test('[MIS-157] a cancel ends a mission above its budget, and closes its account with the cost of what ran', async () => {
    room.plays.set('c1', 'waits')
    const plan = aPlan(planTask('c1', { max_cost: '1.5' }), costing('c2', '0.5', { max_cost: '1' }))
    const run = await room.run(plan, budget('2'))
    assert.equal(run.state, 'budget_exceeded')
    assert.deepEqual(await accountOf(run.id), {
      limit: '2.00',
      reserved: '1.50',
      spent: '0.00',
      excess: '0.00',
      closed: false,
    })
    const by = byPerson(room.tenant.people.writer.principal, TRACE)
    const asked = { workspaceId: run.workspace_id, commandId: run.command_id, reason: 'Too dear.' }
    accepted(await cancelCommand(room.world, by, asked))
    await room.settle(run.command_id)
    await room.rest()
    assert.deepEqual(await room.statesOf(run.id), { c1: 'cancelled', c2: 'cancelled' })
    assert.deepEqual(
      [(await room.missionOf(run.id)).state, (await typesOf(run.id)).at(-1)],
      ['cancelled', 'run_cancelled'],
    )
    assert.deepEqual(await accountOf(run.id), {
      limit: '2.00',
      reserved: '0.00',
      spent: '0.00',
      excess: '0.00',
      closed: true,
    })
    await sound(run.id)
  })

  test('[MIS-208] a new attempt of a refused output is reserved like the first, and a verifier may spend nothing', async () => {
    room.plays.set('v1', 'waits')
    const judged = planTask('j', { max_cost: '1', verify: [{ task: 'Step', payload: { name: 'v1' } }] })
    const refused = costing('k', '1', { max_cost: '1', verify: [{ person: {} }] })
    const { id, workspace_id: workspaceId } = await room.run(aPlan(judged, refused), budget('2.50'))
    const [first, second] = await room.tasksOf(id)
    assert.deepEqual([first?.state, second?.state], ['verifying', 'awaiting_human'])
    const opened = await openAccount(room.db, {
      accountId: randomUUID(),
      workspaceId,
      commandId: first?.review_command_id ?? '',
      parentId: null,
      limit: units('5'),
      at: room.clock.now(),
    })
    assert.equal(opened.ok, false)
    await room.decide(second?.review_command_id ?? '', 'request_changes', 'Again.')
    await room.rest()
    room.clock.travel(10_000)
    await reconcileMissions({ ...room.world, wake: async (process) => void room.others.push(process) }, 0)
    await room.rest()
    const again = (await room.tasksOf(id))[1]
    assert.deepEqual([again?.attempt_number, again?.state, again?.cost], [2, 'awaiting_human', '2.000000'])
    await room.decide(again?.review_command_id ?? '', 'request_changes', 'Again.')
    await room.rest()
    room.clock.travel(20_000)
    await reconcileMissions({ ...room.world, wake: async (process) => void room.others.push(process) }, 0)
    await room.rest()
    assert.deepEqual(
      [(await room.missionOf(id)).state, (await room.tasksOf(id))[1]?.attempt_number],
      ['budget_exceeded', 2],
    )
    assert.equal((await accountOf(id))?.spent, '2.00')
    await sound(id)
  })

  test('[MIS-208] what the agents of a failed attempt spent is counted, and a retry that does not fit waits for a person', async () => {
    room.plays.set('r1', 'breaks')
    const { id, workspace_id: workspaceId } = await room.run(aPlan(planTask('r1', { max_cost: '1' })), budget('1.50'))
    const [begun] = await room.tasksOf(id)
    const commandId = begun?.command_id ?? ''
    const [asked] = await room.rows<{ max_cost: string }>(
      `select context->'metadata'->>'max_cost' as max_cost from concord.commands where command_id = $1`,
      [commandId],
    )
    assert.equal(asked?.max_cost, '1.000000')
    // As an agent of the command does.
    const at = room.clock.now()
    const account = { accountId: randomUUID(), workspaceId, at }
    const call = { ...account, key: 'call', amount: units('0.60') }
    const opened = accepted(await openAccount(room.db, { ...account, commandId, parentId: null, limit: units('5') }))
    assert.equal(opened.limit_units, '1.000000', 'an agent may not spend more than its attempt')
    accepted(await reserveCost(room.db, call))
    accepted(await settleCost(room.db, bySystem(TRACE), call))
    while ((await room.statusOf(commandId)) !== 'failed') {
      room.clock.travel(600_000)
      await room.settle(commandId)
    }
    await room.rest()
    const [waiting] = await room.tasksOf(id)
    assert.deepEqual(
      [waiting?.state, waiting?.cost, (await room.missionOf(id)).state],
      ['awaiting_retry', '0.600000', 'running'],
    )
    room.clock.travel(10_000)
    await reconcileMissions({ ...room.world, wake: async (process) => void room.others.push(process) }, 0)
    await room.rest()
    const run = await room.missionOf(id)
    assert.deepEqual(
      [run.state, run.total_cost, (await room.tasksOf(id))[0]?.attempt_number],
      ['budget_exceeded', '0.600000', 1],
    )
    await sound(id)
  })

  test('each raise of the limit counts, also of a mission that runs', async () => {
    room.plays.set('raised', 'waits')
    const { id, workspace_id: workspaceId } = await room.run(aPlan(planTask('raised', { max_cost: '1' })), budget('2'))
    const { principal } = room.tenant.people.writer
    const person = { ...byPerson(principal, TRACE), principal }
    const limits = []
    for (const hardLimit of ['5', '50']) {
      accepted(await raiseMissionBudget({ commands: room.world }, person, { workspaceId, missionId: id, hardLimit }))
      limits.push((await accountOf(id))?.limit)
    }
    assert.deepEqual(limits, ['5.00', '50.00'])
    assert.deepEqual(
      (await payloadsOf(id, 'run_budget_increased')).map(({ old_limit, new_limit }) => [old_limit, new_limit]),
      [
        ['2.000000', '5.000000'],
        ['5.000000', '50.000000'],
      ],
    )
    await sound(id)
  })

  test('[MIS-156] [MIS-247] a person raises the limit above the cost, and the mission goes on where it stopped', async () => {
    const plan = aPlan(
      costing('u1', '1', { max_cost: '1' }),
      costing('u2', '1', { max_cost: '1.5', depends_on: ['u1'] }),
    )
    const { id, workspace_id: workspaceId } = await room.run(plan, budget('2'))
    const { writer, reader } = room.tenant.people
    const raise = (hardLimit: string, person = writer, of = workspaceId) =>
      raiseMissionBudget({ commands: room.world }, byPerson(person.principal, TRACE), {
        workspaceId: of,
        missionId: id,
        hardLimit,
      })
    const codeOf = async (asked: ReturnType<typeof raise>) => {
      const answer = await asked
      return answer.ok ? 'ok' : answer.code
    }
    for (const amount of ['NaN', '1e309', '-5', '10000', '', 'Infinity'])
      assert.equal(await codeOf(raise(amount)), 'missions.budget.invalid', amount)
    for (const amount of ['0', '0.5', '1', '2'])
      assert.equal(await codeOf(raise(amount)), 'missions.budget.too_low', amount)
    assert.equal(await codeOf(raise('3', reader)), 'missions.action.not_allowed')
    assert.equal(await codeOf(raise('3', writer, randomUUID())), 'missions.mission.not_found')
    // Of several that wait for the lock one wins, and the others get the fresh row.
    const waits =
      'select 1 from pg_locks join pg_stat_activity using (pid) where datname = current_database() and not granted'
    const asked = await room.db.transaction(async (tx) => {
      await lockMission(tx, id)
      const all = Array.from({ length: 4 }, () => raise('2.5'))
      await until(async () => (await room.rows(waits)).length >= 2)
      return { all }
    })
    const answers = await Promise.all(asked.all)
    assert.equal(answers.filter(({ ok }) => ok).length, 1)
    const lost = answers.find((answer) => !answer.ok)
    assert.ok(lost && !lost.ok && lost.code === 'missions.budget.too_low')
    const shown = lost.facts?.['mission'] as { budget: JsonObject; state: string }
    assert.deepEqual([shown.state, shown.budget['limit']], ['running', '2.500000'])
    await room.rest()
    const run = await room.missionOf(id)
    assert.deepEqual(
      [run.state, run.total_cost, run.config['budget']],
      ['completed', '2.000000', { hard_limit: '2.500000' }],
    )
    const increased = (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'run_budget_increased')
    assert.deepEqual(
      increased.map(({ payload, actor_type }) => [payload, actor_type]),
      [[{ old_limit: '2.000000', new_limit: '2.500000', increased_by: `user:${writer.principal.userId}` }, 'human']],
    )
    assert.equal(await codeOf(raise('5')), 'missions.budget.fixed')
    const free = await room.run(aPlan(planTask('u3')))
    const none = await raiseMissionBudget({ commands: room.world }, byPerson(writer.principal, TRACE), {
      workspaceId,
      missionId: free.id,
      hardLimit: '5',
    })
    assert.ok(!none.ok && none.code === 'missions.budget.fixed')
    await sound(id)
  })

  test('a mission without a limit makes no statement more than one whose tasks name no cost', async () => {
    const statements = async (more: JsonObject) => {
      const plan = aPlan(planTask('n1', more), planTask('n2', { ...more, depends_on: ['n1'] }))
      return countStatements(room.db, async () => void (await room.run(plan)))
    }
    await statements({})
    assert.equal(await statements({ max_cost: '1' }), await statements({}))
  })

  test('limits that are none are refused with their path', async () => {
    for (const hard_limit of ['NaN', '1e309', '-1', '0', '10000', 'Infinity', '1.0000001']) {
      const made = await room.create(aPlan(planTask('x')), budget(hard_limit)).catch((error: Error) => error)
      assert.ok(made instanceof Error && /config\.budget\.hard_limit/.test(made.message), hard_limit)
    }
  })
})
