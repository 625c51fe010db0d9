/** What a catalog is made of: command types, functions, effects, policies, connector operations, schedules, retry policies. */
import type { z } from 'zod'
import type { ErrorClass } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'
import type { PolicyRule, RiskLevel } from '#kernel/policy/policy'
import type { RetryPolicy } from '#kernel/retry-policy'
import type { MisfirePolicy, OverlapPolicy } from '#kernel/schedule'
import type { CancellationMode } from './closed-lists.ts'
import type { DataClass } from '#kernel/data-class'
import type { EffectDefinition } from './effect-definition.ts'
import type { TaskDefinition } from './task-spec.ts'

export const executionModes = ['sync', 'async', 'approval_gated_async', 'agentic', 'swarm'] as const
export type ExecutionMode = (typeof executionModes)[number]

export const cancellers = ['requester', 'writer', 'admin'] as const
type Canceller = (typeof cancellers)[number]

type ApprovalTerms = {
  readonly required: boolean
  readonly approval_type: string
  /** Who is asked when no rule names anybody: a person or `role:<org role>`. */
  readonly approver: string
  readonly self_decision_allowed: boolean
  /** Null: it never runs out. */
  readonly expires_in_minutes: number | null
  /** Whoever was asked hears of it again then; left out: when half of the time is over. */
  readonly reminders_after_minutes?: readonly number[]
  /** Then the members of this org role may decide too, and are told. */
  readonly escalation?: { readonly after_minutes: number; readonly role: string } | null
}

/** The contract of everything that runs under one name; without its seven parts it is not registered. */
export type CommandType = {
  readonly kind: 'command_type'
  readonly name: string
  readonly version: string
  /** 1: what it is. */
  readonly description: string
  /** 2: required inputs. Strict objects refuse fields that nobody knows. */
  readonly payload: z.ZodType
  /** 3: the effect types it may produce; an effect outside this list does not run. */
  readonly side_effects: readonly string[]
  /** 4: how it can fail. */
  readonly error_classes: readonly ErrorClass[]
  /** 5: compensations. */
  readonly compensation: { readonly supported: boolean; readonly command_type?: string }
  /** 6: who may cancel it. */
  readonly cancellable_by: readonly Canceller[]
  /** 7: the event types that must be on record when it has ended well. */
  readonly audit: readonly string[]
  readonly risk_level: RiskLevel
  /** Of payload fields by path; what is not named is `internal`. */
  readonly fields: Readonly<Record<string, DataClass>>
  readonly policies: readonly string[]
  readonly approval: ApprovalTerms
  readonly idempotency: { readonly required: boolean; readonly key_template?: string }
  readonly cancellation_mode: CancellationMode
  /** How long a command waits for missing input. */
  readonly input_expires_in_minutes: number
  /** Said by agentic and swarm types; for all others the task's flags decide. */
  readonly execution_mode?: ExecutionMode
}

type Contract = Pick<
  CommandType,
  'name' | 'description' | 'payload' | 'side_effects' | 'error_classes' | 'cancellable_by' | 'audit'
>
type CommandTypeInput = Contract &
  Partial<Omit<CommandType, 'kind' | 'approval'>> & { readonly approval?: Partial<ApprovalTerms> }

const WEEK_MINUTES = 7 * 24 * 60

export function defineCommandType(input: CommandTypeInput): CommandType {
  return Object.freeze({
    version: '1.0.0',
    risk_level: 'low' as const,
    fields: {},
    policies: [],
    idempotency: { required: false },
    compensation: { supported: false },
    cancellation_mode: 'graceful' as const,
    input_expires_in_minutes: WEEK_MINUTES,
    ...input,
    approval: {
      required: false,
      approval_type: `${input.name}_approval`,
      approver: 'role:approver',
      self_decision_allowed: false,
      expires_in_minutes: 24 * 60,
      ...input.approval,
    },
    kind: 'command_type' as const,
  })
}

/** What a function may know when it lists the effects of a command. */
type PlanFacts = {
  readonly command_id: string
  readonly workspace_id: string
  readonly requested_by: string
  readonly trace_id: string
}

export type EffectDraft = {
  readonly effect_type: string
  readonly payload: JsonObject
  /** Positions in the list that must have succeeded before; left out: the one before it. */
  readonly after?: readonly number[]
  /** Goes to the step of the plan. `terminal_on_child_failure`: when the command it sets going ends badly, this one is cancelled. */
  readonly metadata?: { readonly terminal_on_child_failure?: boolean }
}

/** A task's function: which effects, in which order. Pure: the same payload gives the same list. */
export type FunctionDefinition = {
  readonly kind: 'function'
  readonly name: string
  readonly plan: (payload: JsonObject, facts: PlanFacts) => readonly EffectDraft[]
  /** The result of the command from the results of its effects, in order; left out: the last one. */
  readonly result?: (results: readonly unknown[]) => unknown
}

export function defineFunction(definition: Omit<FunctionDefinition, 'kind'>): FunctionDefinition {
  return { kind: 'function', ...definition }
}

export type PolicyDefinition = {
  readonly kind: 'policy'
  readonly rule: PolicyRule
  readonly version: string
  /** Facts that must be gathered before the rule is asked, by name. */
  readonly facts: readonly string[]
}

export function definePolicy(
  rule: PolicyRule,
  more: { readonly version?: string; readonly facts?: readonly string[] } = {},
): PolicyDefinition {
  return { kind: 'policy', rule, version: more.version ?? '1', facts: more.facts ?? [] }
}

export type ConnectorOperation = {
  readonly connector: string
  readonly operation: string
  readonly side_effect: boolean
  readonly idempotency_required: boolean
  readonly idempotency_key_template: string | null
  readonly approval_required: boolean
}

export type OperationDefinition = { readonly kind: 'connector_operation'; readonly operation: ConnectorOperation }

export function defineConnectorOperation(
  operation: Pick<ConnectorOperation, 'connector' | 'operation' | 'side_effect'> & Partial<ConnectorOperation>,
): OperationDefinition {
  return {
    kind: 'connector_operation',
    operation: Object.freeze({
      idempotency_required: false,
      idempotency_key_template: null,
      approval_required: false,
      ...operation,
    }),
  }
}

export type ScheduleSpec = {
  readonly name: string
  readonly command_type: string
  /** Five fields. */
  readonly cron: string
  /** Where its firings wait. */
  readonly queue: string
  /** An IANA name; `UTC`. */
  readonly time_zone?: string
  /** While the command of the firing before is not over: leave this one out (`skip`), let one wait, or start it beside. */
  readonly overlap?: OverlapPolicy
  /** Of due times at which nobody was there: none, the newest (`last`), or all. */
  readonly misfire?: MisfirePolicy
  /** Each schedule starts by a fixed part of this after its due times; 0. */
  readonly jitter_ms?: number
  readonly payload?: JsonObject
  /** Id or short name; the installation's default. */
  readonly workspace?: string
}

export type ScheduleDefinition = { readonly kind: 'schedule'; readonly spec: ScheduleSpec }

export function defineSchedule(spec: ScheduleSpec): ScheduleDefinition {
  return { kind: 'schedule', spec: Object.freeze({ ...spec }) }
}

export type RetryDefinition = { readonly kind: 'retry_policy'; readonly policy: RetryPolicy }

export function registerRetry(policy: RetryPolicy): RetryDefinition {
  return { kind: 'retry_policy', policy }
}

export type Definition =
  | CommandType
  | TaskDefinition
  | FunctionDefinition
  | EffectDefinition
  | PolicyDefinition
  | OperationDefinition
  | ScheduleDefinition
  | RetryDefinition
