/** The row of a call: begun before the call under the limits of its connector, completed after it, and settled by a sweep if its process died. */
import { createHash } from 'node:crypto'
import { redactPayload } from '#kernel/data-class'
import { KernelFault } from '#kernel/errors'
import { isJsonObject, type JsonObject, type JsonValue, utf8Size } from '#kernel/json-value'
import { connectorInvocationMachine, type ConnectorInvocationState } from '#kernel/machines/connector-invocation'
import { cutPage, type Db, defineTable, isLostRace, type Paged, pageText, scoped, statement } from '#store'
import type { RowOf } from '#store/rows'
import { TIMEOUT_MAX_MS } from './check-connector.ts'
import {
  CallTaken,
  type ConnectorDefinition,
  type ConnectorError,
  ConnectorFailure,
  type ConnectorOperationContract,
  type ConnectorRequest,
  type ConnectorResult,
  failed,
} from './connector.ts'
import type { ConnectorDeps } from './deps.ts'
import { connectorLog } from './events.ts'

export type StoredInvocation = RowOf<'concord.connector_invocations', { readonly request_payload: JsonObject }>

/** The columns that completing a call reads. */
type StartedCall = Pick<StoredInvocation, 'connector_invocation_id' | 'workspace_id' | 'command_id' | 'status'>

const invocations = defineTable<StartedCall>()({
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

type BegunInvocation = {
  readonly is_allowed: boolean
  /** A stop covers the agent of the command. */
  readonly is_stopped: boolean
  readonly is_begun: boolean
  /** This try of a model call of a run has a row. */
  readonly is_taken: boolean
  /** Until the rate limit allows another call; null: it does now. */
  readonly wait_ms: number | null
  readonly under_way: number
}

/**
 * Inserts the row if the command runs, its effect executes, the turn that began the attempt still has the command, no stop covers the agent of the command, and
 * the limits allow another call. During a stop the undo of effects goes on. A look-up and a model call of a run do not need the turn. Of a model call of a run each
 * try has one row, because one reservation pays for it: of two that insert at once the index lets one through, and the other finds its row when it looks again.
 * $1 id, $2 workspace, $3 command, $4 effect, $5 connector, $6 operation, $7 side effect, $8 key, $9 input, $10 trace, $11 attempt,
 * $12 requests per minute or null, $13 concurrent calls or null, $14 the longest time that a call can be under way, $15 the source if its output is untrusted,
 * $16 the run that calls by itself or null.
 * With limits it runs in a transaction that holds the lock of the connector, so that the counted rows do not change.
 */
const beginInvocation = statement<BegunInvocation>(
  'connectors_begin_invocation',
  `with caller as materialized (
     select c.status = 'running' and (c.context->>'run_as' = 'agent' or $16::uuid is not null)
         and not concord.may_agent_act(c.workspace_id, c.context->>'agent', coalesce($16, c.agent_run_id))
         as is_stopped
       from concord.domain_effects e
       join concord.commands c on c.workspace_id = e.workspace_id and c.command_id = e.command_id
      where e.domain_effect_id = $4 and e.workspace_id = $2 and e.command_id = $3 and e.status = 'executing'
        and c.status in ('running', 'compensating', 'cancelling')
        and (not $7::boolean or $16::uuid is not null or (e.attempt <= $11::int and c.turn_token is not distinct from e.turn_token))
   ), facts as materialized (
     select
       exists (select from caller) as is_allowed,
       exists (select from caller where is_stopped) as is_stopped,
       $16::uuid is not null and exists (select from concord.connector_invocations i
         where i.command_id = $3 and i.idempotency_key = $8 and i.attempt = $11::int) as is_taken,
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
       from facts where is_allowed and not is_stopped and not is_taken and wait_ms is null and ($13::int is null or under_way < $13::int)
     on conflict do nothing returning 1
   ), labelled as (
     update concord.commands c
        set labels = concord.carry_labels(c.labels, jsonb_build_array($15::text || '>' || concord.shown_id('inv', $1)), concord.shown_id('cmd', c.command_id))
       from begun
      where $15::text is not null and c.command_id = $3 and c.workspace_id = $2
        and not exists (select from jsonb_array_elements_text(c.labels) as l(label) where split_part(l.label, '>', 1) = $15)
   )
   select facts.*, exists (select from begun) as is_begun from facts`,
)

/** A shorter wait costs less than another turn of the command. */
const WAIT_MAX_MS = 5_000
const LOOK_AGAIN_MS = 50
/** How much longer than its time limit a call may be `started` in a process that is alive. */
const SETTLE_MS = 5_000

type Operation = { readonly definition: ConnectorDefinition; readonly operation: ConnectorOperationContract }

/** Writes the row of a call and returns its id. Waits a little at the limits of the connector. Throws `ConnectorFailure`. */
export async function beginCall(
  deps: ConnectorDeps,
  { definition, operation }: Operation,
  { command_id, context, agent_run_id }: ConnectorRequest,
  input: JsonValue,
): Promise<string> {
  const { name, rate_limits, operations } = definition
  const { requests_per_minute: perMinute, concurrent } = rate_limits
  const longestMs = Math.max(...operations.map(({ timeout_ms }) => timeout_ms)) + SETTLE_MS
  const id = deps.newId()
  const values = [
    id,
    context.workspace_id,
    command_id,
    context.domain_effect_id,
    name,
    operation.name,
    operation.side_effect_class !== 'none',
    context.idempotency_key,
    JSON.stringify(input),
    context.trace_id,
    context.attempt,
    perMinute,
    concurrent,
    longestMs,
    operation.output_trust === 'trusted' ? null : `untrusted:${name}.${operation.name}`,
    agent_run_id ?? null,
  ]
  const opening = perMinute === null && concurrent === null ? undefined : lockOf(name)
  let waitedMs = 0
  for (;;) {
    const found = await insertStarted(deps.db, values, opening)
    if (found?.is_begun) return id
    if (!found?.is_allowed)
      throw new ConnectorFailure(
        'permission_denied',
        `${name} is called only for an effect that a running command executes.`,
        'no',
      )
    // The next attempt of the effect is refused by the stop itself, and the command waits for the lift.
    if (found.is_stopped)
      throw new ConnectorFailure('transient_connector_error', `${name} is not called during a stop of agents.`, 'no')
    if (found.is_taken) throw new CallTaken(name)
    const waitMs = Math.max(found.wait_ms ?? 0, LOOK_AGAIN_MS)
    if (waitedMs + waitMs > WAIT_MAX_MS || context.signal.aborted)
      throw new ConnectorFailure('rate_limited', `${name} has reached its limit of calls.`, 'no', waitMs)
    await deps.sleep(waitMs, context.signal)
    waitedMs += waitMs
  }
}

async function insertStarted(
  db: Db,
  values: readonly unknown[],
  opening: string | undefined,
): Promise<BegunInvocation | undefined> {
  const [found] =
    opening === undefined
      ? await db.run(beginInvocation, values)
      : await db.transaction((tx) => tx.run(beginInvocation, values), opening)
  return found
}

/** The name is safe in SQL: the check at start-up allows only lower-case letters, digits and underscores. */
function lockOf(name: string): string {
  return `begin; select pg_advisory_xact_lock(hashtextextended('concord.connector:${name}', 0))`
}

/** Completes the row of a call with its event, and returns the recorded result. */
export async function completeCall(
  deps: ConnectorDeps,
  { definition, operation }: Operation,
  { command_id, context }: ConnectorRequest,
  invocationId: string,
  startedAt: Date,
  result: ConnectorResult,
): Promise<ConnectorResult> {
  const { workspace_id, domain_effect_id, attempt, trace_id: traceId } = context
  const at = deps.now()
  const latency_ms = Math.max(0, at.getTime() - startedAt.getTime())
  const error_class = result.error?.error_class ?? null
  const row = { connector_invocation_id: invocationId, workspace_id, command_id, status: 'started' as const }
  const worker = { id: 'worker', kind: 'worker', traceId } as const
  const settled = await invocations.transition(deps.db, row, result.ok ? 'succeeded' : 'failed', worker, {
    at,
    newId: deps.newId,
    set: {
      latency_ms,
      response_payload: result.ok ? summarise(operation, result.output) : null,
      error: result.error?.message ?? null,
      error_class,
    },
    payload: {
      connector: definition.name,
      operation: operation.name,
      domain_effect_id,
      attempt,
      ok: result.ok,
      error_class,
      latency_ms,
    },
  })
  // The sweep has settled the call, because this process did not respond for too long. The recorded result counts.
  if (isLostRace(settled)) return failed(abandoned)
  if (!settled.ok)
    throw new KernelFault('connectors.invocation.lost', `A call could not be completed: ${settled.reason}`)
  return result
}

const WHOLE_BYTES_MAX = 2_048
const NAMES_MAX = 20

/** Records a short output as it is, and a long one by its size, hash and outline. */
function summarise({ output_classes, record }: ConnectorOperationContract, output: JsonValue): JsonObject {
  if (record === 'digest') return digestOf(output)
  const paths = Object.fromEntries(Object.entries(output_classes).map(([path, of]) => [`output.${path}`, of]))
  const shown = redactPayload({ output }, paths, 'confidential')['output'] ?? null
  const digest = digestOf(shown)
  if (digest.size_bytes <= WHOLE_BYTES_MAX) return { output: shown }
  if (Array.isArray(shown)) return { ...digest, items: shown.length }
  const isObject = shown !== null && isJsonObject(shown)
  return { ...digest, ...(isObject ? { fields: Object.keys(shown).slice(0, NAMES_MAX) } : {}) }
}

export function digestOf(value: JsonValue): { readonly size_bytes: number; readonly sha256: string } {
  const text = JSON.stringify(value)
  return { size_bytes: utf8Size(text), sha256: createHash('sha256').update(text).digest('hex') }
}

/** $1 workspace, $2 connector, $3 status or null, $4 command or null, $5 the call to list from or null, $6 limit. */
const listInvocationsSql = statement<StoredInvocation & Paged>(
  'connectors_list_invocations',
  pageText(`select t.*
     from concord.connector_invocations t
    where t.workspace_id = $1::uuid
      and t.connector_name = $2
      and ($3::text is null or t.status = $3)
      and ($4::uuid is null or t.command_id = $4)
      and ($5::uuid is null or t.connector_invocation_id < $5)
    order by t.connector_invocation_id desc
    limit $6`),
)

const ABANDONED_BATCH = 200

/**
 * Calls that are `started` for longer than they can last, the oldest first. $1 connectors, $2 operations, $3 how long a call of each may
 * last in milliseconds, $4 the same for any other, $5 the earliest start or null. The clock is that of the database, which set the start.
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

/** $1 how long the longest call may last. A sweep that starts now sees every call that began before the result. */
const nextHorizonSql = statement<{ readonly horizon: string }>(
  'connectors_next_horizon',
  `select (clock_timestamp() - make_interval(secs => $1::float8 / 1000))::text as horizon`,
)

export type ListInvocations = {
  readonly workspaceId: string
  readonly connectorName: string
  readonly status?: ConnectorInvocationState | undefined
  readonly commandId?: string | undefined
  /** The id of the last call of the previous page. */
  readonly after?: readonly string[] | undefined
  readonly limit: number
}

export type InvocationPage = {
  readonly items: readonly StoredInvocation[]
  /** The start of the next page; undefined on the last. */
  readonly next: readonly string[] | undefined
}

/** Lists the calls of a connector in one workspace, the newest first. */
export async function listInvocations(db: Db, query: ListInvocations): Promise<InvocationPage> {
  const { workspaceId, connectorName, status = null, commandId = null, after, limit } = query
  // One more row than requested shows whether there is a next page.
  const values = [workspaceId, connectorName, status, commandId, after?.[0] ?? null, limit + 1]
  const rows = await scoped(db, workspaceId).read((tx) => tx.run(listInvocationsSql, values))
  return cutPage(
    rows,
    limit,
    (row) => row,
    ({ connector_invocation_id }) => connector_invocation_id,
  )
}

/** The command settles the effect, and looks it up before it repeats anything. */
const abandoned: ConnectorError = {
  error_class: 'timeout',
  message: 'No answer was recorded in time because the process that made the call ended.',
  happened: 'unknown',
}

/** A live process completes its call at the time limit; this long after it, the process has ended. */
const MARGIN_MS = 60_000

type SweepDeps = Pick<ConnectorDeps, 'db' | 'now' | 'newId'>

/**
 * Settles the calls of processes that have ended. The first sweep looks at all calls, each later one starts where a complete sweep before it
 * ended. A call of a connector that is no longer declared could last the longest time that a declaration may set.
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
    // A row is committed a moment after its start time: one more margin.
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
  if (!settled.ok && !isLostRace(settled)) throw new Error(`A call could not be settled: ${settled.reason}`)
  return settled.ok
}
