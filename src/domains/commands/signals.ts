/**
 * Signals: events from outside that commands wait for. A signal ends every wait for its name and key that is open. If there is none, it is kept
 * and ends the first wait that begins (`docs/decisions/0049-signals-and-waits.md`).
 */
import { hash } from 'node:crypto'
import type { Actor } from '#kernel/actor'
import { canonicalJson } from '#kernel/canonical-json'
import { checkSecrets } from '#kernel/data-class'
import { decideKeyOwner, parseIdempotencyKey } from '#kernel/idempotency-key'
import { guardValue } from '#kernel/json-guard'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { hasSecretShape } from '#kernel/secret-shapes'
import { parseSignalKey, parseSignalName } from '#kernel/signal'
import { type Db, defineTable, failpoint, statement, together, type Tx } from '#store'
import type { Rows } from '#store/rows'
import { processOf, type StoredCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { commandLog } from './events.ts'
import { wakeOptionsOf } from './tasks.ts'

export type SignalDraft = { readonly name: string; readonly key: string; readonly payload: JsonObject }

type SendSignal = SignalDraft & {
  readonly workspaceId: string
  /** Of the sender: the same id is received once. */
  readonly id?: string | undefined
  readonly ingress: 'user_request' | 'webhook'
}

export type SentSignal = {
  readonly signalId: string
  readonly isNew: boolean
  /** How many commands it has woken. None: it is kept for the first that waits. */
  readonly woken: number
}

type StoredSignal = Omit<Rows['concord.signals'], 'taken_at'>

const signalTable = defineTable<StoredSignal>()({
  name: 'concord.signals',
  noun: 'signal',
  id: 'signal_id',
  tenant: 'workspace_id',
  once: {
    columns: {
      signal_id: 'uuid',
      workspace_id: 'uuid',
      name: 'text',
      key: 'text',
      payload: 'jsonb',
      sent_id: 'text',
      content_hash: 'text',
      sent_by: 'text',
      created_at: 'timestamptz',
    },
    key: ['workspace_id', 'sent_by', 'sent_id'],
    content: ['content_hash'],
  },
  log: commandLog,
  links: ['workspace_id'],
  about: ({ name, key, sent_id }) => ({ name, key, sent_id }),
})

/**
 * $1 workspace, $2 name, $3 key. A statement of its own: the next one sees all that the earlier holders of the lock have committed. Without it a signal
 * and a wait of the same instant miss each other.
 */
const lockSignal = statement<never>(
  'commands_lock_signal',
  `select pg_advisory_xact_lock(hashtextextended('concord.signal:' || $1::text || ':' || $2::text || ':' || $3::text, 0))`,
)

/** $1 signal, $2 workspace, $3 name, $4 key. Gives a new signal to all open waits. A command that is being cancelled waits no longer. */
const giveSignal = statement<Pick<StoredCommand, 'command_id' | 'task_name' | 'command_type'>>(
  'commands_give_signal',
  `with given as (
  update concord.signal_waits as w set signal_id = s.signal_id
  from concord.signals as s, concord.commands as c, concord.domain_effects as e
  where s.signal_id = $1::uuid and s.workspace_id = $2::uuid
    and w.workspace_id = $2::uuid and w.name = $3::text and w.key = $4::text and w.signal_id is null
    and (w.sent_by is null or w.sent_by = s.sent_by)
    and c.command_id = w.command_id and c.workspace_id = w.workspace_id and c.status = 'running'
    and e.domain_effect_id = w.domain_effect_id and e.workspace_id = w.workspace_id and e.status = 'executing'
  returning c.command_id, c.task_name, c.command_type
)
select command_id, task_name, command_type from given order by command_id`,
)

/** $1 signal, $2 workspace. */
const countWoken = statement<{ readonly woken: number }>(
  'commands_count_woken',
  `select count(*)::integer as woken from concord.signal_waits where signal_id = $1::uuid and workspace_id = $2::uuid`,
)

/** Stores the signal, gives it to the open waits and wakes their commands, all in one commit. */
export async function sendSignal(deps: CommandDeps, by: Actor, input: SendSignal): Promise<Decision<SentSignal>> {
  const checked = checkSignal(input)
  if (!checked.ok) return checked
  const { workspaceId, name, key, payload } = input
  const at = deps.now()
  const signalId = deps.newId()
  const row = {
    signal_id: signalId,
    workspace_id: workspaceId,
    name,
    key,
    payload,
    sent_id: input.id ?? signalId,
    content_hash: hash('sha256', canonicalJson([name, key, payload])),
    sent_by: by.id,
    created_at: at,
  }
  const sent = await deps.db.transaction(async (tx): Promise<Decision<SentSignal>> => {
    const [, stored] = await together([
      tx.run(lockSignal, [workspaceId, name, key]),
      signalTable.insertOnce(tx, row, by, { type: 'signal_received', at, newId: deps.newId }),
    ])
    if (!stored.ok)
      return refuse('commands.signal.id_reused', 'Another signal was sent under this id.', {
        path: 'id',
        ...(stored.facts && { facts: stored.facts }),
      })
    if (!stored.value.inserted) {
      const { signal_id } = stored.value.row
      const [known] = await tx.run(countWoken, [signal_id, workspaceId])
      return accept({ signalId: signal_id, isNew: false, woken: known?.woken ?? 0 })
    }
    const woken = await tx.run(giveSignal, [signalId, workspaceId, name, key])
    await together(
      woken.map((each) => deps.wake(processOf(each.command_id), { tx, ...wakeOptionsOf(deps.catalog, each) })),
    )
    await failpoint('commands.signal_written')
    return accept({ signalId, isNew: true, woken: woken.length })
  })
  await failpoint('commands.signal_committed')
  return sent
}

const NO_SECRET = 'Leave it out, or send a reference to its location, such as vault://team/name.'

function checkSignal({ name, key, payload, id, ingress }: SendSignal): Decision<unknown> {
  const checks: readonly (readonly [path: string, check: () => Decision<unknown>])[] = [
    ['name', () => parseSignalName(name)],
    ['key', () => parseSignalKey(key)],
    ['key', () => checkShape(key)],
    ['id', () => (id === undefined ? accept(id) : parseIdempotencyKey(id))],
    ['id', () => decideKeyOwner(id ?? '', ingress)],
    ['id', () => checkShape(id ?? '')],
    ['payload', () => guardValue(payload)],
    ['payload', () => checkPayload(payload)],
  ]
  for (const [path, check] of checks) {
    const checked = check()
    if (!checked.ok) return { ...checked, path: checked.path === undefined ? path : `${path}.${checked.path}` }
  }
  return accept(null)
}

function checkShape(text: string): Decision<unknown> {
  return hasSecretShape(text) ? refuse('commands.payload.secret', 'It looks like a credential.') : accept(text)
}

/** A signal has no contract that could declare a field with the name of a secret. */
function checkPayload(payload: JsonObject): Decision<unknown> {
  const checked = checkSecrets(payload, {})
  return checked.ok ? checked : { ...checked, hint: NO_SECRET }
}

export type SignalWait = Pick<SignalDraft, 'name' | 'key'> & {
  readonly workspaceId: string
  readonly commandId: string
  readonly effectId: string
  /** The only sender whose signal counts. */
  readonly from?: string | undefined
}

/** The signal that ends a wait. */
type GivenSignal = Pick<StoredSignal, 'signal_id' | 'sent_by' | 'payload'>

/** $1 effect, $2 workspace, $3 command, $4 name, $5 key, $6 sender, $7 now. A wait that is there stays as it is. */
const insertSignalWait = statement<never>(
  'commands_insert_signal_wait',
  `insert into concord.signal_waits (domain_effect_id, workspace_id, command_id, name, key, sent_by, created_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (domain_effect_id, workspace_id) do nothing`,
)

/**
 * $1 effect, $2 workspace. Gives an open wait the oldest kept signal. A signal that another wait has and has not used yet belongs to that wait; if that
 * wait fails, the signal is kept again.
 */
const giveKeptSignal = statement<never>(
  'commands_give_kept_signal',
  `update concord.signal_waits as w set signal_id = (
  select s.signal_id from concord.signals as s
  where s.workspace_id = w.workspace_id and s.name = w.name and s.key = w.key and s.taken_at is null
    and (w.sent_by is null or w.sent_by = s.sent_by)
    and not exists (
      select from concord.signal_waits as o
      join concord.domain_effects as e on e.domain_effect_id = o.domain_effect_id and e.workspace_id = o.workspace_id
      where o.signal_id = s.signal_id and o.workspace_id = s.workspace_id and e.status = 'executing')
  order by s.created_at, s.signal_id limit 1)
from concord.commands as c
where w.domain_effect_id = $1::uuid and w.workspace_id = $2::uuid and w.signal_id is null
  and c.command_id = w.command_id and c.workspace_id = w.workspace_id and c.status = 'running'`,
)

/** $1 effect, $2 workspace. No row: its time has passed. */
const findSignalWait = statement<GivenSignal | { readonly [K in keyof GivenSignal]: null }>(
  'commands_find_signal_wait',
  `select s.signal_id, s.sent_by, s.payload from concord.signal_waits as w
left join concord.signals as s on s.signal_id = w.signal_id and s.workspace_id = w.workspace_id
where w.domain_effect_id = $1::uuid and w.workspace_id = $2::uuid`,
)

/** $1 effect, $2 workspace. */
const endSignalWait = statement<never>(
  'commands_end_signal_wait',
  `delete from concord.signal_waits where domain_effect_id = $1::uuid and workspace_id = $2::uuid and signal_id is null`,
)

/** $1 signal, $2 workspace, $3 now. */
const markTaken = statement<never>(
  'commands_mark_signal_taken',
  `update concord.signals set taken_at = $3::timestamptz where signal_id = $1::uuid and workspace_id = $2::uuid and taken_at is null`,
)

/** Begins to wait. Returns a signal that came before. Repeating it for the same effect changes nothing. */
export function beginSignalWait({ db, now }: CommandDeps, wait: SignalWait): Promise<GivenSignal | undefined> {
  const { workspaceId, commandId, effectId, name, key, from = null } = wait
  return db.transaction(async (tx) => {
    const [, , , [found]] = await together([
      tx.run(lockSignal, [workspaceId, name, key]),
      tx.run(insertSignalWait, [effectId, workspaceId, commandId, name, key, from, now()]),
      tx.run(giveKeptSignal, [effectId, workspaceId]),
      tx.run(findSignalWait, [effectId, workspaceId]),
    ])
    return found?.payload ? found : undefined
  })
}

/** The signal that ended the wait, or how the wait stands. At the end of its time the lock decides between a signal and the timeout. */
export async function findSignal(
  db: Db,
  { effectId, workspaceId, name, key }: SignalWait,
  isTimeOver: boolean,
): Promise<GivenSignal | 'waiting' | 'timed_out'> {
  const id = [effectId, workspaceId]
  const [found] = isTimeOver
    ? await db.transaction(async (tx) => {
        const [, , , rows] = await together([
          tx.run(lockSignal, [workspaceId, name, key]),
          tx.run(giveKeptSignal, id),
          tx.run(endSignalWait, id),
          tx.run(findSignalWait, id),
        ])
        return rows
      })
    : await db.run(findSignalWait, id)
  if (!found) return 'timed_out'
  return found.payload ? found : 'waiting'
}

/** Runs in the transaction that records the end of the wait, so a wait that fails leaves its signal to the next. */
export async function takeSignal(
  tx: Tx,
  { signal_id }: Pick<GivenSignal, 'signal_id'>,
  workspaceId: string,
  at: Date,
): Promise<void> {
  await tx.run(markTaken, [signal_id, workspaceId, at])
}

const SWEEP_BATCH = 5_000

/** $1 before, $2 limit. The waits of effects that have ended, and the signals that no wait names. */
const deleteEndedWaits = statement<{ readonly signal_id: string }>(
  'commands_delete_ended_signal_waits',
  `delete from concord.signal_waits where (domain_effect_id, workspace_id) in (
  select w.domain_effect_id, w.workspace_id from concord.signal_waits as w
  join concord.domain_effects as e on e.domain_effect_id = w.domain_effect_id and e.workspace_id = w.workspace_id
  where w.created_at < $1::timestamptz and e.status <> 'executing' limit $2)
returning signal_id`,
)
const deleteOldSignals = statement<{ readonly signal_id: string }>(
  'commands_delete_old_signals',
  `delete from concord.signals where (signal_id, workspace_id) in (
  select s.signal_id, s.workspace_id from concord.signals as s
  where s.created_at < $1::timestamptz
    and not exists (select from concord.signal_waits as w where w.signal_id = s.signal_id and w.workspace_id = s.workspace_id)
  order by s.created_at limit $2)
returning signal_id`,
)

/** Deletes signals that are older than they are kept, taken or not. Returns how many. */
export async function sweepSignals({ db, now }: Pick<CommandDeps, 'db' | 'now'>, keepMs: number): Promise<number> {
  const before = new Date(now().getTime() - keepMs)
  await db.run(deleteEndedWaits, [before, SWEEP_BATCH])
  return (await db.run(deleteOldSignals, [before, SWEEP_BATCH])).length
}
