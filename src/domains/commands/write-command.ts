/**
 * Commits the changes of a command as one statement: the command, its effects, its events, and the mark on commands that wait for it. The
 * same statement serves one write inside a transaction and a batch of the lane.
 *
 * $1 the writes with their events, $2 their ids, then new effects, then changed effects and their ids. There is a variant with and without each of
 * these parts and without a move, because an unused part costs Postgres 30 µs. A write that finds another status or another turn on its row
 * changes nothing, because every other part joins the row that moved. Rows are found by `$2` alone: joined to the waiting commands, the
 * planner read every open command (1 ms at 3,000 of them, and growing). Of a list the planner assumes ten: outside the lane it
 * finds a plan for one command better and makes it again for every write. So the statement for one write has an id and not a list.
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import type { JoinedVote } from '#domains/approvals'
import type { Runtime } from '#runtime'
import { auditTypeOf, type Db, type JournalEvent, openLane, type Sql, statement, type Statement, type Tx } from '#store'
import { ABORT_TOKEN, type Taking } from '#turns'
import type { Catalog } from './catalog/open-catalog.ts'
import type { Write, WriteEvent } from './change.ts'
import {
  changeableColumns,
  type ChangeableColumn,
  columnsOf,
  patchedColumns,
  patchedEffectColumns,
  processOf,
  type StoredCommand,
} from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { commandEventPurposes } from './events.ts'
import { observeCommit } from './observe.ts'
import { isRequesterGone } from './requester.ts'
import { mayAgentAct } from './stops/stop.ts'
import { wakeOptionsOf } from './tasks.ts'

const assign = (columns: Readonly<Record<string, string>>, set: string, row: string) =>
  Object.entries(columns)
    .map(([column, value]) => `${column} = case when ${set} ? '${column}' then ${value} else ${row}.${column} end`)
    .join(',\n    ')

/** The write takes the turn if no turn is alive on the row. */
const mayTake = `w.takes is not null and (c.turn_token is null or c.turn_until < statement_timestamp())`

/** A command that an operator has aborted keeps the abort token through every write, until it is resumed. */
const isAborted = `c.turn_token = '${ABORT_TOKEN}'`

/** "Not ended", written so that the planner does not choose the index of all open commands. */
const isOpen = `coalesce(c.completed_at, 'infinity') = 'infinity'`

type Written = Pick<StoredCommand, ChangeableColumn> & {
  readonly n: number
  /** The effects that were changed. */
  readonly touched: readonly string[]
  /** Commands that depend on this one and were marked as due. */
  readonly dependents: readonly string[]
}

/** How a column is compared with the ids of the commands. */
type Ids = { readonly among: string; readonly notAmong: string }
const oneId: Ids = { among: '= $2::uuid', notAmong: '<> $2::uuid' }
const manyIds: Ids = { among: '= any($2::uuid[])', notAmong: '<> all($2::uuid[])' }

/** The row is as it was read, and what begins may begin. Another room's expressions follow, the last of them `told`: they write if this row is there. */
const held = (given: string) => `, held as materialized (
  select c.command_id from concord.commands as c join w on w.id = c.command_id
  where c.command_id ${oneId.among} and c.xmin::text = w.version${given}
  for no key update of c
)`

const moved = ({ among }: Ids, given: string) => `, moved as (
  update concord.commands as c set
    status = coalesce(w.status, c.status),
    updated_at = w.at,
    turn_token = case when ${isAborted} then c.turn_token when w.releases then null when ${mayTake} then w.takes else c.turn_token end,
    turn_until = case when ${isAborted} then c.turn_until when w.releases then null when ${mayTake} then statement_timestamp() + make_interval(secs => w.takes_ms / 1000)
      when w.keeps_ms is not null then greatest(c.turn_until, statement_timestamp() + make_interval(secs => w.keeps_ms / 1000))
      else c.turn_until end,
    ${assign(patchedColumns, 'w.set', 'c')}
  from w
  where c.command_id ${among} and c.command_id = w.id and c.workspace_id = w.workspace_id
    and (w.from_status is null or c.status = w.from_status)
    and (w.token is null or c.turn_token = w.token)
    and (not w.is_free or c.turn_token is null)${given}
  returning w.n, w.status as new_status, c.command_id, c.workspace_id, ${columnsOf('c', changeableColumns)}
)`

/** Inserts the effects in the parameter, each for its row of `commands`. */
export const insertEffects = (effects: string, commands: string) => `
  insert into concord.domain_effects (domain_effect_id, command_id, workspace_id, effect_type, effect_payload, idempotency_key, status, result,
    compensates_effect_id, declared_compensation, declaration_order, attempt, max_attempts, turn_token, reversibility,
    executed_by_runtime_workflow_id, created_at, completed_at)
  select e.domain_effect_id, m.command_id, m.workspace_id, e.effect_type, e.effect_payload, e.idempotency_key, e.status, e.result,
    e.compensates_effect_id, e.declared_compensation, e.declaration_order, e.attempt, e.max_attempts, e.turn_token, e.reversibility,
    e.executed_by_runtime_workflow_id, m.updated_at, e.completed_at
  from json_to_recordset(${effects}::json) as e(command_id uuid, domain_effect_id uuid, effect_type text, effect_payload jsonb, idempotency_key text,
    status text, result jsonb, compensates_effect_id uuid, declared_compensation text, declaration_order integer, attempt integer,
    max_attempts integer, turn_token uuid, reversibility text, executed_by_runtime_workflow_id text, completed_at timestamptz)
  join ${commands} as m on m.command_id = e.command_id
`

const touched = ({ among }: Ids, changes: string, effects: string) => `, touched as (
  update concord.domain_effects as d set
    status = u.status,
    ${assign(patchedEffectColumns, 'u.set', 'd')}
  from jsonb_to_recordset(${changes}::jsonb) as u(n integer, domain_effect_id uuid, from_status text, status text, set jsonb)
  join moved as m on m.n = u.n
  where d.command_id ${among} and d.domain_effect_id = any(${effects}::uuid[])
    and d.domain_effect_id = u.domain_effect_id and d.command_id = m.command_id
    and d.status = u.from_status
  returning u.n, d.domain_effect_id
)`

/** `splits`: a write has several journal rows, and `more` holds those after the first. */
const logged = (splits: boolean) => `, logged as (
  insert into concord.journal (entry_id, workspace_id, command_id, trace_id, created_at, audit_type, events)
  select r.entry_id, m.workspace_id, m.command_id, w.trace_id, m.updated_at, r.audit_type, r.events
  from moved as m join w on w.n = m.n cross join lateral (
    select 0 as place, w.entry_id, w.audit_type, w.events${
      splits
        ? `
    union all select x.place, x.entry_id, x.audit_type, x.events
    from json_to_recordset(w.more) as x(place integer, entry_id uuid, audit_type text, events json)`
        : ''
    }
  ) as r
  where r.events is not null
  order by m.n, r.place
)`

const marked = ({ among, notAmong }: Ids) => `, waiting as materialized (
  select m.n, m.updated_at, d.child_command_id
  from concord.command_dependencies as d join moved as m on m.command_id = d.parent_command_id
  where d.parent_command_id ${among} and m.new_status is not null
    and (m.completed_at is not null or m.status = d.required_status)
), marked as (
  update concord.commands as c set run_after = (select max(x.updated_at) from waiting as x)
  where c.command_id = any(array(select x.child_command_id from waiting as x)) and ${isOpen}
    and c.command_id ${notAmong}
)`

const mayBegin = `\n    and (w.requester is null or not ${isRequesterGone('w.requester')})`
const mayBeginOfAgent = `\n    and (w.is_of_agent is not true or ${mayAgentAct('c')})`

type Parts = {
  readonly isBatch: boolean
  /** New effects. */
  readonly plans: boolean
  /** Changed effects. */
  readonly touches: boolean
  /** A move of a command. */
  readonly moves: boolean
  /** Several journal rows of one write. */
  readonly splits: boolean
  /** An effect begins, so the requester must still be allowed to act. */
  readonly begins: boolean
  /** An effect of an agent begins, so no stop may cover the agent. */
  readonly ofAgent: boolean
}

/** A write that depends on another room's write in the same statement, and on the version of the command. */
type Joined = { readonly version: string; readonly vote: JoinedVote }

function textOf(parts: Parts, vote: JoinedVote | undefined): string {
  const { isBatch, plans, touches, moves, splits, begins, ofAgent } = parts
  const next = plans ? 4 : 3
  const last = touches ? next + 2 : next
  const ids = isBatch ? manyIds : oneId
  const given = `${begins ? mayBegin : ''}${ofAgent ? mayBeginOfAgent : ''}`
  return [
    `with w as materialized (
  select * from json_to_recordset($1::json)
    as w(n integer, entry_id uuid, audit_type text, events json, more json, trace_id text, id uuid, workspace_id uuid, from_status text, status text, token uuid, keeps_ms double precision,
      is_free boolean, releases boolean, takes uuid,
      takes_ms double precision, at timestamptz, set jsonb, version text, requester uuid, is_of_agent boolean)
)`,
    vote ? `${held(given)}, ${vote.text(`$${last}`, `$${last + 1}`, 'exists (select from held)')}` : '',
    // What begins was already allowed to begin by `held`, which has locked the row.
    moved(ids, vote ? '\n    and exists (select from told)' : given),
    plans ? `, planned as (${insertEffects('$3', 'moved')})` : '',
    touches ? touched(ids, `$${next}`, `$${next + 1}`) : '',
    logged(splits),
    moves ? marked(ids) : '',
    `
select m.n, ${columnsOf('m', changeableColumns)}, ${touches ? 'array(select t.domain_effect_id from touched as t where t.n = m.n)' : "'{}'::uuid[]"} as touched,
  ${moves ? 'array(select x.child_command_id from waiting as x where x.n = m.n)' : "'{}'::uuid[]"} as dependents
from moved as m`,
  ].join('')
}

const forms = new Map<string, Statement<Written>>()

/** The variant for these parts, built once. */
function writeStatement(parts: Parts, vote: JoinedVote | undefined): Statement<Written> {
  const { isBatch: batch, plans, touches, moves, splits, begins, ofAgent: agent } = parts
  const name = Object.entries({ batch, plans, touches, moves, splits, begins, agent, voted: vote !== undefined })
    .flatMap(([part, isThere]) => (isThere ? [part] : []))
    .reduce((all, part) => `${all}_${part}`, 'commands_write')
  const known = forms.get(name) ?? statement<Written>(name, textOf(parts, vote))
  forms.set(name, known)
  return known
}

const markDue = statement<{ readonly command_id: string }>(
  'commands_mark_due',
  `update concord.commands as c set run_after = $2 where c.command_id = any($1::uuid[]) and ${isOpen} returning c.command_id`,
)

type Sent = { readonly write: Write; readonly entryId: string; readonly takes?: Taking | undefined }

type JournalRow = {
  readonly entry_id: string
  readonly audit_type: string | null
  readonly events: readonly JournalEvent[]
  /** The place of its first event among the events of the write. */
  readonly place: number
}

/**
 * The events of one write as journal rows: one row, and a further one from each event on whose audit type the row before cannot hold. The ids
 * of the events do not depend on the division.
 */
export function journalRows(entryId: string, events: readonly WriteEvent[]): readonly JournalRow[] {
  const rows: (Omit<JournalRow, 'audit_type' | 'events'> & { audit_type: string | null; events: JournalEvent[] })[] = []
  for (const [place, { event_type: type, actor, payload }] of events.entries()) {
    const purpose = commandEventPurposes[type]
    const event = purpose === 'event' ? { type, actor, payload } : { type, purpose, actor, payload }
    const auditType = auditTypeOf(event)
    const last = rows.at(-1)
    if (!last || (auditType !== null && last.audit_type !== null && last.audit_type !== auditType))
      rows.push({ entry_id: idAt(entryId, place), audit_type: auditType, events: [event], place })
    else {
      last.audit_type ??= auditType
      last.events.push(event)
    }
  }
  return rows
}

/** The id of the event at this place of a row: `concord.unpack` counts up the last 16 bits. */
function idAt(entryId: string, place: number): string {
  const last = (Number.parseInt(entryId.slice(-4), 16) + place) & 0xffff
  return `${entryId.slice(0, -4)}${last.toString(16).padStart(4, '0')}`
}

function sendWrites(sql: Sql, sent: readonly Sent[], joined?: Joined): Promise<Written[]> {
  const numbered = <T extends object>(pick: (write: Write) => readonly T[]) =>
    sent.flatMap(({ write }, n) => pick(write).map((each) => ({ ...each, n, command_id: write.command.command_id })))
  const moves = numbered((write) => write.effectMoves)
  const docs = sent.map(({ write, entryId, takes: taking }, n) => {
    const { command, hold, from, to, releases, at, set, events, requester, isOfAgent } = write
    const [first, ...more] = journalRows(entryId, events)
    return {
      n,
      entry_id: entryId,
      audit_type: first?.audit_type,
      events: first?.events,
      more: more.length === 0 ? undefined : more,
      trace_id: command.context.trace_id,
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
      version: joined?.version,
      requester,
      is_of_agent: isOfAgent,
    }
  })
  const effects = numbered((write) => write.newEffects)
  const ids = sent.map(({ write }) => write.command.command_id)
  const parts = {
    isBatch: ids.length > 1,
    plans: effects.length > 0,
    touches: moves.length > 0,
    moves: sent.some(({ write }) => write.to !== null),
    splits: docs.some(({ more }) => more !== undefined),
    begins: docs.some(({ requester }) => requester !== undefined),
    ofAgent: docs.some(({ is_of_agent }) => is_of_agent === true),
  }
  return sql.run(writeStatement(parts, joined?.vote), [
    JSON.stringify(docs),
    parts.isBatch ? ids : ids[0],
    ...(parts.plans ? [JSON.stringify(effects)] : []),
    ...(parts.touches ? [JSON.stringify(moves), moves.map(({ domain_effect_id }) => domain_effect_id)] : []),
    ...(joined ? [joined.vote.id, joined.vote.values] : []),
  ])
}

export type WriteResult = { readonly command: StoredCommand; readonly dependents: readonly string[] }

function resultOf(write: Write, { n: _n, touched: ids, dependents, ...changed }: Written): WriteResult {
  const missed = write.effectMoves.find(({ domain_effect_id }) => !ids.includes(domain_effect_id))
  // The turn held the row, but the effect has changed since it was read: another writer changed it without holding the command.
  if (missed)
    throw new KernelFault('commands.effect.torn', 'an effect changed outside its turn', {
      domain_effect_id: missed.domain_effect_id,
    })
  return { command: { ...write.command, ...changed }, dependents }
}

function refuseMoved(write: Write): Refusal {
  const state = write.from ?? 'held'
  return refuse('commands.command.moved', 'This command has changed meanwhile.', { facts: { expected: state } })
}

/** The process to wake if this write ends the command or makes it wait for people. A run is also woken when its command no longer waits. */
function followerOf({ command: { context, agent_run_id }, from, to, set }: Write) {
  const states = to === null ? [] : agent_run_id === null ? [to] : [from, to]
  const isWoken = set.completed_at instanceof Date || states.some((state) => WAITS_FOR_PEOPLE.includes(state ?? ''))
  return isWoken ? context.follower : undefined
}
const WAITS_FOR_PEOPLE: readonly string[] = ['waiting_for_input', 'waiting_for_approval', 'blocked']

export type CommandWriter = {
  /** Settles after the commit. A refusal means that the row has changed since it was read. */
  commit(write: Write): Promise<Decision<WriteResult>>
  /** Writes inside the caller's transaction, for decisions that write other tables too. The write may take the turn. */
  commitIn(tx: Tx, write: Write, takes?: Taking): Promise<Decision<WriteResult>>
  /** Commits the write and the vote as one statement, both or neither, and takes the turn. The row must have no turn. */
  commitVoted(write: Write, joined: Joined, takes: Taking): Promise<Decision<WriteResult>>
  close(): Promise<void>
}

export function openWriter({
  db,
  wake,
  newId,
  count,
}: Pick<CommandDeps, 'db' | 'wake' | 'newId' | 'count'>): CommandWriter {
  const lane = openLane<Sent, Decision<WriteResult>>(db, {
    name: 'commands',
    // A write is several rows. Batches of 64 keep one core busy and the other idle: 1,720 commands/s with 64, and 2,400 with 16.
    batchMax: 16,
    keyOf: ({ write }) => write.command.command_id,
    retrySafe: true,
    async flush(sql, items) {
      const sent = items.map(({ item }) => item)
      const rows = new Map((await sendWrites(sql, sent)).map((row) => [row.n, row]))
      await markTogether(sql, sent, rows)
      return sent.map(({ write }, n) => {
        const row = rows.get(n)
        // After a lost connection the row may have moved by this very write. The driver reads it again in either case.
        return row ? accept(resultOf(write, row)) : refuseMoved(write)
      })
    },
  })
  function observed(write: Write, result: Decision<WriteResult>): Decision<WriteResult> {
    if (result.ok) observeCommit(count, result.value.command, write)
    return result
  }
  async function commitIn(tx: Tx, write: Write, taking?: Taking): Promise<Decision<WriteResult>> {
    const [row] = await sendWrites(tx, [{ write, entryId: newId(), takes: taking }])
    if (!row) return refuseMoved(write)
    const follower = followerOf(write)
    if (follower) await wake(follower, { tx })
    const result = resultOf(write, row)
    tx.afterCommit(() => observeCommit(count, result.command, write))
    return accept(result)
  }
  return {
    async commit(write) {
      if (followerOf(write)) return db.transaction((tx) => commitIn(tx, write))
      return observed(write, await lane.submit({ write, entryId: newId() }))
    },
    commitIn,
    async commitVoted(write, joined, takes) {
      const [row] = await sendWrites(db, [{ write, entryId: newId(), takes }], joined)
      return observed(write, row ? accept(resultOf(write, row)) : refuseMoved(write))
    },
    close: () => lane.close(),
  }
}

/** For a command and its dependent in one batch: the statement cannot update a row twice, so the mark follows separately. */
async function markTogether(sql: Sql, sent: readonly Sent[], rows: ReadonlyMap<number, Written>): Promise<void> {
  const here = new Set(sent.map(({ write }) => write.command.command_id))
  const both = [...rows.values()].flatMap(({ dependents }) => dependents.filter((id) => here.has(id)))
  if (both.length > 0) await sql.run(markDue, [both, sent[0]?.write.at ?? null])
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
