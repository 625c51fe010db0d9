/** A worker claims a task of its queues: one statement picks and locks the first that is offered, so that two workers never get the same. */
import type { JsonObject } from '#kernel/json-value'
import { failpoint, statement, type Tx } from '#store'
import { Batch } from './batch.ts'
import { chooseModel, type MissionConfig, readMissionConfig } from './config.ts'
import { later } from './decide-attempt.ts'
import { MISSION_KIND, MISSION_QUEUE, type MissionDeps } from './deps.ts'
import { bringForward, lockMission, type StoredMission, type StoredTask } from './mission.ts'
import { coordinator, systemOf } from './plan-rows.ts'
import { WORKER_EFFECT } from './worker-task.ts'

const TASKS = 'missions.orchestration_tasks'
const RUNS = 'missions.orchestration_runs'

/** Offered: its command has passed every rule and person, and its effect waits for a worker. A retry is offered when it is due. */
const claimable = `from ${TASKS} as t join ${RUNS} as r on r.id = t.run_id and r.state_type = 'running'
  join concord.commands as c on c.command_id = t.command_id and c.completed_at is null and not c.cancellation_requested
where t.workspace_id = $1::uuid and t.spec #>> '{run,worker}' = any($2::text[]) and t.spec #>> '{run,worker}' is not null
  and t.state in ('queued', 'awaiting_retry') and t.due_at is null and r.id <> all($3::uuid[])
  and exists (select from concord.domain_effects as f
    where f.command_id = t.command_id and f.effect_type = '${WORKER_EFFECT}' and f.status = 'executing')
order by t.created_at, t.sequence_number limit 1`

type Offered = StoredTask & { readonly input: JsonObject }

/** $1 workspace, $2 queues, $3 missions that are left out. Locks the task and its mission, and passes over what others hold. */
const pickTask = statement<Offered>(
  'missions.pick_task',
  `select t.*, c.payload->'input' as input ${claimable} for update of r, t skip locked`,
)
/** As above. */
const findOfferedRun = statement<{ readonly run_id: string }>(
  'missions.find_offered_run',
  `select t.run_id ${claimable}`,
)
/** $1 workspace, $2 name. */
const enterRoster = statement<{ readonly id: number }>(
  'missions.enter_roster',
  `insert into missions.agents as a (workspace_id, name, adapter) values ($1::uuid, $2, 'worker')
on conflict (workspace_id, name) do update set name = a.name returning a.id`,
)

type UpstreamOutput = {
  readonly temp_id: string
  readonly title: string
  readonly output_summary: string | null
  readonly output_ref: string | null
}

export const UPSTREAM_SHOWN = 100
/** $1 task. What its data edges lead from; an edge that only orders carries nothing. */
const listUpstream = statement<UpstreamOutput>(
  'missions.list_outputs_before',
  `select u.spec->>'temp_id' as temp_id, u.title, u.output_summary, u.output_ref
from missions.orchestration_task_dependencies as d join ${TASKS} as u on u.id = d.depends_on_id
where d.task_id = $1::uuid and d.dependency_type = 'data' and u.state = 'completed' order by u.sequence_number limit ${UPSTREAM_SHOWN}`,
)

/** A mission that others hold is waited for only if there is nothing else. */
async function pick(tx: Tx, values: readonly unknown[]): Promise<Offered | undefined> {
  const [free] = await tx.run(pickTask, values)
  if (free) return free
  const [held] = await tx.run(findOfferedRun, values)
  if (!held) return undefined
  await lockMission(tx, held.run_id)
  const [task] = await tx.run(pickTask, values)
  return task
}

export type ClaimedTask = {
  readonly task: StoredTask
  readonly input: JsonObject
  readonly upstream: readonly UpstreamOutput[]
  readonly leaseToken: string
}

/** A name holds within its key: two workers are the same if they have one key and not two names. */
export const workerIdOf = (caller: string, name?: string) => (name === undefined ? caller : `${caller}/${name}`)
export const isSameWorker = (one: string, other: string) =>
  one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`)

type Claim = {
  readonly workspaceId: string
  readonly queues: readonly string[]
  readonly workerId: string
  /** The name of the agent that does the work, for the roster. */
  readonly agent?: string | undefined
  readonly traceId: string
}

/** Null: there is nothing to do. A mission with damaged settings is woken, so that its turn ends it, and holds back no other. */
export async function claimTask(deps: MissionDeps, claim: Claim): Promise<ClaimedTask | null> {
  const { db, now, wake } = deps.commands
  const damaged: string[] = []
  for (;;) {
    // A transaction holds the lock of one mission, so that two claims cannot wait for each other.
    const claimed = await db.transaction(async (tx) => {
      const picked = await pick(tx, [claim.workspaceId, claim.queues, damaged])
      const run = picked && (await lockMission(tx, picked.run_id))
      if (!picked || !run) return null
      const config = readMissionConfig(run.config)
      if (config.ok) return assign(tx, deps, claim, { picked, run, config: config.value })
      await bringForward(tx, run.id, now())
      await wake({ kind: MISSION_KIND, id: run.id }, { tx, queue: MISSION_QUEUE })
      return run.id
    })
    if (typeof claimed !== 'string') return claimed
    damaged.push(claimed)
  }
}

type Picked = { readonly picked: Offered; readonly run: StoredMission; readonly config: MissionConfig }

async function assign(
  tx: Tx,
  { commands: { now, newId } }: MissionDeps,
  { workspaceId, workerId, agent, traceId }: Claim,
  { picked: { input, ...task }, run, config }: Picked,
): Promise<ClaimedTask> {
  const [entered] = agent === undefined ? [] : await tx.run(enterRoster, [workspaceId, agent])
  const at = now()
  const batch = new Batch(run)
  const leaseToken = newId()
  const chosen = { agent_id: entered?.id ?? null, agent_type: entered ? 'roster' : 'contractor' } as const
  const lease = {
    ...chosen,
    lease_token: leaseToken,
    lease_until: later(at, config.timeouts.task_assign_seconds),
    worker_id: workerId,
    last_heartbeat_at: null,
    submission: null,
    model_override: chooseModel(task, config),
  }
  const { board_task_id } = task
  const moved =
    task.state === 'queued'
      ? batch.task(task, 'assigned', {
          by: coordinator(traceId),
          at,
          payloads: { task_assigned: { ...chosen, model: lease.model_override, board_task_id } },
          set: lease,
        })
      : batch.task(task, 'assigned', {
          by: systemOf(traceId),
          at,
          payloads: {
            task_retrying: {
              attempt_number: task.attempt_number + 1,
              backoff_seconds: Math.max(0, (at.getTime() - task.updated_at.getTime()) / 1_000),
              failure_type: task.failure_type ?? 'infrastructure',
            },
          },
          set: { ...lease, attempt_number: task.attempt_number + 1, continuation_count: 0, returns: 0 },
        })
  await batch.commit(tx)
  await bringForward(tx, run.id, lease.lease_until)
  await failpoint('missions.claim_written')
  return { task: moved, input, upstream: await tx.run(listUpstream, [task.id]), leaseToken }
}
