/** Lists and histories for people, by workspace and behind row security. */
import { uuidV7 } from '#kernel/ids'
import { statesOf } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/command'
import {
  COMMON_AUDIT_TYPES,
  type Db,
  type FeedPosition,
  LARGE_ROWS,
  type Paged,
  readSlices,
  SEQ_MAX,
  SEQ_STEP,
  XID_MAX,
  scoped,
  type Sql,
  statement,
} from '#store'
import { ABORT_TOKEN } from '#turns'
import { commandColumns, type StoredCommand, type StoredEffect } from './command-table.ts'
import type { StoredEvent } from './contract.ts'
import { shippedSchedules } from './scheduled-commands.ts'
import { WAIT_FOR_SIGNAL } from './catalog/steps.ts'
import { REQUEST_INPUT } from './tasks.ts'

type CommandFilter = {
  readonly status?: string | undefined
  readonly taskName?: string | undefined
  readonly requestedBy?: string | undefined
  /** Created at this time or later; before this time. Ids are ordered by time, so both are bounds of the id. */
  readonly createdAfter?: Date | undefined
  readonly createdBefore?: Date | undefined
  readonly beforeId: string | null
  readonly limit: number
  readonly include?: Included | undefined
}

/** What no index finds: every index of this table is written with every change of a command. */
export type ScanFilter = {
  readonly ingress?: string | undefined
  readonly traceId?: string | undefined
  /** Without the commands that Concord submits for itself. */
  readonly withoutHousekeeping?: boolean | undefined
}

/** The large columns of a list: empty in its rows unless they are asked for. */
export const includable = ['payload', 'result'] as const
export type Included = readonly (typeof includable)[number][]

/** Reads one page. `$1` of the text is the workspace; `valuesOf` returns the others for the rows after `last`. */
function read<Row extends object>(
  db: Db,
  workspaceId: string,
  text: string,
  limit: number,
  valuesOf: (limit: number, last: Row | undefined) => readonly unknown[],
  firstRows = LARGE_ROWS,
): Promise<readonly (Row & Paged)[]> {
  return scoped(db, workspaceId).read((tx) =>
    readSlices<Row & Paged>(tx, text, limit, firstRows, (rows, last) => [workspaceId, ...valuesOf(rows, last)]),
  )
}

/** A plan repeats the payload; a list needs to know only whether there is one. */
const leftOut: Partial<Record<keyof StoredCommand, string>> = {
  payload: `'{}'::jsonb`,
  result: 'null::jsonb',
  plan: `case when c.plan is not null then '{}'::jsonb end`,
}

function listedColumns(include: Included): string {
  const columns = commandColumns.map((column) => {
    const short = (include as readonly string[]).includes(column) ? undefined : leftOut[column]
    return short === undefined ? `c.${column}` : `${short} as ${column}`
  })
  return columns.join(', ')
}

const states = statesOf(commandMachine)
const FIRST_ID = '00000000-0000-0000-0000-000000000000'
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

type Listing = { readonly text: string; readonly values: readonly unknown[] }

/**
 * Newest first: ids are ordered by time. A filter reads its own index, one range for each state, and no more commands than the page holds.
 * `$1` the workspace, `$2` the id before which it reads, `$3` how many, `$4` the id after which it reads.
 */
function listingOf(columns: string, { status, taskName, requestedBy, createdAfter }: CommandFilter): Listing {
  const all = `select ${columns} from concord.commands as c`
  const newest = 'order by c.command_id desc limit $3'
  const since = createdAfter === undefined ? FIRST_ID : boundOf(createdAfter)
  const wanted = status ? [status] : states
  if (taskName !== undefined) {
    const text = `${all} where c.command_id = any(${listedBy('i.task_name', `and ($7::text is null or i.requested_by = $7)`)}) ${newest}`
    return { text, values: [since, wanted, taskName, requestedBy ?? null] }
  }
  if (requestedBy !== undefined) {
    const text = `${all} where c.command_id = any(${listedBy('i.requested_by')}) ${newest}`
    return { text, values: [since, wanted, requestedBy] }
  }
  if (status !== undefined) {
    const text = `${all} where ${inRange('c.status, c.workspace_id, c.command_id', '$5, $1')} order by c.status desc, c.workspace_id desc, c.command_id desc limit $3`
    return { text, values: [since, status] }
  }
  return {
    text: `${all} where c.workspace_id = $1 and c.command_id < $2 and c.command_id > $4::uuid ${newest}`,
    values: [since],
  }
}

/** The least id of this time. Ids begin in 1970. */
const boundOf = (at: Date) => uuidV7(Math.max(at.getTime(), 0), 0, new Uint8Array(8))

/** The id before which a page begins: that of the cursor, unless the time is earlier. */
function beforeOf({ beforeId, createdBefore }: CommandFilter): string {
  const bound = createdBefore === undefined ? LAST_ID : boundOf(createdBefore)
  return beforeId !== null && beforeId < bound ? beforeId : bound
}

export function listCommands(
  db: Db,
  workspaceId: string,
  filter: CommandFilter,
): Promise<readonly (StoredCommand & Paged)[]> {
  const { limit, include = [] } = filter
  const { text, values } = listingOf(listedColumns(include), filter)
  const valuesOf = (rows: number, last: StoredCommand | undefined) => [
    last?.command_id ?? beforeOf(filter),
    rows,
    ...values,
  ]
  return read(db, workspaceId, text, limit, valuesOf, include.length === 0 ? limit : LARGE_ROWS)
}

/** How many commands one page looks at: about 100 blocks. Commands of one status, task or requester are each in another block. */
const SCAN_ROWS = { all: 800, some: 60 }

type Scanned = { readonly found: readonly string[]; readonly looked: number; readonly last: string | null }

/**
 * A page of the commands that also match what no index finds. Where nothing of it is asked for, it is a page of the list. Otherwise it looks at the next commands of the list, so it may be short or empty;
 * `scannedTo` is the last one that it looked at, unless the list ended.
 */
export async function scanCommands(
  db: Db,
  workspaceId: string,
  filter: CommandFilter & ScanFilter,
): Promise<{ readonly rows: readonly (StoredCommand & Paged)[]; readonly scannedTo: string | null }> {
  const { limit, include = [], ingress = null, traceId = null, withoutHousekeeping = false } = filter
  if (ingress === null && traceId === null && !withoutHousekeeping)
    return { rows: await listCommands(db, workspaceId, filter), scannedTo: null }
  const { text, values } = listingOf('c.command_id, c.ingress, c.command_type, c.context', filter)
  const at = values.length + 4
  const scan = `select coalesce(array_agg(s.command_id order by s.command_id desc) filter (where ($${at}::text is null or s.ingress = $${at})
    and ($${at + 1}::text is null or s.context ->> 'trace_id' = $${at + 1}) and s.command_type <> all($${at + 2}::text[])), '{}') as found,
  count(*)::int as looked, (array_agg(s.command_id order by s.command_id))[1] as last from (${text}) as s`
  const isSome = (filter.status ?? filter.taskName ?? filter.requestedBy) !== undefined
  const rowsMax = isSome ? SCAN_ROWS.some : SCAN_ROWS.all
  const hidden = withoutHousekeeping ? shippedSchedules.map(({ command_type }) => command_type) : []
  return scoped(db, workspaceId).read(async (tx) => {
    const scanned = [workspaceId, beforeOf(filter), rowsMax, ...values, ingress, traceId, hidden]
    const [seen] = await tx.query<Scanned>(scan, scanned)
    const { found = [], looked = 0, last = null } = seen ?? {}
    const page = `select ${listedColumns(include)} from concord.commands as c
where c.workspace_id = $1 and c.command_id = any($4::uuid[]) and c.command_id < $2 order by c.command_id desc limit $3`
    const rows = await readSlices<StoredCommand & Paged>(tx, page, limit, LARGE_ROWS, (count, before) => [
      workspaceId,
      before?.command_id ?? LAST_ID,
      count,
      found,
    ])
    return { rows, scannedTo: looked < rowsMax ? null : last }
  })
}

/**
 * The rows of an index with these values and an id between `$4` and `$2`. Conditions on the whole row and its order leave the planner no other
 * index: for a task and a state that are frequent, but not together, it would read the commands in order of id until the page is full.
 */
const inRange = (columns: string, values: string) =>
  `(${columns}) < (${values}, $2::uuid) and (${columns}) > (${values}, $4::uuid)`

/** The ids of a page by the column that leads an index of workspace, state and id. `$5` the states, `$6` the value. */
const listedBy = (column: string, more = '') => `array(
  select p.command_id from unnest($5::text[]) as s(state) cross join lateral (
    select i.command_id from concord.commands as i
    where ${inRange(`${column}, i.workspace_id, i.status, i.command_id`, '$6, $1, s.state')} ${more}
    order by ${column} desc, i.workspace_id desc, i.status desc, i.command_id desc limit $3
  ) as p order by p.command_id desc limit $3)`

type EffectOfCommand = StoredEffect & { readonly command_id: string }

/** The effects of several commands without results and payloads: what `next` and the current step need. Uses idx_domain_effects_command. */
export async function listEffects(
  db: Db,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<(commandId: string) => readonly StoredEffect[]> {
  const text = `select e.command_id, e.domain_effect_id, e.effect_type, e.status, e.compensates_effect_id, e.declared_compensation, e.reversibility,
  e.declaration_order, e.run_after, e.read_back - 'result' as read_back, e.created_at, e.completed_at, null as result,
  case e.effect_type when '${REQUEST_INPUT}' then e.effect_payload
    when '${WAIT_FOR_SIGNAL}' then e.effect_payload - 'on_timeout' else '{}' end as effect_payload
from concord.domain_effects as e where e.workspace_id = $1 and e.command_id = any($2) order by e.declaration_order, e.created_at`
  const rows = await scoped(db, workspaceId).read((tx) => tx.query<EffectOfCommand>(text, [workspaceId, commandIds]))
  const byCommand = Map.groupBy(rows, ({ command_id }) => command_id)
  return (commandId) => byCommand.get(commandId) ?? []
}

export type ListedEffect = Omit<StoredEffect, 'effect_payload' | 'read_back'> & { readonly created_text: string }

export const effectPosition = (
  effect: Pick<ListedEffect, 'declaration_order' | 'created_text' | 'domain_effect_id'>,
) => [String(effect.declaration_order), effect.created_text, effect.domain_effect_id]

type EffectPage = {
  readonly after: readonly string[]
  readonly limit: number
  readonly include?: Included | undefined
}

/** In the order of the plan. */
export function listEffectsOf(
  db: Db,
  workspaceId: string,
  commandId: string,
  { after, limit, include = [] }: EffectPage,
): Promise<readonly (ListedEffect & Paged)[]> {
  const text = `select e.domain_effect_id, e.effect_type, e.status, e.idempotency_key, e.attempt, e.max_attempts, e.error, e.error_class,
  e.compensates_effect_id, e.declared_compensation, e.declaration_order, e.reversibility, e.run_after, e.completed_at,
  ${include.includes('result') ? 'e.result' : 'null::jsonb as result'}, e.created_at::text as created_text
from concord.domain_effects as e where e.workspace_id = $1 and e.command_id = $2
  and ($3::integer is null or (e.declaration_order, e.created_at, e.domain_effect_id) > ($3, $4::timestamptz, $5::uuid))
order by e.declaration_order, e.created_at, e.domain_effect_id limit $6`
  return read<ListedEffect>(db, workspaceId, text, limit, (rows, last) => {
    const [order = null, createdText = null, effectId = null] = last ? effectPosition(last) : after
    return [commandId, order, createdText, effectId, rows]
  })
}

const eventColumns = (payload: string) =>
  `e.event_id, e.command_id, e.event_type, e.purpose, ${payload} as payload, e.actor, e.trace_id, e.created_at, e.seq::text as seq`
type PagedEvent = StoredEvent & { readonly seq: string }

/** In the order in which they happened. */
export function listCommandEvents(
  db: Db,
  workspaceId: string,
  commandId: string,
  page: { readonly afterSeq: string | null; readonly limit: number; readonly withoutResults?: boolean },
): Promise<readonly (PagedEvent & Paged)[]> {
  const columns = eventColumns(page.withoutResults ? `e.payload - 'result'` : 'e.payload')
  const text = `select ${columns} from concord.domain_events as e
where e.workspace_id = $1 and e.command_id = $2 and ($3::bigint is null or e.entry_seq > $3::bigint - ${SEQ_STEP} and e.seq > $3)
order by e.entry_seq, e.seq limit $4`
  return read<PagedEvent>(db, workspaceId, text, page.limit, (rows, last) => [
    commandId,
    last?.seq ?? page.afterSeq,
    rows,
  ])
}

type AuditEvent = PagedEvent & FeedPosition

type AuditFilter = {
  readonly commandId?: string | undefined
  readonly eventType?: string | undefined
  readonly before: FeedPosition | null
  readonly limit: number
}

/**
 * The audit of a workspace, the newest commit first, including rejected requests, which have no command. A type that every command has is
 * among the newest rows; any other type has an index.
 */
export function listAudit(db: Db, workspaceId: string, filter: AuditFilter): Promise<readonly (AuditEvent & Paged)[]> {
  const { before, commandId = null, eventType = null, limit } = filter
  const isIndexed = eventType !== null && commandId === null && !COMMON_AUDIT_TYPES.includes(eventType)
  const index = 'j.audit_type, j.workspace_id, j.xid, j.seq'
  // As in `inRange`: the conditions and the order of the whole index.
  const found = isIndexed
    ? `j.audit_type is not null and (${index}) <= ($5::text, $1, coalesce($2::xid8, '${XID_MAX}'), coalesce($3::bigint, ${SEQ_MAX})) and (${index}) >= ($5, $1, '0', 0)`
    : `j.workspace_id = $1 and ($2::xid8 is null or (j.xid, j.seq) <= ($2, $3::bigint)) and ($5::text is null or strpos(j.events::text, '"' || $5 || '"') > 0)`
  const text = `select e.event_id, j.command_id, e.event_type, e.purpose, e.payload, e.actor, j.trace_id, j.created_at,
  (j.seq + e.place)::text as seq, j.xid::text as xid
from concord.journal as j cross join lateral concord.unpack(j.entry_id, j.events) as e
where ${found} and e.purpose = 'audit' and ($2::xid8 is null or (j.xid, j.seq + e.place) < ($2, $3))
  and ($4::uuid is null or j.command_id = $4) and ($5::text is null or e.event_type = $5)
order by ${isIndexed ? 'j.audit_type desc, j.workspace_id desc, ' : ''}j.xid desc, j.seq desc, e.place desc limit $6`
  const valuesOf = (rows: number, last: FeedPosition | undefined) => {
    const from = last ?? before
    return [from?.xid ?? null, from?.seq ?? null, commandId, eventType, rows]
  }
  return read<AuditEvent>(db, workspaceId, text, limit, valuesOf, limit)
}

type ParkedCommand = { readonly command_id: string; readonly error: string; readonly since: Date }

/**
 * $1 limit. An approved command has an error only while its task is missing. It waits since the last approval. The runtime lists those that
 * an operator has stopped.
 */
const listParkedRows = statement<ParkedCommand>(
  'commands_list_parked',
  `select c.command_id, c.error, coalesce((select max(a.decided_at) from concord.approvals as a
          where a.workspace_id = c.workspace_id and a.command_id = c.command_id), c.updated_at) as since
     from concord.commands as c
    where c.completed_at is null and c.status = 'approved' and c.error is not null
      and c.turn_token is distinct from '${ABORT_TOKEN}'
    order by c.command_id limit $1`,
)

/** Across all workspaces, for operators. */
export function listParked(sql: Sql, limit: number): Promise<readonly ParkedCommand[]> {
  return sql.run(listParkedRows, [limit])
}
