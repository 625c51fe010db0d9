/** Lists, histories and counts for people, by workspace and behind row security. */
import { firstIdOf } from '#kernel/ids'
import { statesOf } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/command'
import { type Db, type FeedPosition, type Paged, readSlices, SEQ_STEP, scoped, type Sql, statement } from '#store'
import { ABORT_TOKEN } from '#turns'
import { commandColumns, type StoredCommand, type StoredEffect } from './command-table.ts'
import type { StoredEvent } from './contract.ts'

const effectColumns = [
  ...[
    'domain_effect_id',
    'effect_type',
    'status',
    'idempotency_key',
    'attempt',
    'max_attempts',
    'error',
    'error_class',
  ],
  ...[
    'compensates_effect_id',
    'declared_compensation',
    'declaration_order',
    'reversibility',
    'run_after',
    'completed_at',
  ],
].map((column) => `e.${column}`)

type CommandFilter = {
  readonly status?: string | undefined
  readonly taskName?: string | undefined
  readonly requestedBy?: string | undefined
  readonly beforeId: string | null
  readonly limit: number
  readonly include?: Included | undefined
}

/** The large columns of a list: empty in its rows unless they are asked for. */
export const includable = ['payload', 'result'] as const
export type Included = readonly (typeof includable)[number][]

/** `$1` of the text is the workspace, and its last parameter the limit. */
function read<Row extends object>(
  db: Db,
  workspaceId: string,
  text: string,
  limit: number,
  valuesAfter: (last: Row | undefined) => readonly unknown[],
): Promise<readonly (Row & Paged)[]> {
  const valuesOf = (last: Row | undefined) => [workspaceId, ...valuesAfter(last)]
  return scoped(db, workspaceId).read((tx) => readSlices<Row & Paged>(tx, text, limit, valuesOf))
}

/** A plan repeats the payload; a list needs to know only whether there is one. */
const leftOut: Partial<Record<keyof StoredCommand, string>> = {
  payload: `'{}'::jsonb`,
  result: 'null::jsonb',
  plan: `case when c.plan is not null then '{}'::jsonb end`,
}

/** Newest first: ids are ordered by time. */
export function listCommands(
  db: Db,
  workspaceId: string,
  filter: CommandFilter,
): Promise<readonly (StoredCommand & Paged)[]> {
  const { beforeId, status = null, taskName = null, requestedBy = null, limit, include = [] } = filter
  const columns = commandColumns.map((column) => {
    const short = (include as readonly string[]).includes(column) ? undefined : leftOut[column]
    return short === undefined ? `c.${column}` : `${short} as ${column}`
  })
  const text = `select ${columns.join(', ')} from concord.commands as c
where c.workspace_id = $1 and ($2::uuid is null or c.command_id < $2) and ($3::text is null or c.status = $3)
  and ($4::text is null or c.task_name = $4) and ($5::text is null or c.requested_by = $5)
order by c.command_id desc limit $6`
  return read<StoredCommand>(db, workspaceId, text, limit, (last) => [
    last?.command_id ?? beforeId,
    status,
    taskName,
    requestedBy,
  ])
}

export type ListedEffect = Omit<StoredEffect, 'effect_payload' | 'read_back'> &
  Paged & { readonly created_text: string }

export const effectPosition = (
  effect: Pick<ListedEffect, 'declaration_order' | 'created_text' | 'domain_effect_id'>,
) => [String(effect.declaration_order), effect.created_text, effect.domain_effect_id]

/** In the order of the plan. */
export function listEffects(
  db: Db,
  workspaceId: string,
  commandId: string,
  page: { readonly after: readonly string[]; readonly limit: number; readonly include?: Included | undefined },
): Promise<readonly ListedEffect[]> {
  const result = page.include?.includes('result') ? 'e.result' : 'null::jsonb as result'
  const text = `select ${effectColumns.join(', ')}, ${result}, e.created_at::text as created_text from concord.domain_effects as e
where e.workspace_id = $1 and e.command_id = $2
  and ($3::integer is null or (e.declaration_order, e.created_at, e.domain_effect_id) > ($3, $4::timestamptz, $5::uuid))
order by e.declaration_order, e.created_at, e.domain_effect_id limit $6`
  return read<ListedEffect>(db, workspaceId, text, page.limit, (last) => {
    const [order = null, createdText = null, effectId = null] = last ? effectPosition(last) : page.after
    return [commandId, order, createdText, effectId]
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
  return read<PagedEvent>(db, workspaceId, text, page.limit, (last) => [commandId, last?.seq ?? page.afterSeq])
}

type AuditEvent = PagedEvent & FeedPosition

type AuditFilter = {
  readonly commandId?: string | undefined
  readonly eventType?: string | undefined
  readonly actor?: string | undefined
  readonly before: FeedPosition | null
  readonly limit: number
}

/** The audit of a workspace, the newest commit first, including rejected requests, which have no command. */
export function listAudit(db: Db, workspaceId: string, filter: AuditFilter): Promise<readonly (AuditEvent & Paged)[]> {
  const text = `select e.event_id, j.command_id, e.event_type, e.purpose, e.payload, e.actor, j.trace_id, j.created_at,
  (j.seq + e.place)::text as seq, j.xid::text as xid
from concord.journal as j cross join lateral concord.unpack(j.entry_id, j.events) as e
where j.workspace_id = $1 and e.purpose = 'audit' and ($2::xid8 is null or (j.xid, j.seq) <= ($2, $3) and (j.xid, j.seq + e.place) < ($2, $3))
  and ($4::uuid is null or j.command_id = $4) and ($6::text is null or e.actor = $6)
  and ($5::text is null or strpos(j.events::text, '"' || $5 || '"') > 0 and e.event_type = $5)
order by j.xid desc, j.seq desc, e.place desc limit $7`
  const { before, commandId = null, eventType = null, actor = null, limit } = filter
  return read<AuditEvent>(db, workspaceId, text, limit, (last) => {
    const from = last ?? before
    return [from?.xid ?? null, from?.seq ?? null, commandId, eventType, actor]
  })
}

type WorkspaceStats = {
  readonly commands: Readonly<Record<string, number>>
  readonly errors: Readonly<Record<string, number>>
  readonly effects_open: number
}

const openStates = statesOf(commandMachine).filter((state) => commandMachine.states[state] !== 'terminal')

/** Counts since a time, by status and by error class. Reads an index range, not the whole table. */
export function countCommands(db: Db, workspaceId: string, since: Date): Promise<WorkspaceStats> {
  return scoped(db, workspaceId).read(async (tx) => {
    const byStatus = await tx.query<{ name: string; count: number }>(
      `select status as name, count(*)::integer as count from concord.commands where workspace_id = $1 and command_id >= $3 and created_at >= $2 group by 1 order by 1`,
      [workspaceId, since, firstIdOf(since)],
    )
    const byError = await tx.query<{ name: string; count: number }>(
      `select error_class as name, count(*)::integer as count from concord.commands
       where workspace_id = $1 and command_id >= $3 and created_at >= $2 and error_class is not null group by 1 order by 1`,
      [workspaceId, since, firstIdOf(since)],
    )
    const [open] = await tx.query<{ count: number }>(
      `select count(*)::integer as count from concord.commands as c join concord.domain_effects as e on e.command_id = c.command_id
       where c.workspace_id = $1 and c.status = any($2) and e.completed_at is null`,
      [workspaceId, openStates],
    )
    const table = (rows: readonly { name: string; count: number }[]) =>
      Object.fromEntries(rows.map(({ name, count }) => [name, count]))
    return { commands: table(byStatus), errors: table(byError), effects_open: open?.count ?? 0 }
  })
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
