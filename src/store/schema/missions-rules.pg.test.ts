/** Every rule of the tables of missions, broken once, and what a deleted row takes along. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { breakEveryRule } from '#test/broken-rows'
import { openTestDb, type TestDb } from '#test/database'
import { insertRow, insertStoreRows, rowsOf, type StoreRows } from '#test/store-rows'

const agents = 'missions.agents'
const cards = 'missions.board_tasks'
const reports = 'missions.agent_reports'
const recipes = 'missions.workflow_recipes'
const runs = 'missions.orchestration_runs'
const tasks = 'missions.orchestration_tasks'
const events = 'missions.orchestration_events'
const edges = 'missions.orchestration_task_dependencies'
const archive = 'missions.orchestration_events_archive'
const nowhere = '00000000-0000-7000-8000-000000000001'
const NO_CARD = 2_000_000_000

const infinite = (...columns: string[]) => columns.map((column) => ({ [column]: 'infinity' }))
const each = (columns: readonly string[], values: readonly unknown[]) =>
  columns.flatMap((column) => values.map((value) => ({ [column]: value })))
const ended = { state: 'failed', state_type: 'terminal', completed_at: '2026-05-01Z' }

breakEveryRule(
  [agents, cards, reports, recipes, runs, tasks, events],
  [
    { constraint: 'agents_workspace_fk', table: agents, by: { workspace_id: nowhere } },
    { constraint: 'agents_name_uq', table: agents, given: { name: 'writer' }, by: { name: 'writer' } },
    { constraint: 'finite_time_ck', table: agents, by: infinite('created_at') },
    { constraint: 'board_tasks_workspace_fk', table: cards, by: { workspace_id: nowhere } },
    { constraint: 'board_tasks_agent_fk', table: cards, by: { assigned_agent_id: NO_CARD } },
    { constraint: 'board_tasks_parent_fk', table: cards, rows: '[MIS-140]', by: { parent_task_id: NO_CARD } },
    { constraint: 'card_status_ck', table: cards, rows: '[MIS-140]', by: { status: 'blocked' } },
    { constraint: 'review_mode_ck', table: cards, rows: '[MIS-140]', by: { review_mode: 'never' } },
    { constraint: 'list_json_ck', table: cards, by: { tags: '{}' } },
    { constraint: 'object_json_ck', table: cards, by: { planning_data: '[]' } },
    {
      constraint: 'finite_time_ck',
      table: cards,
      by: infinite('started_at', 'completed_at', 'created_at', 'updated_at'),
    },
    {
      constraint: 'uq_board_tasks_orchestration_run',
      table: cards,
      rows: '[MIS-135] [MIS-352]',
      given: { source_type: 'orchestration', source_id: 'a' },
      by: { source_type: 'orchestration', source_id: 'a' },
    },
    {
      constraint: 'uq_board_tasks_orchestration_task',
      table: cards,
      rows: '[MIS-136] [MIS-352]',
      given: { source_type: 'orchestration_task', source_id: 'a' },
      by: { source_type: 'orchestration_task', source_id: 'a' },
    },
    { constraint: 'agent_reports_workspace_fk', table: reports, by: { workspace_id: nowhere } },
    { constraint: 'agent_reports_agent_fk', table: reports, by: { agent_id: NO_CARD } },
    {
      constraint: 'agent_reports_task_fk',
      table: reports,
      rows: '[MIS-142]',
      by: ({ elsewhere }) => [{ orchestration_task_id: nowhere }, { orchestration_task_id: elsewhere.task }],
    },
    { constraint: 'report_type_ck', table: reports, rows: '[MIS-143]', by: { report_type: 'gossip' } },
    { constraint: 'finite_time_ck', table: reports, by: infinite('created_at') },
    { constraint: 'workflow_recipes_workspace_fk', table: recipes, by: { workspace_id: nowhere } },
    {
      constraint: 'workflow_recipes_template_uq',
      table: recipes,
      given: { template_id: 'mission-1' },
      by: { template_id: 'mission-1' },
    },
    { constraint: 'list_json_ck', table: recipes, by: each(['steps', 'tags'], ['{}']) },
    { constraint: 'object_json_ck', table: recipes, by: each(['execution_config', 'template_definition'], ['[]']) },
    { constraint: 'finite_time_ck', table: recipes, by: infinite('created_at') },
    { constraint: 'orchestration_runs_workspace_fk', table: runs, by: { workspace_id: nowhere } },
    {
      constraint: 'orchestration_runs_command_uq',
      table: runs,
      by: ({ here }) => ({ command_id: here.command }),
    },
    {
      constraint: 'orchestration_runs_command_fk',
      table: runs,
      by: ({ elsewhere }) => ({ command_id: elsewhere.parent }),
    },
    {
      constraint: 'orchestration_runs_gate_fk',
      table: runs,
      by: ({ elsewhere }) => ({ gate_command_id: elsewhere.command }),
    },
    { constraint: 'orchestration_runs_account_fk', table: runs, by: { account_id: nowhere } },
    {
      constraint: 'orchestration_runs_fork_fk',
      table: runs,
      by: ({ elsewhere }) => ({ forked_from_id: elsewhere.mission }),
    },
    { constraint: 'orchestration_runs_agent_fk', table: runs, by: { coordinator_agent_id: NO_CARD } },
    { constraint: 'orchestration_runs_report_fk', table: runs, by: { report_id: NO_CARD } },
    { constraint: 'run_state_ck', table: runs, rows: '[MIS-041]', by: { state: 'waiting' } },
    { constraint: 'state_type_ck', table: runs, rows: '[MIS-042]', by: { state_type: 'done' } },
    {
      constraint: 'orchestration_runs_state_type_ck',
      table: runs,
      rows: '[MIS-023]',
      by: [
        { state_type: 'running' },
        { state: 'running' },
        { state: 'paused', state_type: 'running' },
        { ...ended, state_type: 'paused', completed_at: null },
      ],
    },
    {
      constraint: 'orchestration_runs_ended_ck',
      table: runs,
      by: [{ completed_at: '2026-05-01Z' }, { ...ended, completed_at: null }],
    },
    {
      constraint: 'count_from_zero_ck',
      table: runs,
      rows: '[MIS-049] [MIS-349]',
      by: each(['total_tokens', 'task_count', 'tasks_completed', 'tasks_failed'], [-1]),
    },
    { constraint: 'count_from_one_ck', table: runs, by: { version_id: 0 } },
    { constraint: 'cost_ck', table: runs, rows: '[MIS-349]', by: each(['total_cost'], ['-0.000001', 'NaN']) },
    {
      constraint: 'finite_time_ck',
      table: runs,
      by: [...infinite('started_at', 'created_at', 'updated_at', 'run_after'), { ...ended, completed_at: 'infinity' }],
    },
    {
      constraint: 'orchestration_tasks_run_fk',
      table: tasks,
      rows: '[MIS-073]',
      by: ({ elsewhere }) => ({ run_id: elsewhere.mission }),
    },
    {
      constraint: 'orchestration_tasks_workspace_fk',
      table: tasks,
      by: { workspace_id: nowhere },
    },
    { constraint: 'orchestration_tasks_sequence_uq', table: tasks, rows: '[MIS-074]', by: { sequence_number: 1 } },
    { constraint: 'orchestration_tasks_agent_fk', table: tasks, by: { agent_id: NO_CARD } },
    {
      constraint: 'orchestration_tasks_review_fk',
      table: tasks,
      by: ({ elsewhere }) => ({ review_command_id: elsewhere.command }),
    },
    {
      constraint: 'orchestration_tasks_carried_fk',
      table: tasks,
      by: ({ elsewhere }) => ({ carried_from_id: elsewhere.task }),
    },
    {
      constraint: 'orchestration_tasks_lease_ck',
      table: tasks,
      by: [
        { lease_token: nowhere },
        { lease_until: '2026-05-01Z' },
        { lease_token: nowhere, lease_until: '2026-05-01Z', worker_id: null },
      ],
    },
    { constraint: 'orchestration_tasks_board_fk', table: tasks, by: { board_task_id: NO_CARD } },
    {
      constraint: 'orchestration_tasks_command_fk',
      table: tasks,
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    { constraint: 'task_state_ck', table: tasks, by: { state: 'waiting' } },
    { constraint: 'state_type_ck', table: tasks, by: { state_type: 'done' } },
    { constraint: 'task_type_ck', table: tasks, rows: '[MIS-077]', by: { task_type: 'cooking' } },
    { constraint: 'trigger_rule_ck', table: tasks, by: { trigger_rule: 'one_success' } },
    { constraint: 'agent_type_ck', table: tasks, rows: '[MIS-031]', by: { agent_type: 'robot' } },
    { constraint: 'failure_type_ck', table: tasks, by: { failure_type: 'bad_luck' } },
    {
      constraint: 'orchestration_tasks_state_type_ck',
      table: tasks,
      rows: '[MIS-023]',
      by: [{ state_type: 'running' }, { state: 'running' }, { state: 'verifying', state_type: 'running' }],
    },
    {
      constraint: 'orchestration_tasks_ended_ck',
      table: tasks,
      by: [{ completed_at: '2026-05-01Z' }, { ...ended, completed_at: null }],
    },
    {
      constraint: 'ordinal_ck',
      table: tasks,
      rows: '[MIS-091] [MIS-349]',
      by: each(['sequence_number', 'attempt_number'], [0]),
    },
    {
      constraint: 'turn_count_ck',
      table: tasks,
      rows: '[MIS-092] [MIS-349]',
      by: each(['continuation_count', 'checks_passed', 'returns'], [-1]),
    },
    { constraint: 'count_from_zero_ck', table: tasks, rows: '[MIS-349]', by: each(['tokens_used', 'remaining'], [-1]) },
    { constraint: 'count_from_one_ck', table: tasks, by: { version_id: 0 } },
    { constraint: 'cost_ck', table: tasks, rows: '[MIS-349]', by: each(['cost'], ['-0.000001', 'NaN']) },
    {
      constraint: 'score_ck',
      table: tasks,
      rows: '[MIS-088] [MIS-349]',
      by: each(['verifier_score'], ['-0.01', '1.01', 'NaN']),
    },
    { constraint: 'list_json_ck', table: tasks, by: { tools_requested: '{}' } },
    { constraint: 'object_json_ck', table: tasks, by: each(['spec', 'submission', 'receipt'], ['[]']) },
    {
      constraint: 'finite_time_ck',
      table: tasks,
      by: [
        ...infinite('started_at', 'created_at', 'updated_at', 'due_at', 'last_heartbeat_at', 'attempt_started_at'),
        { lease_token: nowhere, worker_id: 'w', lease_until: 'infinity' },
        { ...ended, completed_at: 'infinity' },
      ],
    },
    { constraint: 'orchestration_events_run_fk', table: events, by: { run_id: nowhere, task_id: null } },
    {
      constraint: 'orchestration_events_task_fk',
      table: events,
      by: ({ elsewhere }) => ({ task_id: elsewhere.task }),
    },
    { constraint: 'event_type_ck', table: events, rows: '[MIS-027]', by: { event_type: 'run_forgotten' } },
    { constraint: 'actor_type_ck', table: events, by: { actor_type: 'user' } },
    { constraint: 'object_json_ck', table: events, by: { payload: '[]' } },
    { constraint: 'finite_time_ck', table: events, by: infinite('created_at') },
  ],
)

describe('rows of missions', () => {
  let opened: TestDb
  let here: StoreRows
  let elsewhere: StoreRows

  before(async () => {
    opened = await openTestDb()
    here = await insertStoreRows(opened.db)
    elsewhere = await insertStoreRows(opened.db)
  })
  after(() => opened.close())

  const second = (world: StoreRows) => insertRow(opened.db, tasks, rowsOf[tasks](world))

  test('[MIS-109] [MIS-110] [MIS-345] an edge to itself, and an edge into another run, are refused', async () => {
    const { id } = await second(here)
    const edge = { task_id: id, depends_on_id: here.task, run_id: here.mission }
    await insertRow(opened.db, edges, edge)
    await assert.rejects(insertRow(opened.db, edges, { ...edge, depends_on_id: id }), {
      constraint: 'orchestration_task_dependencies_self_ck',
    })
    await assert.rejects(insertRow(opened.db, edges, { ...edge, depends_on_id: elsewhere.task }), {
      constraint: 'orchestration_task_dependencies_upstream_fk',
    })
    await assert.rejects(insertRow(opened.db, edges, { ...edge, task_id: elsewhere.task, run_id: here.mission }), {
      constraint: 'orchestration_task_dependencies_task_fk',
    })
    await assert.rejects(insertRow(opened.db, edges, edge), { constraint: 'orchestration_task_dependencies_pk' })
    await assert.rejects(insertRow(opened.db, edges, { ...edge, dependency_type: 'soft' }), {
      constraint: 'dependency_type_ck',
    })
  })

  test('[MIS-273] a deleted run takes its tasks, edges and events along, under retention only', async () => {
    const remove = (retention: 'on' | 'off') =>
      opened.db.transaction(async (tx) => {
        await tx.query(`set local concord.retention = '${retention}'`)
        await tx.query(`delete from ${runs} where id = $1`, [here.mission])
      })
    await assert.rejects(remove('off'), { code: '42501', message: /append-only/ })
    await remove('on')
    for (const [table, column] of [
      [runs, 'id'],
      [tasks, 'run_id'],
      [edges, 'run_id'],
      [events, 'run_id'],
    ])
      assert.deepEqual(await opened.db.query(`select 1 from ${table} where ${column} = $1`, [here.mission]), [], table)
  })

  test('[MIS-325] a deleted workspace takes its missions, cards and reports along; the archive stays, and so does every other workspace', async () => {
    const { db } = opened
    const gone = await insertStoreRows(db)
    const { id } = await second(gone)
    await insertRow(db, edges, { task_id: id, depends_on_id: gone.task, run_id: gone.mission })
    await db.query(
      `insert into ${archive} (id, run_id, event_type, payload, actor_type, created_at) values (1, $1, 'run_created', '{}', 'system', now())`,
      [gone.mission],
    )
    const counts = (sql: Pick<typeof db, 'query'>, { workspace, mission }: StoreRows) => {
      const owned = [runs, tasks, cards, reports, recipes, agents].map(
        (table) => `select '${table}' as name, count(*)::int as n from ${table} where workspace_id = '${workspace}'`,
      )
      const ofRuns = [edges, events, archive].map(
        (table) => `select '${table}' as name, count(*)::int as n from ${table} where run_id = '${mission}'`,
      )
      return sql.query<{ name: string; n: number }>(`${[...owned, ...ofRuns].join(' union all ')} order by 1`)
    }
    const [mine, theirs] = [await counts(db, gone), await counts(db, elsewhere)]
    assert.ok(mine.every(({ n }) => n > 0))
    // Every room without cascades holds its workspace, so only the rules of this schema are left in place, until the end of the transaction.
    const remove = (retention: 'on' | 'off') =>
      db.transaction(async (tx) => {
        await tx.query(`set local concord.retention = '${retention}'`)
        const holders = await tx.query<{ held: string; name: string }>(
          `select conrelid::regclass::text as held, conname as name from pg_constraint where contype = 'f'
             and confrelid = 'identity.workspaces'::regclass and connamespace <> 'missions'::regnamespace`,
        )
        for (const { held, name } of holders) await tx.query(`alter table ${held} drop constraint ${name}`)
        await tx.query('delete from identity.workspaces where id = $1', [gone.workspace])
        left = await Promise.all([counts(tx, gone), counts(tx, elsewhere)])
        throw undone
      })
    const undone = new Error('undone')
    let left: readonly (typeof mine)[] = []
    await assert.rejects(remove('off'), { code: '42501', message: /append-only/ })
    await assert.rejects(remove('on'), undone)
    assert.deepEqual(left, [mine.map(({ name }) => ({ name, n: name === archive ? 1 : 0 })), theirs])
  })

  test('[MIS-048] [MIS-095] [MIS-301] a deleted agent or card leaves a null, and the rows stay', async () => {
    const { db } = opened
    const insert = async (table: string, row: object): Promise<number> => {
      const marks = Object.keys(row).map((_, at) => `$${at + 1}`)
      const [made] = await db.query<{ id: number }>(
        `insert into ${table} (${Object.keys(row).join(', ')}) values (${marks.join(', ')}) returning id`,
        Object.values(row),
      )
      return made?.id ?? 0
    }
    const agent = await insert(agents, rowsOf[agents](elsewhere))
    const parent = await insert(cards, rowsOf[cards](elsewhere))
    const child = await insert(cards, { ...rowsOf[cards](elsewhere), parent_task_id: parent, assigned_agent_id: agent })
    await db.query(`update ${runs} set coordinator_agent_id = $2 where id = $1`, [elsewhere.mission, agent])
    await db.query(`update ${tasks} set board_task_id = $2, agent_id = $3 where id = $1`, [
      elsewhere.task,
      child,
      agent,
    ])
    await db.query(`delete from ${agents} where id = $1`, [agent])
    await db.query(`delete from ${cards} where id = $1`, [parent])
    assert.deepEqual(await db.query(`select parent_task_id, assigned_agent_id from ${cards} where id = $1`, [child]), [
      { parent_task_id: null, assigned_agent_id: null },
    ])
    await db.query(`delete from ${cards} where id = $1`, [child])
    assert.deepEqual(
      await db.query(
        `select r.coordinator_agent_id, t.agent_id, t.board_task_id from ${tasks} t join ${runs} r on r.id = t.run_id where t.id = $1`,
        [elsewhere.task],
      ),
      [{ coordinator_agent_id: null, agent_id: null, board_task_id: null }],
    )
  })

  test('[MIS-039] the goal, the workspace and the command of a run never change', async () => {
    for (const change of [`goal = 'another'`, `workspace_id = '${here.workspace}'`, `command_id = '${nowhere}'`])
      await assert.rejects(opened.db.query(`update ${runs} set ${change} where id = $1`, [elsewhere.mission]), change)
  })

  test('[MIS-056] a duration of 30 days fits', async () => {
    const stored = await opened.db.query(
      `update ${runs} set duration_ms = 2592000000 where id = $1 returning duration_ms`,
      [elsewhere.mission],
    )
    assert.deepEqual(stored, [{ duration_ms: '2592000000' }])
  })

  test('[MIS-324] the request role sees the tasks, edges and events of its own workspace only, without a filter', async () => {
    const seen = (workspace: string) =>
      opened.db.transaction(async (tx) => {
        await tx.query('set local role concord_app')
        await tx.query(`select set_config('concord.workspace_id', $1, true)`, [workspace])
        return tx.query<{ run_id: string }>(
          `select run_id from ${tasks} union select run_id from ${edges} union select run_id from ${events}`,
        )
      })
    assert.deepEqual(await seen(elsewhere.workspace), [{ run_id: elsewhere.mission }])
    assert.deepEqual(await seen(nowhere), [])
  })
})
