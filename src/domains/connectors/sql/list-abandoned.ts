/** Calls that stand as started longer than they can last, the oldest first. */
import { statement } from '#store'
import type { StoredInvocation } from '../stored-invocation.ts'

export const ABANDONED_BATCH = 200

/**
 * $1 connectors, $2 operations, $3 how long a call of each may stand, in milliseconds, $4 the same for any other, $5 from when on to
 * look, or null: everywhere. Time is the database's, which gave the rows theirs.
 */
export const listAbandonedSql = statement<StoredInvocation>(
  'connectors_list_abandoned',
  `select i.*
     from concord.connector_invocations i
     left join unnest($1::text[], $2::text[], $3::int[]) as l (connector_name, operation, limit_ms)
       on l.connector_name = i.connector_name and l.operation = i.operation
    where i.status = 'started' and i.created_at >= coalesce($5::timestamptz, '-infinity')
      and i.created_at < clock_timestamp() - make_interval(secs => coalesce(l.limit_ms, $4::int)::float8 / 1000)
    order by i.created_at
    limit ${ABANDONED_BATCH}`,
)

/** $1 how long the longest call may stand: what began before has been seen by a look that starts now. */
export const nextHorizonSql = statement<{ readonly horizon: string }>(
  'connectors_next_horizon',
  `select (clock_timestamp() - make_interval(secs => $1::float8 / 1000))::text as horizon`,
)
