/**
 * Inserts a new command with everything that was decided about it before its first commit: its effects and one journal row. One statement, one
 * commit per batch of the lane. Two unique indexes decide which of two requests with one caller's key, or for one thing, is first; the other gets the first
 * command back.
 *
 * A command of a remembered caller is inserted only if no right has changed since the caller was looked up (`access_version`), and one of an agent only if no
 * stop covers the agent and its run, if it has one, is at work.
 */
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import {
  type Bound,
  bind,
  collectParams,
  type Once,
  openLane,
  type PgType,
  refuseInProgress,
  type Sql,
  statement,
  type Submitted,
  type Tx,
  untilSettled,
} from '#store'
import { mayRunPropose, refuseIdleRun } from './actions/run-authority.ts'
import type { NewEffect, WriteEvent } from './change.ts'
import { columnsOf, isOfAgent, newColumns, type StoredCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { observeCommit } from './observe.ts'
import { findStopOf, mayAgentAct, refuseStopped } from './stops/stop.ts'
import { insertEffects, journalRows } from './write-command.ts'

export type NewCommand = {
  readonly command: StoredCommand
  /** By the clock of the database, since other processes check the lease by it. */
  readonly turnMs: number | null
  readonly effects: readonly NewEffect[]
  readonly events: readonly WriteEvent[]
  /** The version of all rights under which a remembered caller was looked up. */
  readonly accessVersion?: string | undefined
}

type Opened = Decision<Once<StoredCommand>>

/**
 * What another room writes in the statement that inserts a command. Its expressions before the insert end with `held`, which has the run of the command if the run is at
 * work, under a lock; the others write if there is a row in `logged`. Nothing is written without `held` or without the command.
 */
export type JoinedInsert<Row> = {
  readonly name: string
  readonly types: readonly PgType[]
  /** SQL, from the places of its values. `select`: what the statement returns, from `opened` and the expressions of the room. */
  readonly text: (at: readonly string[]) => { readonly before: string; readonly after: string; readonly select: string }
  readonly values: readonly unknown[]
  /** Carries the row type only; never set. */
  readonly row?: Row
}

export type CommandInserts = {
  /** Settles after the commit. */
  insert(item: NewCommand): Promise<Opened>
  /** The same inside the caller's transaction, which sets its own limit for waiting on a key. */
  insertIn(tx: Tx, item: NewCommand): Promise<Opened>
  /** The same with what another room writes, as one statement and one commit. Undefined: nothing was written. */
  insertWith<Row>(item: NewCommand, joined: JoinedInsert<Row>): Promise<Row | undefined>
  close(): Promise<void>
}

/** How long a batch waits for another open transaction with one of its keys; the rest of the batch waits with it. */
export const KEY_WAIT = "lock_timeout = '500ms'"

const columns = {
  ...newColumns,
  runtime_workflow_id: 'text',
  plan: 'jsonb',
  result: 'jsonb',
  error: 'text',
  error_class: 'text',
  completed_at: 'timestamptz',
} as const
const names = Object.keys(columns) as (keyof typeof columns)[]

type Sent = { readonly item: NewCommand; readonly entryId: string }
type Entry = ReturnType<typeof journalRows>[number] & Sent
type Batch = {
  readonly sent: readonly Sent[]
  readonly entries: readonly Entry[]
  readonly effects: readonly object[]
  readonly joined: readonly unknown[]
}
type Id = { readonly command_id: string }
type Column<T> = readonly [name: string, type: PgType, valueOf: (row: T) => unknown]

const commandColumns: readonly Column<Sent>[] = [
  ...names.map((name): Column<Sent> => [name, columns[name], ({ item }) => item.command[name]]),
  ['turn_ms', 'numeric', ({ item }) => item.turnMs],
  ['access_version', 'bigint', ({ item }) => item.accessVersion],
]
const journalColumns: readonly Column<Entry>[] = [
  ['command_id', 'uuid', ({ item }) => item.command.command_id],
  ['entry_id', 'uuid', ({ entry_id }) => entry_id],
  ['trace_id', 'text', ({ item }) => item.command.context.trace_id],
  ['audit_type', 'text', ({ audit_type }) => audit_type],
  ['events', 'json', ({ events }) => events],
]

const mayInsert = `
    and (w.context->>'run_as' <> 'agent' or (${mayAgentAct('w')} and ${mayRunPropose('w')}))`

/** `held` has checked that the run is at work, and has locked it. */
const mayInsertWith = `
    and exists (select from held as h where h.agent_run_id = w.agent_run_id) and ${mayAgentAct('w')}`

type Form = { readonly size: number; readonly entries: number; readonly plans: boolean; readonly ofAgent: boolean }

/** Every value is a parameter of its own: as one document Postgres would read each of them three times, a seventh of its time. */
function compile({ size, entries, plans, ofAgent }: Form, joined?: JoinedInsert<unknown>): Bound<Batch, unknown> {
  const params = collectParams<Batch>()
  const more = joined?.text(joined.types.map((type, n) => params.add(type, (batch) => batch.joined[n])))
  const list = <T>(
    rows: number,
    rowsOf: (batch: Batch) => readonly T[],
    given: readonly Column<T>[],
    alias: string,
  ) => {
    const valueAt = (n: number, valueOf: (row: T) => unknown) => (batch: Batch) => {
      const row = rowsOf(batch)[n]
      return row && valueOf(row)
    }
    const row = (n: number) => given.map(([, type, valueOf]) => params.add(type, valueAt(n, valueOf))).join(', ')
    const all = Array.from({ length: rows }, (_, n) => `(${n}, ${row(n)})`).join(',\n    ')
    return `(values ${all}) as ${alias}(n, ${given.map(([name]) => name).join(', ')})`
  }
  const planned = plans
    ? `, planned as (${insertEffects(
        params.add('json', ({ effects }) => effects),
        'opened',
      )})`
    : ''
  const text = `with ${more ? `${more.before}, ` : ''}opened as (
  insert into concord.commands (${names.join(', ')}, turn_until)
  select ${names.map((name) => `w.${name}`).join(', ')}, statement_timestamp() + make_interval(secs => w.turn_ms / 1000)
  from ${list(size, ({ sent }) => sent, commandColumns, 'w')}
  where w.command_id is not null
    and (w.access_version is null or w.access_version = (select v.version from identity.access_version as v where v.only_row))${more ? mayInsertWith : ofAgent ? mayInsert : ''}
  on conflict do nothing
  returning command_id, workspace_id, updated_at
)${planned}, logged as (
  insert into concord.journal (entry_id, workspace_id, command_id, trace_id, created_at, audit_type, events)
  select j.entry_id, o.workspace_id, o.command_id, j.trace_id, o.updated_at, j.audit_type, j.events
  from opened as o join ${list(entries, (batch) => batch.entries, journalColumns, 'j')} on j.command_id = o.command_id
  order by j.n${more ? ' returning entry_id' : ''}
)${more ? `, ${more.after}` : ''}
${more ? more.select : 'select o.command_id from opened as o'}`
  return bind('commands_insert', text, params)
}

const compiled = new Map<string, Bound<Batch, unknown>>()

/** $1 commands. */
const findInserted = statement<Id>(
  'commands_find_inserted',
  'select command_id from concord.commands where command_id = any($1::uuid[])',
)
/** $1 workspace, $2 caller's key, $3 contract's key, $4 command. A command that has the caller's key comes before one that has the contract's. */
const findByKeys = statement<StoredCommand>(
  'commands_find_by_keys',
  `select ${columnsOf('c')} from concord.commands as c
where c.workspace_id = $1 and (c.command_id = $4 or c.idempotency_key = $2 or c.contract_key = $3)
order by c.command_id = $4 desc, (c.idempotency_key = $2) is true desc limit 1`,
)

/** A key by which another request may be waiting for the same row. Null: nothing can be in its way. */
export const keyedBy = ({ contract_key, idempotency_key }: StoredCommand): string | null =>
  contract_key ?? idempotency_key

/** Sizes are rounded up to a power of two, so a connection prepares few statements; the rows in excess are null. */
const roundUp = (count: number) => 2 ** Math.ceil(Math.log2(count))

async function send<Row = Id>(sql: Sql, sent: readonly Sent[], joined?: JoinedInsert<Row>): Promise<readonly Row[]> {
  const effects = sent.flatMap(({ item: { command, effects: planned } }) =>
    planned.map((effect) => ({ ...effect, command_id: command.command_id })),
  )
  const entries = sent.flatMap((each) =>
    journalRows(each.entryId, each.item.events).map((row) => ({ ...row, ...each })),
  )
  const form: Form = {
    size: roundUp(sent.length),
    entries: roundUp(entries.length),
    plans: effects.length > 0,
    ofAgent: sent.some(({ item }) => isOfAgent(item.command)),
  }
  const name = `${form.size} ${form.entries} ${form.plans} ${form.ofAgent} ${joined?.name ?? ''}`
  const bound = compiled.get(name) ?? compile(form, joined)
  compiled.set(name, bound)
  const rows = await sql.run(bound.statement, bound.values({ sent, entries, effects, joined: joined?.values ?? [] }))
  // The statement returns ids, or what the joined room selects.
  return rows as readonly Row[]
}

/** Rights have changed, or the key of the command is taken: the caller is looked up, and the request is decided again. */
function refuseRemembered(): Refusal {
  return refuse('unauthenticated', 'The rights of the caller may have changed.')
}

const inserted = (item: NewCommand): Opened => accept({ inserted: true, row: item.command })

/** Undefined: the command with one of the keys was committed after the insert began, was rolled back, or has freed its key. */
async function findFirst(sql: Sql, item: NewCommand): Promise<Opened | undefined> {
  const { workspace_id, command_id, idempotency_key, contract_key } = item.command
  const [first] = await sql.run(findByKeys, [workspace_id, idempotency_key, contract_key, command_id])
  if (!first) return undefined
  return first.command_id === command_id ? inserted(item) : accept({ inserted: false, row: first })
}

function insertOne(sql: Sql, sent: Sent): Promise<Opened> {
  return untilSettled('concord.commands', async () => {
    if ((await send(sql, [sent])).length > 0) return inserted(sent.item)
    if (sent.item.accessVersion !== undefined) return refuseRemembered()
    const first = await findFirst(sql, sent.item)
    if (first) return first
    const stop = await findStopOf(sql, sent.item.command)
    return stop ? refuseStopped(stop) : refuseIdleRun(sql, sent.item.command)
  })
}

/** After a lost connection: its statement may have committed, or may commit only now, while ours waits for it. */
async function insertAgain(sql: Sql, sent: Sent): Promise<Opened> {
  const { item } = sent
  const isThere = async () => (await sql.run(findInserted, [[item.command.command_id]])).length > 0
  if (await isThere()) return inserted(item)
  const late = await insertOne(sql, sent)
  return (late.ok && late.value.inserted) || !(await isThere()) ? late : inserted(item)
}

export function openInserts({ db, newId, count }: Pick<CommandDeps, 'db' | 'newId' | 'count'>): CommandInserts {
  const observe = ({ command, events }: NewCommand) => observeCommit(count, command, { events, set: command })
  const keyOf = ({ item: { command } }: Sent) => {
    const key = keyedBy(command)
    return key === null ? undefined : `${command.workspace_id} ${key}`
  }
  const lane = openLane<Sent, Opened>(db, {
    name: 'new-commands',
    batchMax: 16,
    // Two requests for one thing, or with one key, go into two batches: the second must find the first.
    keyOf,
    settings: `set ${KEY_WAIT}`,
    retrySafe: true,
    flush,
  })

  async function flush(
    sql: Sql,
    items: readonly Submitted<Sent>[],
    tell: (index: number, answer: Opened) => void,
  ): Promise<Opened[]> {
    const all: (Opened | undefined)[] = []
    const isFresh = items.length > 1 && items.every(({ retried }) => !retried)
    if (isFresh) {
      const rows = await send(
        sql,
        items.map(({ item }) => item),
      )
      const ids = new Set(rows.map(({ command_id }) => command_id))
      for (const [index, { item }] of items.entries()) {
        if (!ids.has(item.item.command.command_id)) continue
        all[index] = inserted(item.item)
        tell(index, inserted(item.item))
      }
    }
    const answers: Opened[] = []
    for (const [index, { item, retried }] of items.entries()) {
      // A taken key is rare; its command is looked up one by one.
      const answer = all[index] ?? (await (retried ? insertAgain : insertOne)(sql, item))
      tell(index, answer)
      answers.push(answer)
    }
    return answers
  }

  return {
    async insert(item) {
      const sent = { item, entryId: newId() }
      try {
        const opened = await lane.submit(sent)
        if (opened.ok && opened.value.inserted) observe(item)
        return opened
      } catch (error) {
        const refusal = keyOf(sent) === undefined ? undefined : refuseInProgress(error)
        if (refusal) return refusal
        throw error
      }
    },
    async insertIn(tx, item) {
      const opened = await insertOne(tx, { item, entryId: newId() })
      if (opened.ok && opened.value.inserted) tx.afterCommit(() => observe(item))
      return opened
    },
    async insertWith(item, joined) {
      const [row] = await send(db, [{ item, entryId: newId() }], joined)
      if (row !== undefined) observe(item)
      return row
    },
    close: () => lane.close(),
  }
}
