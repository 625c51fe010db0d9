/**
 * Looks up what a stored command refers to in the catalog of this process: its task, the queue of its wakes, the effects that its function
 * drafts, and their handlers. Also validates payloads and computes the hashes. Pure.
 */
import { hash } from 'node:crypto'
import { z } from 'zod'
import type { ApprovedContent } from '#domains/approvals'
import { canonicalJson } from '#kernel/canonical-json'
import { KernelFault } from '#kernel/errors'
import type { ErrorClass } from '#kernel/error-classes'
import { defined, formatPath, type JsonObject, type JsonValue } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { nearest } from '#kernel/nearest'
import { compensationPolicy, type CompiledRetry, compilePolicy } from '#kernel/retry-policy'
import type { Facts } from '#kernel/policy/policy'
import type { CommandType, EffectDraft, IngressType, TaskSpec } from './catalog/definitions.ts'
import type { Awaits, EffectCall, EffectClass, LookupResult, UndoCall } from './catalog/effect-definition.ts'
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import type { ReadBackNote, StoredCommand, StoredEffect } from './command-table.ts'

/** The task that writes a memory which a person, or a run, has proposed. */
export const writeMemoryTask = 'Write Memory'

/** Effects that are requests to people. They change nothing outside. */
export const REQUEST_INPUT = 'user.request_input'
export const REQUEST_APPROVAL = 'approval.request'

/** By its name, or by its command type if only one task has that type. */
export function findTask({ tasks }: Pick<Catalog, 'tasks'>, named: string): CompiledTask | undefined {
  const own = tasks.get(named)
  if (own) return own
  const [only, ...others] = [...tasks.values()].filter(({ type }) => type.name === named)
  return others.length === 0 ? only : undefined
}

type TaskRow = Pick<StoredCommand, 'task_name' | 'command_type'>

/** The task of a stored command. Undefined after a deploy that removed it. */
export function taskOf(
  { tasks, taskOfType }: Pick<Catalog, 'tasks' | 'taskOfType'>,
  { task_name, command_type, ingress }: TaskRow & { readonly ingress: string },
): CompiledTask | undefined {
  const task = findCompiled({ tasks, taskOfType }, { task_name, command_type })
  return task && ingress === 'agent_action' ? { ...task, ...task.forAgents } : task
}

function findCompiled({ tasks, taskOfType }: Pick<Catalog, 'tasks' | 'taskOfType'>, row: TaskRow) {
  return (row.task_name === null ? undefined : tasks.get(row.task_name)) ?? taskOfType.get(row.command_type)
}

/**
 * The queue of a wake. The runtime forgets a process that waits for a wake and never sees in-process turns, so a wake without the queue
 * would bypass the queue's limits.
 */
export function wakeOptionsOf(
  catalog: Pick<Catalog, 'tasks' | 'taskOfType'>,
  row: TaskRow,
): { readonly queue?: string } {
  const queue = findCompiled(catalog, row)?.queue
  return queue === undefined ? {} : { queue }
}

export function sayTaskGone({ task_name, command_type }: TaskRow): string {
  return `its task ${quote(task_name ?? command_type)} is not in the catalog; it continues when the task is back`
}

/** For a change to the request itself: only the task knows what is valid. */
export function refuseTaskGone({ task_name, command_type }: TaskRow): Refusal {
  return refuse('task_unknown', `The task ${quote(task_name ?? command_type)} of this command is not in the catalog.`, {
    hint: 'Try again when the task is back, or cancel the command.',
  })
}

/** The effects that a command's function drafts. A function that throws fails its own command only. */
export function draftEffects(
  task: CompiledTask,
  command: Pick<StoredCommand, 'command_id' | 'workspace_id' | 'requested_by' | 'context' | 'payload'>,
  facts: Facts = {},
): Decision<readonly EffectDraft[]> {
  try {
    const { command_id, workspace_id, requested_by, context } = command
    const { trace_id } = context
    const planned = task.fn.plan(command.payload, { command_id, workspace_id, requested_by, trace_id, facts })
    return accept(planned.map((effect) => ({ ...effect, payload: defined(effect.payload) as JsonObject })))
  } catch (error) {
    return refuse(
      'commands.plan.invalid',
      `The function ${task.fn.name} could not plan: ${error instanceof Error ? error.message : 'unknown'}`,
    )
  }
}

/** What an approver consents to. Changing any part of it makes it another request. */
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

/** Before anything is planned: the arguments alone. */
export function payloadHash(payload: JsonObject): string {
  return hash('sha256', canonicalJson(payload))
}

/** The `metadata` of a task under which it lists the fields that only a person supplies. */
export const PERSON_FIELDS = 'person_fields'

/** The `metadata` of a task whose content no command may hold: only a run gives it, by reference. */
export const RUN_ONLY = 'run_only'

export const isRunOnly = ({ metadata }: Pick<TaskSpec, 'metadata'>): boolean => metadata[RUN_ONLY] === true

/** An agent cannot write the answer of a person: it comes by `supplyInput` alone. Pure. */
export function decideAuthor(
  { spec }: Pick<CompiledTask, 'spec'>,
  { ingress, payload, run }: { readonly ingress: IngressType; readonly payload: JsonObject; readonly run?: unknown },
): Decision<undefined> {
  if (isRunOnly(spec) && run === undefined)
    return refuse('agents.call.by_reference', `Only a run that Concord drives uses ${quote(spec.name)}.`, {
      path: 'tool_name',
    })
  const given = personFields(spec).find((name) => Object.hasOwn(payload, name))
  if (ingress !== 'agent_action' || given === undefined) return accept(undefined)
  const reason = `Only a person supplies the field ${quote(given)}.`
  return refuse('commands.payload.malformed', reason, { path: `payload.${given}` })
}

export function personFields({ metadata }: Pick<TaskSpec, 'metadata'>): readonly string[] {
  const fields = metadata[PERSON_FIELDS]
  return Array.isArray(fields) ? fields.map(String) : []
}

type PayloadVerdict =
  | { readonly t: 'fits'; readonly payload: JsonObject }
  | { readonly t: 'missing'; readonly fields: readonly string[] }
  | { readonly t: 'malformed'; readonly errors: readonly string[] }

const ERRORS_MAX = 10

/** Checks a payload against its contract: it is valid, a field is missing that can still be supplied, or it is malformed. */
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
    // Zod's message names types and limits, never the value that was sent.
    else errors.push(`${path === '' ? 'payload' : path}: ${issue.message}${guessField(type, issue)}`)
  }
  if (errors.length > 0) return { t: 'malformed', errors: errors.slice(0, ERRORS_MAX) }
  if (missing.size > 0) return { t: 'missing', fields: [...missing].toSorted() }
  return asJson(parsed.success ? parsed.data : payload)
}

/** The field of the payload that is spelled almost like an unknown one. */
function guessField({ payload }: CommandType, issue: z.core.$ZodIssue): string {
  if (issue.code !== 'unrecognized_keys' || issue.path.length > 0 || !(payload instanceof z.ZodObject)) return ''
  const guess = nearest(issue.keys[0] ?? '', Object.keys(payload.shape))
  return guess === undefined ? '' : `. Did you mean ${quote(guess)}?`
}

/** Stores the parsed value, with its defaults and trimmed texts. A schema that transforms the payload into something else cannot be stored. */
function asJson(value: unknown): PayloadVerdict {
  const guarded = guardValue(value)
  const isObject =
    guarded.ok && typeof guarded.value === 'object' && guarded.value !== null && !Array.isArray(guarded.value)
  if (isObject) return { t: 'fits', payload: guarded.value as JsonObject }
  return { t: 'malformed', errors: ['payload: the schema of this type does not produce a JSON object'] }
}

function isAbsent(payload: JsonObject, steps: readonly (string | number)[]): boolean {
  let value: JsonValue | undefined = payload
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return true
    value = (value as Readonly<Record<string | number, JsonValue>>)[step]
  }
  return value === undefined || value === null
}

/** `undone` is the effect that an undo undoes, of this command or of another one. */
export type HandlerCall = EffectCall & { readonly undone: UndoCall['undone'] | undefined }

export type EffectHandler = {
  readonly class: EffectClass
  readonly timeoutMs: number
  readonly retry: CompiledRetry
  /** The names that an undo must emit, and no others. */
  readonly produces: readonly string[]
  readonly isUndo: boolean
  /** It changes something outside of Concord. */
  readonly isOutward: boolean
  readonly run: (call: HandlerCall) => Promise<unknown>
  readonly find: ((call: HandlerCall) => Promise<LookupResult>) | undefined
}

export type AttemptFailure = {
  readonly errorClass: ErrorClass
  readonly message: string
  /** `no` only if it is certain that nothing was done. */
  readonly happened: 'no' | 'unknown'
  /** How long the provider asked to wait. */
  readonly retryAfterMs?: number | undefined
  /** Concord cannot keep what the effect has made: it has failed, whatever it did outside. */
  readonly isRefused?: boolean
}

export type CallResult =
  | { readonly t: 'done'; readonly result: unknown; readonly emitted: readonly string[]; readonly facts?: JsonObject }
  | { readonly t: 'failed'; readonly failure: AttemptFailure; readonly emitted: readonly string[] }
  | { readonly t: 'pending'; readonly awaits: Awaits }
  /** Answers to a look-up. */
  | { readonly t: 'found'; readonly result: unknown; readonly facts?: JsonObject }
  | { readonly t: 'missing' }

export function readBackOf({ read_back }: Pick<StoredEffect, 'read_back'>): ReadBackNote {
  // Only this room writes the column.
  return (read_back as ReadBackNote | null) ?? {}
}

/** It waits for a process, a time or a signal. A wait for another command is a state of the command. */
export function isWaiting(effect: Pick<StoredEffect, 'read_back'>): boolean {
  const { outcome, command_id } = readBackOf(effect)
  return outcome === 'waiting' && command_id === undefined
}

/** The effect's own handler, or the undo that its compensation names. Undefined: the catalog of this process does not have it. */
export function findHandler(catalog: Catalog, effect: StoredEffect): EffectHandler | undefined {
  if (effect.compensates_effect_id !== null) return findUndo(catalog, effect)
  const definition = catalog.effects.get(effect.effect_type)?.definition
  return (
    definition && {
      class: definition.class,
      timeoutMs: definition.timeout_ms,
      retry: retryOf(catalog, definition.operation),
      produces: definition.produces,
      isUndo: false,
      isOutward: definition.outward,
      run: definition.do,
      find: definition.find,
    }
  )
}

/** The type of the effect that undoes another one. */
const UNDO_PREFIX = 'compensation.'
export const undoTypeOf = (undo: string) => `${UNDO_PREFIX}${undo}`
const findUndone = ({ undos }: Pick<Catalog, 'undos'>, effectType: string) =>
  effectType.startsWith(UNDO_PREFIX) ? undos.get(effectType.slice(UNDO_PREFIX.length)) : undefined
export const undoOf = (catalog: Pick<Catalog, 'undos'>, effectType: string) => findUndone(catalog, effectType)?.undo

function findUndo(catalog: Catalog, { effect_type }: StoredEffect): EffectHandler | undefined {
  const found = findUndone(catalog, effect_type)
  if (!found) return undefined
  const { undo, of } = found
  const { find } = undo
  return {
    class: undo.class,
    timeoutMs: undo.timeout_ms,
    retry: retryOf(catalog, compensationPolicy.operation),
    produces: undo.produces,
    isUndo: true,
    isOutward: of.outward,
    run: (call) => undo.do(asUndo(call)),
    find: find && ((call) => find(asUndo(call))),
  }
}

function asUndo({ undone, ...call }: HandlerCall): UndoCall {
  if (!undone) throw new KernelFault('commands.effect.unknown', 'an undo without the effect that it undoes')
  return { ...call, undone }
}

export function retryOf({ retries }: Catalog, operation: string): CompiledRetry {
  const compiled = compilePolicy(operation, retries)
  if (!compiled.ok) throw new KernelFault('commands.retry.missing', compiled.reason)
  return compiled.value
}
