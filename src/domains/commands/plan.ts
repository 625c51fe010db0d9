/** Plans a command: its steps, their order and queue, their effects, and which effect is next. Pure: equal inputs give equal plans. */
import type { JsonObject } from '#kernel/json-value'
import { validateGraph } from '#kernel/dag/graph'
import type { PolicyResult } from '#kernel/policy/evaluate'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import { type EffectDraft, type ExecutionMode, executionModes } from './catalog/definitions.ts'
import { chooseQueue, isSyncTask, mapTaskToPrimitives, type Primitive, primitiveOf } from './catalog/primitives.ts'
import { renderKey } from '#kernel/idempotency-key'
import { attemptsAllowed } from '#kernel/retry'
import type { Facts } from '#kernel/policy/policy'
import { compensationPolicy, compilePolicy } from '#kernel/retry-policy'
import type { UndoStep } from '#kernel/saga/compensation'
import { type Change, newEffect, type NewEffect, planEffect, set, systemActor, emitEvent } from './change.ts'
import type { CommandWithEffects, StoredEffect } from './command-table.ts'
import { checkKeyFields } from './step-inputs.ts'
import { draftEffects, isWaiting, retryOf, undoOf } from './tasks.ts'

export type PlanStep = {
  readonly step_id: string
  readonly primitive: Primitive
  readonly function_name: string
  readonly depends_on: readonly string[]
  readonly metadata: Readonly<Record<string, unknown>>
}

export type ExecutionPlan = {
  readonly plan_id: string
  readonly command_id: string
  readonly plan_schema_version: 1
  readonly execution_mode: ExecutionMode
  readonly queue: string
  readonly primitives: readonly Primitive[]
  readonly steps: readonly PlanStep[]
}

export type EffectStep = PlanStep & { readonly effect: EffectDraft; readonly effectId: string }

export type PlanInput = {
  readonly planId: string
  readonly commandId: string
  readonly requestedBy: string
  readonly task: CompiledTask
  readonly policy: Pick<PolicyResult, 'decision' | 'metadata'>
  /** A person has approved, so the plan includes that step. */
  readonly isApproved: boolean
  readonly drafts: readonly EffectDraft[]
  /** One id per draft, and one for a notification. */
  readonly effectIds: readonly string[]
  readonly catalog: Pick<Catalog, 'effects' | 'undos' | 'queues'>
}

/** The effect that compensates another command. A command type with it may also undo the effects of commands that succeeded. */
export const COMPENSATE = 'command.compensate'

/** The effect of a task with `notification_required` whose function drafts no notification. */
const APP_NOTIFICATION = 'notification.app'

export function createPlan(
  input: PlanInput,
): Decision<{ readonly plan: ExecutionPlan; readonly effects: readonly EffectStep[] }> {
  const { task, commandId, planId } = input
  const drafts = withNotification(input)
  const isSync = isSyncTask(task.spec)
  const gate: PlanStep[] = input.isApproved
    ? [
        {
          step_id: 'approval',
          primitive: 'human_approval',
          function_name: task.type.approval.approval_type,
          depends_on: [],
          metadata: {},
        },
      ]
    : []
  const effects = drafts.map((effect, index): EffectStep => {
    const effectId = input.effectIds[index] ?? ''
    const before = effect.after ?? (index === 0 ? [] : [index - 1])
    return {
      step_id: `step_${index + 1}`,
      primitive: primitiveOf(effect.effect_type, isSync),
      function_name: task.spec.function_name,
      depends_on: before.length > 0 ? before.map((at) => `step_${at + 1}`) : gate.map(({ step_id }) => step_id),
      metadata: {
        ...effect.metadata,
        // The notification: its result is none of the results of the function.
        ...(index >= input.drafts.length ? { added: true } : {}),
        effect_type: effect.effect_type,
        domain_effect_id: effectId,
        queue: chooseQueue(effect),
        ...(effect.inputs?.length ? { inputs: effect.inputs } : {}),
        ...(effect.undoes ? { compensates_effect_id: effect.undoes.effect_id } : {}),
      },
      effect,
      effectId,
    }
  })
  const route = routeOf(input.policy)
  const plan: ExecutionPlan = {
    plan_id: planId,
    command_id: commandId,
    plan_schema_version: 1,
    execution_mode: route.mode ?? decideMode(task, input.isApproved, drafts, input.catalog),
    queue: route.queue ?? (drafts[0] ? chooseQueue(drafts[0]) : 'concord_default'),
    primitives: mapTaskToPrimitives(task.spec),
    steps: [...gate, ...effects.map(({ effect: _effect, effectId: _id, ...step }) => step)],
  }
  const checked = validatePlan(plan, task, input.catalog)
  return checked.ok ? accept({ plan, effects }) : checked
}

function withNotification({ task, drafts, requestedBy, commandId, catalog }: PlanInput): readonly EffectDraft[] {
  const isNeeded =
    task.spec.notification_required && !drafts.some(({ effect_type }) => effect_type.startsWith('notification.'))
  if (!isNeeded || !catalog.effects.has(APP_NOTIFICATION)) return drafts
  const payload = { recipient: requestedBy, command_id: commandId, task_name: task.spec.name }
  return [...drafts, { effect_type: APP_NOTIFICATION, payload }]
}

/** A routing rule sets `queue` and `execution_mode` in its metadata. */
function routeOf({ metadata }: Pick<PolicyResult, 'metadata'>): {
  readonly queue?: string
  readonly mode?: ExecutionMode
} {
  const routes = Object.values(metadata).filter(
    (each): each is Record<string, unknown> => typeof each === 'object' && each !== null,
  )
  const queue = routes.map((route) => route['queue']).find((each): each is string => typeof each === 'string')
  const mode = executionModes.find((known) => routes.some((route) => route['execution_mode'] === known))
  return { ...(queue === undefined ? {} : { queue }), ...(mode === undefined ? {} : { mode }) }
}

/**
 * Sync only if the task is fast, bounded, of low risk, has one step, and needs no retries beyond those of its caller. Everything slow,
 * expensive, gated, durable or of several steps is async.
 */
export function decideMode(
  task: Pick<CompiledTask, 'spec' | 'type'>,
  isApproved: boolean,
  drafts: readonly EffectDraft[],
  catalog: Pick<Catalog, 'effects'>,
): ExecutionMode {
  const { spec, type } = task
  if (type.execution_mode === 'agentic' || type.execution_mode === 'swarm') return type.execution_mode
  if (isApproved || spec.approval_required || type.approval.required) return 'approval_gated_async'
  const isLowRisk = spec.risk_level === 'low' && type.risk_level === 'low'
  const isQuick = drafts.length <= 1 && drafts.every((draft) => isBounded(draft, catalog))
  return isSyncTask(spec) && isLowRisk && isQuick ? 'sync' : 'async'
}

function isBounded({ effect_type }: EffectDraft, { effects }: Pick<Catalog, 'effects'>): boolean {
  const definition = effects.get(effect_type)?.definition
  const isRepeatable = definition?.class === 'read' || definition?.class === 'keyed'
  return definition?.bounded === true && isRepeatable && !effect_type.startsWith('artifact.')
}

/** Allows only declared effects, primitives of the task and known queues, and no cycle. Plans that an agent proposed are checked too. */
export function validatePlan(
  plan: ExecutionPlan,
  task: Pick<CompiledTask, 'spec' | 'type'>,
  catalog: Pick<Catalog, 'effects' | 'undos' | 'queues'>,
): Decision<ExecutionPlan> {
  const wrong = (reason: string) => refuse('commands.plan.invalid', reason, { facts: { plan_id: plan.plan_id } })
  const allowed = new Set<string>([...mapTaskToPrimitives(task.spec), 'human_approval', 'async_task', 'sync_function'])
  for (const { primitive, metadata, step_id } of plan.steps) {
    if (!allowed.has(primitive)) return wrong(`Step ${step_id} is a ${primitive}, which the task does not declare.`)
    const type = metadata['effect_type']
    if (typeof type !== 'string') continue
    const isOwn = task.type.side_effects.includes(type) || type === APP_NOTIFICATION
    const isUndo = metadata['compensates_effect_id'] !== undefined && task.type.side_effects.includes(COMPENSATE)
    if (isUndo ? !undoOf(catalog, type) : !isOwn || !catalog.effects.has(type))
      return wrong(`Step ${step_id} has the effect ${quote(type)}, which the contract does not allow.`)
  }
  if (!catalog.queues.includes(plan.queue)) return wrong(`No queue is called ${quote(plan.queue)}.`)
  const graph = validateGraph(
    plan.steps.map((step, sequence) => ({ id: step.step_id, sequence, dependsOn: step.depends_on })),
  )
  return graph.ok ? accept(plan) : wrong(graph.reason)
}

export type PlanTerms = Pick<PlanInput, 'policy' | 'isApproved'> & {
  readonly facts?: Facts | undefined
  /** Plans only undos of these effects. */
  readonly within?: ReadonlySet<unknown>
}

export type Planned = {
  readonly plan: ExecutionPlan
  /** The plan on the row, and its event. */
  readonly changes: readonly Change[]
  /** All of them `planned`, in the order of the steps. */
  readonly effects: readonly NewEffect[]
}

/** Plans a command with a valid payload. All effects are rows before the first one is called. */
export function planCommand(
  catalog: Catalog,
  task: CompiledTask,
  { command, effects }: CommandWithEffects,
  terms: PlanTerms,
  newId: () => string,
  tries?: EffectTries,
): Decision<Planned> {
  const drafted = draftEffects(task, command, terms.facts)
  if (!drafted.ok) return drafted
  const { within } = terms
  const drafts = drafted.value.filter(({ undoes }) => !within || within.has(undoes?.effect_id))
  const planned = createPlan({
    planId: newId(),
    commandId: command.command_id,
    requestedBy: command.requested_by,
    task,
    ...terms,
    drafts,
    effectIds: Array.from({ length: drafts.length + 1 }, () => newId()),
    catalog,
  })
  if (!planned.ok) return planned
  const { plan, effects: steps } = planned.value
  const rows: NewEffect[] = []
  for (const [index, { effect, effectId }] of steps.entries()) {
    const row = effectOf(catalog, { command, effects }, effect, { effectId, order: effects.length + index, tries })
    if (!row.ok) return row
    rows.push(row.value)
  }
  const { plan_id, execution_mode, queue } = plan
  const summary = { plan_id, execution_mode, queue, steps: plan.steps.length }
  const changes = [
    set({ plan, runtime_workflow_id: `command:${command.command_id}` }),
    emitEvent('plan_created', systemActor, summary),
  ]
  return accept({ plan, changes, effects: rows })
}

/** The effects of other commands that a plan undoes. */
export function undoneBy(plan: ExecutionPlan | null): ReadonlySet<unknown> {
  const undone = plan?.steps.map(({ metadata }) => metadata['compensates_effect_id'])
  return new Set(undone?.filter((id) => id !== undefined))
}

/** Plans another run: steps with a failed effect get a new one, the others keep theirs. */
export function replanCommand(
  catalog: Catalog,
  { command, effects }: CommandWithEffects,
  newId: () => string,
  tries?: EffectTries,
): Decision<readonly Change[]> {
  if (!command.plan) return refuse('commands.plan.invalid', 'There is no plan to run again.')
  const failed = new Map(
    effects.filter(({ status }) => status === 'failed').map((effect) => [effect.domain_effect_id, effect]),
  )
  const rows: Change[] = []
  const steps: PlanStep[] = []
  for (const step of command.plan.steps) {
    const old: StoredEffect | undefined = failed.get(String(step.metadata['domain_effect_id']))
    if (!old) {
      steps.push(step)
      continue
    }
    const effect = { effect_type: old.effect_type, payload: old.effect_payload }
    const next = { effectId: newId(), order: effects.length + rows.length, tries }
    const row = effectOf(catalog, { command, effects }, effect, next)
    if (!row.ok) return row
    rows.push(planEffect(row.value, systemActor))
    steps.push({ ...step, metadata: { ...step.metadata, domain_effect_id: row.value.domain_effect_id } })
  }
  return accept(rows.length > 0 ? [...rows, set({ plan: { ...command.plan, steps } })] : [])
}

/**
 * By key: the number of the next try of an effect whose key other commands have, or `taken` while one of them may still do it or has done it. Loaded
 * when the unique index has refused a key. Tries of one key are numbered without gaps, so of two commands that try next the index lets one.
 */
export type EffectTries = ReadonlyMap<string, number | 'taken'>

/** The key that the contract of the effect makes. Undefined: it makes none, so the key names the command. */
export function effectKeyOf(
  catalog: Pick<Catalog, 'effects'>,
  effect_type: string,
  payload: JsonObject,
): Decision<string | undefined> {
  const { keyTemplate, operation } = catalog.effects.get(effect_type) ?? {}
  const made = keyTemplate && renderKey(keyTemplate, payload)
  if (!made || (!made.ok && !operation?.idempotency_required)) return accept(undefined)
  return made
}

/** Another try is another effect: the provider must not take it for the one that is known to have failed or was undone. */
export const keyOfTry = (base: string, nth: number) => (nth === 1 ? base : `${base}:r${nth}`)

const isTryOf = (base: string, key: string) => key.startsWith(base) && /^(:r\d+)?$/.test(key.slice(base.length))

type NewRow = { readonly effectId: string; readonly order: number; readonly tries?: EffectTries | undefined }

function effectOf(
  catalog: Catalog,
  { command: { command_id, attempt }, effects }: CommandWithEffects,
  { effect_type, payload, undoes, inputs = [] }: EffectDraft,
  { effectId, order, tries }: NewRow,
): Decision<NewEffect> {
  if (undoes) return accept(newUndo(catalog, { ...undoes, effect_type, effect_payload: payload }, effectId, order))
  const compiled = catalog.effects.get(effect_type)
  if (!compiled) return refuse('commands.plan.invalid', `No effect is called ${effect_type}.`)
  const { definition, keyTemplate } = compiled
  const early = checkKeyFields(effect_type, keyTemplate, inputs)
  if (!early.ok) return early
  const made = effectKeyOf(catalog, effect_type, payload)
  if (!made.ok) return made
  const retry = compilePolicy(definition.operation, catalog.retries)
  if (!retry.ok) return retry
  const base = made.value ?? `effect:${command_id}:${order}`
  const own = effects.filter(({ idempotency_key: key }) => isTryOf(base, key ?? '')).length
  const nth = tries?.get(base) ?? (made.value === undefined ? attempt : own + 1)
  if (nth === 'taken' || tries?.get(keyOfTry(base, nth)) === 'taken')
    return refuse('commands.effect.key_taken', 'Another command already owns this idempotency key.')
  return accept(
    newEffect({
      domain_effect_id: effectId,
      effect_type,
      effect_payload: payload,
      idempotency_key: keyOfTry(base, nth),
      declared_compensation: definition.undo?.name ?? null,
      declaration_order: order,
      max_attempts: attemptsAllowed(retry.value.limit),
      reversibility: definition.reversibility,
    }),
  )
}

type Undo = Pick<NewEffect, 'effect_type' | 'effect_payload'> & {
  readonly effect_id: string
  /** 1 for the first undo of the effect. */
  readonly nth: number
}

/**
 * The effect that undoes another one. Every undo of an effect has the next number in its key, whichever command plans it. So of two plans that have read
 * the same undos the unique index of keys lets one, and the provider does not take this undo for an earlier one that is known to have failed.
 */
export function newUndo(
  catalog: Catalog,
  { effect_id, nth, ...undo }: Undo,
  effectId: string,
  order: number,
): NewEffect {
  return newEffect({
    ...undo,
    domain_effect_id: effectId,
    idempotency_key: nth === 1 ? `undo:${effect_id}` : `undo:${effect_id}:${nth}`,
    compensates_effect_id: effect_id,
    declaration_order: order,
    // The catalog may replace the retry policy of compensation.
    max_attempts: attemptsAllowed(retryOf(catalog, compensationPolicy.operation).limit),
  })
}

/** What an undo stores about the effect that it undoes. */
export function undoPayload(
  { effect_id, compensation }: Pick<UndoStep, 'effect_id' | 'compensation'>,
  of: string | null,
): JsonObject {
  return { effect_id, compensation, of }
}

export type NextEffect =
  | { readonly t: 'begin'; readonly effect: StoredEffect }
  | { readonly t: 'retry'; readonly effect: StoredEffect }
  | { readonly t: 'wait'; readonly effect: StoredEffect; readonly until: Date }
  | { readonly t: 'in_doubt'; readonly effect: StoredEffect }
  | { readonly t: 'failed'; readonly effect: StoredEffect }
  | { readonly t: 'finished'; readonly results: readonly unknown[] }
  /** Steps without a recorded or reachable effect. The command must not end. */
  | { readonly t: 'torn'; readonly steps: readonly string[] }

/** Executing effects come first, then the first effect whose predecessors have succeeded. */
export function nextEffect({ command: { plan }, effects }: CommandWithEffects, now: Date): NextEffect {
  if (!plan) return { t: 'torn', steps: ['the plan itself'] }
  const byId = new Map<unknown, StoredEffect>(effects.map((effect) => [effect.domain_effect_id, effect]))
  const steps = plan.steps
    .filter(({ metadata }) => metadata['domain_effect_id'] !== undefined)
    .map((step) => ({ ...step, effect: byId.get(step.metadata['domain_effect_id']) }))
  const planned = steps.flatMap(({ effect }) => effect ?? [])
  const failed = planned.find(({ status }) => status === 'failed')
  if (failed) return { t: 'failed', effect: failed }
  const open = new Set(steps.filter(({ effect }) => effect?.status !== 'succeeded').map(({ step_id }) => step_id))
  const ready = steps.find(
    ({ step_id, effect, depends_on }) => effect && open.has(step_id) && depends_on.every((id) => !open.has(id)),
  )
  const next = planned.find(({ status }) => status === 'executing') ?? ready?.effect
  if (next) return judgeOpen(next, now)
  if (open.size > 0) return { t: 'torn', steps: [...open] }
  const own = steps.filter(({ metadata }) => metadata['added'] !== true)
  return { t: 'finished', results: own.map(({ effect }) => effect?.result) }
}

export function judgeOpen(effect: StoredEffect, now: Date): Exclude<NextEffect, { t: 'failed' | 'finished' | 'torn' }> {
  if (effect.status === 'planned') return { t: 'begin', effect }
  if (effect.run_after === null || isWaiting(effect)) return { t: 'in_doubt', effect }
  return effect.run_after > now ? { t: 'wait', effect, until: effect.run_after } : { t: 'retry', effect }
}
