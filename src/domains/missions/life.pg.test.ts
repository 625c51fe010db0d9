/** The rows of a mission through its life: what each move leaves in columns, events, cards and reports. */
import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { cancelCommand } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { listStatements } from '#store'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, TRACE } from '#test/tenant'
import { pauseMission } from './act-on-mission.ts'
import { Batch } from './batch.ts'
import { findMission, listMissions, lockMission, setHardLimit, type StoredMission } from './mission.ts'
import { listTasks } from './mission-task.ts'
import { missionPlan, readPlan, strategies } from './plan.ts'
import { reconcileMissions } from './reconcile-missions.ts'
import { amountIn } from './usage.ts'

const EVENTS = 'missions.orchestration_events'

describe('the life of a mission in its rows', () => {
  let room: MissionRoom
  before(async () => {
    room = await openMissionRoom()
  })
  after(() => room.close())

  const asOwner = (text: string, values: unknown[] = []) =>
    room.db.transaction(async (tx) => {
      await tx.query('set local role none')
      await tx.query(`set local concord.retention = 'on'`)
      await tx.query(text, values)
    })
  const writer = () => {
    const { principal } = room.tenant.people.writer
    return { ...byPerson(principal, TRACE), principal }
  }
  const workspaceId = () => room.tenant.workspace.id
  const payloadOf = async (id: string, type: string) => {
    const found = (await room.eventsOf(id)).filter(({ event_type }) => event_type === type)
    assert.equal(found.length, 1, `one ${type}`)
    return found[0]
  }
  const reportsOf = (id: string) =>
    room.rows<{ report_type: string; title: string }>(
      `select p.report_type, p.title from missions.agent_reports p left join missions.orchestration_tasks t on t.id = p.orchestration_task_id
       where t.run_id = $1 or p.id = (select report_id from missions.orchestration_runs where id = $1) order by p.id`,
      [id],
    )
  const waiting = async (name: string, ...more: Parameters<typeof planTask>[]) => {
    room.plays.set(name, 'waits')
    return room.run(aPlan(planTask(name), ...more.map((given) => planTask(...given))))
  }

  test('[MIS-145] [MIS-237] a new mission is one row in pending, one event and one card', async () => {
    const { id } = await room.create(aPlan(planTask('n1')), { autonomy: 'autonomous' })
    assert.equal((await room.missionOf(id)).state, 'pending')
    assert.deepEqual(
      (await room.eventsOf(id)).map(({ event_type }) => event_type),
      ['run_created'],
    )
    const made = await payloadOf(id, 'run_created')
    assert.deepEqual([made?.payload['goal'], made?.payload['autonomy_level']], ['Release 2.4', 'autonomous'])
    const cards = await room.rows('select source_type from missions.board_tasks where source_id = $1', [id])
    assert.deepEqual(cards, [{ source_type: 'orchestration' }])
    assert.deepEqual(await room.tasksOf(id), [])
  })

  test('[MIS-054] [MIS-055] [MIS-057] [MIS-059] [MIS-096] [MIS-097] [MIS-098] [MIS-099] [MIS-101] [MIS-168] [MIS-197] [MIS-242] stamps, versions and durations of a mission that completes', async () => {
    const begun = room.clock.now()
    const first = await waiting('s1', ['s2', { depends_on: ['s1'] }])
    const [s1] = await room.tasksOf(first.id)
    assert.deepEqual([first.started_at, s1?.started_at, s1?.completed_at], [begun, begun, null])
    room.clock.travel(5_000)
    await room.decide(s1?.command_id ?? '', 'approved')
    await room.rest()
    const run = await room.missionOf(first.id)
    const ended = new Date(begun.getTime() + 5_000)
    assert.deepEqual(
      [run.state, run.started_at, run.completed_at, run.duration_ms, run.result_summary, run.updated_at],
      ['completed', begun, ended, '5000', '2 of 2 tasks completed.', ended],
    )
    assert.ok(run.version_id > first.version_id)
    const [done, last] = await room.tasksOf(run.id)
    assert.deepEqual(
      [done?.completed_at, done?.duration_ms, last?.started_at, last?.duration_ms, last?.updated_at],
      [ended, '5000', ended, '0', ended],
    )
    assert.ok((done?.version_id ?? 0) > (s1?.version_id ?? 0))
    const types = (await room.eventsOf(run.id)).map(({ event_type }) => event_type)
    assert.equal(types.filter((type) => type === 'run_started').length, 1)
    assert.ok(types.indexOf('run_started') > types.indexOf('run_approved'))
    const completed = await payloadOf(run.id, 'run_completed')
    assert.deepEqual(
      [completed?.actor_type, completed?.payload],
      [
        'coordinator',
        { total_cost: '0.000000', total_tokens: 0, duration_ms: 5_000, tasks_completed: 2, tasks_failed: 0 },
      ],
    )
    assert.deepEqual((await reportsOf(run.id)).at(-1), { report_type: 'summary', title: 'Release 2.4' })
  })

  test('[MIS-046] [MIS-055] [MIS-090] [MIS-097] [MIS-152] [MIS-180] [MIS-197] [MIS-209] a failure without a retry left ends its task with one event, skips what is behind, and fails the mission', async () => {
    room.plays.set('f1', 'fails')
    const run = await room.run(aPlan(planTask('f1'), planTask('f2', { depends_on: ['f1'] }), planTask('f3')))
    const [f1, f2, f3] = await room.tasksOf(run.id)
    assert.deepEqual([f1?.state, f2?.state, f3?.state], ['failed', 'skipped', 'completed'])
    const ofF1 = await room.rows<{ event_type: string; actor_type: string; payload: Record<string, unknown> }>(
      `select event_type, actor_type, payload from ${EVENTS} where task_id = $1 order by id`,
      [f1?.id],
    )
    const last = ofF1.at(-1)
    assert.deepEqual(
      ofF1.map(({ event_type }) => event_type).filter((type) => /failed|crashed|retrying/.test(type)),
      ['task_crashed'],
    )
    assert.deepEqual(
      [last?.actor_type, last?.payload['error_message'], last?.payload['final']],
      ['system', 'f1 fails', true],
    )
    assert.deepEqual(
      [f1?.error_message, f1?.attempt_number, f2?.attempt_number, f2?.command_id],
      ['f1 fails', 1, 1, null],
    )
    assert.ok(f1?.completed_at && f2?.completed_at && f1.duration_ms !== null)
    const [card] = await room.rows<{ status: string; error_message: string }>(
      'select status, error_message from missions.board_tasks where id = $1',
      [f1?.board_task_id],
    )
    assert.deepEqual(card, { status: 'done', error_message: 'f1 fails' })
    assert.deepEqual(
      [run.state, run.tasks_failed, run.completed_at !== null, run.duration_ms !== null],
      ['failed', 1, true, true],
    )
    assert.match(run.error_message ?? '', /"f1" is failed, so "f2" is skipped: f1 fails/)
    const failed = await payloadOf(run.id, 'run_failed')
    assert.deepEqual([failed?.payload['failing_task_id'], failed?.payload['total_cost']], [f1?.id, '0.000000'])
    assert.deepEqual((await reportsOf(run.id)).map(({ title, report_type }) => `${title}: ${report_type}`).toSorted(), [
      'Release 2.4: incident',
      'f1: incident',
      'f3: delivery',
    ])
  })

  test('[MIS-046] [MIS-055] [MIS-090] [MIS-097] [MIS-210] a cancel sets the reason on the mission and its tasks, and nothing is tried again', async () => {
    const { id, command_id } = await waiting('k1', ['k2', { depends_on: ['k1'] }])
    accepted(
      await cancelCommand(room.world, writer(), { workspaceId: workspaceId(), commandId: command_id, reason: 'no' }),
    )
    await room.rest()
    const run = await room.missionOf(id)
    assert.deepEqual(
      [run.state, run.error_message, run.completed_at !== null],
      ['cancelled', 'The mission was cancelled.', true],
    )
    for (const task of await room.tasksOf(id))
      assert.deepEqual(
        [task.state, task.error_message, task.attempt_number, task.due_at, task.completed_at !== null],
        ['cancelled', 'The mission was cancelled.', 1, null, true],
      )
    assert.ok((await room.eventsOf(id)).every(({ event_type }) => event_type !== 'task_retrying'))
  })

  test('[MIS-164] tasks and edges are inserted together or not at all, with one event each and the count', async () => {
    await asOwner(
      `create function missions.refuse_third() returns trigger language plpgsql as $$ begin if new.sequence_number = 3 then raise exception 'third'; end if; return new; end $$`,
    )
    await asOwner(
      'create trigger refuse_third before insert on missions.orchestration_tasks for each row execute function missions.refuse_third()',
    )
    const five = aPlan(...[1, 2, 3, 4, 5].map((n) => planTask(`t${n}`, n > 1 ? { depends_on: [`t${n - 1}`] } : {})))
    const broken = await room.create(five, { autonomy: 'full_auto' })
    await room.settle(broken.command_id)
    await room.rest().catch(() => undefined)
    const { task_count } = await room.missionOf(broken.id)
    assert.deepEqual([task_count, await room.tasksOf(broken.id)], [0, []])
    assert.ok((await room.eventsOf(broken.id)).every(({ event_type }) => event_type !== 'task_created'))
    await asOwner('drop trigger refuse_third on missions.orchestration_tasks')
    const { id } = await room.run(five)
    const tasks = await room.tasksOf(id)
    const made = (await room.eventsOf(id)).filter(({ event_type }) => event_type === 'task_created')
    assert.deepEqual([(await room.missionOf(id)).task_count, tasks.length, made.length], [5, 5, 5])
    assert.deepEqual(made[1]?.payload, { task_type: 'other', trigger_rule: 'all_success', depends_on: [tasks[0]?.id] })
  })

  test('[MIS-005] without its events a mission goes on as before', async () => {
    const { id } = await waiting('e1', ['e2', { depends_on: ['e1'] }])
    await asOwner(`delete from ${EVENTS} where run_id = $1`, [id])
    const [e1] = await room.tasksOf(id)
    await room.decide(e1?.command_id ?? '', 'approved')
    await room.rest()
    assert.deepEqual(
      [(await room.missionOf(id)).state, await room.statesOf(id)],
      ['completed', { e1: 'completed', e2: 'completed' }],
    )
  })

  test('[MIS-005] [MIS-198] [MIS-272] no code decides from events, changes one, or writes one past the log', async () => {
    const folder = new URL('./', import.meta.url)
    // They show events, compare them with rows, move old ones, ask when the newest was written, and count edits for another event.
    const readers = [
      'archive-events.ts',
      'mission-invariants.ts',
      'mission.ts',
      'plan-rows.ts',
      'reconcile-missions.ts',
    ]
    for (const name of (await readdir(folder)).filter((each) => each.endsWith('.ts') && !each.endsWith('.test.ts'))) {
      const text = await readFile(new URL(name, folder), 'utf8')
      if (!readers.includes(name))
        assert.doesNotMatch(text, /(from|join) (missions\.orchestration_events\b|\$\{EVENTS\})/, name)
      assert.doesNotMatch(
        text,
        /(insert into|update) (missions\.orchestration_events\b|\$\{EVENTS\}(?!_archive))/,
        name,
      )
      if (name !== 'archive-events.ts')
        assert.doesNotMatch(text, /delete from (missions\.orchestration_events\b|\$\{EVENTS\})/, name)
    }
    for (const change of [`update ${EVENTS} set payload = '{}'`, `delete from ${EVENTS}`])
      await assert.rejects(room.db.query(change), { code: '42501' })
  })

  test('[MIS-034] the strategy of a plan changes nothing about what is ready', async () => {
    for (const name of ['g1', 'g2']) room.plays.set(name, 'waits')
    for (const strategy of strategies) {
      const plan = { ...aPlan(planTask('g1'), planTask('g2'), planTask('g3', { depends_on: ['g1'] })), strategy }
      const { id } = await room.run(plan)
      assert.deepEqual(await room.statesOf(id), { g1: 'running', g2: 'running', g3: 'pending' }, strategy)
    }
  })

  test('[MIS-062] [MIS-084] [MIS-236] [MIS-340] a task of a plan has these fields, four rules and no others', () => {
    const full = {
      temp_id: 'p1',
      title: 'Write',
      description: 'All of it',
      task_type: 'writing',
      depends_on: [{ task: 'p0', type: 'ordering' }],
      trigger_rule: 'none_failed',
      success_criteria: 'It reads well.',
      tools_requested: ['search'],
      suggested_agent: 'Ada',
      suggested_model: 'm-1',
      run: { task: 'Step', payload: {} },
    }
    const read = (task: object) =>
      readPlan({ ...aPlan(planTask('p0')), tasks: [planTask('p0'), task] } as never, {
        tasks: new Set(['Step']),
        agents: new Set(),
      })
    assert.deepEqual(accepted(read(full)).tasks[1], missionPlan.shape.tasks.parse([full])[0])
    for (const wrong of [{ trigger_rule: 'one_success' }, { tools_requested: 'search' }, { colour: 'red' }]) {
      const refused = read({ ...full, ...wrong })
      assert.ok(!refused.ok && refused.code === 'missions.plan.invalid', JSON.stringify(wrong))
    }
  })

  test('[MIS-324] [MIS-376] missions are listed newest first with their progress, by state, type and creator, and never over workspaces', async () => {
    const seen: StoredMission[] = await listMissions(room.db, workspaceId(), { before: null, limit: 50 })
    const times = seen.map(({ created_at }) => created_at.getTime())
    assert.ok(seen.length > 5 && times.every((time, at) => at === 0 || time <= (times[at - 1] ?? 0)))
    const only = async (filter: object) => listMissions(room.db, workspaceId(), { before: null, limit: 50, ...filter })
    assert.ok(
      (await only({ state: 'completed' })).every(
        ({ state, tasks_completed }) => state === 'completed' && tasks_completed > 0,
      ),
    )
    assert.ok((await only({ stateType: 'terminal' })).length > (await only({ state: 'failed' })).length)
    assert.deepEqual(await only({ createdBy: 'user:nobody' }), [])
    const text = listStatements().find(({ name }) => name === 'missions.list_newest')?.text ?? 'orchestration_tasks'
    assert.doesNotMatch(text, /orchestration_tasks/)
    // This role sees every row of the database: the filter is in the statement.
    const [{ id } = { id: '' }] = seen
    assert.equal(await findMission(room.db, room.clock.newId(), id), undefined)
    assert.equal((await findMission(room.db, workspaceId(), id))?.id, id)
  })

  test('[MIS-190] [MIS-363] of two who pause at once one wins, and the other gets the fresh row instead of an error', async () => {
    const { id: missionId } = await waiting('w1')
    const asked = { workspaceId: workspaceId(), missionId }
    const answers = await Promise.all([1, 2].map(() => pauseMission({ commands: room.world }, writer(), asked)))
    const refused = answers.filter((answer) => !answer.ok)
    assert.deepEqual([answers.filter(({ ok }) => ok).length, refused.length], [1, 1])
    const { mission } = (refused[0]?.facts ?? {}) as { mission?: { state: string } }
    assert.equal(mission?.state, 'paused')
  })

  test('[MIS-087] [MIS-111] a broken reference stops nothing, and ids of events are exact above 2^53', async () => {
    const { id } = await waiting('b1', ['b2', { depends_on: ['b1'] }])
    await room.rows(`update missions.orchestration_tasks set output_ref = '/missions/none.md' where run_id = $1`, [id])
    await asOwner(`select setval('${EVENTS}_id_seq', 9007199254740993)`)
    const [b1] = await room.tasksOf(id)
    await room.decide(b1?.command_id ?? '', 'approved')
    await room.rest()
    assert.equal((await room.missionOf(id)).state, 'completed')
    const ids = await room.rows<{ id: string }>(
      `select id from ${EVENTS} where run_id = $1 and id > 9007199254740992 order by id`,
      [id],
    )
    assert.equal(ids[0]?.id, '9007199254740994')
  })

  test('[MIS-102] a retry that is due after the process died starts at its time, and not before', async () => {
    room.plays.set('d1', 'breaks')
    const { id } = await room.run(aPlan(planTask('d1')), { retry: { base_seconds: 30 } })
    const [task] = await room.tasksOf(id)
    while ((await room.statusOf(task?.command_id ?? '')) !== 'failed') {
      room.clock.travel(600_000)
      await room.settle(task?.command_id ?? '')
    }
    await room.rest()
    // All that a process knew is gone: only the rows are left.
    room.others.length = 0
    room.plays.delete('d1')
    const woken = () => reconcileMissions({ ...room.world, wake: async (process) => void room.others.push(process) }, 0)
    room.clock.travel(29_999)
    assert.deepEqual([await woken(), (await room.statesOf(id))['d1']], [0, 'awaiting_retry'])
    room.clock.travel(1)
    assert.equal(await woken(), 1)
    await room.rest()
    assert.equal((await room.statesOf(id))['d1'], 'completed')
  })

  test('[MIS-120] the table of events says that it is append-only', async () => {
    const [found] = await room.rows<{ text: string }>(`select obj_description('${EVENTS}'::regclass) as text`)
    assert.match(found?.text ?? '', /^Append-only/)
  })

  test('[MIS-002] every field that others fill is written by the room and read back', async () => {
    const budget = { soft_limit: '1.00', hard_limit: '2.00' }
    const { id } = await room.run(aPlan(planTask('f1', { max_cost: '0.10' })), { budget })
    const run = await room.db.transaction(async (tx) => {
      const locked = await lockMission(tx, id)
      const [task] = await listTasks(tx, id)
      assert.ok(locked && task)
      const batch = new Batch(locked)
      const set = {
        verifier_score: '0.75',
        verified_by: 'agent:v',
        agent_type: 'contractor',
        model_override: 'small',
      } as const
      batch.spend({ task: batch.change(task, set), attempt: 1, cost: amountIn('0.25'), tokens: 12 })
      await batch.commit(tx)
      await setHardLimit(tx, id, '3.00')
      return locked
    })
    const [task] = await room.tasksOf(id)
    assert.deepEqual(
      [task?.verifier_score, task?.verified_by, task?.agent_type, task?.model_override, task?.cost, task?.tokens_used],
      ['0.75', 'agent:v', 'contractor', 'small', '0.250000', 12],
    )
    const read = await findMission(room.db, workspaceId(), id)
    assert.deepEqual(
      [read?.total_cost, read?.total_tokens, read?.config['budget']],
      ['0.250000', run.total_tokens + 12, { ...(run.config['budget'] as object), hard_limit: '3.00' }],
    )
    assert.equal((run.config['budget'] as JsonObject)['soft_limit'], '1.00')
  })
})
