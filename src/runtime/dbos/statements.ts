/** The statements of the adapter, each one round trip. */
import { statement } from '#store'
import { lockKey } from './lock-key.ts'

export type Woken = {
  readonly outcome: 'started' | 'opened' | 'delayed' | 'hastened' | 'joined' | 'asleep'
  readonly turn: string
  readonly fence: string
  readonly wait_ms: number
}

export const wakeProcess = statement<Woken>(
  'runtime_wake',
  'select * from runtime.wake($1, $2, $3::bigint, $4, $5::integer, $6, $7::boolean, $8, $9, $10)',
)

export type BegunRow = {
  readonly outcome: 'stale' | 'early' | 'stuck' | 'begun'
  readonly fence: string
  readonly attempt: number
}

export const beginTurn = statement<BegunRow>(
  'runtime_begin_turn',
  'select * from runtime.begin_turn($1, $2, $3::bigint, $4::integer)',
)

export type ClaimedRow = {
  readonly kind: string
  readonly id: string
  readonly turn: string
  /** Null: somebody is waking the process at this moment; the turn begins by itself. */
  readonly outcome: BegunRow['outcome'] | null
  readonly fence: string
  readonly attempt: number
}

export const claimTurns = statement<ClaimedRow>(
  'runtime_claim_turns',
  'select * from runtime.claim_turns($1, $2::integer, $3, $4, $5::jsonb)',
)

export type EndedRow = {
  readonly outcome: 'stale' | 'over' | 'started' | 'opened' | 'delayed'
  readonly turn: string
  readonly fence: string
  readonly wait_ms: number
  readonly queue: string
}

export const endTurn = statement<EndedRow>(
  'runtime_end_turn',
  'select * from runtime.end_turn($1, $2, $3::bigint, $4, $5::timestamptz, $6, $7)',
)

export type FailedRow = {
  readonly outcome: 'stale' | 'stuck' | 'delayed'
  readonly turn: string
  readonly wait_ms: number
  readonly queue: string
}

export const failTurn = statement<FailedRow>(
  'runtime_fail_turn',
  'select * from runtime.fail_turn($1, $2, $3::bigint, $4, $5, $6::integer)',
)

/** Which of the given queues have turns waiting; one index probe each. */
export const findWaitingQueues = statement<{ queue: string }>(
  'runtime_find_waiting_queues',
  `select queue from unnest($1::text[]) as q (queue)
   where exists (select from "dbos".workflow_status w where w.queue_name = queue and w.status = 'ENQUEUED')`,
)

/** The engine looks at delayed turns once a second; whoever knows of one that is due now need not wait for that. */
export const promoteTurns = statement<{ queue_name: string }>(
  'runtime_promote_turns',
  `update "dbos".workflow_status set status = 'ENQUEUED', delay_until_epoch_ms = null
   where workflow_uuid = any($1::text[]) and status = 'DELAYED'
     and delay_until_epoch_ms <= ceil(extract(epoch from clock_timestamp()) * 1000)::bigint
   returning queue_name`,
)

/** True: the line was not there, although it had been written before. Somebody has declared this worker dead. */
export const beat = statement<{ is_new: boolean }>(
  'runtime_beat',
  `insert into runtime.executors as e (executor_id, lease_until)
   values ($1, clock_timestamp() + make_interval(secs => $2::double precision / 1000))
   on conflict (executor_id) do update set lease_until = excluded.lease_until
   returning xmax = 0 as is_new`,
)

/** Which of this worker's turns are no longer its own. */
export const findLostTurns = statement<{ kind: string; id: string; fence: string }>(
  'runtime_find_lost_turns',
  `select mine.kind, mine.id, mine.fence from unnest($1::text[], $2::text[], $3::bigint[]) as mine (kind, id, fence)
   where not exists (
     select from runtime.processes p
     where p.kind = mine.kind and p.id = mine.id and p.fence = mine.fence and p.state = 'running')`,
)

/**
 * Workers with turns under way that may be dead. A lock that can be had belongs to a session that is gone; it is let go
 * at the end of the statement.
 */
export const findSuspects = statement<{ executor_id: string; is_expired: boolean; is_unlocked: boolean }>(
  'runtime_find_suspects',
  `select s.executor_id, s.is_expired, not s.is_expired and pg_try_advisory_xact_lock(${lockKey('s.executor_id')}) as is_unlocked
   from (
     select w.executor_id, coalesce(e.lease_until < clock_timestamp(), true) as is_expired
     from (
       select distinct executor_id from "dbos".workflow_status
       where status = 'PENDING' and application_name = 'concord' and executor_id <> $1
     ) as w
     left join runtime.executors e on e.executor_id = w.executor_id
     offset 0
   ) as s`,
)

/** What this worker holds in the engine's table; what of it nobody works on was left by a commit without an answer. */
export const findOwnTurns = statement<{ workflow_uuid: string }>(
  'runtime_find_own_turns',
  `select workflow_uuid from "dbos".workflow_status where status = 'PENDING' and application_name = 'concord' and executor_id = $1`,
)

export const requeueTurns = statement<{ workflow_uuid: string }>(
  'runtime_requeue_turns',
  `update "dbos".workflow_status set status = 'ENQUEUED', owner_xid = null, started_at_epoch_ms = null
   where workflow_uuid = any($1::text[]) and executor_id = $2 and status = 'PENDING'
   returning workflow_uuid`,
)
