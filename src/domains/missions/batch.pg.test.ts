/** The only writer of states: every pair of states on rows, events with the move, stamps, and a writer that was second. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ActorType } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { findMove, statesOf } from '#kernel/machine'
import {
  missionRunMachine,
  type MissionRunState,
  missionTaskMachine,
  type MissionTaskState,
} from '#kernel/machines/mission'
import { openTestDb, type TestDb } from '#test/database'
import { insertStoreRows, type StoreRows } from '#test/store-rows'
import { Batch, type MissionMove, moveMission, moveTask } from './batch.ts'
import { missionEventPayloads, type MissionEventType } from './events.ts'
import { updateTasks } from './mission-task.ts'
import { lockMission, type StoredMission, type StoredTask, updateMission } from './mission.ts'

const at = new Date('2026-05-02T10:00:00.000Z')
const ended = ['completed', 'failed', 'cancelled', 'skipped']

/** A payload that fits every type: a consumer ignores fields that it does not know. */
const anyPayload: JsonObject = {
  goal: 'g',
  config_summary: {},
  autonomy_level: 'approve',
  coordinator_model: null,
  task_count: 1,
  estimated_cost: '1',
  strategy: 'mixed',
  approved_by: 'a',
  rejected_by: 'a',
  reason: 'r',
  paused_by: 'a',
  resumed_by: 'a',
  current_cost: '1',
  hard_limit: '1',
  soft_limit: '1',
  percent_used: 1,
  old_limit: '1',
  new_limit: '2',
  increased_by: 'a',
  total_cost: '1',
  total_tokens: 0,
  duration_ms: 0,
  tasks_completed: 0,
  tasks_failed: 0,
  failing_task_id: null,
  cancelled_by: null,
  tasks_remaining: 0,
  task_type: 'other',
  trigger_rule: 'always',
  depends_on: [],
  unblocked_by: null,
  agent_id: null,
  agent_type: null,
  model: null,
  board_task_id: null,
  attempt_number: 2,
  continuation_count: 1,
  tokens_this_turn: 0,
  output_ref: null,
  output_summary_length: 0,
  tokens_used: 0,
  score: null,
  verifier_feedback: null,
  retries_remaining: 0,
  backoff_seconds: 1,
  failure_type: 'quality',
  error_type: 'e',
  error_message: null,
  total_attempts: 1,
  skipped_because: 's',
  failed_dependency_id: null,
  entity_type: 't',
  entity_id: 'i',
  stalled_state: 's',
  stalled_since: 's',
  action_taken: 'a',
}
const payloads = Object.fromEntries(Object.keys(missionEventPayloads).map((type) => [type, anyPayload]))

describe('states of missions on rows', () => {
  let opened: TestDb
  let world: StoreRows
  before(async () => {
    opened = await openTestDb()
    world = await insertStoreRows(opened.db)
  })
  after(() => opened.close())

  const readTask = async () => {
    const [task] = await opened.db.query<StoredTask>('select * from missions.orchestration_tasks where id = $1', [
      world.task,
    ])
    assert.ok(task)
    return task
  }
  const readRun = async () => {
    const run = await opened.db.transaction((tx) => lockMission(tx, world.mission))
    assert.ok(run)
    return run
  }
  const events = async () =>
    (
      await opened.db.query<{ event_type: string }>(
        `select event_type from missions.orchestration_events where run_id = $1 and created_at = $2 order by id`,
        [world.mission, at],
      )
    ).map(({ event_type }) => event_type)
  const put = async (table: 'orchestration_tasks' | 'orchestration_runs', id: string, state: string, type: string) => {
    await opened.db.transaction(async (tx) => {
      await tx.query(`set local concord.retention = 'on'`)
      await tx.query('delete from missions.orchestration_events where run_id = $1', [world.mission])
    })
    await opened.db.query(
      `update missions.${table} set state = $2, state_type = $3, completed_at = $4, started_at = '2026-05-01Z', duration_ms = null where id = $1`,
      [id, state, type, type === 'terminal' ? '2026-05-01Z' : null],
    )
  }
  const moving = (kind: ActorType): MissionMove<never> => ({
    by: { id: 'user:ada', kind, traceId: 't' },
    at,
    payloads,
  })
  const commit = (work: (batch: Batch) => void) =>
    opened.db.transaction(async (tx) => {
      const run = await lockMission(tx, world.mission)
      assert.ok(run)
      const batch = new Batch(run)
      work(batch)
      await batch.commit(tx)
    })

  test('[MIS-188] [MIS-359] [MIS-361] [MIS-362] 144 pairs of a task: 26 are written with their events, the rest is refused', async () => {
    const { states } = missionTaskMachine
    await put('orchestration_runs', world.mission, 'running', 'running')
    let written = 0
    for (const from of statesOf(missionTaskMachine)) {
      for (const to of statesOf(missionTaskMachine)) {
        const allowed = findMove<MissionTaskState, string, MissionEventType>(missionTaskMachine, from, to)
        const by = moving((allowed?.by[0] ?? 'human') as 'human')
        await put('orchestration_tasks', world.task, from, states[from])
        const before_ = await readTask()
        const decided = moveTask(before_, to, by)
        assert.equal(decided.ok, allowed !== undefined, `${from} → ${to}`)
        if (!allowed) {
          assert.ok(!decided.ok && decided.code === 'machine.move.illegal')
          continue
        }
        await commit((batch) => void batch.task(before_, to, by))
        const after_ = await readTask()
        assert.deepEqual(
          [after_.state, after_.state_type, after_.version_id, after_.updated_at],
          [to, states[to], before_.version_id + 1, at],
        )
        assert.equal(after_.completed_at !== null, ended.includes(to))
        assert.equal(after_.duration_ms, ended.includes(to) ? '122400000' : null)
        assert.deepEqual(await events(), [...allowed.emits])
        written++
      }
    }
    assert.equal(written, 26)
  })

  test('[MIS-188] [MIS-360] [MIS-361] 81 pairs of a mission: 19 are written with their events, the rest is refused', async () => {
    const { states } = missionRunMachine
    let written = 0
    for (const from of statesOf(missionRunMachine)) {
      for (const to of statesOf(missionRunMachine)) {
        const allowed = findMove<MissionRunState, string, MissionEventType>(missionRunMachine, from, to)
        const by = moving((allowed?.by[0] ?? 'human') as 'human')
        await put('orchestration_runs', world.mission, from, states[from])
        const before_ = await readRun()
        const decided = moveMission(before_, to, by)
        assert.equal(decided.ok, allowed !== undefined, `${from} → ${to}`)
        if (!allowed) continue
        await commit((batch) => batch.mission(to, by))
        const after_ = await readRun()
        assert.deepEqual([after_.state, after_.state_type, after_.version_id], [to, states[to], before_.version_id + 1])
        assert.equal(after_.completed_at !== null, ended.includes(to))
        assert.deepEqual(await events(), [...allowed.emits])
        written++
      }
    }
    assert.equal(written, 19)
  })

  test('[MIS-004] an event that cannot be written leaves the state as it was', async () => {
    await put('orchestration_runs', world.mission, 'pending', 'pending')
    const before_ = await readRun()
    const wrong = { ...moving('coordinator'), payloads: { run_planning_started: {} } }
    await assert.rejects(
      commit((batch) => batch.mission('planning', wrong)),
      /run_planning_started/,
    )
    assert.deepEqual(await readRun(), before_)
    await assert.rejects(
      commit((batch) => batch.note('run_forgotten' as never, moving('coordinator'))),
      /event type/,
    )
  })

  test('[MIS-002] every type of event is written with its payload and read back', async () => {
    await put('orchestration_runs', world.mission, 'running', 'running')
    const types = Object.keys(missionEventPayloads) as MissionEventType[]
    const whole = {
      ...anyPayload,
      task_id: 't',
      run_id: 'r',
      by_task: {},
      verifier_agent_id: null,
      verifier_model: null,
      requested_model: 'a',
      fallback_model: 'b',
      cycle: [],
    }
    await commit((batch) => {
      for (const type of types) batch.note(type, { ...moving('coordinator'), payloads: { [type]: whole } })
    })
    assert.deepEqual(await events(), types)
  })

  test('[MIS-189] [MIS-357] a row that another writer has changed is not written', async () => {
    await put('orchestration_tasks', world.task, 'pending', 'pending')
    const task = await readTask()
    const stale = {
      row: { ...task, state: 'queued' as const, version_id: task.version_id },
      version: task.version_id - 1,
    }
    assert.deepEqual(await opened.db.transaction((tx) => updateTasks(tx, [stale])), new Set())
    assert.equal((await readTask()).state, 'pending')
    const run = await readRun()
    const late = { ...run, title: 'late', version_id: run.version_id + 1 }
    assert.equal(await opened.db.transaction((tx) => updateMission(tx, late, run.version_id - 1)), false)
    assert.deepEqual(await readRun(), run)
  })

  test('a card that cannot be written does not stop a task', async () => {
    await put('orchestration_runs', world.mission, 'running', 'running')
    await put('orchestration_tasks', world.task, 'pending', 'pending')
    const [card] = await opened.db.query<{ id: number }>(
      `insert into missions.board_tasks (workspace_id, title, created_by_id, source_type, source_id)
       values ($1, 'x', 'system', 'orchestration_task', $2) returning id`,
      [world.workspace, world.task],
    )
    await opened.db.query('update missions.orchestration_tasks set board_task_id = $2 where id = $1', [
      world.task,
      card?.id,
    ])
    await opened.db.query(`alter table missions.board_tasks add constraint broken_ck check (status <> 'done')`)
    const task = await readTask()
    await commit((batch) => void batch.task(task, 'skipped', moving('coordinator')))
    assert.equal((await readTask()).state, 'skipped')
    assert.deepEqual(await opened.db.query('select status from missions.board_tasks where id = $1', [card?.id]), [
      { status: 'inbox' },
    ])
    assert.deepEqual(await events(), ['task_skipped'])
  })

  test('[MIS-053] a cancelled and a skipped task are not counted as failed', async () => {
    await opened.db.query('alter table missions.board_tasks drop constraint broken_ck')
    const counts = async () => {
      const { tasks_completed, tasks_failed }: StoredMission = await readRun()
      return [tasks_completed, tasks_failed]
    }
    const [completed = 0, failed = 0] = await counts()
    for (const [from, to, by] of [
      ['pending', 'skipped', 'coordinator'],
      ['queued', 'cancelled', 'human'],
    ] as const) {
      await put('orchestration_tasks', world.task, from, 'pending')
      const task = await readTask()
      await commit((batch) => void batch.task(task, to, moving(by)))
    }
    assert.deepEqual(await counts(), [completed, failed])
    await put('orchestration_tasks', world.task, 'running', 'running')
    const task = await readTask()
    await commit((batch) => void batch.task(task, 'failed', moving('system')))
    assert.deepEqual(await counts(), [completed, failed + 1])
  })
})
