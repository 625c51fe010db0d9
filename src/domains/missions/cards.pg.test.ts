/** The board follows the rows: one card per mission and task, every state, every field. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { nextStates, statesOf } from '#kernel/machine'
import { missionRunMachine, missionTaskMachine } from '#kernel/machines/mission'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { listStatements } from '#store'
import { Batch } from './batch.ts'
import { findMissionCard, insertCards } from './board.ts'
import { cutSummary, newMissionCard, newTaskCard, taskCard } from './cards.ts'
import { missionEventPayloads } from './events.ts'
import { lockMission, type StoredMission, type StoredTask } from './mission.ts'

type Card = {
  readonly id: number
  readonly parent_task_id: number | null
  readonly assigned_agent_id: number | null
  readonly status: string
  readonly tags: readonly string[]
  readonly planning_data: Readonly<Record<string, unknown>>
  readonly result: string | null
  readonly error_message: string | null
  readonly started_at: Date | null
  readonly completed_at: Date | null
}

const at = new Date('2026-05-02T10:00:00.000Z')
const ended = ['completed', 'failed', 'cancelled', 'skipped']

/** A value for each field of each payload: the moves here are not about events. */
const filled = (shape: Record<string, { safeParse(value: unknown): { success: boolean } }>) =>
  Object.fromEntries(
    Object.entries(shape).map(([name, field]) => [
      name,
      ['a', '2', 2, null, {}, []].find((value) => field.safeParse(value).success) ?? null,
    ]),
  )
const payloads = Object.fromEntries(
  Object.entries(missionEventPayloads).map(([type, { shape }]) => [type, filled(shape as never)]),
) as never

describe('cards of missions', () => {
  let room: MissionRoom
  let run: StoredMission
  before(async () => {
    room = await openMissionRoom()
    room.plays.set('c2', 'waits')
    const plan = aPlan(
      planTask('c1', { description: 'First', task_type: 'writing', suggested_model: 'm-1' }),
      planTask('c2', { depends_on: ['c1'], success_criteria: 'It reads well.' }),
    )
    run = await room.run(plan, { priority: 'urgent' })
  })
  after(() => room.close())

  const cardOf = async (sourceId: string) => {
    const rows = await room.rows<Card>('select * from missions.board_tasks where source_id = $1', [sourceId])
    assert.equal(rows.length, 1, 'one card per source')
    return rows[0] as Card
  }
  const commit = (work: (batch: Batch) => void) =>
    room.db.transaction(async (tx) => {
      const locked = await lockMission(tx, run.id)
      assert.ok(locked)
      const batch = new Batch(locked)
      work(batch)
      await batch.commit(tx)
    })
  const put = (table: string, id: string, state: string, type: string) =>
    room.rows(
      `update missions.${table} set state = $2, state_type = $3, started_at = null, completed_at = $4, error_message = 'It broke.' where id = $1`,
      [id, state, type, type === 'terminal' ? at : null],
    )

  test('[MIS-286] [MIS-287] [MIS-291] [MIS-295] [MIS-297] the card of a mission, field by field', async () => {
    const { description, title, priority, review_mode, ...card } = (await cardOf(run.id)) as Card &
      Record<string, unknown>
    assert.deepEqual(
      [title, description, priority, review_mode],
      ['Mission: Release 2.4', 'Release 2.4', 'urgent', 'manual'],
    )
    assert.deepEqual(
      [
        card['workspace_id'],
        card['created_by_type'],
        card['created_by_id'],
        card['source_type'],
        card['assigned_agent_id'],
      ],
      [run.workspace_id, 'orchestration', run.created_by, 'orchestration', null],
    )
    assert.deepEqual([card.parent_task_id, card.tags, card.started_at], [null, ['mission', 'running'], run.started_at])
    assert.deepEqual(card.planning_data, {
      run_id: run.id,
      state: 'running',
      task_count: 2,
      tasks_completed: 1,
      tasks_failed: 0,
      total_cost: '0.000000',
      autonomy: 'full_auto',
      strategy: 'mixed',
      estimated_cost: '4.50',
    })
  })

  test('[MIS-286] [MIS-287] [MIS-298] [MIS-299] the cards of its tasks, field by field, below that of the mission', async () => {
    const top = await cardOf(run.id)
    const [c1, c2] = await room.tasksOf(run.id)
    assert.ok(c1 && c2)
    const first = (await cardOf(c1.id)) as Card & Record<string, unknown>
    const second = (await cardOf(c2.id)) as Card & Record<string, unknown>
    assert.deepEqual([first.id, second.id], [c1.board_task_id, c2.board_task_id])
    assert.deepEqual([first.parent_task_id, second.parent_task_id], [top.id, top.id])
    for (const [card, task] of [
      [first, c1],
      [second, c2],
    ] as const)
      assert.deepEqual(
        [
          card['title'],
          card['description'],
          card['priority'],
          card['source_type'],
          card['workspace_id'],
          card.result,
          card.error_message,
        ],
        [task.title, task.description, 'urgent', 'orchestration_task', run.workspace_id, task.output_summary, null],
      )
    assert.deepEqual([first['review_mode'], second['review_mode']], ['auto', 'manual'])
    assert.deepEqual(
      [first['created_by_type'], first['created_by_id'], first['assigned_agent_id'], first.tags],
      ['orchestration', 'system', null, ['mission_task', 'writing']],
    )
    assert.deepEqual(second.planning_data, {
      run_id: run.id,
      task_id: c2.id,
      sequence_number: 2,
      trigger_rule: 'all_success',
      depends_on: [c1.id],
      attempt_number: 1,
      continuation_count: 0,
      model_override: null,
      success_criteria: 'It reads well.',
      verifier_score: null,
    })
    assert.equal(first.planning_data['model_override'], 'm-1')
  })

  test('[MIS-288] [MIS-289] [MIS-367] a card that exists is found instead of made, also by ten at once', async () => {
    const top = await cardOf(run.id)
    const [c1] = await room.tasksOf(run.id)
    assert.ok(c1)
    const make = () =>
      room.db.transaction(async (tx) => [
        ...(await insertCards(tx, [newMissionCard(run, { autonomy: 'approve' })], null)).values(),
        ...(await insertCards(tx, [newTaskCard(c1, { autonomy: 'approve' }, [])], top.id)).values(),
      ])
    for (const ids of await Promise.all(Array.from({ length: 10 }, make)))
      assert.deepEqual(ids, [top.id, c1.board_task_id])
    // A new source: one of ten makes the card, and all of them get its id.
    const other = { ...run, id: randomUUID() }
    const made = await Promise.all(
      Array.from({ length: 10 }, () =>
        room.db.transaction((tx) => insertCards(tx, [newMissionCard(other, { autonomy: 'approve' })], null)),
      ),
    )
    assert.equal(new Set(made.map((ids) => ids.get(other.id))).size, 1)
    assert.equal(made[0]?.get(other.id), (await cardOf(other.id)).id)
  })

  test('[MIS-303] [MIS-388] cards are written with their rows: no turn and no event is needed for them', async () => {
    const made = await room.create(aPlan(planTask('e1')), { autonomy: 'full_auto' })
    const together = async (id: string, table: string) =>
      room.rows<{ same: boolean }>(
        `select t.xmin::text = c.xmin::text as same from missions.${table} t join missions.board_tasks c on c.source_id = t.id::text where t.id = $1`,
        [id],
      )
    assert.deepEqual(await together(made.id, 'orchestration_runs'), [{ same: true }])
    const refused = room.db.transaction(async (tx) => {
      const locked = await lockMission(tx, run.id)
      assert.ok(locked)
      const batch = new Batch({ ...locked, state: 'running' })
      batch.mission('paused', { by: { id: 'user:ada', kind: 'human', traceId: 't' }, at, payloads })
      await batch.commit(tx)
      throw new Error('rolled back')
    })
    await assert.rejects(refused, /rolled back/)
    assert.equal((await cardOf(run.id)).status, 'in_progress')
  })

  test('[MIS-292] [MIS-293] [MIS-364] each of the twelve states of a task shows on its card after a real move', async () => {
    const expected: Readonly<Record<string, string>> = {
      pending: 'inbox',
      queued: 'inbox',
      awaiting_retry: 'assigned',
      assigned: 'assigned',
      running: 'in_progress',
      continuing: 'in_progress',
      verifying: 'review',
      awaiting_human: 'review',
      completed: 'done',
      failed: 'done',
      cancelled: 'done',
      skipped: 'done',
    }
    const [task] = await room.tasksOf(run.id)
    assert.ok(task)
    const seen = new Set(['pending'])
    for (const from of statesOf(missionTaskMachine))
      for (const to of nextStates(missionTaskMachine, from)) {
        await put('orchestration_runs', run.id, 'running', 'running')
        await put('orchestration_tasks', task.id, from, missionTaskMachine.states[from])
        const [now] = await room.tasksOf(run.id)
        const by = missionTaskMachine.moves.find((move) => move.from === from && move.to === to)?.by[0]
        await commit(
          (batch) =>
            void batch.task(now as StoredTask, to, {
              by: { id: 'user:ada', kind: by as never, traceId: 't' },
              at,
              payloads,
            }),
        )
        const card = await cardOf(task.id)
        seen.add(to)
        assert.equal(card.status, expected[to], `${from} → ${to}`)
        assert.deepEqual(card.completed_at, ended.includes(to) ? at : null)
        if (to === 'running') assert.deepEqual(card.started_at, at)
        assert.equal(card.error_message, to === 'failed' || to === 'cancelled' ? 'It broke.' : null)
        if (to === 'skipped') assert.equal(card.result, 'skipped: dependency failed')
      }
    assert.deepEqual([...seen].toSorted(), Object.keys(expected).toSorted())
    assert.equal(newTaskCard({ ...task, state: 'pending' }, { autonomy: 'approve' }, []).status, 'inbox')
  })

  test('[MIS-294] [MIS-296] each of the nine states of a mission shows on its card and in its tags', async () => {
    const expected: Readonly<Record<string, string>> = {
      pending: 'inbox',
      planning: 'inbox',
      awaiting_approval: 'review',
      budget_exceeded: 'review',
      running: 'in_progress',
      paused: 'in_progress',
      completed: 'done',
      failed: 'done',
      cancelled: 'done',
    }
    const seen = new Set(['pending'])
    for (const from of statesOf(missionRunMachine))
      for (const to of nextStates(missionRunMachine, from)) {
        await put('orchestration_runs', run.id, from, missionRunMachine.states[from])
        const by = missionRunMachine.moves.find((move) => move.from === from && move.to === to)?.by[0]
        await commit((batch) =>
          batch.mission(to, { by: { id: 'user:ada', kind: by as never, traceId: 't' }, at, payloads }),
        )
        const card = await cardOf(run.id)
        seen.add(to)
        assert.deepEqual([card.status, card.tags], [expected[to], ['mission', to]], `${from} → ${to}`)
        assert.equal(card.error_message, to === 'failed' || to === 'cancelled' ? 'It broke.' : null)
      }
    assert.deepEqual([...seen].toSorted(), Object.keys(expected).toSorted())
    const young = await room.create(aPlan(planTask('f1')))
    assert.deepEqual(
      [(await cardOf(young.id)).status, (await cardOf(young.id)).tags],
      ['inbox', ['mission', 'pending']],
    )
  })

  test('[MIS-295] [MIS-298] a card is assigned to the agent of the roster that its row names', async () => {
    const [agent] = await room.rows<{ id: number }>(
      `insert into missions.agents (workspace_id, name, adapter) values ($1, 'Ada', 'process') returning id`,
      [run.workspace_id],
    )
    const [task] = await room.tasksOf(run.id)
    assert.ok(agent && task)
    await put('orchestration_runs', run.id, 'running', 'running')
    await put('orchestration_tasks', task.id, 'queued', 'pending')
    await room.rows('update missions.orchestration_runs set coordinator_agent_id = $2 where id = $1', [
      run.id,
      agent.id,
    ])
    const [now] = await room.tasksOf(run.id)
    const by = { id: 'system', kind: 'coordinator' as const, traceId: 't' }
    await commit((batch) => {
      batch.task(now as StoredTask, 'assigned', { by, at, payloads, set: { agent_id: agent.id, agent_type: 'roster' } })
      batch.mission('paused', { by: { ...by, kind: 'human' }, at, payloads })
    })
    for (const id of [task.id, run.id]) assert.equal((await cardOf(id)).assigned_agent_id, agent.id)
    const inserted = newMissionCard({ ...run, coordinator_agent_id: agent.id }, { autonomy: 'approve' })
    assert.equal(inserted.assigned_agent_id, agent.id)
  })

  test('[MIS-290] a task without a card moves, and no card appears', async () => {
    await put('orchestration_runs', run.id, 'running', 'running')
    const [, c2] = await room.tasksOf(run.id)
    assert.ok(c2)
    await room.rows('update missions.orchestration_tasks set board_task_id = null where id = $1', [c2.id])
    await put('orchestration_tasks', c2.id, 'pending', 'pending')
    const [, now] = await room.tasksOf(run.id)
    const before_ = await cardOf(c2.id)
    await commit(
      (batch) =>
        void batch.task(now as StoredTask, 'queued', {
          by: { id: 'system', kind: 'coordinator', traceId: 't' },
          at,
          payloads,
        }),
    )
    assert.deepEqual(await cardOf(c2.id), before_)
    assert.ok((await findMissionCard(room.db, run.id)) !== null)
  })

  test('[MIS-012] [MIS-086] [MIS-300] a summary has at most 2,000 characters, and the result of a card at most 4,000', async () => {
    const [task] = await room.tasksOf(run.id)
    assert.ok(task)
    assert.deepEqual([cutSummary('x'.repeat(2_001)).length, cutSummary('x'.repeat(2_000)).length], [2_000, 2_000])
    const card = taskCard({ ...task, state: 'completed', output_summary: 'x'.repeat(4_001) })
    assert.equal(card.result?.length, 4_000)
    await assert.rejects(
      room.rows('update missions.orchestration_tasks set output_summary = $2 where id = $1', [
        task.id,
        'x'.repeat(2_001),
      ]),
      /2000/,
    )
  })

  test('[MIS-123] [MIS-129] [MIS-130] [MIS-131] timelines, edges both ways, and what is active are read from their indexes', async () => {
    const textOf = (wanted: string) => listStatements().find(({ name }) => name === wanted)?.text ?? ''
    const plans: string[] = []
    const active = `select id from missions.orchestration_runs where workspace_id = $1 and state_type <> 'terminal'`
    const found = await room.db.transaction(async (tx) => {
      await tx.query('set local enable_seqscan = off')
      await tx.query('set local enable_bitmapscan = off')
      // On a small table other indexes cost the same, but they do not give the order.
      await tx.query('set local enable_sort = off')
      for (const text of [
        textOf('missions.list_events'),
        textOf('missions.list_waiting'),
        textOf('missions.list_results'),
        active,
        `select id from missions.orchestration_tasks where state = $1 and updated_at < $2 and state_type <> 'terminal' order by updated_at`,
      ])
        plans.push(
          (await tx.query(`explain (generic_plan, costs off) ${text}`))
            .map((line) => Object.values(line).join())
            .join('\n'),
        )
      return tx.query<{ id: string }>(active, [run.workspace_id])
    })
    const [timeline = '', downstream = '', upstream = '', runs = '', tasks = ''] = plans
    assert.match(timeline, /ix_orch_events_run/)
    // What is above the limit sorts the rows of one page.
    assert.doesNotMatch(timeline.slice(timeline.indexOf('Limit')), /Sort/)
    assert.match(downstream, /ix_orch_deps_reverse/)
    assert.match(upstream, /orchestration_task_dependencies_pk/)
    assert.match(runs, /ix_orch_runs_active/)
    assert.match(tasks, /ix_orch_tasks_active/)
    await put('orchestration_runs', run.id, 'paused', 'paused')
    assert.ok(
      found.some(({ id }) => id === run.id),
      'a paused mission is active',
    )
  })
})
