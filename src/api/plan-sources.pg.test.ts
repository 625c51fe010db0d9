/** Where plans come from: lines, for plans that are too long for one JSON text, and tasks of the catalog that make one. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { missionInvariants, planLines } from '#domains/missions'
import { call, openTestApi, type TestApi } from '#test/api'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { proofSize } from '#test/proof-size'
import type { Api } from './api.ts'

type Body = Record<string, unknown>

describe('sources of plans over HTTP', () => {
  let api: TestApi
  let room: MissionRoom
  let app: Api
  before(async () => {
    api = await openTestApi()
    room = await openMissionRoom({ on: { clock: api.world, tenant: api.ours } })
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const head = {
    goal: 'Release 2.4',
    config: { autonomy: 'full_auto' },
    plan: { version: 1, strategy: 'mixed', estimated_cost: '4.50' },
  }
  const post = async (lines: readonly (Body | string)[], path = '/missions', method = 'POST') => {
    const headers = {
      authorization: `Bearer ${api.ours.people.writer.key}`,
      'content-type': 'application/x-ndjson',
      'x-workspace': 'main',
    }
    const body = lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join('')
    const answer = await app.request(path, { method, headers, body })
    return { status: answer.status, body: (await answer.json()) as Body }
  }
  const uuidOf = (id: unknown) => String(id).replace(/^.*_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')

  test('a plan of lines starts whole: its tasks, edges, cards and events are one transaction', async () => {
    // The first task, all the others behind it, and the last one, which depends on all of them.
    const count = proofSize(200, planLines.max)
    const middle = Array.from({ length: count - 2 }, (_, index) => planTask(`t${index}`, { depends_on: ['first'] }))
    const last = planTask('last', { depends_on: middle.map(({ temp_id }) => temp_id) })
    room.plays.set('first', 'waits')
    const made = await post([head, planTask('first'), ...middle, last])
    assert.equal(made.status, 201, JSON.stringify(made.body))
    const id = uuidOf(made.body['mission_id'])
    await room.settle(uuidOf(made.body['command_id']))
    await room.rest()
    const counted = await room.rows(
      `select r.state, r.task_count, (select count(*)::int from missions.orchestration_tasks where run_id = r.id) as tasks,
  (select count(*)::int from missions.orchestration_task_dependencies where run_id = r.id) as edges,
  (select count(*)::int from missions.orchestration_events where run_id = r.id and event_type = 'task_created') as events,
  (select count(*)::int from missions.board_tasks as b join missions.orchestration_tasks as t on t.board_task_id = b.id where t.run_id = r.id) as cards
from missions.orchestration_runs as r where r.id = $1`,
      [id],
    )
    const edges = 2 * (count - 2)
    assert.deepEqual(counted, [
      { state: 'running', task_count: count, tasks: count, edges, events: count, cards: count },
    ])
    for (const { code, sql } of missionInvariants) assert.deepEqual(await room.rows(sql), [], code)
  })

  test('bad lines are refused with the line, and a plan has at most 10,000 tasks', async () => {
    const many = Array.from({ length: planLines.max + 1 }, (_, index) => planTask(`t${index}`))
    const cases: readonly [lines: readonly (Body | string)[], status: number, code: string, path: string][] = [
      [[head, ...many], 413, 'body_too_large', 'plan.tasks'],
      [[head, planTask('a'), '{"temp_id":'], 400, 'json_syntax', 'plan.tasks[1]'],
      [[head, planTask('a'), ''], 400, 'body_missing', 'plan.tasks[1]'],
      [[head, { ...planTask('a'), titel: 'A' }], 422, 'unknown_field', 'plan.tasks[0].titel'],
      [[{ ...head, plan: { ...head.plan, tasks: [] } }, planTask('a')], 422, 'api.field.value', 'plan.tasks'],
      [[{ ...head, plan: 7 }, planTask('a')], 422, 'api.field.value', 'plan.tasks'],
      [['[]'], 400, 'json_not_object', ''],
    ]
    for (const [lines, status, code, path] of cases) {
      const { status: answered, body } = await post(lines)
      assert.deepEqual([answered, body['code'], body['path'] ?? ''], [status, code, path], String(body['detail']))
    }
    // Many unknown names do not take long: only the first have the nearest name.
    const lost = many.slice(1).map((task) => ({ ...task, depends_on: [`${task.temp_id}x`] }))
    const unknown = await post([head, ...lost])
    assert.equal(unknown.body['code'], 'missions.plan.invalid')
    assert.equal((unknown.body['facts'] as { count: number }).count, planLines.max)
  })

  test('[MIS-043] lines replace the plan of a mission and of a recipe, and are tried before', async () => {
    room.plays.clear()
    const tasks = Array.from({ length: 1_500 }, (_, index) => planTask(`t${index}`))
    const { goal, plan } = head
    const waiting = await post([{ goal, plan }, planTask('a')])
    await room.settle(uuidOf(waiting.body['command_id']))
    await room.rest()
    const missionId = String(waiting.body['mission_id'])
    const changed = await post([{ ...plan, version: 2 }, ...tasks], `/missions/${missionId}/plan`, 'PUT')
    assert.equal(changed.status, 200, JSON.stringify(changed.body))
    const [stored] = await room.rows<{ count: number }>(
      `select jsonb_array_length(plan->'tasks') as count from missions.orchestration_runs where id = $1`,
      [uuidOf(missionId)],
    )
    assert.equal(stored?.count, 1_500)
    const twice = await post([{ ...plan, tasks: [] }, ...tasks], `/missions/${missionId}/plan`, 'PUT')
    assert.deepEqual([twice.status, twice.body['path']], [422, 'tasks'])
    const tried = await post([{ plan }, ...tasks], '/missions/preflight')
    assert.deepEqual([tried.status, tried.body['tasks']], [200, 1_500])
    const run = await room.run(aPlan(planTask('r')))
    const key = api.ours.people.writer.key
    const saved = await call(app, `/missions/mission_${run.id.replaceAll('-', '')}/save-recipe`, {
      method: 'POST',
      key,
      headers: { 'x-workspace': 'main' },
      body: { name: 'Long' },
    })
    const { recipe_id } = (await saved.json()) as { recipe_id: number }
    const edited = await post([{ name: 'Longer', plan }, ...tasks], `/recipes/${recipe_id}`, 'PATCH')
    assert.equal(edited.status, 200, JSON.stringify(edited.body))
    assert.deepEqual([edited.body['name'], (edited.body['steps'] as Body[]).length], ['Longer', 1_500])
  })

  const ask = async (more: Body) => {
    const key = api.ours.people.writer.key
    const body = { goal: 'Release 2.4', config: { autonomy: 'full_auto' }, ...more }
    const answer = await call(app, '/missions', { method: 'POST', key, headers: { 'x-workspace': 'main' }, body })
    return { status: answer.status, body: (await answer.json()) as Body }
  }
  const planner = (name: string, from: unknown) => ({ task: 'Step', payload: { name, from }, path: '/from' })
  const plansOf = (id: string) =>
    room.rows<{ plan: { tasks: { temp_id: string }[] } | null }>(
      'select plan from missions.orchestration_runs where id = $1',
      [id],
    )
  const made = async (name: string, from: unknown) => {
    const { status, body } = await ask({ planner: planner(name, from) })
    assert.equal(status, 201, JSON.stringify(body))
    assert.deepEqual(await plansOf(uuidOf(body['mission_id'])), [{ plan: null }])
    await room.settle(uuidOf(body['command_id']))
    await room.rest()
    return room.missionOf(uuidOf(body['mission_id']))
  }
  const commandOfPlan = async (id: string) => {
    const sql = `select command_id, status, labels from concord.commands where idempotency_key = $1`
    const [command] = await room.rows<{ command_id: string; status: string }>(sql, [`mission:${id}:plan`])
    return command ?? { command_id: '', status: 'missing' }
  }

  test('[MIS-043] a task of the catalog makes the plan, once; what it gives is read like the plan of a person', async () => {
    room.calls.length = 0
    room.plays.clear()
    const run = await made('planning', aPlan(planTask('one'), planTask('two', { depends_on: ['one'] })))
    assert.deepEqual([run.state, room.calls], ['completed', ['planning', 'one', 'two']])
    assert.deepEqual(
      (await plansOf(run.id)).map(({ plan }) => plan?.tasks.map(({ temp_id }) => temp_id)),
      [['one', 'two']],
    )
    const bad = await made('again', aPlan(planTask('one', { depends_on: ['on'] })))
    assert.deepEqual([bad.state, bad.task_count], ['failed', 0])
    assert.match(String(bad.error_message), /"Step" gave no plan.*There is no task "on".*Did you mean "one"/)
    room.plays.set('broken', 'fails')
    assert.match(String((await made('broken', null)).error_message), /"Step" is failed: .*broken fails/)
    const refused: readonly [Body, string][] = [
      [{ planner: { ...planner('x', null), task: 'Stpe' } }, 'planner.task'],
      [{ planner: { ...planner('x', null), path: 'from' } }, 'planner.path'],
      [{ planner: planner('x', null), plan: aPlan(planTask('one')) }, 'plan'],
    ]
    for (const [more, path] of refused) {
      const { status, body } = await ask(more)
      assert.deepEqual([status, body['code'], body['path']], [422, 'missions.request.invalid', path])
    }
  })

  test('a planner that waits ends with its mission, and its labels are those of the plan and of every task', async () => {
    room.plays.set('slow', 'waits')
    const first = await made('slow', aPlan(planTask('one')))
    assert.equal(first.state, 'planning')
    const by = api.ours.people.writer.key
    const headers = { 'x-workspace': 'main' }
    const at = `/missions/mission_${first.id.replaceAll('-', '')}/cancel`
    assert.equal((await call(app, at, { method: 'POST', key: by, headers, body: {} })).status, 200)
    await room.rest()
    await room.settle(first.command_id)
    await room.rest()
    assert.equal((await room.missionOf(first.id)).state, 'cancelled')
    assert.equal((await commandOfPlan(first.id)).status, 'cancelled')
    const second = await made('slow', aPlan(planTask('one')))
    const { command_id } = await commandOfPlan(second.id)
    await room.db.query(`update concord.commands set labels = '["untrusted:web"]' where command_id = $1`, [command_id])
    await room.decide(command_id, 'approved')
    await room.rest()
    const [run, [task]] = [await room.missionOf(second.id), await room.tasksOf(second.id)]
    assert.equal(run.state, 'completed')
    const labels = await room.rows<{ labels: readonly string[] }>(
      `select labels from concord.commands where command_id = any($1)`,
      [[run.gate_command_id, task?.command_id]],
    )
    assert.equal(labels.length, 2)
    for (const row of labels) assert.match(String(row.labels[0]), /^untrusted:web>/)
    // A fork of a fork uses the same plan. A plan that a person gives is that of the person.
    let origin = second.id
    for (const given of [{}, {}, { plan: aPlan(planTask('one', { title: 'Mine' })) }]) {
      const path = `/missions/mission_${origin.replaceAll('-', '')}/fork`
      const body = { from: 'one', refire: ['one'], config: { autonomy: 'full_auto' }, ...given }
      const answer = await call(app, path, { method: 'POST', key: by, headers, body })
      assert.equal(answer.status, 201, await answer.clone().text())
      const { mission_id, command_id: asked } = (await answer.json()) as Record<string, string>
      const uuid = (id = '') => id.replace(/^.*_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
      origin = uuid(mission_id)
      await room.settle(uuid(asked))
      await room.rest()
      const [again] = await room.tasksOf(origin)
      const [row] = await room.rows<{ labels: readonly string[] }>(
        `select labels from concord.commands where command_id = $1`,
        [again?.command_id],
      )
      assert.equal(String(row?.labels[0]).startsWith('untrusted:web>'), !('plan' in given))
      await room.settle(uuid(asked))
      await room.rest()
    }
    for (const { code, sql } of missionInvariants) assert.deepEqual(await room.rows(sql), [], code)
  })

  test('[MIS-064] another agent with another model may do what the plan suggests', async () => {
    const hints = { suggested_agent: 'Writer', suggested_model: 'small' }
    const worked = planTask('a', { run: { worker: 'writing', payload: {} }, ...hints })
    const { id } = await room.run(aPlan(worked, planTask('b', hints)))
    const send = async (path: string, body: Body) => {
      const key = api.ours.people.writer.key
      const answer = await call(app, path, { method: 'POST', key, headers: { 'x-workspace': 'main' }, body })
      assert.equal(answer.status, 200, `${path} ${await answer.clone().text()}`)
      return (await answer.json()) as Body
    }
    const claimed = await send('/mission-tasks/claim', { queues: ['writing'], worker: 'w1', agent: 'Reviewer' })
    const { task_id, lease_token, attempt } = claimed['claimed'] as Body
    const lease = { lease_token, attempt }
    await send(`/mission-tasks/${String(task_id)}/start`, { ...lease, model: 'large' })
    await send(`/mission-tasks/${String(task_id)}/submit`, { ...lease, output: {} })
    await room.rest()
    const rows = await room.rows(
      `select t.state, a.name, t.model_override from missions.orchestration_tasks as t left join missions.agents as a on a.id = t.agent_id
where t.run_id = $1 order by t.sequence_number`,
      [id],
    )
    assert.deepEqual(rows, [
      { state: 'completed', name: 'Reviewer', model_override: 'large' },
      { state: 'completed', name: null, model_override: 'small' },
    ])
  })
})
