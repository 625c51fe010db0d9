/** The tables of commands and their effects: row types, columns, turns, and the statements that read and insert them. */
import { isUuid } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Process } from '#runtime'
import { type Sql, statement, together, type Tx } from '#store'
import { overdueRows, type TurnRoom, turnTable } from '#turns'
import type { JsonObject } from '#kernel/json-value'
import type { CommandState } from '#kernel/machines/command'
import type { Rows } from '#store/rows'
import type { AfterStep } from './change.ts'
import type { ExecutionPlan } from './plan.ts'
import type { AttemptFailure } from './tasks.ts'

/** Who asked and under which trace, with the rights of the credential at submit. */
export type CommandContext = {
  readonly user_id: string
  readonly workspace_id: string | null
  readonly app_id: string | null
  readonly run_as: 'user' | 'service' | 'agent'
  readonly trace_id: string
  /** The span of the submit, as a W3C traceparent, if it was traced: the parent of the turns. */
  readonly traceparent?: string
  readonly request_id: string
  readonly metadata: JsonObject
  /** The agent that proposed it, if it has a key of its own. */
  readonly agent?: string
  /** The swarm of the run that proposed it. */
  readonly swarm_run_id?: string
  /** Woken by the write that ends the command or makes it wait for people. */
  readonly follower?: Process
}

/** `jsonb` columns hold what this room has written. */
export type StoredCommand = Omit<
  Rows['concord.commands'],
  'command_type_version_id' | 'labels' | 'payload' | 'context' | 'plan' | 'result'
> & {
  readonly payload: JsonObject
  readonly context: CommandContext
  readonly plan: ExecutionPlan | null
  readonly result: unknown
  /** Passed on by the database; absent in a row that is not written yet. */
  readonly labels?: readonly string[]
}

export type StoredEffect = Omit<
  Rows['concord.domain_effects'],
  'command_id' | 'workspace_id' | 'effect_payload' | 'result' | 'read_back'
> & {
  readonly effect_payload: JsonObject
  readonly result: unknown
  readonly read_back: unknown
}

/** The command was proposed by an agent: stops and labels of the agent hold for it. */
export const isOfAgent = ({ context }: Pick<StoredCommand, 'context'>): boolean => context.run_as === 'agent'

/** The columns that a write may change in addition to the status, each with its value in the document `set` of the statement. */
export const patchedColumns = {
  payload: `w.set->'payload'`,
  payload_hash: `w.set->>'payload_hash'`,
  contract_key: `w.set->>'contract_key'`,
  plan: `nullif(w.set->'plan', 'null')`,
  result: `nullif(w.set->'result', 'null')`,
  error: `w.set->>'error'`,
  error_class: `w.set->>'error_class'`,
  cancellation_requested: `(w.set->>'cancellation_requested')::boolean`,
  cancellation_mode: `w.set->>'cancellation_mode'`,
  attempt: `(w.set->>'attempt')::integer`,
  run_after: `(w.set->>'run_after')::timestamptz`,
  runtime_workflow_id: `w.set->>'runtime_workflow_id'`,
  completed_at: `(w.set->>'completed_at')::timestamptz`,
} as const

export const patchedEffectColumns = {
  effect_payload: `u.set->'effect_payload'`,
  result: `nullif(u.set->'result', 'null')`,
  error: `u.set->>'error'`,
  error_class: `u.set->>'error_class'`,
  attempt: `(u.set->>'attempt')::integer`,
  run_after: `(u.set->>'run_after')::timestamptz`,
  turn_token: `(u.set->>'turn_token')::uuid`,
  read_back: `nullif(u.set->'read_back', 'null')`,
  executed_by_runtime_workflow_id: `u.set->>'executed_by_runtime_workflow_id'`,
  completed_at: `(u.set->>'completed_at')::timestamptz`,
} as const

export type CommandPatch = Partial<Pick<StoredCommand, keyof typeof patchedColumns>>
export type EffectPatch = Partial<Pick<StoredEffect, keyof typeof patchedEffectColumns>>

/** A command and all its effects. */
export type CommandWithEffects = { readonly command: StoredCommand; readonly effects: readonly StoredEffect[] }

/** The columns that submit writes. */
export const newColumns = {
  command_id: 'uuid',
  workspace_id: 'uuid',
  command_type: 'text',
  task_name: 'text',
  requested_by: 'text',
  ingress: 'text',
  payload: 'jsonb',
  payload_hash: 'text',
  context: 'jsonb',
  status: 'text',
  cancellation_mode: 'text',
  idempotency_key: 'text',
  contract_key: 'text',
  request_fingerprint: 'text',
  agent_run_id: 'uuid',
  created_at: 'timestamptz',
  updated_at: 'timestamptz',
  run_after: 'timestamptz',
  turn_token: 'uuid',
} as const

export const commandColumns = [
  ...new Set([...Object.keys(newColumns), 'turn_until', 'labels', ...Object.keys(patchedColumns)]),
] as readonly (keyof StoredCommand)[]

/** Written by the insert alone. A write takes them from the row that was read; the rest may have been changed by another writer. */
const fixedColumns = [
  'command_id',
  'workspace_id',
  'command_type',
  'task_name',
  'requested_by',
  'ingress',
  'context',
  'idempotency_key',
  'request_fingerprint',
  'agent_run_id',
  'created_at',
] as const
export type ChangeableColumn = Exclude<keyof StoredCommand, (typeof fixedColumns)[number]>
export const changeableColumns = commandColumns.filter(
  (column): column is ChangeableColumn => !(fixedColumns as readonly string[]).includes(column),
)

export function columnsOf(alias: string, columns: readonly (keyof StoredCommand)[] = commandColumns): string {
  return columns.map((column) => `${alias}.${column}`).join(', ')
}

/** The id of the person who asked; undefined for Concord itself. */
export function requesterOf({ requested_by }: Pick<StoredCommand, 'requested_by'>): string | undefined {
  const id = requested_by.startsWith('user:') ? requested_by.slice('user:'.length) : ''
  return isUuid(id) ? id : undefined
}

/** A note on an effect whose outcome is not simply its result. */
export type ReadBackNote = {
  readonly outcome?: 'done' | 'not_done' | 'unknown' | 'waiting'
  /** A person has been asked. */
  readonly asked?: boolean
  /** Until then an interrupted call may still arrive: the provider does not have it yet, and that proves nothing. */
  readonly settles_at?: string
  /** The failure without an answer that interrupted it. Omitted: its driver ended. */
  readonly cause?: AttemptFailure
  /** The command that it waits for. */
  readonly command_id?: string
  /** How that command must end. Omitted: `succeeded`. */
  readonly wanted?: 'succeeded' | 'compensated'
  /** The process of another room that it waits for. */
  readonly process?: Process
  /** An operator has said that it no longer counts for the key of the contract. */
  readonly released?: boolean
}

/** A command whose row is held by a turn or by a lock. */
export type HeldCommand = CommandWithEffects & {
  /** It has dependencies, open or satisfied. */
  readonly hasParents: boolean
  /** The write that took the turn has begun an effect; the turn makes the call. */
  readonly begun?: AfterStep
}

export const COMMAND_KIND = 'command'

/** Each run of an agent is a process of this kind under its own id: it is woken when a command of its own ends or waits for people, and by stops. */
export const RUN_KIND = 'agent_run'
/** Each swarm, too. */
export const SWARM_KIND = 'swarm_run'

export function processOf(commandId: string): Process {
  return { kind: COMMAND_KIND, id: commandId }
}

const turns = {
  room: 'commands',
  table: 'concord.commands',
  id: 'command_id',
  columns: columnsOf('t'),
  mayTake: `t.completed_at is null or (t.status = 'compensated' and t.cancellation_requested)`,
  isOpen: 't.completed_at is null',
}

export const commandTurns: TurnRoom<StoredCommand, HeldCommand> = {
  kind: COMMAND_KIND,
  table: turnTable<StoredCommand>(turns),
  read: async (sql, command) => heldCommand(command, await sql.run(readAround, [command.command_id])),
}

export const overdueCommands = overdueRows<Pick<StoredCommand, 'command_id' | 'task_name' | 'command_type'>>({
  ...turns,
  columns: 't.command_id, t.task_name, t.command_type',
})

/** Times inside jsonb are text. */
type EffectJson = Readonly<Record<string, unknown>> & {
  readonly created_at: string
  readonly completed_at: string | null
  readonly run_after: string | null
}

const effectsOf = (
  commandId: string,
) => `coalesce((select jsonb_agg(to_jsonb(e) order by e.declaration_order, e.created_at)
  from concord.domain_effects as e where e.command_id = ${commandId}), '[]') as effects`

type AroundRow = { readonly effects: readonly EffectJson[]; readonly has_parents: boolean }

const hasParents = (commandId: string) =>
  `exists (select from concord.command_dependencies as d where d.child_command_id = ${commandId}) as has_parents`

/** $1 command. Use it only while the row is held: then no other writer can change an effect between the two statements. */
const readAround = statement<AroundRow>(
  'commands_read_around',
  `select ${effectsOf('$1::uuid')}, ${hasParents('$1::uuid')}`,
)

/** $1 command, $2 workspace. */
const findStatement = statement<StoredCommand & { readonly effects: readonly EffectJson[] }>(
  'commands_find_command',
  `select ${columnsOf('c')}, ${effectsOf('c.command_id')} from concord.commands as c where c.command_id = $1::uuid and c.workspace_id = $2::uuid`,
)

/** $1 command, $2 workspace. */
const lockStatement = statement<StoredCommand>(
  'commands_lock_command',
  `select ${columnsOf('c')} from concord.commands as c where c.command_id = $1::uuid and c.workspace_id = $2::uuid for update of c`,
)

const time = (text: string | null) => (text === null ? null : new Date(text))

function effectOf(json: EffectJson): StoredEffect {
  // The columns have their names; only times change their form in jsonb.
  const row = json as unknown as StoredEffect
  return {
    ...row,
    created_at: new Date(json.created_at),
    completed_at: time(json.completed_at),
    run_after: time(json.run_after),
  }
}

function heldCommand(command: StoredCommand, [around]: readonly AroundRow[]): HeldCommand {
  return { command, effects: (around?.effects ?? []).map(effectOf), hasParents: around?.has_parents ?? false }
}

/** A command that is not locked, with the version of its row: a write that compares it finds the row as it was read. */
export type VersionedCommand = HeldCommand & { readonly version: string }

type VersionedJson = AroundRow & {
  readonly command: Readonly<Record<keyof StoredCommand, string | null>>
  readonly version: string
}

/** The command with this id, as JSON for `versionedCommand`. Every write of an effect changes the version too. */
export const versionedColumn = (commandId: string) => `(
  select to_jsonb(v) from (
    select (select to_jsonb(r) from (select ${columnsOf('c')}) as r) as command, c.xmin::text as version,
      ${effectsOf('c.command_id')}, ${hasParents('c.command_id')}
    from concord.commands as c where c.command_id = ${commandId}
  ) as v)`

/** `json` is the value of `versionedColumn`. */
export function versionedCommand(json: unknown): VersionedCommand {
  const { command: row, version, ...around } = json as VersionedJson
  const times = {
    created_at: time(row.created_at),
    updated_at: time(row.updated_at),
    run_after: time(row.run_after),
    turn_until: time(row.turn_until),
    completed_at: time(row.completed_at),
  }
  // The columns have their names; only times change their form in jsonb.
  const command = { ...row, ...times } as unknown as StoredCommand
  return { ...heldCommand(command, [around]), version }
}

export async function findCommand(
  sql: Sql,
  workspaceId: string,
  commandId: string,
): Promise<CommandWithEffects | undefined> {
  if (!isUuid(commandId)) return undefined
  const [found] = await sql.run(findStatement, [commandId, workspaceId])
  if (!found) return undefined
  const { effects, ...command } = found
  return { command, effects: effects.map(effectOf) }
}

/** $1 command, $2 workspace. */
const findAlone = statement<StoredCommand>(
  'commands_find_alone',
  `select ${columnsOf('c')} from concord.commands as c where c.command_id = $1::uuid and c.workspace_id = $2::uuid`,
)

/** Without its effects, whose payloads and results may be large. */
export async function readCommand(
  sql: Sql,
  workspaceId: string,
  commandId: string,
): Promise<Decision<{ readonly command: StoredCommand }>> {
  const [command] = isUuid(commandId) ? await sql.run(findAlone, [commandId, workspaceId]) : []
  return command ? accept({ command }) : refuseMissing()
}

/** Both statements are one round trip. The second begins when the first has its lock, so it sees all earlier commits. */
export async function lockCommand(tx: Tx, workspaceId: string, commandId: string): Promise<HeldCommand | undefined> {
  if (!isUuid(commandId)) return undefined
  const [[command], around] = await together([
    tx.run(lockStatement, [commandId, workspaceId]),
    tx.run(readAround, [commandId]),
  ])
  return command && heldCommand(command, around)
}

export function refuseMissing(): Decision<never> {
  return refuse('commands.command.not_found', 'There is no such command.')
}

/** $1 effect, $2 workspace. */
export const findEffect = statement<Pick<StoredEffect, 'idempotency_key' | 'effect_payload' | 'result'>>(
  'commands_find_effect',
  `select e.idempotency_key, e.effect_payload, e.result from concord.domain_effects as e
where e.domain_effect_id = $1::uuid and e.workspace_id = $2::uuid`,
)

/** An undo of an effect by another command than the one that had it. */
export type ForeignUndo = {
  readonly effect_id: string
  readonly command_id: string
  readonly status: StoredEffect['status']
  readonly command_status: CommandState
  /** Its command may still begin it. */
  readonly is_open: boolean
}

/** $1 workspace, $2 commands. The undos of their effects, oldest first. Uses domain_effects_compensates_ix. */
export const listForeignUndos = statement<ForeignUndo & { readonly of_command_id: string }>(
  'commands_list_foreign_undos',
  `select o.command_id as of_command_id, u.compensates_effect_id as effect_id, u.command_id, u.status,
  c.status as command_status, c.completed_at is null as is_open
from concord.domain_effects as o
join concord.domain_effects as u on u.compensates_effect_id = o.domain_effect_id and u.workspace_id = o.workspace_id
join concord.commands as c on c.command_id = u.command_id and c.workspace_id = u.workspace_id
where o.workspace_id = $1::uuid and o.command_id = any($2::uuid[]) and u.command_id <> o.command_id
order by u.created_at, u.domain_effect_id`,
)

export type ParentFact = {
  readonly parent_command_id: string
  readonly status: CommandState
  readonly required_status: CommandState
  readonly propagate_cancellation: boolean
}

/** $1 the waiting command. */
export const listParents = statement<ParentFact>(
  'commands_list_parents',
  `select d.parent_command_id, p.status, d.required_status, d.propagate_cancellation
from concord.command_dependencies as d join concord.commands as p on p.command_id = d.parent_command_id
where d.child_command_id = $1::uuid order by d.parent_command_id`,
)

/** $1 the waiting command, $2 the awaited one, $3 workspace, $4 now. Idempotent. */
export const insertWait = statement<{ readonly child_command_id: string }>(
  'commands_insert_wait',
  `insert into concord.command_dependencies (child_command_id, parent_command_id, workspace_id, propagate_cancellation, created_at)
values ($1, $2, $3, false, $4) on conflict (child_command_id, parent_command_id) do nothing returning child_command_id`,
)

export type AwaitedRow = Pick<StoredCommand, 'status' | 'result' | 'error' | 'error_class' | 'completed_at'>

/** $1 command, $2 workspace. */
export const findAwaited = statement<AwaitedRow>(
  'commands_find_awaited',
  `select status, result, error, error_class, completed_at from concord.commands where command_id = $1 and workspace_id = $2`,
)
