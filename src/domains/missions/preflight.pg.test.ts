/** The pre-flight of plans and missions: approvals, cost, irreversible effects, what is missing, and what is known later. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { countRoundTrips } from '#test/round-trips'
import { accepted, TRACE } from '#test/tenant'
import type { MissionPlan } from './plan.ts'
import { preflightMission, preflightPlan } from './preflight.ts'

describe('the pre-flight of a mission', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
    room.plays.set('asks', 'waits')
  })
  after(() => room.close())

  const by = () => byPerson(room.tenant.people.writer.principal, TRACE)
  const ask = (plan: MissionPlan, config: JsonObject = {}) =>
    preflightPlan({ commands: room.world }, by(), {
      workspaceId: room.tenant.workspace.id,
      requestId: 'req_test',
      plan,
      config,
    })
  const about = (missionId: string, workspaceId = room.tenant.workspace.id) =>
    preflightMission({ commands: room.world }, { workspaceId, requestId: 'req_test', missionId })
  const rows = async () =>
    (
      await room.rows<{ n: string }>(
        'select (select count(*) from concord.domain_events) + (select count(*) from concord.commands) as n',
      )
    )[0]?.n

  test('who approves the plan and its tasks, what it may cost, what cannot be undone, what is missing, what is known later', async () => {
    const plan = aPlan(
      planTask('t1', { max_cost: '1.00', max_retries: 1 }),
      planTask('asks', { max_cost: '2.00', max_retries: 0 }),
      planTask('t3', {
        depends_on: ['t1'],
        run: { task: 'Step', payload: { name: 't3', from: { $from: 't1', path: '/name' } } },
      }),
      planTask('t4', { run: { task: 'Stepp', payload: {} }, max_cost: '9.00', max_retries: 0 }),
      planTask('t5', { run: { worker: 'translate', payload: {} }, max_cost: '0.25', max_retries: 2 }),
      planTask('t6', { run: { agent: 'Step', payload: { name: 't6' } } }),
    )
    const before = await rows()
    const found = accepted(await ask(plan, { budget: { hard_limit: '8' } }))
    assert.equal(await rows(), before, 'nothing is recorded')
    const { userId } = room.tenant.people.writer.principal
    assert.deepEqual(
      found.approvals.map(({ tasks, approver, when, blocked_by, could_decide }) => [
        tasks,
        approver,
        when,
        blocked_by?.code ?? null,
        could_decide.length,
      ]),
      [
        [[], `user_${userId.replaceAll('-', '')}`, 'always', null, 1],
        [['asks'], 'role:owner', 'always', 'role_without_members', 0],
      ],
    )
    assert.deepEqual(found.spend, {
      limit: '8.000000',
      spent: '0.000000',
      first_attempts: '12.250000',
      all_attempts: '13.750000',
      worst_case: '8.000000',
    })
    assert.deepEqual(
      found.irreversible.map(({ tasks, effect_type }) => [tasks, effect_type]),
      [[['t1', 'asks', 't3', 't6'], 'mission.test_step']],
    )
    assert.deepEqual(
      found.missing.map(({ kind, name, tasks }) => [kind, name, tasks]),
      [
        ['task', 'Stepp', ['t4']],
        ['task', 'Step', ['t6']],
        ['approver', 'role:owner', ['asks']],
        ['budget', '9.000000', ['t4']],
      ],
    )
    assert.match(found.missing[0]?.reason ?? '', /Did you mean "Step"/)
    assert.deepEqual(found.unknown, [
      { tasks: ['t3'], what: 'from: from results.', until: 't1 ends' },
      { tasks: ['t5'], what: 'What their workers do.', until: 'they end' },
    ])
    assert.equal(found.is_ready, false)
    const free = accepted(await ask(aPlan(planTask('x')), { autonomy: 'full_auto' }))
    assert.deepEqual([free.is_ready, free.approvals, free.spend.worst_case], [true, [], null])
    assert.match(free.unknown[0]?.what ?? '', /no hard limit/)
  })

  test('reviews by people and verifiers are part of it, and more attempts after a refused output', async () => {
    const own = { $from: 't1', path: '/name' }
    const person = { person: { role: 'auditor' } }
    const plan = aPlan(
      planTask('t1', { max_cost: '1', verify: [{ task: 'Step', payload: { name: 'asks', from: own } }, person] }),
      planTask('t2', { run: { worker: 'translate', payload: {} }, verify: [person] }),
    )
    const found = accepted(await ask(plan, { autonomy: 'full_auto', budget: { hard_limit: '9' } }))
    assert.deepEqual(
      found.approvals.map(({ tasks, approver, when }) => [tasks, approver, when]),
      [
        [['t1'], 'role:owner', 'always'],
        [['t1', 't2'], 'role:auditor', 'always'],
      ],
    )
    assert.deepEqual(
      [found.spend.first_attempts, found.spend.all_attempts, found.unknown[0]],
      ['1.000000', '4.000000', { tasks: ['t1'], what: 'from: from results.', until: 't1 ends' }],
    )
    const hook = { task: 'Step', payload: { name: 'hook' }, max_cost: '0.1' }
    const judged = planTask('t1', {
      max_cost: '1',
      verify: [{ task: 'Step', payload: { name: 'j' }, max_cost: '0.5' }],
    })
    const limits = { budget: { hard_limit: '9' }, hooks: { before_run: hook, after_run: hook } }
    const beside = accepted(await ask(aPlan(judged), { autonomy: 'full_auto', ...limits }))
    assert.deepEqual([beside.spend.first_attempts, beside.spend.all_attempts], ['1.700000', '6.800000'])
    const unknown = await ask(aPlan(planTask('t1', { verify: [{ task: 'Nothing' }] })))
    assert.ok(!unknown.ok && unknown.code === 'missions.plan.invalid')
  })

  test('a rule that denies a task, and the usual time to a decision', async () => {
    room.plays.set('denied', 'denied')
    const plan = aPlan(planTask('denied'))
    const made = await room.create(plan)
    await room.settle(made.command_id)
    await room.rest()
    const gate = (await room.missionOf(made.id)).gate_command_id ?? ''
    const waiting = accepted(await about(made.id))
    assert.deepEqual(
      [waiting.tasks, waiting.approvals.map(({ usual_wait_ms }) => usual_wait_ms), waiting.missing],
      [1, [null], [{ kind: 'policy', name: 'Step', tasks: ['denied'], reason: 'It is not allowed.' }]],
    )
    await room.decide(gate, 'approved')
    const next = accepted(await ask(plan))
    const [took] = await room.rows<{ ms: string }>(
      'select (extract(epoch from decided_at - created_at) * 1000)::bigint as ms from concord.approvals where command_id = $1',
      [gate],
    )
    assert.equal(next.approvals[0]?.usual_wait_ms, Number(took?.ms))
    await room.rest()
    const over = accepted(await about(made.id))
    assert.deepEqual([over.tasks, over.approvals, over.missing], [0, [], []])
    const other = await about(made.id, made.id)
    assert.ok(!other.ok && other.code === 'missions.mission.not_found')
  })

  test('a mission that runs shows the tasks that have not ended, with what it has spent', async () => {
    const run = await room.run(
      aPlan(
        planTask('first', {
          max_cost: '1',
          run: { task: 'Step', payload: { name: 'first', usage: { cost: '0.5', tokens: 1 } } },
        }),
        planTask('asks', { max_cost: '1', max_retries: 0, depends_on: ['first'] }),
      ),
      { budget: { hard_limit: '5' } },
    )
    const found = accepted(await about(run.id))
    assert.deepEqual(
      [found.tasks, found.approvals.map(({ tasks }) => tasks), found.spend.spent, found.spend.worst_case],
      [1, [['asks']], '0.500000', '1.500000'],
    )
  })

  test('a plan of 1,000 tasks asks the database as often as one of 10', async () => {
    const trips = (count: number) => {
      const tasks = Array.from({ length: count }, (_, n) =>
        planTask(`t${n}`, { run: { task: 'Step', payload: { name: 'asks', from: n } } }),
      )
      return countRoundTrips(room.db, async () => {
        const { approvals } = accepted(await ask(aPlan(...tasks)))
        assert.deepEqual(
          approvals.map(({ tasks: of }) => of.length),
          [0, count],
        )
      })
    }
    await trips(1)
    assert.equal(await trips(1_000), await trips(10))
  })
})
