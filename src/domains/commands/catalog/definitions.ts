/** The definitions of a catalog: command types, tasks, functions, policies, connector operations, schedules and retry policies. Effects have their own file. */
import { z } from 'zod'
import type { DecisionValue, Resume } from '#domains/approvals'
import type { ErrorClass } from '#kernel/error-classes'
import { defined, type JsonObject, type JsonValue } from '#kernel/json-value'
import type { Facts, PolicyRule, RiskLevel } from '#kernel/policy/policy'
import type { RetryPolicy } from '#kernel/retry-policy'
import type { MisfirePolicy, OverlapPolicy } from '#kernel/schedule'
import type { DataClass } from '#kernel/data-class'
import type { ResultInput } from '#kernel/step'
import type { EffectDefinition } from './effect-definition.ts'
import { placed } from './place.ts'

export const ingressTypes = [
  'user_request',
  'scheduled_trigger',
  'webhook',
  'system_event',
  'agent_action',
  'connector_event',
  'human_decision',
] as const
export type IngressType = (typeof ingressTypes)[number]

export const cancellationModes = ['graceful', 'compensate_then_stop'] as const
export type CancellationMode = (typeof cancellationModes)[number]

/** What happens to the effects of a command that fails: they stay until a person decides, or they are undone at once. */
export const failureModes = ['keep', 'undo'] as const
type FailureMode = (typeof failureModes)[number]

export const executionModes = ['sync', 'async', 'approval_gated_async', 'agentic', 'swarm'] as const
export type ExecutionMode = (typeof executionModes)[number]

export const cancellers = ['requester', 'writer', 'admin'] as const
type Canceller = (typeof cancellers)[number]

type ApprovalTerms = {
  readonly required: boolean
  readonly approval_type: string
  /** The approver if no rule names one: a person or `role:<org role>`. */
  readonly approver: string
  /** How many different persons must approve: the approver, and each role that a rule names. A rule can ask for more. */
  readonly quorum: number
  readonly self_decision_allowed: boolean
  /**
   * Whether an approver who edits the request may approve what they wrote. Default: only if the risk is low. Otherwise another approver or the
   * requester confirms the edited request.
   */
  readonly editor_may_approve?: boolean
  /** Whether an approver may edit the request. Default: yes. */
  readonly edits_allowed?: boolean
  /** Null: it never expires. */
  readonly expires_in_minutes: number | null
  /** When to remind the approvers. Default: after half of the time. */
  readonly reminders_after_minutes?: readonly number[]
  /** From then on the members of this org role may decide too, and are notified. */
  readonly escalation?: { readonly after_minutes: number; readonly role: string } | null
  /** The answers that people can give. Default: all three. */
  readonly decision_values?: readonly DecisionValue[]
  /** What each answer means, for people. */
  readonly meanings?: Readonly<Partial<Record<DecisionValue, string>>>
  /** What follows for the command. Default: approved runs it, changes ask for input, everything else ends it. */
  readonly resume?: Partial<Resume>
}

/** The contract of a type of command. The catalog refuses a type that lacks one of the seven parts. */
export type CommandType = {
  readonly kind: 'command_type'
  readonly name: string
  readonly version: string
  /** 1: the description. */
  readonly description: string
  /** 2: the required inputs. Strict objects refuse unknown fields. */
  readonly payload: z.ZodType
  /** 3: the effect types it may produce. Other effects do not run. */
  readonly side_effects: readonly string[]
  /** 4: the classes of its errors. */
  readonly error_classes: readonly ErrorClass[]
  /** 5: its compensation. */
  readonly compensation: { readonly supported: boolean; readonly command_type?: string }
  /** 6: who may cancel it. */
  readonly cancellable_by: readonly Canceller[]
  /** 7: the event types that must be recorded when it has succeeded. */
  readonly audit: readonly string[]
  readonly risk_level: RiskLevel
  /** The data classes of payload fields by path. Default: `internal`. */
  readonly fields: Readonly<Record<string, DataClass>>
  readonly policies: readonly string[]
  readonly approval: ApprovalTerms
  readonly idempotency: { readonly required: boolean; readonly key_template?: string }
  readonly cancellation_mode: CancellationMode
  readonly on_failure: FailureMode
  /** How long a command waits for missing input. */
  readonly input_expires_in_minutes: number
  /** Set by agentic and swarm types; for others the flags of the task decide. */
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
  return placed(
    Object.freeze({
      version: '1.0.0',
      risk_level: 'low' as const,
      fields: {},
      policies: [],
      idempotency: { required: false },
      compensation: { supported: false },
      cancellation_mode: 'graceful' as const,
      on_failure: 'keep' as const,
      input_expires_in_minutes: WEEK_MINUTES,
      ...defined(input),
      approval: {
        required: false,
        approval_type: `${input.name}_approval`,
        approver: 'role:approver',
        quorum: 1,
        self_decision_allowed: false,
        expires_in_minutes: 24 * 60,
        ...defined(input.approval ?? {}),
      },
      kind: 'command_type' as const,
    }),
  )
}

/** The optional fields of a task. */
const taskDefaults = {
  ingress_types: [] as readonly IngressType[],
  /** Paths of payload fields that Concord asks for if they are absent. */
  required_inputs: [] as readonly string[],
  sync_allowed: false as boolean,
  async_required: false as boolean,
  approval_required: false as boolean,
  memory_write_possible: false as boolean,
  artifact_output_possible: false as boolean,
  notification_required: false as boolean,
  policy_checks: [] as readonly string[],
  connector_requirements: [] as readonly string[],
  risk_level: 'low' as RiskLevel,
  /** Limits the runs of a command, the first one included; the retry policy of an operation limits its attempts. */
  max_attempts: 3,
  metadata: {} as Readonly<Record<string, unknown>>,
}

type NamedTask = Readonly<Record<'name' | 'description' | 'command_type' | 'function_name', string>>
export type TaskSpec = NamedTask & Readonly<typeof taskDefaults>

/** A task: the way from a request to a command type and a function. */
export type TaskDefinition = { readonly kind: 'task'; readonly spec: TaskSpec }

export function defineTask(spec: NamedTask & Partial<TaskSpec>): TaskDefinition {
  return placed({ kind: 'task', spec: Object.freeze({ ...taskDefaults, ...defined(spec) }) })
}

/** The facts that a function may use when it lists the effects of a command. */
type PlanFacts = {
  readonly command_id: string
  readonly workspace_id: string
  readonly requested_by: string
  readonly trace_id: string
  /** Those of its policies, if the function reads facts. */
  readonly facts: Facts
}

export type EffectDraft = {
  readonly effect_type: string
  readonly payload: JsonObject
  /** The effect of another command that it undoes. */
  readonly undoes?: { readonly effect_id: string; readonly nth: number }
  /** Values of the payload that earlier effects return. They replace the texts at these paths before the effect begins. */
  readonly inputs?: readonly ResultInput[]
  /** Positions of the effects that must succeed first. Default: the previous one. */
  readonly after?: readonly number[]
  /** Copied to the step of the plan. `terminal_on_child_failure`: if the command that it starts fails, this command is cancelled. */
  readonly metadata?: { readonly terminal_on_child_failure?: boolean }
}

/** As a function writes it. Without `exactOptionalPropertyTypes` a list of different payloads has fields that are undefined; they are left out. */
type PlannedEffect = Omit<EffectDraft, 'payload'> & {
  readonly payload: Readonly<Record<string, JsonValue | undefined>>
}

/** The function of a task: lists its effects in their order. Pure: the same payload gives the same list. */
export type FunctionDefinition = {
  readonly kind: 'function'
  readonly name: string
  readonly plan: (payload: JsonObject, facts: PlanFacts) => readonly PlannedEffect[]
  /** The effects depend on the facts too. They are loaded again until the plan is made. A retry keeps the plan. */
  readonly reads_facts?: boolean
  /** The result of the command from the results of its effects, in order. Default: the last one. */
  readonly result?: (results: readonly unknown[]) => unknown
}

export function defineFunction(definition: Omit<FunctionDefinition, 'kind'>): FunctionDefinition {
  return placed({ kind: 'function', ...definition })
}

export type PolicyDefinition = {
  readonly kind: 'policy'
  readonly rule: PolicyRule
  readonly version: string
  /** Names of the facts that the rule needs. */
  readonly facts: readonly string[]
}

export function definePolicy(
  rule: PolicyRule,
  more: { readonly version?: string; readonly facts?: readonly string[] } = {},
): PolicyDefinition {
  return placed({ kind: 'policy', rule, version: more.version ?? '1', facts: more.facts ?? [] })
}

/** The input of the source of a fact. */
export type FactInput<Input> = {
  readonly input: Input
  readonly workspaceId: string
  readonly requestedBy: string
  readonly now: Date
  /** Reads the database of Concord. It cannot write. */
  readonly sql: <Row extends object>(text: string, values?: readonly unknown[]) => Promise<readonly Row[]>
}

/** A fact that a project loads for its policies. The decision records its value. */
export type FactDefinition = {
  readonly kind: 'fact'
  readonly name: string
  readonly load: (of: FactInput<JsonObject>) => Promise<unknown>
}

export function defineFact(name: string, load: FactDefinition['load']): FactDefinition {
  return { kind: 'fact', name, load }
}

export const connectorOperationForm = z.strictObject({
  connector: z.string().min(1),
  operation: z.string().min(1),
  side_effect: z.boolean(),
  idempotency_required: z.boolean().default(false),
  idempotency_key_template: z.string().min(1).nullable().default(null),
  approval_required: z.boolean().default(false),
  output_trust: z.enum(['trusted', 'untrusted']).default('untrusted'),
})
export type ConnectorOperation = Readonly<z.infer<typeof connectorOperationForm>>

type OperationDefinition = { readonly kind: 'connector_operation'; readonly operation: ConnectorOperation }

export function defineConnectorOperation(
  operation: Pick<ConnectorOperation, 'connector' | 'operation' | 'side_effect'> & Partial<ConnectorOperation>,
): OperationDefinition {
  return {
    kind: 'connector_operation',
    operation: Object.freeze({
      idempotency_required: false,
      idempotency_key_template: null,
      approval_required: false,
      output_trust: 'untrusted' as const,
      ...operation,
    }),
  }
}

export type ScheduleSpec = {
  readonly name: string
  readonly command_type: string
  /** Five fields. */
  readonly cron: string
  /** The queue of its firings. */
  readonly queue: string
  /** An IANA name. Default: `UTC`. */
  readonly time_zone?: string
  /** What happens while the command of the previous firing runs: `skip` this firing, let one wait, or start it as well. */
  readonly overlap?: OverlapPolicy
  /** Which missed due times fire later: none, the newest (`last`), or all. */
  readonly misfire?: MisfirePolicy
  /** Each schedule fires a fixed part of this after its due times. Default: 0. */
  readonly jitter_ms?: number
  readonly payload?: JsonObject
  /** Id or short name. Default: the default workspace of the installation. */
  readonly workspace?: string
}

export type ScheduleDefinition = { readonly kind: 'schedule'; readonly spec: ScheduleSpec }

export function defineSchedule(spec: ScheduleSpec): ScheduleDefinition {
  return placed({ kind: 'schedule', spec: Object.freeze({ ...spec }) })
}

type RetryDefinition = { readonly kind: 'retry_policy'; readonly policy: RetryPolicy }

export function registerRetry(policy: RetryPolicy): RetryDefinition {
  return { kind: 'retry_policy', policy }
}

export type Definition =
  | CommandType
  | TaskDefinition
  | FunctionDefinition
  | EffectDefinition
  | PolicyDefinition
  | FactDefinition
  | OperationDefinition
  | ScheduleDefinition
  | RetryDefinition

type OfKind<K extends Definition['kind']> = Extract<Definition, { kind: K }>

export function ofKind<K extends Definition['kind']>(
  definitions: readonly Definition[],
  kind: K,
): readonly OfKind<K>[] {
  return definitions.filter((each): each is OfKind<K> => each.kind === kind)
}

export function definitionName(definition: Definition): string {
  switch (definition.kind) {
    case 'command_type':
    case 'function':
    case 'fact':
      return definition.name
    case 'task':
    case 'schedule':
      return definition.spec.name
    case 'effect':
      return definition.effect_type
    case 'policy':
      return definition.rule.name
    case 'connector_operation':
      return `${definition.operation.connector}.${definition.operation.operation}`
    case 'retry_policy':
      return definition.policy.operation
  }
}
