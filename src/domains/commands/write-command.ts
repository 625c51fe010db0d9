/**
 * Commits the changes of a command as one statement: the command, its effects, its events, and the mark on commands that wait for it. The
 * same statement serves one write inside a transaction and a batch of the lane.
 *
 * $1 the writes, $2 their ids, $3 events, then new effects, then changed effects and their ids. There is a variant with and without each of
 * these parts and without a move, because an unused part costs Postgres 30 µs. A write that finds another status or another turn on its row
 * changes nothing, because every other part joins the row that moved. Rows are found by `= any(…)` alone: joined to the waiting commands, the
 * planner read every open command (1 ms at 3,000 of them, and growing).
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { Runtime } from '#runtime'
import { type Db, openLane, type Sql, statement, type Statement, type Tx } from '#store'
import { ABORT_TOKEN, type Taking } from '#turns'
import type { Catalog } from './catalog/open-catalog.ts'
import type { Write } from './change.ts'
import { columnsOf, patchedColumns, patchedEffectColumns, processOf, type StoredCommand } from './command-table.ts'
import { commandEventPurposes } from './events.ts'
import { wakeOptionsOf } from './tasks.ts'

const assign = (columns: Readonly<Record<string, string>>, set: string, row: string) =>
  Object.entries(columns)
    .map(([column, value]) => `${column} = case when ${set} ? '${column}' then ${value} else ${row}.${column} end`)
    .join(',\n    ')

/** The write takes the turn if no turn is alive on the row. */
const takes = `w.takes is not null and (c.turn_token is null or c.turn_until < statement_timestamp())`

/** A command that an operator has aborted keeps the abort token through every write, until it is resumed. */
const isAborted = `c.turn_token = '${ABORT_TOKEN}'`

/** "Not ended", written so that the planner does not choose the index of all open commands. */
const isOpen = `coalesce(c.completed_at, 'infinity') = 'infinity'`

type Written = StoredCommand & {
  readonly n: number
  readonly new_status: string | null
  /** The changed effects, without those whose condition did not hold. */
  readonly touched: readonly string[]
  /** Commands that depend on this one and were marked as due. */
  readonly dependents: readonly string[]
}

const moved = `, moved as (
  update concord.commands as c set
    status = coalesce(w.status, c.status),
    updated_at = w.at,
    turn_token = case when ${isAborted} then c.turn_token when w.releases then null when ${takes} then w.takes else c.turn_token end,
    turn_until = case when ${isAborted} then c.turn_until when w.releases then null when ${takes} then statement_timestamp() + make_interval(secs => w.takes_ms / 1000)
      when w.keeps_ms is not null then greatest(c.turn_until, statement_timestamp() + make_interval(secs => w.keeps_ms / 1000))
      else c.turn_until end,
    ${assign(patchedColumns, 'w.set', 'c')}
  from w
  where c.command_id = any($2::uuid[]) and c.command_id = w.id and c.workspace_id = w.workspace_id
    and (w.from_status is null or c.status = w.from_status)
    and (w.token is null or c.turn_token = w.token)
    and (not w.is_free or c.turn_token is null)
  returning w.n, w.status as new_status, ${columnsOf('c')}
)`

const planned = (effects: string) => `, planned as (
  insert into concord.domain_effects (domain_effect_id, command_id, workspace_id, effect_type, effect_payload, idempotency_key, status, result,
    compensates_effect_id, declared_compensation, declaration_order, attempt, max_attempts, turn_token, reversibility,
    executed_by_runtime_workflow_id, created_at, completed_at)
  select e.domain_effect_id, m.command_id, m.workspace_id, e.effect_type, e.effect_payload, e.idempotency_key, e.status, e.result,
    e.compensates_effect_id, e.declared_compensation, e.declaration_order, e.attempt, e.max_attempts, e.turn_token, e.reversibility,
    e.executed_by_runtime_workflow_id, m.updated_at, e.completed_at
  from jsonb_to_recordset(${effects}::jsonb) as e(n integer, domain_effect_id uuid, effect_type text, effect_payload jsonb, idempotency_key text,
    status text, result jsonb, compensates_effect_id uuid, declared_compensation text, declaration_order integer, attempt integer,
    max_attempts integer, turn_token uuid, reversibility text, executed_by_runtime_workflow_id text, completed_at timestamptz)
  join moved as m on m.n = e.n
)`

const touched = (changes: string, ids: string) => `, touched as (
  update concord.domain_effects as d set
    status = u.status,
    ${assign(patchedEffectColumns, 'u.set', 'd')}
  from jsonb_to_recordset(${changes}::jsonb) as u(n integer, domain_effect_id uuid, from_status text, status text, requires_status text, set jsonb)
  join moved as m on m.n = u.n
  where d.domain_effect_id = any(${ids}::uuid[]) and d.domain_effect_id = u.domain_effect_id and d.command_id = m.command_id
    and d.status = u.from_status and (u.requires_status is null or u.requires_status = m.status)
  returning u.n, d.domain_effect_id
)`

const logged = (where: string) => `, logged as (
  insert into concord.domain_events (event_id, workspace_id, command_id, purpose, event_type, payload, actor, trace_id, created_at)
  select v.event_id, m.workspace_id, m.command_id, v.purpose, v.event_type, v.payload, v.actor, v.trace_id, m.updated_at
  from jsonb_to_recordset($3::jsonb) as v(n integer, place integer, event_id uuid, purpose text, event_type text, payload jsonb,
    actor text, trace_id text, with_effect uuid)
  join moved as m on m.n = v.n
  ${where}
  order by v.n, v.place
)`

const marked = `, waiting as materialized (
  select m.n, m.updated_at, d.child_command_id
  from concord.command_dependencies as d join moved as m on m.command_id = d.parent_command_id
  where d.parent_command_id = any($2::uuid[]) and m.new_status is not null
    and (m.completed_at is not null or m.status = d.required_status)
), marked as (
  update concord.commands as c set run_after = (select max(x.updated_at) from waiting as x)
  where c.command_id = any(array(select x.child_command_id from waiting as x)) and ${isOpen}
    and c.command_id <> all($2::uuid[])
)`

/** Which parts the writes of a batch have: new effects, changed effects, a move of a command. */
type Parts = { readonly plans: boolean; readonly touches: boolean; readonly moves: boolean }

function textOf({ plans, touches, moves }: Parts): string {
  const next = plans ? 5 : 4
  return [
    `with w as materialized (
  select * from jsonb_to_recordset($1::jsonb)
    as w(n integer, id uuid, workspace_id uuid, from_status text, status text, token uuid, keeps_ms double precision,
      is_free boolean, releases boolean, takes uuid,
      takes_ms double precision, at timestamptz, set jsonb)
)`,
    moved,
    plans ? planned('$4') : '',
    touches ? touched(`$${next}`, `$${next + 1}`) : '',
    logged(
      touches ? 'where v.with_effect is null or v.with_effect in (select t.domain_effect_id from touched as t)' : '',
    ),
    moves ? marked : '',
    `
select m.*, ${touches ? 'array(select t.domain_effect_id from touched as t where t.n = m.n)' : "'{}'::uuid[]"} as touched,
  ${moves ? 'array(select x.child_command_id from waiting as x where x.n = m.n)' : "'{}'::uuid[]"} as dependents
from moved as m`,
  ].join('')
}

const forms = new Map<string, Statement<Written>>()

/** The variant for these parts, built once. */
function writeStatement(parts: Parts): Statement<Written> {
  const name = ['commands_write', parts.plans && 'plans', parts.touches && 'touches', parts.moves && 'moves']
    .filter((part) => part !== false)
    .join('_')
  const known = forms.get(name) ?? statement<Written>(name, textOf(parts))
  forms.set(name, known)
  return known
}

const findEvent = statement<{ readonly event_id: string }>(
  'commands_find_event',
  `select event_id from concord.domain_events where event_id = any($1::uuid[])`,
)
const markDue = statement<{ readonly command_id: string }>(
  'commands_mark_due',
  `update concord.commands as c set run_after = $2 where c.command_id = any($1::uuid[]) and ${isOpen} returning c.command_id`,
)

type Sent = { readonly write: Write; readonly takes?: Taking | undefined }

function sendWrites(sql: Sql, sent: readonly Sent[]): Promise<Written[]> {
  const place = <T extends object>(pick: (write: Write) => readonly T[]) =>
    sent.flatMap(({ write }, n) => pick(write).map((each, at) => ({ ...each, n, place: at })))
  const moves = place((write) => write.effectMoves)
  const events = sent.flatMap(({ write }, n) =>
    write.events.map((event, at) => ({ ...event, purpose: commandEventPurposes[event.event_type], n, place: at })),
  )
  const docs = sent.map(({ write: { command, hold, from, to, releases, at, set }, takes: taking }, n) => ({
    n,
    id: command.command_id,
    workspace_id: command.workspace_id,
    from_status: from,
    status: to,
    token: typeof hold === 'object' ? hold.held : null,
    keeps_ms: (typeof hold === 'object' && hold.leaseMs) || null,
    is_free: hold === 'free',
    releases,
    takes: taking?.token ?? null,
    takes_ms: taking?.leaseMs ?? null,
    at,
    set,
  }))
  const effects = place((write) => write.newEffects)
  const parts = {
    plans: effects.length > 0,
    touches: moves.length > 0,
    moves: sent.some(({ write }) => write.to !== null),
  }
  return sql.run(writeStatement(parts), [
    JSON.stringify(docs),
    sent.map(({ write }) => write.command.command_id),
    JSON.stringify(events),
    ...(parts.plans ? [JSON.stringify(effects)] : []),
    ...(parts.touches ? [JSON.stringify(moves), moves.map(({ domain_effect_id }) => domain_effect_id)] : []),
  ])
}

export type WriteResult = {
  readonly command: StoredCommand
  readonly touched: ReadonlySet<string>
  readonly dependents: readonly string[]
}

function resultOf(
  write: Write,
  { n: _n, new_status: _status, touched: ids, dependents, ...row }: Written,
): WriteResult {
  const done = new Set(ids)
  const missed = write.effectMoves.find(
    ({ domain_effect_id, requires_status }) => requires_status === null && !done.has(domain_effect_id),
  )
  // The row was ours, but the effect was not as read: another writer changed it without holding the command.
  if (missed)
    throw new KernelFault('commands.effect.torn', 'an effect changed outside its turn', {
      domain_effect_id: missed.domain_effect_id,
    })
  return { command: row, touched: done, dependents }
}

function refuseMoved(write: Write): Refusal {
  const state = write.from ?? 'held'
  return refuse('commands.command.moved', 'This command has changed meanwhile.', { facts: { expected: state } })
}

/** The process to wake if this write ends the command or makes it wait for people. */
function followerOf({ command: { context }, to, set }: Write) {
  const isWoken = set.completed_at instanceof Date || (to !== null && WAITS_FOR_PEOPLE.includes(to))
  return isWoken ? context.follower : undefined
}
const WAITS_FOR_PEOPLE: readonly string[] = ['waiting_for_input', 'waiting_for_approval', 'blocked']

export type CommandWriter = {
  /** Settles after the commit. A refusal means that the row was no longer as read. */
  commit(write: Write): Promise<Decision<WriteResult>>
  /** Writes inside the caller's transaction, for decisions that write other tables too. The write may take the turn. */
  commitIn(tx: Tx, write: Write, takes?: Taking): Promise<Decision<WriteResult>>
  close(): Promise<void>
}

export function openWriter(db: Db, wake: Runtime['wake']): CommandWriter {
  const lane = openLane<Write, Decision<WriteResult>>(db, {
    name: 'commands',
    // A write is ten rows or more. Batches of 64 keep one core busy and the other idle: 1,720 commands/s with 64, and 2,400 with 16.
    batchMax: 16,
    keyOf: ({ command }) => command.command_id,
    retrySafe: true,
    async flush(sql, items) {
      const writes = items.map(({ item }) => item)
      const sent = await sendWrites(
        sql,
        writes.map((write) => ({ write })),
      )
      const rows = new Map(sent.map((row) => [row.n, row]))
      await markTogether(sql, writes, rows)
      const lost = items
        .filter(({ retried }, n) => retried && !rows.has(n))
        .flatMap(({ item }) => item.events.slice(0, 1))
      const seen = lost.length === 0 ? [] : await sql.run(findEvent, [lost.map(({ event_id }) => event_id)])
      return writes.map((write, n) => {
        const row = rows.get(n)
        if (row) return accept(resultOf(write, row))
        // Our own write was committed before the connection broke. The driver reads the row again.
        const isOurs = seen.some(({ event_id }) => event_id === write.events[0]?.event_id)
        return isOurs
          ? refuse('commands.command.moved', 'This write was committed before its connection broke.')
          : refuseMoved(write)
      })
    },
  })
  async function commitIn(tx: Tx, write: Write, taking?: Taking): Promise<Decision<WriteResult>> {
    const [row] = await sendWrites(tx, [{ write, takes: taking }])
    if (!row) return refuseMoved(write)
    const follower = followerOf(write)
    if (follower) await wake(follower, { tx })
    return accept(resultOf(write, row))
  }
  return {
    commit: (write) => (followerOf(write) ? db.transaction((tx) => commitIn(tx, write)) : lane.submit(write)),
    commitIn,
    close: () => lane.close(),
  }
}

/** For a command and its dependent in one batch: the statement cannot update a row twice, so the mark follows separately. */
async function markTogether(sql: Sql, writes: readonly Write[], rows: ReadonlyMap<number, Written>): Promise<void> {
  const here = new Set(writes.map(({ command }) => command.command_id))
  const both = [...rows.values()].flatMap(({ dependents }) => dependents.filter((id) => here.has(id)))
  if (both.length > 0) await sql.run(markDue, [both, writes[0]?.at ?? null])
}

/** $1 commands. */
const listTasksOf = statement<Pick<StoredCommand, 'command_id' | 'task_name' | 'command_type'>>(
  'commands_list_tasks_of',
  `select command_id, task_name, command_type from concord.commands where command_id = any($1::uuid[])`,
)

/** Wakes the commands that a write has marked as due. A separate read: most commands have no dependents. */
export async function wakeDependents(
  { db, catalog, wake }: { readonly db: Db; readonly catalog: Catalog; readonly wake: Runtime['wake'] },
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return
  for (const row of await db.run(listTasksOf, [ids])) await wake(processOf(row.command_id), wakeOptionsOf(catalog, row))
}
