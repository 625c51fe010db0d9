/** Missions over HTTP: create, list, get, tasks and events, with bad input and callers of other workspaces. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeId } from '#kernel/ids'
import { call } from '#test/api'
import { type Body, useMissionApi } from '#test/mission-api'
import { aPlan, planTask } from '#test/missions'
import { accepted } from '#test/tenant'

describe('missions over HTTP', () => {
  const http = useMissionApi()
  const { ask } = http
  const get = (path: string, key?: string) => ask('GET', path, undefined, key)
  const plan = aPlan(planTask('notes'), planTask('send', { depends_on: ['notes'] }))
  const uuidOf = (id: unknown) => String(id).replace(/^.*_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

  test('[MIS-375] [MIS-377] [MIS-378] a mission is created, approved in the inbox, run, and read', async () => {
    const made = await ask('POST', '/missions', { goal: 'Release 2.4\nwith notes', plan, idempotency_key: 'r-1' })
    assert.equal(made.status, 201)
    assert.deepEqual(
      [made.body['state'], made.body['title'], made.body['progress'], made.body['gate_command_id']],
      ['pending', 'Release 2.4', { tasks: 0, completed: 0, failed: 0 }, null],
    )
    const again = await ask('POST', '/missions', { goal: 'Release 2.4\nwith notes', plan, idempotency_key: 'r-1' })
    assert.deepEqual([again.status, again.body['mission_id']], [200, made.body['mission_id']])
    const at = `/missions/${String(made.body['mission_id'])}`
    await http.room.settle(uuidOf(made.body['command_id']))
    await http.room.rest()
    const waiting = await get(at)
    assert.equal(waiting.body['state'], 'awaiting_approval')
    await http.room.decide(uuidOf(waiting.body['gate_command_id']), 'approved')
    await http.room.rest()
    const { body } = await get(at)
    assert.deepEqual([body['state'], body['progress']], ['completed', { tasks: 2, completed: 2, failed: 0 }])
    assert.deepEqual((body['plan'] as Body)['tasks'], JSON.parse(JSON.stringify(plan.tasks)))
    assert.deepEqual((body['edges'] as Body[]).length, 1)
    const tasks = (await get(`${at}/tasks`)).body.items ?? []
    assert.deepEqual(
      tasks.map(({ temp_id, state, run }) => [temp_id, state, run]),
      [
        ['notes', 'completed', 'Step'],
        ['send', 'completed', 'Step'],
      ],
    )
    const first = await get(`${at}/events?limit=5`)
    const rest = await get(`${at}/events?limit=500&cursor=${String(first.body['next_cursor'])}`)
    const types = [...(first.body.items ?? []), ...(rest.body.items ?? [])].map(({ type }) => type)
    assert.deepEqual([types[0], types.at(-1), rest.body['next_cursor']], ['run_created', 'run_completed', null])
    assert.equal(types.length, (await http.room.rows('select id from missions.orchestration_events')).length)
    const listed = (await get('/missions?state=completed&limit=1')).body.items ?? []
    assert.deepEqual(
      listed.map(({ mission_id }) => mission_id),
      [made.body['mission_id']],
    )
    assert.deepEqual((await get('/missions?state=failed')).body.items, [])
  })

  test('a pre-flight answers for a plan and for a mission, and records nothing', async () => {
    const found = await ask('POST', '/missions/preflight', { plan })
    assert.deepEqual([found.status, found.body['tasks'], found.body['is_ready']], [200, 2, true])
    const made = await ask('POST', '/missions', { goal: 'Ours', plan })
    const same = await ask('POST', `/missions/${String(made.body['mission_id'])}/preflight`)
    assert.deepEqual(same, found)
    const doubled = await ask('POST', '/missions/preflight', { plan: aPlan(planTask('a'), planTask('a')) })
    assert.deepEqual([doubled.status, doubled.body['code']], [422, 'missions.plan.invalid'])
    assert.equal((await ask('POST', '/missions/preflight', { plan }, http.api.ours.people.reader.key)).status, 403)
  })

  test('[MIS-040] a mission is found by words of its goal, in its own workspace alone', async () => {
    for (const goal of ['Translate the zebra manual', 'Feed the ZEBRA', 'Zebras are many'])
      assert.equal((await ask('POST', '/missions', { goal, plan })).status, 201)
    const goals = async (query: string, key?: string) =>
      ((await get(`/missions?${query}`, key)).body['items'] as Body[]).map(({ goal }) => goal)
    assert.deepEqual(await goals('search=zebra'), ['Feed the ZEBRA', 'Translate the zebra manual'])
    assert.deepEqual(await goals('search=manual%20zebra'), ['Translate the zebra manual'])
    assert.deepEqual(await goals("search=zebra'%20%26%20!(:*&limit=1"), ['Feed the ZEBRA'])
    assert.deepEqual(await goals('search=zebra&state=completed'), [])
    assert.deepEqual(await goals('search=zebra', http.api.theirs.people.admin.key), [])
    assert.equal((await get('/missions?search=')).status, 422)
  })

  test('bad plans and settings are refused with code, path and every finding, and nothing is stored', async () => {
    const before_ = await http.room.rows('select count(*) from missions.orchestration_runs')
    const cycle = aPlan(planTask('a', { depends_on: ['b'] }), planTask('b', { depends_on: ['a'] }))
    const unknown = aPlan(planTask('a', { depends_on: ['c'], run: { task: 'Stepp', payload: {} } }))
    const gate = aPlan(planTask('a', { run: { task: 'Start Mission Plan', payload: {} } }))
    const many = (count: number) => aPlan(...Array.from({ length: count }, (_, index) => planTask(`t${index}`)))
    const found = (await ask('POST', '/missions', { goal: 'x', plan: unknown })).body['facts'] as Body
    assert.deepEqual(
      (found['findings'] as Body[]).map(({ path }) => path),
      ['plan.tasks[0].depends_on', 'plan.tasks[0].run.task'],
    )
    for (const [body, code, path] of [
      [{ goal: 'x', plan: gate }, 'missions.plan.invalid', 'plan.tasks[0].run.task'],
      [
        { goal: 'x', plan, config: { approver_role: 'no-such-role' } },
        'missions.config.invalid',
        'config.approver_role',
      ],
      [{ goal: 'x', plan: cycle }, 'missions.plan.invalid', 'plan.tasks'],
      [{ goal: 'x', plan: unknown }, 'missions.plan.invalid', 'plan.tasks[0].depends_on'],
      [{ goal: 'x', plan, config: { timeouts: { verify: 10 } } }, 'unknown_field', 'config.timeouts'],
      [{ goal: 'x', plan: { ...plan, estimated_cost: 'NaN' } }, undefined, 'plan.estimated_cost'],
      [{ goal: '', plan }, undefined, 'goal'],
      [{ plan }, undefined, 'goal'],
    ] as const) {
      const { status, body: answer } = await ask('POST', '/missions', body)
      assert.equal(status, 422, JSON.stringify(answer))
      if (code) assert.equal(answer['code'], code)
      assert.ok(JSON.stringify(answer).includes(path), `${path} in ${JSON.stringify(answer)}`)
    }
    assert.deepEqual(await http.room.rows('select count(*) from missions.orchestration_runs'), before_)
    assert.equal((await ask('POST', '/missions', { goal: 'x', plan: many(1_000) })).status, 201)
    const { status } = await ask('POST', '/missions', { goal: 'x', plan }, http.api.ours.people.reader.key)
    assert.equal(status, 403)
  })

  test('[MIS-156] the limit of a mission is raised over HTTP by people who may, and every other request is refused', async () => {
    const made = (await ask('POST', '/missions', { goal: 'x', plan, config: { budget: { hard_limit: '10' } } })).body
    assert.deepEqual(made['budget'], { limit: '10.000000', reserved: '0.000000', spent: '0.000000' })
    const at = `/missions/${String(made['mission_id'])}/budget`
    const asked = async (path: string, hard_limit: unknown, key?: string) => {
      const { status, body } = await ask('POST', path, { hard_limit }, key)
      return [status, body['code']]
    }
    assert.deepEqual(await asked(at, '1e309'), [422, 'missions.budget.invalid'])
    assert.deepEqual(await asked(at, '20'), [409, 'missions.budget.fixed'])
    await http.room.db.query(
      `update missions.orchestration_runs set state = 'paused', state_type = 'paused' where id = $1`,
      [accepted(decodeId('mission', String(made['mission_id'])))],
    )
    assert.deepEqual(await asked(at, '10'), [409, 'missions.budget.too_low'])
    assert.equal((await asked(at, '20', http.api.ours.people.reader.key))[0], 403)
    assert.deepEqual((await ask('POST', at, { hard_limit: '20' })).body['budget'], {
      limit: '20.000000',
      reserved: '0.000000',
      spent: '0.000000',
    })
    assert.equal((await asked(`/missions/mission_${'0'.repeat(32)}/budget`, '20'))[0], 404)
  })

  test('a value that the contract of a task hides is shown in no view, event or card of its mission', async () => {
    const card = 'number-of-a-card'
    const paying = aPlan(planTask('pay', { run: { task: 'Step', payload: { name: 'pay', card } } }))
    const asked = { goal: 'Pay', plan: paying, config: { autonomy: 'full_auto' } }
    const made = (await ask('POST', '/missions', asked)).body
    await http.room.settle(uuidOf(made['command_id']))
    await http.room.rest()
    const at = `/missions/${String(made['mission_id'])}`
    const { body } = await get(at)
    const [planned] = (body['plan'] as { tasks: { run: Body }[] }).tasks
    assert.deepEqual(planned?.run['payload'], { name: 'pay', card: '[payment]' })
    const [task] = (await get(`${at}/tasks`)).body.items ?? []
    assert.equal(task?.['output_summary'], '{"card":"[payment]","from":null,"name":"pay"}')
    const paths = [at, `${at}/tasks`, `${at}/events`, `/commands/${String(made['command_id'])}`]
    const views = await Promise.all(paths.map((path) => get(path)))
    const cards = await http.room.rows('select * from missions.board_tasks')
    assert.ok(views.every(({ status }) => status === 200))
    assert.ok(!JSON.stringify([views, cards]).includes(card))
  })

  test('a key with the prefix of missions is reserved, and only a mission starts a plan', async () => {
    const step = { task_name: 'Step', payload: { name: 'x' }, idempotency_key: 'mission:x:1' }
    const key = await call(
      http.api.with({ work: { commands: http.room.world, approvals: http.room.approvals, webhooks: [] } }),
      '/commands',
      {
        method: 'POST',
        key: http.api.ours.people.writer.key,
        headers: { 'x-workspace': 'main' },
        body: step,
      },
    )
    assert.deepEqual([key.status, ((await key.json()) as Body)['code']], [422, 'key_reserved'])
    const start = await ask('POST', '/commands', { task_name: 'Start Mission Plan', payload: {} })
    assert.equal(start.body['code'], 'ingress_not_allowed')
  })
})
