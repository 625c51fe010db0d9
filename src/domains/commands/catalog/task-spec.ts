/** What a task is: the spec that turns a request into a command type and a function. Exact fields, exact defaults. */
import type { IngressType } from './closed-lists.ts'
import { type RiskLevel } from '#kernel/policy/policy'

export type TaskSpec = {
  readonly name: string
  readonly description: string
  readonly command_type: string
  readonly function_name: string
  readonly ingress_types: readonly IngressType[]
  /** Fields that may be asked for when they are absent, as paths into the payload. */
  readonly required_inputs: readonly string[]
  readonly sync_allowed: boolean
  readonly async_required: boolean
  readonly approval_required: boolean
  readonly memory_write_possible: boolean
  readonly artifact_output_possible: boolean
  readonly notification_required: boolean
  readonly policy_checks: readonly string[]
  readonly connector_requirements: readonly string[]
  readonly risk_level: RiskLevel
  /** Bounds the runs of a command, the first one included; an operation's own policy bounds its attempts. */
  readonly max_attempts: number
  readonly metadata: Readonly<Record<string, unknown>>
}

export type TaskDefinition = { readonly kind: 'task'; readonly spec: TaskSpec }

type Named = Pick<TaskSpec, 'name' | 'description' | 'command_type' | 'function_name'>

/** What is no list stays as it is, for the catalog to name it. */
function frozenList<T>(list: readonly T[] | undefined): readonly T[] {
  return Array.isArray(list ?? []) ? Object.freeze([...(list ?? [])]) : (list ?? [])
}

export function taskSpec(spec: Named & Partial<TaskSpec>): TaskSpec {
  return Object.freeze({
    name: spec.name,
    description: spec.description,
    command_type: spec.command_type,
    function_name: spec.function_name,
    ingress_types: frozenList(spec.ingress_types),
    required_inputs: frozenList(spec.required_inputs),
    sync_allowed: spec.sync_allowed ?? false,
    async_required: spec.async_required ?? false,
    approval_required: spec.approval_required ?? false,
    memory_write_possible: spec.memory_write_possible ?? false,
    artifact_output_possible: spec.artifact_output_possible ?? false,
    notification_required: spec.notification_required ?? false,
    policy_checks: frozenList(spec.policy_checks),
    connector_requirements: frozenList(spec.connector_requirements),
    risk_level: spec.risk_level ?? 'low',
    max_attempts: spec.max_attempts ?? 3,
    metadata: Object.freeze({ ...spec.metadata }),
  })
}

export function defineTask(spec: Named & Partial<TaskSpec>): TaskDefinition {
  return { kind: 'task', spec: taskSpec(spec) }
}
