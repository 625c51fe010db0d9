/**
 * Stops of agents. The statement that begins a command of an agent, an effect of such a command or a call for it asks the database function
 * `concord.may_agent_act`: it sees every stop that was committed before, and a stop waits for what is just beginning
 * (`docs/decisions/0060-stop-and-trust.md`).
 */
import { z } from 'zod'
import { idView, orNull, textView, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { type Decision, accept, refuse } from '#kernel/refusal'
import type { Process } from '#runtime'
import { type Db, type Paged, pageText, scoped, type Sql, statement, type Tx } from '#store'
import type { Rows } from '#store/rows'
import { STOPPED } from '../change.ts'
import { isOfAgent, processOf, RUN_KIND, type StoredCommand, SWARM_KIND } from '../command-table.ts'
import type { CommandDeps } from '../deps.ts'
import { wakeOptionsOf } from '../tasks.ts'

export type StoredStop = Rows['concord.stops']

export const stopScopes = ['all', 'agent', 'run', 'swarm'] as const
type StopScope = (typeof stopScopes)[number]

/** A condition about the row `row` of a command of an agent: no stop covers it. */
export const mayAgentAct = (row: string): string =>
  `concord.may_agent_act(${row}.workspace_id, ${row}.context->>'agent', ${row}.agent_run_id)`

/** $1 workspace, $2 agent or null, $3 run or null. The oldest first. */
const findCovering = statement<StoredStop>(
  'commands_find_stops',
  'select s.* from concord.find_stops($1::uuid, $2::text, $3::uuid) as s',
)

/** The stop that covers an agent with a key of its own, or a run with all runs above it. */
export async function findStop(
  sql: Sql,
  of: { readonly workspaceId: string; readonly agent: string | null; readonly runId: string | null },
): Promise<StoredStop | undefined> {
  const [stop] = await sql.run(findCovering, [of.workspaceId, of.agent, of.runId])
  return stop
}

/** Undefined for a command without an agent, without a look at the database. */
export async function findStopOf(sql: Sql, command: StoredCommand): Promise<StoredStop | undefined> {
  if (!isOfAgent(command)) return undefined
  const { workspace_id: workspaceId, context, agent_run_id: runId } = command
  return findStop(sql, { workspaceId, agent: context.agent ?? null, runId })
}

export function refuseStopped({ stop_id }: StoredStop) {
  return refuse('commands.agent.stopped', STOPPED, { facts: { stop_id: encodeId('stop', stop_id) } })
}

type NewStop = Omit<StoredStop, 'lifted_at' | 'lifted_by' | 'lift_reason' | 'lift_command_id'>

/** Waits for everything of agents that is just beginning. A repeat after a lost answer changes nothing. */
const insertStopSql = statement<Pick<StoredStop, 'stop_id'>>(
  'commands_insert_stop',
  `insert into concord.stops (stop_id, workspace_id, command_id, scope, target, ends_runs, reason, stopped_by, created_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9) on conflict do nothing returning stop_id`,
)

/**
 * The runs, and the swarms by their coordinator. $1 workspace, $2 stop in force. Locks nothing, because the transaction of a stop holds up everything of agents
 * that begins. A coordinator that its swarm has not asked yet has no turn.
 */
const listCovered = statement<Process>(
  'commands_list_covered_by_stop',
  `select '${RUN_KIND}' as kind, r.agent_run_id as id from concord.agent_runs as r
join concord.commands as c on c.command_id = r.command_id and c.workspace_id = r.workspace_id
where r.workspace_id = $1::uuid and r.completed_at is null and r.cancelled_at is null and not (r.status = 'created' and r.run_after is null)
  and exists (select from concord.find_stops(r.workspace_id, c.context->>'agent', r.agent_run_id) as s where s.stop_id = $2::uuid)
union all select '${SWARM_KIND}', w.swarm_run_id from concord.swarm_runs as w
where w.workspace_id = $1::uuid and w.completed_at is null and w.cancelled_at is null
  and exists (select from concord.find_stops(w.workspace_id, null, w.coordinator_agent_run_id) as s where s.stop_id = $2::uuid)
order by 1, 2`,
)

/** The turn after the commit asks for stops, also if another turn is under way: a wake is not lost. */
async function wakeAll(tx: Tx, wake: CommandDeps['wake'], covered: readonly Process[]) {
  for (const { kind, id } of covered) await wake({ kind, id }, { tx })
}

/** Returns false if the stop was inserted before. */
export async function insertStop(tx: Tx, { wake }: Pick<CommandDeps, 'wake'>, stop: NewStop): Promise<boolean> {
  const { stop_id, workspace_id, command_id, scope, target, ends_runs, reason, stopped_by, created_at } = stop
  const values = [stop_id, workspace_id, command_id, scope, target, ends_runs, reason, stopped_by, created_at]
  const isNew = (await tx.run(insertStopSql, values)).length > 0
  if (isNew) await wakeAll(tx, wake, await tx.run(listCovered, [workspace_id, stop_id]))
  return isNew
}

/** $1 stop, $2 workspace, $3 time, $4 person, $5 reason, $6 command. */
const liftStopSql = statement<StoredStop>(
  'commands_lift_stop',
  `update concord.stops set lifted_at = $3, lifted_by = $4, lift_reason = $5, lift_command_id = $6
where stop_id = $1 and workspace_id = $2 and lifted_at is null returning *`,
)

/** $1 workspace, $2 time. */
const markStoppedDue = statement<Pick<StoredCommand, 'command_id' | 'task_name' | 'command_type'>>(
  'commands_mark_stopped_due',
  `update concord.commands set run_after = $2
where workspace_id = $1 and (status = 'blocked' and error = '${STOPPED}' or status = 'validated' and ingress = 'agent_action')
returning command_id, task_name, command_type`,
)

type LiftStop = {
  readonly workspaceId: string
  readonly stopId: string
  readonly by: string
  readonly reason: string
  readonly commandId: string
}

/** What waits because of any stop asks again; what another stop still covers goes on waiting. */
export async function liftStop(
  tx: Tx,
  { catalog, wake, now }: Pick<CommandDeps, 'catalog' | 'wake' | 'now'>,
  { workspaceId, stopId, by, reason, commandId }: LiftStop,
): Promise<Decision<StoredStop>> {
  const at = now()
  const covered = await tx.run(listCovered, [workspaceId, stopId])
  const [lifted] = await tx.run(liftStopSql, [stopId, workspaceId, at, by, reason, commandId])
  if (!lifted) return refuseNotInForce()
  for (const row of await tx.run(markStoppedDue, [workspaceId, at]))
    await wake(processOf(row.command_id), { ...wakeOptionsOf(catalog, row), tx })
  await wakeAll(tx, wake, covered)
  return accept(lifted)
}

function refuseNotInForce() {
  return refuse('commands.stop.not_in_force', 'There is no such stop, or it was lifted before.')
}

const targets = { run: 'agent_run', swarm: 'swarm_run' } as const

/** $1 workspace, $2 id. */
const findTarget = {
  run: statement<object>(
    'commands_find_stoppable_run',
    'select 1 from concord.agent_runs where workspace_id = $1 and agent_run_id = $2',
  ),
  swarm: statement<object>(
    'commands_find_stoppable_swarm',
    'select 1 from concord.swarm_runs where workspace_id = $1 and swarm_run_id = $2',
  ),
}

export async function isTargetThere(
  db: Db,
  workspaceId: string,
  scope: Exclude<StopScope, 'all' | 'agent'>,
  target: string | null,
): Promise<boolean> {
  return scoped(db, workspaceId).read(async (tx) => (await tx.run(findTarget[scope], [workspaceId, target])).length > 0)
}

/** The agents of keys that may act in the workspace. $1 workspace. */
const listKeyNames = statement<{ readonly name: string }>(
  'commands_list_names_of_agent_keys',
  `select distinct k.agent as name from identity.workspaces w join identity.api_keys k on k.org_id = w.org_id
where w.id = $1 and k.agent is not null and (k.workspace_id is null or k.workspace_id = w.id)`,
)

/** The agents of the newest runs, and of one run with the name. $1 workspace, $2 name. */
const listRunNames = statement<{ readonly name: string }>(
  'commands_list_names_of_runs',
  `(select agent_name as name from concord.agent_runs where workspace_id = $1 and agent_name = $2 limit 1)
union (select agent_name from concord.agent_runs where workspace_id = $1 order by agent_run_id desc limit 1000)`,
)

/** The names that an agent can have: those of the project, of keys and of runs. Complete about `target`, and about the others for a hint. */
export async function namesOfAgents(
  { db, catalog }: Pick<CommandDeps, 'db' | 'catalog'>,
  workspaceId: string,
  target: string,
): Promise<ReadonlySet<string>> {
  const ofProject = [...catalog.tasks.values()].flatMap(({ spec: { name, metadata } }) => [
    ...(metadata['agent'] === undefined ? [] : [name]),
    ...((metadata['swarm_agents'] as readonly string[] | undefined) ?? []),
  ])
  const keys = await db.run(listKeyNames, [workspaceId])
  const runs = await scoped(db, workspaceId).read((tx) => tx.run(listRunNames, [workspaceId, target]))
  return new Set([...ofProject, ...[...keys, ...runs].map(({ name }) => name)])
}

/** $1 workspace, $2 only those in force, $3 the stop to list from or null, $4 limit. */
const listSql = statement<StoredStop & Paged>(
  'commands_list_stops',
  pageText(`select t.* from concord.stops t
where t.workspace_id = $1 and (not $2::boolean or t.lifted_at is null) and ($3::uuid is null or t.stop_id < $3)
order by t.stop_id desc limit $4`),
)

/** The newest first. */
export function listStops(
  db: Db,
  workspaceId: string,
  of: { readonly isInForce: boolean; readonly beforeId: string | null; readonly limit: number },
): Promise<readonly (StoredStop & Paged)[]> {
  return scoped(db, workspaceId).read((tx) => tx.run(listSql, [workspaceId, of.isInForce, of.beforeId, of.limit]))
}

export const stopView = z
  .object({
    stop_id: idView('stop'),
    scope: z.enum(stopScopes),
    target: textView('inventory-bot', 'The name of the agent, or the id of the run or swarm.').nullable(),
    ends_runs: z.boolean().meta({ description: 'Runs under way end. Otherwise they wait for the lift.' }),
    reason: textView('It orders the same part again and again.'),
    stopped_by: textView('user:0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'),
    command_id: idView('command'),
    created_at: timeView(),
    lifted_at: timeView().nullable(),
    lifted_by: textView('user:0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161').nullable(),
    lift_reason: textView('The order limit is fixed.').nullable(),
    lift_command_id: idView('command').nullable(),
  })
  .meta({ id: 'Stop' })

export function toStopView(stop: StoredStop): z.infer<typeof stopView> {
  const { scope, target } = stop
  return {
    stop_id: encodeId('stop', stop.stop_id),
    scope,
    target: target !== null && (scope === 'run' || scope === 'swarm') ? encodeId(targets[scope], target) : target,
    ends_runs: stop.ends_runs,
    reason: stop.reason,
    stopped_by: stop.stopped_by,
    command_id: encodeId('command', stop.command_id),
    created_at: stop.created_at.toISOString(),
    lifted_at: orNull(stop.lifted_at, (at) => at.toISOString()),
    lifted_by: stop.lifted_by,
    lift_reason: stop.lift_reason,
    lift_command_id: orNull(stop.lift_command_id, (id) => encodeId('command', id)),
  }
}
