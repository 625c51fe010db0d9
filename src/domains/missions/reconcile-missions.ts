/**
 * The net under the turns of missions. It reads rows alone and keeps nothing between two calls, so it may run twice at once. A turn that is due and did not come is
 * given again; a mission that stands still although it has work, for example because a wake was lost, is reported and woken.
 */
import type { CommandDeps } from '#domains/commands'
import { encodeId, isUuid } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { redactText } from '#kernel/secret-shapes'
import { failpoint, type Sql, statement, type Tx } from '#store'
import { reconcile } from '#turns'
import { Batch, type MissionActor } from './batch.ts'
import { cutSummary } from './cards.ts'
import { MISSION_KIND, MISSION_QUEUE } from './deps.ts'
import { AT_ONCE_MAX } from './dispatch.ts'
import { NOBODY } from './events.ts'
import { livingAuxiliaries, livingHooks } from './auxiliary-rows.ts'
import { bringForward, lockMission, overdueMissions, type StoredTask } from './mission.ts'

const RUNS = 'missions.orchestration_runs'
const TASKS = 'missions.orchestration_tasks'
const EDGES = 'missions.orchestration_task_dependencies'
const BATCH = 100
const RESOLVE_SECONDS = 60

type Deps = Pick<CommandDeps, 'db' | 'now' | 'wake'>

/** Wakes missions that are due: their process died between a commit and a wake, or a time of theirs has come. */
export function reconcileMissions(deps: Deps, graceMs?: number): Promise<number> {
  const wakeOf = async ({ id }: { readonly id: string }) => ({
    process: { kind: MISSION_KIND, id },
    options: { queue: MISSION_QUEUE },
  })
  return reconcile(deps, overdueMissions, wakeOf, graceMs)
}

/** The four rules over the rows: the task `t` may start. The counter of a task says the same without a look at its dependencies. */
const READY = `t.state = 'pending' and not exists (select from ${EDGES} as d join ${TASKS} as u on u.id = d.depends_on_id
  where d.task_id = t.id and case t.trigger_rule
    when 'all_success' then u.state <> 'completed'
    when 'all_done' then u.state_type <> 'terminal'
    when 'none_failed' then u.state_type <> 'terminal' or u.state = 'failed'
    else false end)`

/** $1 mission. */
const listReadyRows = statement<StoredTask>(
  'missions.list_ready_by_rules',
  `select t.* from ${TASKS} as t where t.run_id = $1::uuid and ${READY} order by t.sequence_number`,
)
/** For a repair, and to look into a mission: O(tasks and edges). */
export const listReadyByRules = (sql: Sql, runId: string) => sql.run(listReadyRows, [runId])

/** A damaged setting counts as none. */
const waited = `make_interval(secs => case when jsonb_typeof(r.config #> '{timeouts,run_resolve_seconds}') = 'number'
  then least(greatest((r.config #>> '{timeouts,run_resolve_seconds}')::numeric, 1), 86400)::float8 else ${RESOLVE_SECONDS} end)`

/** $1 now, $2 limit, $3 one mission or null. No turn is due, nothing happened for a while, and there is work: the outcome, or a task that can move. The rules
 * of all tasks are read only where nothing else is under way. A task of workers waits while as many as possible are offered. A hook that runs or waits for a person wakes its mission itself. */
const listStalled = statement<{ readonly id: string; readonly since: Date }>(
  'missions.list_stalled',
  `select r.id, last.created_at as since from ${RUNS} as r
  cross join lateral (select e.created_at from missions.orchestration_events as e where e.run_id = r.id order by e.id desc limit 1) as last
where r.state_type <> 'terminal' and ($3::uuid is null or r.id = $3) and (r.run_after is null or r.run_after > $1)
  and last.created_at <= $1::timestamptz - ${waited}
  and not exists (select from ${livingHooks('r.id')})
  and case when r.state_type = 'running' then
    not exists (select from ${TASKS} as t where t.run_id = r.id and t.state_type <> 'terminal')
    or exists (select from (select count(*) < ${AT_ONCE_MAX} as has_room from (select from ${TASKS} as o
        where o.run_id = r.id and o.state = 'queued' and o.command_id is not null and o.state_type <> 'terminal' limit ${AT_ONCE_MAX}) as o) as offered
      cross join ${TASKS} as t left join concord.commands as c on c.command_id = t.command_id
      left join concord.commands as v on v.command_id = t.review_command_id
      where t.run_id = r.id and t.state_type <> 'terminal' and (
        coalesce(t.due_at, t.lease_until) <= $1 or (t.state = 'queued' and t.command_id is null and (offered.has_room or t.spec #>> '{run,worker}' is null) and not exists (
          select from ${TASKS} as x where x.run_id = r.id and x.state = 'running'))
        or (c.completed_at <= $1 and (t.state in ('queued', 'assigned', 'running', 'continuing') or (t.state = 'awaiting_retry' and t.due_at is null))) or (t.state_type = 'paused' and v.completed_at <= $1) or (${READY} and not exists (
          select from ${TASKS} as x where x.run_id = r.id and x.state <> 'pending' and x.state_type <> 'terminal'))))
    or exists (select from ${livingAuxiliaries('r.id', 'not null')})
  when r.state_type = 'pending' then exists (select from concord.commands as g where g.command_id = r.gate_command_id and g.completed_at <= $1)
    or exists (select from ${livingAuxiliaries('r.id', 'not null')}) else false end
order by r.id limit $2`,
)

/** Returns how many missions it woke. Each is reported in its log first. */
export async function wakeStalledMissions(deps: Deps, { traceId }: { readonly traceId: string }): Promise<number> {
  const stalled = await deps.db.run(listStalled, [deps.now(), BATCH, null])
  let woken = 0
  for (const { id } of stalled) {
    await failpoint('missions.stall_found')
    if (await wakeStalled(deps, id, traceId)) woken += 1
  }
  return woken
}

/** In the transaction of an operator who resumed a mission that got no more turns. */
export async function recordResumedMission(
  tx: Tx,
  by: Pick<MissionActor, 'id' | 'traceId'>,
  { id, why, reason, at }: { readonly id: string; readonly why: string; readonly reason: string; readonly at: Date },
): Promise<void> {
  const run = isUuid(id) ? await lockMission(tx, id) : undefined
  if (!run) return
  const batch = new Batch(run)
  noteStall(batch, run.updated_at, cutSummary(`resumed (${why}): ${redactText(reason)}`), {
    by: { ...by, kind: 'human' },
    at,
  })
  await batch.commit(tx)
}

function noteStall(batch: Batch, since: Date, action_taken: string, noting: { by: MissionActor; at: Date }): void {
  const stall_detected = {
    entity_type: 'run',
    entity_id: encodeId('mission', batch.run.id),
    stalled_state: batch.run.state,
    stalled_since: formatInstant(since),
    action_taken,
  }
  batch.note('stall_detected', { ...noting, payloads: { stall_detected } })
}

function wakeStalled({ db, now, wake }: Deps, id: string, traceId: string): Promise<boolean> {
  return db.transaction(async (tx) => {
    const run = await lockMission(tx, id)
    const at = now()
    // Another reconciler or a turn may have been first.
    const [found] = run ? await tx.run(listStalled, [at, 1, id]) : []
    if (!run || !found) return false
    const batch = new Batch(run)
    noteStall(batch, found.since, 'woken', { by: { id: NOBODY, kind: 'reconciler', traceId }, at })
    await correctCounters(tx, batch)
    await batch.commit(tx)
    await bringForward(tx, id, at)
    await wake({ kind: MISSION_KIND, id }, { tx, queue: MISSION_QUEUE })
    return true
  })
}

/** A task that may start and does not know it would wait for ever. */
async function correctCounters(tx: Tx, batch: Batch): Promise<void> {
  for (const task of await listReadyByRules(tx, batch.run.id))
    if (task.remaining !== 0) batch.change(task, { remaining: 0 })
}
