/** The statements of the book, one round trip each. */
import type { ProcessView, StuckProcess } from '#runtime'
import { statement } from '#store'

/** An SQL expression for 64 bits of a worker's name in `column`: a lock that can be acquired belongs to a dead worker. */
export function lockKey(column: string): string {
  return `hashtextextended('concord.executor:' || ${column}, 0)`
}

export type Woken = {
  readonly outcome: 'started' | 'opened' | 'elsewhere' | 'delayed' | 'joined' | 'asleep'
  readonly turn: string
  readonly fence: string
  readonly wait_ms: number
}

export const wakeProcess = statement<Woken>(
  'runtime_wake',
  'select * from runtime.wake($1, $2, $3::bigint, $4, $5::integer, $6, $7::boolean, $8, $9)',
)

type TakenRow = {
  readonly book: string
  readonly kind: string
  readonly id: string
  readonly turn: string
  readonly priority: number
}

export const takeTurns = statement<TakenRow>(
  'runtime_take_turns',
  'select * from runtime.take_turns($1, $2::integer, $3, $4::text[], $5::integer, $6::integer, $7::integer, $8::bigint)',
)

type BegunRow = {
  readonly outcome: 'stale' | 'early' | 'stuck' | 'begun'
  readonly fence: string
  readonly attempt: number
}

export const beginTurn = statement<BegunRow>(
  'runtime_begin_turn',
  'select * from runtime.begin_turn($1, $2, $3, $4::bigint, $5::integer, $6, $7::integer)',
)

type ReturnedRow = {
  readonly outcome: 'stale' | 'returned' | 'stuck'
  readonly wait_ms: number
  readonly queue: string
}

export const returnTurn = statement<ReturnedRow>(
  'runtime_return_turn',
  'select * from runtime.return_turn($1, $2, $3::bigint, $4::boolean, $5)',
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
  'select * from runtime.end_turn($1, $2, $3::bigint, $4, $5::timestamptz, $6, p_queue => $7)',
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

/** Returns those of the given queues that have due turns in the book; one index probe each. */
export const findDueQueues = statement<{ queue: string }>(
  'runtime_find_due_queues',
  `select q.queue from unnest($1::text[]) as q (queue)
   where exists (
     select from runtime.processes p
     where p.queue = q.queue and p.state = 'queued' and p.given_at is null and p.due_at <= clock_timestamp())`,
)

export const regiveTurns = statement<{ queue: string }>(
  'runtime_regive_turns',
  'select distinct queue from runtime.regive_turns($1::bigint, $2::bigint, 500) as r (queue)',
)

/** Returns true when the row was missing although it had been written before: another worker has declared this one dead. */
export const beat = statement<{ is_new: boolean }>(
  'runtime_beat',
  `insert into runtime.executors as e (executor_id, lease_until, kinds, queues)
   values ($1, clock_timestamp() + make_interval(secs => $2::double precision / 1000), $3::text[], $4::text[])
   on conflict (executor_id) do update set lease_until = excluded.lease_until
   returning xmax = 0 as is_new`,
)

/** Returns the turns that this worker no longer holds. */
export const findLostTurns = statement<{ kind: string; id: string; fence: string }>(
  'runtime_find_lost_turns',
  `select mine.kind, mine.id, mine.fence from unnest($1::text[], $2::text[], $3::bigint[]) as mine (kind, id, fence)
   where not exists (
     select from runtime.processes p
     where p.kind = mine.kind and p.id = mine.id and p.fence = mine.fence and p.state = 'running')`,
)

/** Returns workers with running turns that may be dead. An acquired lock is released at the end of the statement. */
export const findSuspects = statement<{ executor_id: string; is_expired: boolean; is_unlocked: boolean }>(
  'runtime_find_suspects',
  `select s.executor_id, s.is_expired, not s.is_expired and pg_try_advisory_xact_lock(${lockKey('s.executor_id')}) as is_unlocked
   from (
     select w.executor as executor_id, coalesce(e.lease_until < clock_timestamp(), true) as is_expired
     from (
       select distinct p.executor from runtime.processes p where p.state = 'running' and p.executor <> $1
     ) as w
     left join runtime.executors e on e.executor_id = w.executor
     offset 0
   ) as s`,
)

/** Deletes what workers left that ended without a running turn; the reaper deletes the others with their turns. */
export const deleteOldExecutors = statement(
  'runtime_delete_old_executors',
  `delete from runtime.executors where lease_until < clock_timestamp() - interval '1 hour'`,
)

/** Returns a dead worker's turns to the book. Its row is deleted first: a living worker finds it gone at its next heartbeat. */
export const takeOver = statement<{ queue: string }>(
  'runtime_take_over',
  'select distinct queue from runtime.take_over($1) as t (queue)',
)

/** Returns the turns that this worker runs according to the book; one without running code was left by an unanswered commit. */
export const findOwnTurns = statement<{ kind: string; id: string; fence: string }>(
  'runtime_find_own_turns',
  `select kind, id, fence from runtime.processes where state = 'running' and executor = $1`,
)

export const requeueTurn = statement<{ queue: string }>(
  'runtime_requeue_turn',
  `update runtime.processes set state = 'queued', turn = nextval('runtime.turn_numbers'), due_at = clock_timestamp(), executor = null,
     delivery = 0, given_at = null, gives = 0, changed_at = clock_timestamp()
   where kind = $1 and id = $2 and fence = $3::bigint and state = 'running' and executor = $4
   returning queue`,
)

export const findProcess = statement<Omit<ProcessView, 'turn'> & { turn: string }>(
  'runtime_find_process',
  `select kind, id, turn, due_at as "dueAt", queue, failures,
     case when state = 'aborted' then 'stuck' when state = 'queued' and due_at > clock_timestamp() then 'waiting' else state end as state
   from runtime.processes where kind = $1 and id = $2 and state <> 'idle'`,
)

export const listStuck = statement<StuckProcess>(
  'runtime_list_stuck',
  `select kind, id, why, coalesce(detail, '') as detail, changed_at as since from runtime.processes
   where state in ('stuck', 'aborted') order by changed_at limit $1`,
)

/** Returns the queue in which the turn waits; no row when the process is not stuck. */
export const resumeProcess = statement<{ queue: string }>('runtime_resume', 'select queue from runtime.resume($1, $2)')

export const abortProcess = statement('runtime_abort', 'select runtime.abort($1, $2, $3, $4)')

/** Returns the number of workers with a lease, and how long the oldest due turn of these queues has waited to start. */
export const readHealth = statement<{ workers: number; waiting_ms: number | null }>(
  'runtime_read_health',
  `select (select count(*)::integer from runtime.executors e where e.lease_until > clock_timestamp()) as workers,
     (select max(extract(epoch from clock_timestamp() - w.due_at) * 1000)::double precision
      from (
        select oldest.due_at from unnest($1::text[]) as q (queue), lateral (
          select p.due_at from runtime.processes p
          where p.queue = q.queue and p.state = 'queued' and p.given_at is null and p.due_at <= clock_timestamp()
          order by p.due_at limit 1
        ) as oldest
        union all
        select p.due_at from runtime.processes p
        where p.state = 'queued' and p.given_at is not null and p.queue = any ($1::text[])
        union all
        select p.refused_since from runtime.processes p where p.refused_since is not null and p.queue = any ($1::text[])
      ) as w) as waiting_ms`,
)
