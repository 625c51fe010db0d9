/** What must hold for every mission, as one query each, for `concord doctor --deep`. */
import type { Invariant } from '#domains/commands'
import { livingAuxiliaries } from './auxiliary-rows.ts'
import { keysOfTask } from './mission-task.ts'
import { CARDS_DIFFER, COUNTERS_DIFFER } from './repair-missions.ts'

const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'
const EDGES = 'missions.orchestration_task_dependencies'
const REPORTS = 'missions.agent_reports'
const RESTORE = 'Restore the rows from a backup, and ask who can write to the database beside Concord.'

const REPAIR =
  'The schedule `repair_missions` corrects missions of the last day. `concord schedules list` shows whether it is on.'

export const missionInvariants: readonly Invariant[] = [
  {
    code: 'M01',
    name: 'the counters of a mission are those of its tasks',
    meaning: 'A mission counts other tasks than it has.',
    next: REPAIR,
    sql: `select r.id from ${RUNS} as r where ${COUNTERS_DIFFER}`,
  },
  {
    code: 'M02',
    name: 'no task outlives its mission',
    meaning: 'A mission has ended, and one of its tasks has not.',
    next: RESTORE,
    sql: `select t.id from ${TASKS} as t join ${RUNS} as r on r.id = t.run_id
where r.state_type = 'terminal' and t.state_type <> 'terminal'`,
  },
  {
    code: 'M03',
    name: 'a task starts after those that its rule waits for',
    meaning: 'A task started before a task that it depends on had ended.',
    next: '`concord missions show` shows the mission.',
    sql: `select distinct t.id from ${TASKS} as t join ${EDGES} as d on d.task_id = t.id join ${TASKS} as u on u.id = d.depends_on_id
where t.trigger_rule <> 'always' and t.started_at is not null and (u.completed_at is null or u.completed_at > t.started_at)`,
  },
  {
    code: 'M04',
    name: 'an attempt starts once',
    meaning: 'An attempt of a task was started twice, or one is missing.',
    next: '`concord missions watch` shows the events of the mission.',
    sql: `select t.id from ${TASKS} as t join (
  select task_id, event_type, payload from missions.orchestration_events union all select task_id, event_type, payload from missions.orchestration_events_archive
) as e on e.task_id = t.id and e.event_type = 'task_started'
group by t.id having count(*) <> count(distinct e.payload->>'attempt_number') or count(*) > t.attempt_number
  or count(*) + (t.state in ('assigned', 'queued', 'cancelled'))::int < t.attempt_number`,
  },
  {
    code: 'M05',
    name: 'a task that waits knows for how many',
    meaning:
      'The counter of a task that waits is not the number of ends that its rule waits for, so it would start too early or never.',
    next: RESTORE,
    sql: `select t.id from ${TASKS} as t left join ${EDGES} as d on d.task_id = t.id and t.trigger_rule <> 'always' left join ${TASKS} as u on u.id = d.depends_on_id
where t.state = 'pending' group by t.id having t.remaining <> count(u.id) filter (where u.state_type <> 'terminal')`,
  },
  {
    code: 'M06',
    name: 'no command of a mission outlives the command of the mission',
    meaning: 'The command of a mission has ended, and a command that the mission submitted has not.',
    next: '`concord cancel` ends the command.',
    sql: `select r.id from ${RUNS} as r join concord.commands as c on c.command_id = r.command_id
where c.completed_at is not null and (
  exists (select from ${livingAuxiliaries('r.id', 'null')})
  or exists (select from concord.commands as g where g.command_id = r.gate_command_id and g.completed_at is null)
  or exists (select from ${TASKS} as t join concord.commands as a on a.command_id in (t.command_id, t.review_command_id)
    where t.run_id = r.id and a.completed_at is null)
  or exists (select from ${TASKS} as t join concord.commands as a on a.workspace_id = t.workspace_id and a.idempotency_key = any(${keysOfTask})
    where t.run_id = r.id and a.completed_at is null))`,
  },
  {
    code: 'M07',
    name: 'the board shows every mission and every task as it is',
    meaning: 'A card of a mission is missing, or shows another state than the mission or its task has.',
    next: REPAIR,
    sql: `select r.id from ${RUNS} as r where ${CARDS_DIFFER}`,
  },
  {
    code: 'M08',
    name: 'every end is reported',
    meaning:
      'A task ended with an output or failed, or a mission ended with its command, and there is no report about that.',
    next: RESTORE,
    // A mission whose report could not be stored has a turn that tries again.
    sql: `select t.id from ${TASKS} as t where t.state_type = 'terminal' and t.carried_from_id is null and (t.state = 'failed' or t.output_summary is not null)
  and not exists (select from ${REPORTS} as e where e.orchestration_task_id = t.id and (e.report_type = 'incident') = (t.state = 'failed'))
union all select r.id from ${RUNS} as r join concord.commands as c on c.command_id = r.command_id
where r.state_type = 'terminal' and c.completed_at is not null and r.report_id is null and r.run_after is null`,
  },
]
