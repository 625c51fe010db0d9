/** The commands table: its rows and those of its effects, the turns on it, and how both are read and inserted. */
import { isUuid } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Process } from '#runtime'
import { onceTable, type Sql, statement, together, type Tx } from '#store'
import { overdueRows, type TurnRoom, turnTable } from '#turns'
import type { ErrorClass } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'
import type { CommandState, EffectState } from '#kernel/machines/command'
import type { CancellationMode, IngressType } from './catalog/definitions.ts'
import type { Reversibility } from './catalog/effect-definition.ts'
import { commandLog } from './events.ts'
import type { ExecutionPlan } from './plan.ts'

/** Who asked, and under which trace; the credential's facts as they were at submit. */
export type CommandContext = {
  readonly user_id: string
  readonly workspace_id: string | null
  readonly app_id: string | null
  readonly run_as: 'user' | 'service' | 'agent'
  readonly trace_id: string
  readonly request_id: string
  readonly metadata: JsonObject
  /** Woken by the write that ends the command or makes it wait for people. */
  readonly follower?: Process
}

export type StoredCommand = {
  readonly command_id: string
  readonly workspace_id: string
  readonly command_type: string
  readonly task_name: string | null
  readonly requested_by: string
  readonly ingress: IngressType
  readonly payload: JsonObject
  readonly payload_hash: string
  readonly context: CommandContext
  readonly status: CommandState
  readonly cancellation_mode: CancellationMode
  readonly cancellation_requested: boolean
  readonly idempotency_key: string | null
  readonly request_fingerprint: string | null
  readonly runtime_workflow_id: string | null
  readonly plan: ExecutionPlan | null
  readonly result: unknown
  readonly error: string | null
  readonly error_class: ErrorClass | null
  readonly attempt: number
  readonly run_after: Date | null
  readonly turn_token: string | null
  readonly turn_until: Date | null
  readonly created_at: Date
  readonly updated_at: Date
  readonly completed_at: Date | null
}

/** What may change beside the status; everything else is fixed at submit. */
export type CommandPatch = Partial<
  Pick<
    StoredCommand,
    | 'payload'
    | 'payload_hash'
    | 'plan'
    | 'result'
    | 'error'
    | 'error_class'
    | 'cancellation_requested'
    | 'cancellation_mode'
    | 'attempt'
    | 'run_after'
    | 'runtime_workflow_id'
  >
>

export type StoredEffect = {
  readonly domain_effect_id: string
  readonly effect_type: string
  readonly effect_payload: JsonObject
  readonly idempotency_key: string | null
  readonly status: EffectState
  readonly executed_by_runtime_workflow_id: string | null
  readonly result: unknown
  readonly error: string | null
  readonly error_class: ErrorClass | null
  readonly compensates_effect_id: string | null
  readonly declared_compensation: string | null
  readonly declaration_order: number
  readonly attempt: number
  readonly max_attempts: number
  readonly run_after: Date | null
  readonly turn_token: string | null
  readonly reversibility: Reversibility | null
  readonly read_back: unknown
  readonly created_at: Date
  readonly completed_at: Date | null
}

export type EffectPatch = Partial<
  Pick<
    StoredEffect,
    | 'result'
    | 'error'
    | 'error_class'
    | 'attempt'
    | 'run_after'
    | 'turn_token'
    | 'read_back'
    | 'executed_by_runtime_workflow_id'
  >
>

/** A command and all its effects. */
export type CommandWithEffects = { readonly command: StoredCommand; readonly effects: readonly StoredEffect[] }

const commandColumns = [
  'command_id',
  'workspace_id',
  'command_type',
  'task_name',
  'requested_by',
  'ingress',
  'payload',
  'payload_hash',
  'context',
  'status',
  'cancellation_mode',
  'cancellation_requested',
  'idempotency_key',
  'request_fingerprint',
  'runtime_workflow_id',
  'plan',
  'result',
  'error',
  'error_class',
  'attempt',
  'run_after',
  'turn_token',
  'turn_until',
  'created_at',
  'updated_at',
  'completed_at',
] as const satisfies readonly (keyof StoredCommand)[]

export function columnsOf(alias: string): string {
  return commandColumns.map((column) => `${alias}.${column}`).join(', ')
}

/** What is noted on an effect about an outcome that was not plain. */
export type ReadBackNote = {
  readonly outcome?: 'done' | 'not_done' | 'unknown' | 'waiting'
  /** A person has been asked. */
  readonly asked?: boolean
  /** The command that it waits for. */
  readonly command_id?: string
  /** How that one must end; left out: `succeeded`. */
  readonly wanted?: 'succeeded' | 'compensated'
  /** The process of another room that it waits for. */
  readonly process?: Process
}

/** A command whose row is held, by a turn or by a lock. */
export type HeldCommand = CommandWithEffects & {
  /** It waits, or has waited, for other commands. */
  readonly hasParents: boolean
}

export const COMMAND_KIND = 'command'

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

export type OverdueCommand = Pick<StoredCommand, 'command_id' | 'task_name' | 'command_type'>
export const overdueCommands = overdueRows<OverdueCommand>({
  ...turns,
  columns: 't.command_id, t.task_name, t.command_type',
})

/** Times come as text inside jsonb. */
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

/** $1 command. Only while the row is held: nobody adds or changes an effect between the two statements and is still able to write. */
const readAround = statement<AroundRow>(
  'commands_read_around',
  `select ${effectsOf('$1::uuid')},
  exists (select from concord.command_dependencies as d where d.child_command_id = $1::uuid) as has_parents`,
)

/** $1 command, $2 workspace; an id of another workspace finds nothing. */
const findStatement = statement<StoredCommand & { readonly effects: readonly EffectJson[] }>(
  'commands_find_command',
  `select ${columnsOf('c')}, ${effectsOf('c.command_id')} from concord.commands as c where c.command_id = $1::uuid and c.workspace_id = $2::uuid`,
)

/** $1 command, $2 workspace. */
const lockStatement = statement<StoredCommand>(
  'commands_lock_command',
  `select ${columnsOf('c')} from concord.commands as c where c.command_id = $1::uuid and c.workspace_id = $2::uuid for update of c`,
)

function effectOf(json: EffectJson): StoredEffect {
  const time = (text: string | null) => (text === null ? null : new Date(text))
  // The columns of the table by name; only times change their form on the way through jsonb.
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

export async function readCommand(
  sql: Sql,
  workspaceId: string,
  commandId: string,
): Promise<Decision<CommandWithEffects>> {
  const found = await findCommand(sql, workspaceId, commandId)
  return found ? accept(found) : refuseMissing()
}

/** Both statements in one round trip; the second begins when the first has its lock, and sees what was committed before it. */
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

/** $1 the waiting command, $2 the awaited one, $3 workspace, $4 now. Written twice it is one wait. */
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

export const newCommands = onceTable<StoredCommand>({
  table: 'concord.commands',
  id: 'command_id',
  columns: {
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
    request_fingerprint: 'text',
    created_at: 'timestamptz',
    updated_at: 'timestamptz',
    run_after: 'timestamptz',
    turn_token: 'uuid',
    turn_until: 'ms_from_now',
  },
  key: ['workspace_id', 'idempotency_key'],
  content: ['request_fingerprint'],
  returning: commandColumns,
  log: { log: commandLog, links: { workspace_id: 'workspace_id', command_id: 'command_id' } },
})
