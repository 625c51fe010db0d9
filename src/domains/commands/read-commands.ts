/** Lists, histories and counts for people, by workspace and behind row security. */
import { firstIdOf } from '#kernel/ids'
import { statesOf } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/command'
import { type Db, type FeedPosition, SEQ_STEP, scoped, type Sql, statement } from '#store'
import { ABORT_TOKEN } from '#turns'
import { columnsOf, type StoredCommand, type StoredEffect } from './command-table.ts'
import type { StoredEvent } from './contract.ts'
import { REQUEST_INPUT } from './tasks.ts'

type CommandFilter = {
  readonly status?: string | undefined
  readonly taskName?: string | undefined
  readonly requestedBy?: string | undefined
  readonly beforeId: string | null
  readonly limit: number
}

/** `$1` of the text is the workspace. */
function read<Row extends object>(db: Db, workspaceId: string, text: string, values: readonly unknown[]) {
  return scoped(db, workspaceId).read((tx) => tx.query<Row>(text, [workspaceId, ...values]))
}

/** Newest first: ids are ordered by time. */
export function listCommands(db: Db, workspaceId: string, filter: CommandFilter): Promise<readonly StoredCommand[]> {
  const text = `select ${columnsOf('c')} from concord.commands as c
where c.workspace_id = $1 and ($2::uuid is null or c.command_id < $2) and ($3::text is null or c.status = $3)
  and ($4::text is null or c.task_name = $4) and ($5::text is null or c.requested_by = $5)
order by c.command_id desc limit $6`
  const { beforeId, status = null, taskName = null, requestedBy = null, limit } = filter
  return read(db, workspaceId, text, [beforeId, status, taskName, requestedBy, limit])
}

type ListedEffect = StoredEffect & { readonly command_id: string }

/** The effects of several commands without results and payloads: what `next` and the current step need. Uses idx_domain_effects_command. */
export async function listEffects(
  db: Db,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<(commandId: string) => readonly StoredEffect[]> {
  const text = `select e.command_id, e.domain_effect_id, e.effect_type, e.status, e.compensates_effect_id, e.declared_compensation,
  e.declaration_order, e.run_after, e.read_back, e.created_at, e.completed_at, null as result,
  case when e.effect_type = '${REQUEST_INPUT}' then e.effect_payload else '{}' end as effect_payload
from concord.domain_effects as e where e.workspace_id = $1 and e.command_id = any($2) order by e.declaration_order, e.created_at`
  const rows = await read<ListedEffect>(db, workspaceId, text, [commandIds])
  const byCommand = Map.groupBy(rows, ({ command_id }) => command_id)
  return (commandId) => byCommand.get(commandId) ?? []
}

const eventColumns = `e.event_id, e.command_id, e.event_type, e.purpose, e.payload, e.actor, e.trace_id, e.created_at, e.seq::text as seq`
type PagedEvent = StoredEvent & { readonly seq: string }

/** In the order in which they happened. */
export function listCommandEvents(
  db: Db,
  workspaceId: string,
  commandId: string,
  page: { readonly afterSeq: string | null; readonly limit: number },
): Promise<readonly PagedEvent[]> {
  const text = `select ${eventColumns} from concord.domain_events as e
where e.workspace_id = $1 and e.command_id = $2 and ($3::bigint is null or e.entry_seq > $3::bigint - ${SEQ_STEP} and e.seq > $3)
order by e.entry_seq, e.seq limit $4`
  return read(db, workspaceId, text, [commandId, page.afterSeq, page.limit])
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
export function listAudit(db: Db, workspaceId: string, filter: AuditFilter): Promise<readonly AuditEvent[]> {
  const text = `select e.event_id, j.command_id, e.event_type, e.purpose, e.payload, e.actor, j.trace_id, j.created_at,
  (j.seq + e.place)::text as seq, j.xid::text as xid
from concord.journal as j cross join lateral concord.unpack(j.entry_id, j.events) as e
where j.workspace_id = $1 and e.purpose = 'audit' and ($2::xid8 is null or (j.xid, j.seq) <= ($2, $3) and (j.xid, j.seq + e.place) < ($2, $3))
  and ($4::uuid is null or j.command_id = $4) and ($6::text is null or e.actor = $6)
  and ($5::text is null or strpos(j.events::text, '"' || $5 || '"') > 0 and e.event_type = $5)
order by j.xid desc, j.seq desc, e.place desc limit $7`
  const { before, commandId = null, eventType = null, actor = null, limit } = filter
  return read(db, workspaceId, text, [before?.xid ?? null, before?.seq ?? null, commandId, eventType, actor, limit])
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
