/** Begins a call or says why not: the command must run, its effect must execute, and the limits of the connector must have room. */
import { statement } from '#store'

export type BegunInvocation = {
  readonly is_allowed: boolean
  readonly is_begun: boolean
  /** Until the rate has room again; null: it has. */
  readonly wait_ms: number | null
  readonly under_way: number
}

/**
 * $1 id, $2 workspace, $3 command, $4 effect, $5 connector, $6 operation, $7 side effect, $8 key, $9 input, $10 trace, $11 attempt,
 * $12 requests per minute or null, $13 calls at once or null, $14 the longest time that a call can be under way.
 * With limits it runs in a transaction that holds the lock of the connector, so that what it counts stands still.
 */
export const beginInvocation = statement<BegunInvocation>(
  'connectors_begin_invocation',
  `with facts as materialized (
     select
       exists (
         select from concord.domain_effects e
           join concord.commands c on c.workspace_id = e.workspace_id and c.command_id = e.command_id
          where e.domain_effect_id = $4 and e.workspace_id = $2 and e.command_id = $3 and e.status = 'executing'
            and c.status in ('running', 'compensating', 'cancelling')
       ) as is_allowed,
       case when $12::int is null then null else (
         select ceil(extract(epoch from i.created_at + interval '60 seconds' - clock_timestamp()) * 1000)::int
           from concord.connector_invocations i
          where i.connector_name = $5 and i.created_at > clock_timestamp() - interval '60 seconds'
          order by i.created_at desc offset $12::int - 1 limit 1
       ) end as wait_ms,
       case when $13::int is null then 0 else (
         select count(*)::int from concord.connector_invocations i
          where i.connector_name = $5 and i.status = 'started'
            and i.created_at > clock_timestamp() - make_interval(secs => $14::float8 / 1000)
       ) end as under_way
   ), begun as (
     insert into concord.connector_invocations (connector_invocation_id, workspace_id, command_id, domain_effect_id,
       connector_name, operation, side_effect, idempotency_key, status, request_payload, trace_id, attempt, created_at)
     select $1, $2, $3, $4, $5, $6, $7, $8, 'started', $9::jsonb, $10, $11, clock_timestamp()
       from facts where is_allowed and wait_ms is null and ($13::int is null or under_way < $13::int)
     returning 1
   )
   select facts.*, exists (select from begun) as is_begun from facts`,
)
