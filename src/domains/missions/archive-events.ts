/**
 * Moves the events of missions that ended long ago into the archive table, batch by batch. What is read of a mission is the same before and after. Only the
 * owner of the tables may delete events: `concord history archive` calls this, and a server for which an age is set.
 */
import { type Db, statement } from '#store'

const RUNS = 'missions.orchestration_runs'
const EVENTS = 'missions.orchestration_events'
const BATCH_EVENTS = 5_000
const BATCH_MISSIONS = 100

const columns = ['id', 'run_id', 'task_id', 'event_type', 'payload', 'actor_type', 'actor_id', 'created_at']

/** $1 ended before, $2 limit. In the order of the log, so that of one mission the archive has the first events and the log the last. */
const moveEvents = statement<{ readonly moved: number }>(
  'missions.archive_events',
  `with due as (
  select r.id from ${RUNS} as r where r.completed_at < $1 and exists (select from ${EVENTS} as e where e.run_id = r.id)
  order by r.completed_at limit ${BATCH_MISSIONS}
), old as (
  select e.id from ${EVENTS} as e join due on due.id = e.run_id order by e.run_id, e.id limit $2
), gone as (
  delete from ${EVENTS} as e using old where e.id = old.id returning ${columns.map((name) => `e.${name}`).join(', ')}
), kept as (
  insert into ${EVENTS}_archive (${columns.join(', ')}) select ${columns.join(', ')} from gone returning id
)
select count(*)::int as moved from kept`,
)

type ArchiveEvents = {
  readonly endedBefore: Date
  readonly signal?: AbortSignal | undefined
  readonly batch?: number
}

/** Returns how many events it moved. Stopped between two batches, it leaves nothing half done. */
export async function archiveMissionEvents(
  db: Db,
  { endedBefore, signal, batch = BATCH_EVENTS }: ArchiveEvents,
): Promise<number> {
  let total = 0
  for (let moved = batch; moved > 0 && signal?.aborted !== true; total += moved) {
    const [row] = await db.transaction(
      (tx) => tx.run(moveEvents, [endedBefore, batch]),
      `begin; set local concord.retention = 'on'`,
    )
    moved = row?.moved ?? 0
  }
  return total
}
