/** The rows of this room as they come from Postgres: a command, its effects, and what binds them to their machines. */
import type { ErrorClass } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'
import type { CommandState } from '#kernel/machines/command'
import type { EffectState } from '#kernel/machines/effect'
import type { CancellationMode, IngressType, Reversibility } from './catalog/closed-lists.ts'
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

/** A command and all its effects, as one turn sees them. */
export type CommandWithEffects = { readonly command: StoredCommand; readonly effects: readonly StoredEffect[] }

export const commandColumns = [
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
export type ReadBack = {
  readonly outcome?: 'done' | 'not_done' | 'unknown' | 'waiting'
  /** A person has been asked. */
  readonly asked?: boolean
  /** The command that it waits for. */
  readonly command_id?: string
  /** How that one must end; left out: `succeeded`. */
  readonly wanted?: 'succeeded' | 'compensated'
}

export function readBackOf({ read_back }: Pick<StoredEffect, 'read_back'>): ReadBack {
  // Written by this room alone.
  return (read_back as ReadBack | null) ?? {}
}
