/** Tasks of missions and the edges between them: the statements that read and write them. */
import { type Paged, pageText, type Sql, statement, type Tx } from '#store'
import { livingAuxiliaries } from './auxiliary-rows.ts'
import type { StoredEdge, StoredTask } from './mission.ts'

const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'
const EDGES = 'missions.orchestration_task_dependencies'

/** $1 the rows as JSON, $2 the edges as JSON. */
const insertTasks = statement<never>(
  'missions.insert_tasks',
  `insert into ${TASKS} (id, run_id, workspace_id, sequence_number, title, description, task_type, trigger_rule, model_override, tools_requested,
  success_criteria, created_at, updated_at, spec, remaining, state, state_type, agent_id, agent_type, output_summary, output_ref, output_checksum, verifier_score,
  verified_by, started_at, completed_at, duration_ms, command_id, carried_from_id, board_task_id)
select r.id, r.run_id, r.workspace_id, r.sequence_number, r.title, r.description, r.task_type, r.trigger_rule, r.model_override, r.tools_requested,
  r.success_criteria, r.created_at, r.created_at, r.spec, r.remaining, r.state, r.state_type, r.agent_id, r.agent_type, r.output_summary, r.output_ref, r.output_checksum, r.verifier_score,
  r.verified_by, r.started_at, r.completed_at, r.duration_ms, r.command_id, r.carried_from_id, r.board_task_id
from jsonb_populate_recordset(null::${TASKS}, $1::jsonb) as r`,
)
/** $1 the rows as JSON. */
const insertEdges = statement<never>(
  'missions.insert_edges',
  `insert into ${EDGES} (task_id, depends_on_id, dependency_type, created_at, run_id)
select r.task_id, r.depends_on_id, r.dependency_type, r.created_at, r.run_id from jsonb_populate_recordset(null::${EDGES}, $1::jsonb) as r`,
)

export async function insertPlanned(tx: Tx, tasks: readonly StoredTask[], edges: readonly StoredEdge[]): Promise<void> {
  await tx.run(insertTasks, [JSON.stringify(tasks)])
  await tx.run(insertEdges, [JSON.stringify(edges)])
}

/** $1 the rows as JSON. `version_id` is the one that follows. Found by id alone: a scan of the whole mission would cost more the longer its plan. */
const updateTaskRows = statement<{ readonly id: string }>(
  'missions.update_tasks',
  `update ${TASKS} as t set state = r.state, state_type = r.state_type, output_summary = r.output_summary, output_ref = r.output_ref,
  verified_by = r.verified_by, error_message = r.error_message, attempt_number = r.attempt_number, started_at = r.started_at,
  completed_at = r.completed_at, duration_ms = r.duration_ms, version_id = r.version_id, updated_at = r.updated_at, due_at = r.due_at,
  remaining = r.remaining, command_id = r.command_id, agent_id = r.agent_id, agent_type = r.agent_type, verifier_score = r.verifier_score,
  continuation_count = r.continuation_count, tokens_used = r.tokens_used, cost = r.cost, last_heartbeat_at = r.last_heartbeat_at,
  review_command_id = r.review_command_id, output_checksum = r.output_checksum, checks_passed = r.checks_passed,
  lease_token = r.lease_token, lease_until = r.lease_until, worker_id = r.worker_id,
  submission = r.submission, model_override = r.model_override, returns = r.returns, attempt_started_at = r.attempt_started_at,
  failure_type = r.failure_type, receipt = r.receipt
from jsonb_populate_recordset(null::${TASKS}, $1::jsonb) as r
  join unnest($2::uuid[], $3::int[]) as v(id, version) on v.id = r.id
where t.id = r.id and t.version_id = v.version returning t.id`,
)

export type TaskWrite = { readonly row: StoredTask; readonly version: number }

/** Returns the ids that were written: another writer was first with the rest. */
export async function updateTasks(tx: Tx, writes: readonly TaskWrite[]): Promise<ReadonlySet<string>> {
  if (writes.length === 0) return new Set()
  const rows = writes.map(({ row }) => ({ ...row, spec: null, description: null, success_criteria: null, title: null }))
  const written = await tx.run(updateTaskRows, [
    JSON.stringify(rows),
    writes.map(({ row }) => row.id),
    writes.map(({ version }) => version),
  ])
  return new Set(written.map(({ id }) => id))
}

/**
 * $1 mission, $2 now, $3 limit. Tasks in the queue, and those whose refused output needs a new attempt, which is a new command. Not those that are offered to
 * workers: they have their command.
 */
const unsent = (state: 'queued' | 'awaiting_retry', more = '') => `(select t.* from ${TASKS} as t
where t.run_id = $1::uuid and t.state = '${state}' and t.command_id is null and t.state_type <> 'terminal'${more}
  and ($4 or t.spec #>> '{run,worker}' is null) order by t.sequence_number limit $3)`
const listUnsent = statement<StoredTask>(
  'missions.list_queued',
  `${unsent('awaiting_retry', ' and t.due_at <= $2')} union all ${unsent('queued')} limit $3`,
)
export const listUnsentTasks = (sql: Sql, runId: string, at: Date, limit: number, withWorkers: boolean) =>
  sql.run(listUnsent, [runId, at, limit, withWorkers])

/** When the task `t` is due: a retry, a continuation, the end of a lease, its deadline, or a late verdict. A verifier that waits for a person is not late. */
const dueOf = (
  seconds: string,
  deadline: string,
) => `case when t.state = 'verifying' then (select case when v.status in ('waiting_for_approval', 'waiting_for_input', 'blocked') then null
  else greatest(t.updated_at, v.updated_at) + make_interval(secs => ${seconds}) end
  from (select) as always left join concord.commands as v on v.command_id = t.review_command_id) else least(coalesce(t.due_at, t.lease_until),
  case when t.state_type = 'running' and t.submission is null then t.started_at + make_interval(secs => ${deadline}::float8) end) end`

export type LateAfter = { readonly verify: number; readonly deadline?: number | undefined }

/** $1 mission, $2 now, $3 seconds until a verdict is late, $4 limit, $5 seconds until a task is late. Continuations that are due, leases that have lapsed, verdicts that are late. */
const listLate = statement<StoredTask>(
  'missions.list_late',
  `select t.* from ${TASKS} as t
where t.run_id = $1::uuid and t.state in ('assigned', 'running', 'continuing', 'verifying') and t.state_type <> 'terminal'
  and ${dueOf('$3', '$5')} <= $2
order by t.sequence_number limit $4`,
)
export const listLateTasks = (sql: Sql, runId: string, at: Date, { verify, deadline }: LateAfter, limit: number) =>
  sql.run(listLate, [runId, at, verify, limit, deadline ?? null])

/** $1 mission, $2 limit. */
const listReadyTasks = statement<StoredTask>(
  'missions.list_ready',
  `select t.* from ${TASKS} as t
where t.run_id = $1::uuid and t.state = 'pending' and t.remaining = 0 and t.state_type <> 'terminal' order by t.sequence_number limit $2`,
)
export const listReadyOf = (sql: Sql, runId: string, limit: number) => sql.run(listReadyTasks, [runId, limit])

type Attempts = { readonly running: number; readonly offered: number }

/** $1 mission. What is offered to workers waits for them, and is counted apart: it holds back nothing else. */
const countRunning = statement<Attempts>(
  'missions.count_running',
  `select (count(*) filter (where t.state <> 'queued'))::int as running, (count(*) filter (where t.state = 'queued'))::int as offered from ${TASKS} as t
where t.run_id = $1::uuid and t.state in ('running', 'queued', 'assigned', 'continuing') and t.remaining = 0 and t.command_id is not null
  and t.state_type <> 'terminal'`,
)
export async function countAttempts(sql: Sql, runId: string): Promise<Attempts> {
  const [row] = await sql.run(countRunning, [runId])
  return row ?? { running: 0, offered: 0 }
}

export type EndedAttempt = {
  readonly task: StoredTask
  readonly status: string
  readonly error: string | null
  readonly error_class: string | null
  readonly result: unknown
  readonly artifact_id: string | null
  readonly artifact_checksum: string | null
  /** The attempt of the task that the first run of the command was. */
  readonly first_attempt: number
  /** What the agents of all attempts of the task have spent. Null: it had none. */
  readonly spent: string | null
}

/** A quality retry is a new command, and its key names its attempt. */
const FIRST_ATTEMPT = `split_part(c.idempotency_key, ':', 3)::int`

/** The accounts of the commands of a task: roots with all that was returned to them, and children that are open. */
const spentOf = (
  t: string,
) => `(select sum(a.spent_units + a.excess_units) from generate_series(1, ${t}.attempt_number + 1) as n
  join concord.commands as k on k.workspace_id = ${t}.workspace_id and k.idempotency_key = 'mission:' || ${t}.id || ':' || n
  join concord.budget_accounts as a on a.command_id = k.command_id and a.workspace_id = ${t}.workspace_id
where a.parent_account_id is null or a.closed_at is null)`

/** The artifact that is the output of a task. */
export const outputArtifact = (task: string) =>
  `case when ${task}.output_ref like 'art\\_%' then substr(${task}.output_ref, 5)::uuid end`

/** $1 mission, $2 limit. The newest artifact of the attempt is its output. The command of a task that workers run can end while it is offered. */
const listEnded = statement<StoredTask & Omit<EndedAttempt, 'task'>>(
  'missions.list_ended',
  `select t.*, c.status, c.error, c.error_class, c.result, a.artifact_id, a.checksum as artifact_checksum, ${FIRST_ATTEMPT} as first_attempt,
  ${spentOf('t')} as spent
from ${TASKS} as t join concord.commands as c on c.command_id = t.command_id
  left join concord.artifacts as a on a.workspace_id = t.workspace_id and a.artifact_id = coalesce(
    case when t.submission is not null then ${outputArtifact('t')} end,
    (select n.artifact_id from concord.artifacts as n where n.command_id = c.command_id order by n.created_at desc, n.artifact_id desc limit 1))
where t.run_id = $1::uuid and t.state in ('running', 'queued', 'assigned', 'continuing', 'awaiting_retry') and t.remaining = 0 and t.command_id is not null
  and t.state_type <> 'terminal' and (t.state <> 'awaiting_retry' or t.due_at is null) and c.completed_at is not null
order by t.sequence_number limit $2`,
)
export async function listEndedAttempts(sql: Sql, runId: string, limit: number): Promise<readonly EndedAttempt[]> {
  const rows = await sql.run(listEnded, [runId, limit])
  return rows.map(
    ({ status, error, error_class, result, artifact_id, artifact_checksum, first_attempt, spent, ...task }) => ({
      task,
      status,
      error,
      error_class,
      result,
      artifact_id,
      artifact_checksum,
      first_attempt,
      spent,
    }),
  )
}

export type HeldAttempt = {
  readonly task: StoredTask
  readonly attempt: number
  readonly spent: string | null
  readonly held: string
}

/**
 * $1 account. Reservations of tasks that have ended, for example by a cancel while their command ran, and whose command has ended too.
 */
const listHeld = statement<StoredTask & Omit<HeldAttempt, 'task'>>(
  'missions.list_held',
  `select t.*, split_part(r.key, ':', 2)::int as attempt, r.reserved_change as held, ${spentOf('t')} as spent
from concord.budget_entries as r join ${TASKS} as t on t.id = case when not starts_with(r.key, 'mission:') then split_part(r.key, ':', 1)::uuid end
  left join concord.commands as c on c.command_id = t.command_id
where r.account_id = $1::uuid and r.workspace_id = t.workspace_id and r.kind = 'reserved' and t.state_type = 'terminal'
  and (c.command_id is null or c.completed_at is not null)
  and not exists (select from concord.budget_entries as s
    where s.account_id = r.account_id and s.workspace_id = r.workspace_id and s.kind = 'settled' and s.key = r.key offset 0)`,
)
export async function listHeldAttempts(sql: Sql, accountId: string): Promise<readonly HeldAttempt[]> {
  const rows = await sql.run(listHeld, [accountId])
  return rows.map(({ attempt, held, spent, ...task }) => ({ task, attempt, held, spent }))
}

/** $1 tasks that have ended. Each edge finds its task by the primary key: no other plan is possible, at any size of the tables. */
const listWaiting = statement<StoredTask & { readonly upstream_id: string }>(
  'missions.list_waiting',
  `select t.*, d.depends_on_id as upstream_id from ${EDGES} as d
  cross join lateral (select t.* from ${TASKS} as t where t.id = d.task_id offset 0) as t
where d.depends_on_id = any($1::uuid[]) order by t.sequence_number`,
)
export const listWaitingFor = (sql: Sql, ids: readonly string[]) => sql.run(listWaiting, [ids])

/** $1 tasks. The results over their data edges, the command of each that has labels, and what tells whether an output has changed. */
const listResults = statement<{
  readonly task_id: string
  readonly temp_id: string
  readonly result: unknown
  readonly labelled_id: string | null
  readonly output_checksum: string | null
  readonly artifact_checksum: string | null
}>(
  'missions.list_results',
  `select d.task_id, u.spec->>'temp_id' as temp_id, c.result, case when c.labels <> '[]' then c.command_id end as labelled_id,
  u.output_checksum, a.checksum as artifact_checksum
from ${EDGES} as d join ${TASKS} as u on u.id = d.depends_on_id
  join concord.commands as c on c.command_id = u.command_id
  left join concord.artifacts as a on a.workspace_id = u.workspace_id and a.artifact_id = ${outputArtifact('u')}
where d.task_id = any($1::uuid[]) and d.dependency_type = 'data' and u.state = 'completed'`,
)
export const listUpstreamResults = (sql: Sql, ids: readonly string[]) => sql.run(listResults, [ids])

/** The attempt that a task begins next: a refused output needs a new one. */
const NEXT_ATTEMPT = `(t.attempt_number + (t.state = 'awaiting_retry')::int)`

/** $1 tasks. The command of the attempt that each begins next, if a turn that died has submitted it. */
const listSubmitted = statement<{ readonly task_id: string; readonly command_id: string }>(
  'missions.list_submitted',
  `select t.id as task_id, c.command_id from ${TASKS} as t
  join concord.commands as c on c.workspace_id = t.workspace_id and c.idempotency_key = 'mission:' || t.id || ':' || ${NEXT_ATTEMPT}
where t.id = any($1::uuid[])`,
)
export async function findSubmitted(sql: Sql, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const rows = ids.length === 0 ? [] : await sql.run(listSubmitted, [ids])
  return new Map(rows.map(({ task_id, command_id }) => [task_id, command_id]))
}

/** $1 mission, $2 and $3 as above, $4 a time or null: what was due by then waits for its hook. */
const findOpen = statement<{ readonly is_open: boolean; readonly due_at: Date | null }>(
  'missions.find_open',
  `select exists (select from ${TASKS} as t where t.run_id = $1::uuid and t.state_type <> 'terminal') as is_open,
  (select min(t.due) from (select ${dueOf('$2', '$3')} as due from ${TASKS} as t
    where t.run_id = $1::uuid and t.state in ('awaiting_retry', 'assigned', 'running', 'continuing', 'verifying') and t.state_type <> 'terminal') as t where $4::timestamptz is null or t.due > $4) as due_at`,
)
export async function readOpenTasks(sql: Sql, runId: string, { verify, deadline }: LateAfter, after: Date | null) {
  const [row] = await sql.run(findOpen, [runId, verify, deadline ?? null, after])
  return { isOpen: row?.is_open ?? false, dueAt: row?.due_at ?? null }
}

/** $1 mission. */
const listLiving = statement<StoredTask>(
  'missions.list_living',
  `select t.* from ${TASKS} as t where t.run_id = $1::uuid and t.state_type <> 'terminal' order by t.sequence_number`,
)
export const listLivingTasks = (sql: Sql, runId: string) => sql.run(listLiving, [runId])

/** $1 mission, $2 now, $3 limit. With the attempt that the last run of the command of each was, and whether it has ended. */
const listDue = statement<StoredTask & { readonly command_attempt: number; readonly has_ended: boolean }>(
  'missions.list_due',
  `select t.*, c.attempt - 1 + ${FIRST_ATTEMPT} as command_attempt, c.completed_at is not null as has_ended from ${TASKS} as t join concord.commands as c on c.command_id = t.command_id
where t.run_id = $1::uuid and t.state = 'awaiting_retry' and t.state_type <> 'terminal' and t.due_at <= $2 order by t.sequence_number limit $3`,
)
export const listDueRetries = (sql: Sql, runId: string, at: Date, limit: number) => sql.run(listDue, [runId, at, limit])

export type FailingTask = Pick<StoredTask, 'id' | 'title' | 'state' | 'error_message'>

/** $1 mission. Essential end tasks that did not complete, in order: nothing depends on them but `always` tasks, and they are none. */
const listFailing = statement<FailingTask>(
  'missions.list_failing',
  `select t.id, t.title, t.state, t.error_message from ${TASKS} as t
where t.run_id = $1::uuid and t.trigger_rule <> 'always' and t.state <> 'completed'
  and not exists (select from ${EDGES} as d join ${TASKS} as n on n.id = d.task_id where d.depends_on_id = t.id and n.trigger_rule <> 'always')
order by t.sequence_number`,
)
export const listFailingEnds = (sql: Sql, runId: string) => sql.run(listFailing, [runId])

/** $1 a skipped task. What it was skipped for: over skipped tasks alone to the first that failed or was cancelled. */
const findSkipCause = statement<FailingTask>(
  'missions.find_skip_cause',
  `with recursive up as (
  select t.id, t.state from ${TASKS} as t where t.id = $1::uuid
  union
  select u.id, u.state from up join ${EDGES} as d on d.task_id = up.id join ${TASKS} as u on u.id = d.depends_on_id where up.state = 'skipped')
select t.id, t.title, t.state, t.error_message from up join ${TASKS} as t on t.id = up.id
where t.state in ('failed', 'cancelled') order by t.completed_at, t.sequence_number limit 1`,
)
export async function findCause(sql: Sql, failing: FailingTask): Promise<FailingTask> {
  const [cause] = failing.state === 'skipped' ? await sql.run(findSkipCause, [failing.id]) : []
  return cause ?? failing
}

/** The keys of what a turn may have submitted for a task before it died. */
export const keysOfTask = `array['mission:' || t.id || ':' || t.attempt_number, 'mission:' || t.id || ':' || (t.attempt_number + 1),
  'mission:' || t.id || ':' || t.attempt_number || ':accept']`

/** $1 mission. Commands of attempts, of their reviews, beside attempts and of the gate that have not ended, also those that a turn has submitted that died. */
const listOpen = statement<{ readonly command_id: string; readonly cancellation_requested: boolean }>(
  'missions.list_open_commands',
  `select c.command_id, c.cancellation_requested from ${TASKS} as t join concord.commands as c on c.command_id in (t.command_id, t.review_command_id)
where t.run_id = $1::uuid and c.completed_at is null
union
select c.command_id, c.cancellation_requested from ${TASKS} as t
  join concord.commands as c on c.workspace_id = t.workspace_id and c.idempotency_key = any(${keysOfTask})
where t.run_id = $1::uuid and c.completed_at is null and (t.command_id is null or t.spec ? 'verify' or t.review_command_id is not null)
union
select c.command_id, c.cancellation_requested from ${RUNS} as r
  join concord.commands as c on c.workspace_id = r.workspace_id
    and c.idempotency_key = 'mission:' || r.id || ':start:' || (r.plan->>'version')
where r.id = $1::uuid and c.completed_at is null
union
select c.command_id, c.cancellation_requested from ${livingAuxiliaries('$1::uuid', 'null')}`,
)
export const listOpenCommands = (sql: Sql, runId: string) => sql.run(listOpen, [runId])

/** The run of the agent that a task names, for its view. */
const SHOWN = `t.*, case when t.spec #> '{run,agent}' is not null then
  (select r.agent_run_id from concord.agent_runs as r where r.command_id = t.command_id order by r.created_at desc limit 1) end as agent_run_id`

/** $1 mission. */
const listAllTasks = statement<StoredTask>(
  'missions.list_tasks',
  `select ${SHOWN} from ${TASKS} as t where t.run_id = $1::uuid order by t.sequence_number`,
)
/** $1 mission, $2 after the number, $3 limit. */
const listPage = statement<StoredTask & Paged>(
  'missions.list_task_page',
  pageText(
    `select ${SHOWN} from ${TASKS} as t where t.run_id = $1::uuid and t.sequence_number > $2 order by t.sequence_number limit $3`,
  ),
)
export const listTaskPage = (sql: Sql, runId: string, after: number, limit: number) =>
  sql.run(listPage, [runId, after, limit])
const listAllEdges = statement<StoredEdge>(
  'missions.list_edges',
  `select t.* from ${EDGES} as t where t.run_id = $1::uuid order by t.task_id, t.depends_on_id`,
)
export const listTasks = (sql: Sql, runId: string) => sql.run(listAllTasks, [runId])
export const listEdges = (sql: Sql, runId: string) => sql.run(listAllEdges, [runId])

/** $1 mission, $2 task. */
const findOne = statement<StoredTask>(
  'missions.find_task_of_mission',
  `select ${SHOWN} from ${TASKS} as t where t.run_id = $1::uuid and t.id = $2::uuid`,
)
export async function findTaskOf(sql: Sql, runId: string, id: string): Promise<StoredTask | undefined> {
  const [task] = await sql.run(findOne, [runId, id])
  return task
}

/** $1 task. */
const listUpstream = statement<StoredTask>(
  'missions.list_upstream',
  `select u.* from ${EDGES} as d join ${TASKS} as u on u.id = d.depends_on_id where d.task_id = $1::uuid order by u.sequence_number`,
)
const listDownstream = statement<StoredTask>(
  'missions.list_downstream',
  `select w.* from ${EDGES} as d join ${TASKS} as w on w.id = d.task_id where d.depends_on_id = $1::uuid order by w.sequence_number`,
)
export const listUpstreamOf = (sql: Sql, taskId: string) => sql.run(listUpstream, [taskId])
export const listDownstreamOf = (sql: Sql, taskId: string) => sql.run(listDownstream, [taskId])
