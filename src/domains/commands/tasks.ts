/** The task that a command runs as, whether a payload fits it, the effects that its function drafts, and the hashes over what it stands for. Pure. */
import { hash } from 'node:crypto'
import { type ApprovedContent, approvalHash } from '#domains/approvals'
import { canonicalJson } from '#kernel/canonical-json'
import { formatPath, type JsonObject, type JsonValue } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import type { CommandType, EffectDraft, TaskSpec } from './catalog/definitions.ts'
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import type { StoredCommand } from './command-table.ts'

/** By its name, or by its command type where only one task runs it. */
export function findTask({ tasks }: Pick<Catalog, 'tasks'>, named: string): CompiledTask | undefined {
  const own = tasks.get(named)
  if (own) return own
  const [only, ...others] = [...tasks.values()].filter(({ type }) => type.name === named)
  return others.length === 0 ? only : undefined
}

type TaskRow = Pick<StoredCommand, 'task_name' | 'command_type'>

/** The task of a stored command; undefined after a deploy that removed it. */
export function taskOf(
  { tasks, taskOfType }: Pick<Catalog, 'tasks' | 'taskOfType'>,
  { task_name, command_type }: TaskRow,
): CompiledTask | undefined {
  return (task_name === null ? undefined : tasks.get(task_name)) ?? taskOfType.get(command_type)
}

/**
 * Where a wake goes. The runtime forgets a process that waits for a wake and never hears of in-process turns: without the queue such a wake
 * would lead past its limits.
 */
export function queueOf(catalog: Pick<Catalog, 'tasks' | 'taskOfType'>, row: TaskRow): { readonly queue?: string } {
  const queue = taskOf(catalog, row)?.queue
  return queue === undefined ? {} : { queue }
}

export function sayTaskGone({ task_name, command_type }: TaskRow): string {
  return `its task ${quote(task_name ?? command_type)} is not in the catalog; it goes on when the task is back`
}

/** For changes of what a command is asked to do: only its task knows what fits. */
export function refuseTaskGone({ task_name, command_type }: TaskRow): Refusal {
  return refuse('task_unknown', `The task ${quote(task_name ?? command_type)} of this command is not in the catalog.`, {
    hint: 'Try again when the task is back, or cancel the command.',
  })
}

/** The effects a command's function asks for; a function that throws is a fault of that function alone. */
export function draftEffects(
  task: CompiledTask,
  command: Pick<StoredCommand, 'command_id' | 'workspace_id' | 'requested_by' | 'context' | 'payload'>,
): Decision<readonly EffectDraft[]> {
  try {
    const { command_id, workspace_id, requested_by, context } = command
    return accept(task.fn.plan(command.payload, { command_id, workspace_id, requested_by, trace_id: context.trace_id }))
  } catch (error) {
    return refuse(
      'commands.plan.invalid',
      `the function ${task.fn.name} could not plan: ${error instanceof Error ? error.message : 'unknown'}`,
    )
  }
}

/** What a person would say yes to: change any part of it and it is another question. */
export function contentOf(
  task: Pick<CompiledTask, 'policy' | 'type'>,
  payload: JsonObject,
  drafts: readonly EffectDraft[],
): ApprovedContent {
  return {
    arguments: payload,
    effects: drafts.map(({ effect_type, payload: of }) => ({ effect_type, payload: of })),
    policy_version: task.policy.version,
    command_version: task.type.version,
  }
}

export function contentHash(content: ApprovedContent): string {
  return approvalHash(content)
}

/** Before anything is planned: the arguments alone. */
export function payloadHash(payload: JsonObject): string {
  return hash('sha256', canonicalJson(payload))
}

export function requestFingerprint(request: {
  readonly task_name: string
  readonly payload: JsonObject
  readonly more: JsonValue
}): string {
  return hash('sha256', canonicalJson([request.task_name, request.payload, request.more]))
}

export type PayloadVerdict =
  | { readonly t: 'fits'; readonly payload: JsonObject }
  | { readonly t: 'missing'; readonly fields: readonly string[] }
  | { readonly t: 'malformed'; readonly errors: readonly string[] }

const ERRORS_MAX = 10

/** Judges a payload against its contract: it fits, something that can be asked for is absent, or it is malformed. */
export function validatePayload(
  type: CommandType,
  spec: Pick<TaskSpec, 'required_inputs'>,
  payload: JsonObject,
): PayloadVerdict {
  const absent = spec.required_inputs.filter((path) => isAbsent(payload, path.split('.')))
  const parsed = type.payload.safeParse(payload)
  const issues = parsed.success ? [] : parsed.error.issues
  const missing = new Set(absent)
  const errors: string[] = []
  for (const issue of issues) {
    const steps = issue.path.map((step) => (typeof step === 'number' ? step : String(step)))
    const path = formatPath(steps)
    if (issue.code !== 'unrecognized_keys' && steps.length > 0 && isAbsent(payload, steps)) missing.add(path)
    // The message is zod's own and names types and limits, never the value that was sent.
    else errors.push(`${path === '' ? 'payload' : path}: ${issue.message}`)
  }
  if (errors.length > 0) return { t: 'malformed', errors: errors.slice(0, ERRORS_MAX) }
  if (missing.size > 0) return { t: 'missing', fields: [...missing].toSorted() }
  return asJson(parsed.success ? parsed.data : payload)
}

/** Defaults and trimmed texts are part of what was validated; a schema that makes something else of it cannot be stored. */
function asJson(value: unknown): PayloadVerdict {
  const guarded = guardValue(value)
  const isObject =
    guarded.ok && typeof guarded.value === 'object' && guarded.value !== null && !Array.isArray(guarded.value)
  if (isObject) return { t: 'fits', payload: guarded.value as JsonObject }
  return { t: 'malformed', errors: ['payload: the schema of this type does not give a JSON object'] }
}

function isAbsent(payload: JsonObject, steps: readonly (string | number)[]): boolean {
  let value: JsonValue | undefined = payload
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return true
    value = (value as Readonly<Record<string | number, JsonValue>>)[step]
  }
  return value === undefined || value === null
}
