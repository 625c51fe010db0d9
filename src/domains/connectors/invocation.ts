/** A call as the database has it, and how it is completed. */
import type { JsonObject } from '#kernel/json-value'
import { connectorInvocationMachine, type ConnectorInvocationState } from '#kernel/machines/connector-invocation'
import { type Db, defineTable, isLostRace, scoped, statement } from '#store'
import type { RowOf } from '#store/rows'
import { TIMEOUT_MAX_MS } from './check-connector.ts'
import type { ConnectorError } from './connector.ts'
import type { ConnectorDefinition, ConnectorOperationContract } from './define-connector.ts'
import type { ConnectorDeps } from './deps.ts'
import { connectorLog } from './events.ts'

export type StoredInvocation = RowOf<'concord.connector_invocations', { readonly request_payload: JsonObject }>

/** What a call needs to be completed, and what comes back. */
type Call = Pick<StoredInvocation, 'connector_invocation_id' | 'workspace_id' | 'command_id' | 'status'>

export const invocations = defineTable<Call>()({
  name: 'concord.connector_invocations',
  noun: 'connector_invocation',
  id: 'connector_invocation_id',
  tenant: 'workspace_id',
  machine: connectorInvocationMachine,
  state: 'status',
  settable: { response_payload: 'jsonb', error: 'text', error_class: 'text', latency_ms: 'integer' },
  returning: ['connector_invocation_id', 'status'],
  log: connectorLog,
  links: ['workspace_id', 'command_id'],
})

/** Begins a call or says why not: the command must run, its effect must execute, and the limits of the connector must have room. */
type BegunInvocation = {
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
const beginInvocation = statement<BegunInvocation>(
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

/** $1 workspace, $2 connector, $3 status or null, $4 command or null, $5 call to go on before or null, $6 limit. */
const listInvocationsSql = statement<StoredInvocation>(
  'connectors_list_invocations',
  `select t.*
     from concord.connector_invocations t
    where t.workspace_id = $1::uuid
      and t.connector_name = $2
      and ($3::text is null or t.status = $3)
      and ($4::uuid is null or t.command_id = $4)
      and ($5::uuid is null or t.connector_invocation_id < $5)
    order by t.connector_invocation_id desc
    limit $6`,
)

/** Calls that stand as started longer than they can last, the oldest first. */
const ABANDONED_BATCH = 200

/**
 * $1 connectors, $2 operations, $3 how long a call of each may stand, in milliseconds, $4 the same for any other, $5 from when on to
 * look, or null: everywhere. Time is the database's, which gave the rows theirs.
 */
const listAbandonedSql = statement<StoredInvocation>(
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
const nextHorizonSql = statement<{ readonly horizon: string }>(
  'connectors_next_horizon',
  `select (clock_timestamp() - make_interval(secs => $1::float8 / 1000))::text as horizon`,
)

/** The calls of a connector, one page at a time, behind both walls: a workspace sees its own. */
export type ListInvocations = {
  readonly workspaceId: string
  readonly connectorName: string
  readonly status?: ConnectorInvocationState | undefined
  readonly commandId?: string | undefined
  /** The id of the last call of the page before. */
  readonly after?: readonly string[] | undefined
  readonly limit: number
}

export type InvocationPage = {
  readonly items: readonly StoredInvocation[]
  /** Where the next page starts; undefined on the last. */
  readonly next: readonly string[] | undefined
}

export async function listInvocations(db: Db, query: ListInvocations): Promise<InvocationPage> {
  const { workspaceId, connectorName, status = null, commandId = null, after, limit } = query
  // One row more than asked for says whether there is a next page.
  const values = [workspaceId, connectorName, status, commandId, after?.[0] ?? null, limit + 1]
  const rows = await scoped(db, workspaceId).read((tx) => tx.run(listInvocationsSql, values))
  const items = rows.slice(0, limit)
  const last = rows.length > limit ? items.at(-1) : undefined
  return { items, next: last && [last.connector_invocation_id] }
}

/** Writes the row of a call before it is made, waiting a little where the limits of the connector are used up. */
export type Begun =
  | { readonly t: 'begun' }
  /** The command does not run, or its effect does not execute. */
  | { readonly t: 'not_allowed' }
  | { readonly t: 'limited'; readonly waitMs: number }

/** A wait up to here is shorter than another turn of the command would be. */
const WAIT_MAX_MS = 5_000
const LOOK_AGAIN_MS = 50
/** How much longer than its time limit a call may stand as started in a process that is alive. */
const SETTLE_MS = 5_000

export type BeginCall = {
  readonly definition: ConnectorDefinition
  readonly operation: ConnectorOperationContract
  /** In the order of the statement, $1 to $11. */
  readonly values: readonly unknown[]
  readonly signal: AbortSignal
}

export async function beginCall(deps: ConnectorDeps, call: BeginCall): Promise<Begun> {
  const { requests_per_minute: perMinute, concurrent } = call.definition.rate_limits
  const longestMs = Math.max(...call.definition.operations.map(({ timeout_ms }) => timeout_ms)) + SETTLE_MS
  const values = [...call.values, perMinute, concurrent, longestMs]
  const opening = perMinute === null && concurrent === null ? undefined : lockOf(call.definition.name)
  let waitedMs = 0
  for (;;) {
    const found = await ask(deps.db, values, opening)
    if (found.is_begun) return { t: 'begun' }
    if (!found.is_allowed) return { t: 'not_allowed' }
    const waitMs = Math.max(found.wait_ms ?? 0, LOOK_AGAIN_MS)
    if (waitedMs + waitMs > WAIT_MAX_MS || call.signal.aborted) return { t: 'limited', waitMs }
    await deps.sleep(waitMs, call.signal)
    waitedMs += waitMs
  }
}

async function ask(db: Db, values: readonly unknown[], opening: string | undefined): Promise<BegunInvocation> {
  const [found] =
    opening === undefined
      ? await db.run(beginInvocation, values)
      : await db.transaction((tx) => tx.run(beginInvocation, values), opening)
  return found ?? { is_allowed: false, is_begun: false, wait_ms: null, under_way: 0 }
}

/** The name has passed the check at start-up: lower-case letters, digits and underscores. */
function lockOf(name: string): string {
  return `begin; select pg_advisory_xact_lock(hashtextextended('concord.connector:${name}', 0))`
}

/** What becomes of the effect is decided by its command, which asks before it repeats anything. */
export const abandoned: ConnectorError = {
  error_class: 'timeout',
  message: 'no answer was recorded in time: the process that made the call was gone',
  happened: 'unknown',
}

/** A process that is alive settles its call at the time limit; this long after it there is none. */
const MARGIN_MS = 60_000

type SweepDeps = Pick<ConnectorDeps, 'db' | 'now' | 'newId'>

/**
 * The first look goes over all calls there are; each later one begins where a whole look before it had settled everything. A call
 * whose connector nobody declares any more had at most the longest time that a declaration may give.
 */
export function openAbandonedSweep(deps: SweepDeps, definitions: readonly ConnectorDefinition[]) {
  const all = definitions.flatMap(({ name, operations }) => operations.map((operation) => ({ name, operation })))
  const limits = [
    all.map(({ name }) => name),
    all.map(({ operation }) => operation.name),
    all.map(({ operation }) => operation.timeout_ms + MARGIN_MS),
    TIMEOUT_MAX_MS + MARGIN_MS,
  ]
  let from: string | null = null
  return async ({ traceId }: { readonly traceId: string }): Promise<number> => {
    // A row is committed a moment after the time it bears: one more margin.
    const [next] = await deps.db.run(nextHorizonSql, [TIMEOUT_MAX_MS + 2 * MARGIN_MS])
    const rows = await deps.db.run(listAbandonedSql, [...limits, from])
    let count = 0
    for (const row of rows) if (await settle(deps, row, traceId)) count += 1
    if (rows.length < ABANDONED_BATCH && next) from = next.horizon
    return count
  }
}

async function settle(deps: SweepDeps, row: StoredInvocation, traceId: string): Promise<boolean> {
  const { error_class, message: error, happened } = abandoned
  const { connector_name: connector, operation, domain_effect_id, attempt } = row
  const system = { id: 'system', kind: 'system', traceId: row.trace_id ?? traceId } as const
  const settled = await invocations.transition(deps.db, row, 'failed', system, {
    at: deps.now(),
    newId: deps.newId,
    set: { error, error_class },
    payload: { connector, operation, domain_effect_id, attempt, ok: false, error_class, happened, latency_ms: null },
  })
  if (!settled.ok && !isLostRace(settled)) throw new Error(`a call could not be settled: ${settled.reason}`)
  return settled.ok
}
