/** Missions and their events: rows and the statements that read and write them. Every write of a mission holds the lock of its run. */
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { type Db, type Paged, pageText, scoped, type Sql, statement, type Tx } from '#store'
import type { RowOf, Rows } from '#store/rows'
import type { PlanTask } from './plan.ts'

const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'
const EVENTS = 'missions.orchestration_events'

/** What a task runs, and its temporary id in the plan. */
type MissionTaskSpec = Pick<PlanTask, 'temp_id' | 'run' | 'max_retries' | 'max_continuations' | 'max_cost' | 'verify'>

/** What a worker says that it has used. */
export type Reported = { readonly cost: string; readonly tokens: number }

/** What a worker has submitted. */
type Submission = { readonly output: JsonObject } & Reported

/** Which submission was accepted, so that the same one again gets the same answer. */
type Receipt = {
  readonly lease_token: string
  readonly attempt: number
  readonly continuations: number
  readonly digest: string
}

/** Without the plan, which may have 10,000 tasks: a turn never reads it. */
export type StoredMission = Omit<RowOf<'missions.orchestration_runs', { readonly config: JsonObject }>, 'plan'> & {
  /** Its account. Null: it has no hard limit. */
  readonly budget: { readonly limit: string; readonly reserved: string; readonly spent: string } | null
}
export type StoredTask = Omit<
  Rows['missions.orchestration_tasks'],
  'spec' | 'tools_requested' | 'submission' | 'receipt'
> & {
  readonly spec: MissionTaskSpec
  readonly submission: Submission | null
  readonly receipt: Receipt | null
  readonly tools_requested: readonly string[] | null
  /** Read for views alone. */
  readonly agent_run_id?: string | null
}
export type StoredEdge = Rows['missions.orchestration_task_dependencies']
type StoredMissionEvent = RowOf<'missions.orchestration_events', { readonly payload: JsonObject }>

const runFields = `t.id, t.workspace_id, t.title, t.description, t.goal, t.state, t.state_type, t.config, t.result_summary, t.error_message,
  t.created_by, t.coordinator_agent_id, t.total_tokens, t.total_cost, t.task_count, t.tasks_completed, t.tasks_failed, t.started_at,
  t.completed_at, t.duration_ms, t.version_id, t.created_at, t.updated_at, t.tags, t.command_id, t.gate_command_id, t.run_after,
  t.account_id, t.forked_from_id, t.report_id,
  case when t.account_id is not null then (select jsonb_build_object('limit', a.limit_units::text, 'reserved', (a.reserved_units + a.carved_units)::text,
    'spent', (a.spent_units + a.excess_units)::text)
    from concord.budget_accounts as a where a.account_id = t.account_id and a.workspace_id = t.workspace_id) end as budget`

/** $1 the row as JSON. Nothing is returned if the command has a mission already. */
const insertRun = statement<StoredMission>(
  'missions.insert',
  `insert into ${RUNS} as t (id, workspace_id, title, description, goal, plan, config, tags, created_by, created_at, updated_at, command_id, run_after, forked_from_id)
select r.id, r.workspace_id, r.title, r.description, r.goal, r.plan, r.config, r.tags, r.created_by, r.created_at, r.created_at, r.command_id, r.created_at, r.forked_from_id
from jsonb_populate_record(null::${RUNS}, $1::jsonb) as r on conflict (command_id) do nothing returning ${runFields}`,
)

export async function insertMission(tx: Tx, row: object): Promise<StoredMission | undefined> {
  const [run] = await tx.run(insertRun, [JSON.stringify(row)])
  return run
}

/** $1 mission. The account has the id of the mission. */
const setAccountOf = statement<StoredMission>(
  'missions.set_account',
  `update ${RUNS} as t set account_id = t.id where t.id = $1::uuid returning ${runFields}`,
)
export async function setAccount(tx: Tx, run: StoredMission): Promise<StoredMission> {
  const [opened] = await tx.run(setAccountOf, [run.id])
  return opened ?? run
}

const findRun = statement<StoredMission>(
  'missions.find',
  `select ${runFields} from ${RUNS} as t where t.id = $1::uuid and t.workspace_id = $2::uuid`,
)
const findRunOfCommand = statement<StoredMission>(
  'missions.find_of_command',
  `select ${runFields} from ${RUNS} as t where t.command_id = $1::uuid`,
)
const lockRun = statement<StoredMission>(
  'missions.lock',
  `select ${runFields} from ${RUNS} as t where t.id = $1::uuid for update`,
)
/** $1 mission. */
const findPlan = statement<{ readonly plan: unknown }>(
  'missions.find_plan',
  `select t.plan from ${RUNS} as t where t.id = $1::uuid`,
)

export async function findMission(sql: Sql, workspaceId: string, id: string): Promise<StoredMission | undefined> {
  const [run] = await sql.run(findRun, [id, workspaceId])
  return run
}

export async function findMissionOfCommand(sql: Sql, commandId: string): Promise<StoredMission | undefined> {
  const [run] = await sql.run(findRunOfCommand, [commandId])
  return run
}

/** A statement that waits for a row sees that row as it is after the wait, and all others as they were before. So the account is read after it. */
export async function lockMission(tx: Tx, id: string): Promise<StoredMission | undefined> {
  const [run] = await tx.run(lockRun, [id])
  return run && run.account_id !== null ? findMission(tx, run.workspace_id, id) : run
}

export async function readStoredPlan(sql: Sql, id: string): Promise<unknown> {
  const [row] = await sql.run(findPlan, [id])
  return row?.plan
}

/** $1 mission, $2 plan. */
const setPlanOf = statement<never>('missions.set_plan', `update ${RUNS} set plan = $2::jsonb where id = $1::uuid`)
export const setPlan = (tx: Tx, id: string, plan: object) => tx.run(setPlanOf, [id, JSON.stringify(plan)])

/** $1 mission. */
const findVersion = statement<{ readonly version: string | null }>(
  'missions.find_plan_version',
  `select t.plan->>'version' as version from ${RUNS} as t where t.id = $1::uuid`,
)
export async function findPlanVersion(sql: Sql, id: string): Promise<number> {
  const [row] = await sql.run(findVersion, [id])
  return Number(row?.version)
}

/** $1 the row as JSON, $2 the version that was read. */
const updateRun = statement<{ readonly id: string }>(
  'missions.update',
  `update ${RUNS} as t set state = r.state, state_type = r.state_type, result_summary = r.result_summary, error_message = r.error_message,
  total_tokens = r.total_tokens, total_cost = r.total_cost, task_count = r.task_count, tasks_completed = r.tasks_completed,
  tasks_failed = r.tasks_failed, started_at = r.started_at, completed_at = r.completed_at, duration_ms = r.duration_ms, version_id = r.version_id,
  updated_at = r.updated_at, run_after = r.run_after, account_id = r.account_id
from jsonb_populate_record(null::${RUNS}, $1::jsonb) as r
where t.id = r.id and t.workspace_id = r.workspace_id and t.version_id = $2 returning t.id`,
)

/** False: another writer was first. */
export async function updateMission(tx: Tx, row: StoredMission, version: number): Promise<boolean> {
  const rows = await tx.run(updateRun, [JSON.stringify({ ...row, goal: null, config: null }), version])
  return rows.length === 1
}

/** $1 mission, $2 command. */
const setGateOf = statement<never>(
  'missions.set_gate',
  `update ${RUNS} set gate_command_id = $2::uuid where id = $1::uuid`,
)
export const setGate = (sql: Sql, id: string, commandId: string | null) => sql.run(setGateOf, [id, commandId])

/** $1 mission, $2 amount. */
const setHardLimitOf = statement<never>(
  'missions.set_hard_limit',
  `update ${RUNS} set config = jsonb_set(config, '{budget,hard_limit}', to_jsonb($2::text)) where id = $1::uuid`,
)
export const setHardLimit = (tx: Tx, id: string, limit: string) => tx.run(setHardLimitOf, [id, limit])

/** $1 mission, $2 time or null. */
const setDueOf = statement<never>(
  'missions.set_due',
  `update ${RUNS} set run_after = $2::timestamptz where id = $1::uuid`,
)
export const setDue = (sql: Sql, id: string, at: Date | null) => sql.run(setDueOf, [id, at])

/** $1 mission, $2 time. A mission that has a turn before that time keeps it. */
const setDueBy = statement<never>(
  'missions.set_due_by',
  `update ${RUNS} set run_after = least(run_after, $2::timestamptz) where id = $1::uuid`,
)
export const bringForward = (sql: Sql, id: string, at: Date) => sql.run(setDueBy, [id, at])

/** $1 due before, $2 limit. */
export const overdueMissions = statement<{ readonly id: string }>(
  'missions.list_overdue',
  `select t.id from ${RUNS} as t where t.run_after <= $1 order by t.run_after limit $2`,
)

const newest = (more: string) =>
  pageText(`select ${runFields} from ${RUNS} as t
    where t.workspace_id = $1::uuid and ($2::timestamptz is null or (t.created_at, t.id) < ($2, $3::uuid))
      and ($5::text is null or t.state = $5) and ($6::text is null or t.state_type = $6) and ($7::text is null or t.created_by = $7) ${more}
    order by t.created_at desc, t.id desc limit $4`)
const listNewest = statement<StoredMission & Paged>('missions.list_newest', newest(''))
/** The goal has every word of $8. */
const listFound = statement<StoredMission & Paged>(
  'missions.list_found',
  newest(`and to_tsvector('simple', t.goal) @@ plainto_tsquery('simple', $8)`),
)

export type MissionFilter = {
  readonly state?: string | undefined
  readonly stateType?: string | undefined
  readonly createdBy?: string | undefined
  /** Words of the goal. */
  readonly search?: string | undefined
}

/** The progress is on the row: no list reads tasks. */
export function listMissions(
  db: Db,
  workspaceId: string,
  {
    before,
    limit,
    state,
    stateType,
    createdBy,
    search,
  }: MissionFilter & { readonly before: readonly [string, string] | null; readonly limit: number },
) {
  const values = [
    workspaceId,
    before?.[0] ?? null,
    before?.[1] ?? null,
    limit,
    state ?? null,
    stateType ?? null,
    createdBy ?? null,
  ]
  return scoped(db, workspaceId).read((tx) =>
    search === undefined ? tx.run(listNewest, values) : tx.run(listFound, [...values, search]),
  )
}

export type TitledEvent = Omit<StoredMissionEvent, 'xid'> & { readonly task_title: string | null }

/** $1 mission, $2 after the id, $3 limit. All writers of a mission hold its lock, so ids are in the order of the commits. */
const eventsIn = (table: string) =>
  pageText(`select t.id, t.run_id, t.task_id, t.event_type, t.payload, t.actor_type, t.actor_id, t.created_at, k.title as task_title
    from ${table} as t left join ${TASKS} as k on k.id = t.task_id
    where t.run_id = $1::uuid and t.id > $2::bigint order by t.id limit $3`)
const listEvents = statement<TitledEvent & Paged>('missions.list_events', eventsIn(EVENTS))
const listArchivedEvents = statement<TitledEvent & Paged>(
  'missions.list_archived_events',
  eventsIn(`${EVENTS}_archive`),
)

/** The archive has the first events of a mission that ended, or none. */
export function listMissionEvents(
  db: Db,
  workspaceId: string,
  { id, state_type }: Pick<StoredMission, 'id' | 'state_type'>,
  { after, limit }: { after: string; limit: number },
) {
  return scoped(db, workspaceId).read(async (tx): Promise<readonly (TitledEvent & Paged)[]> => {
    const old = state_type === 'terminal' ? await tx.run(listArchivedEvents, [id, after, limit]) : []
    if (old.length === limit) return old
    const events = await tx.run(listEvents, [id, after, limit - old.length])
    return [...old.map((event) => ({ ...event, has_next: event.has_next || events.length > 0 })), ...events]
  })
}

export function lostRace(what: string): KernelFault {
  return new KernelFault('missions.write.lost', `Another writer was first with ${what} of a mission that is locked.`)
}
