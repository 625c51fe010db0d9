/** The plan of a command: which steps, in which order, in which queue. Pure: equal inputs give equal plans. */
import type { JsonObject } from '#kernel/json-value'
import { validateGraph } from '#kernel/dag/graph'
import type { PolicyResult } from '#kernel/policy/evaluate'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import type { EffectDraft, ExecutionMode } from './catalog/definitions.ts'
import { isSyncTask, mapTaskToPrimitives, type Primitive, primitiveOf } from './catalog/primitives.ts'
import { executionModes } from './catalog/definitions.ts'
import { chooseQueue } from './choose-queue.ts'

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

/** A step that does something outside; its effect's row has the same place in the list. */
export type EffectStep = PlanStep & { readonly effect: EffectDraft; readonly effectId: string }

export type PlanInput = {
  readonly planId: string
  readonly commandId: string
  readonly requestedBy: string
  readonly task: CompiledTask
  readonly policy: Pick<PolicyResult, 'decision' | 'metadata'>
  /** A person has consented, so the plan tells of the gate it came through. */
  readonly isApproved: boolean
  readonly drafts: readonly EffectDraft[]
  /** Ids for the effects, one for each draft and one more for a notification. */
  readonly effectIds: readonly string[]
  readonly catalog: Pick<Catalog, 'effects' | 'queues'>
}

/** What a task with `notification_required` sends when its function drafts no notification itself. */
export const APP_NOTIFICATION = 'notification.app'

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
        effect_type: effect.effect_type,
        domain_effect_id: effectId,
        queue: chooseQueue(effect),
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
  const payload: JsonObject = { recipient: requestedBy, command_id: commandId, task_name: task.spec.name }
  return [...drafts, { effect_type: APP_NOTIFICATION, payload }]
}

/** A rule that routes says where: `queue` and `execution_mode` in its metadata. */
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
 * Sync only if it is fast, low in risk, bounded, one step, and needs no more retries than its caller makes; everything that
 * is slow, expensive, gated, durable or of several steps is async.
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

/** Also for plans that an agent proposed: only declared effects, only primitives of the task, known queues, no circle. */
export function validatePlan(
  plan: ExecutionPlan,
  task: Pick<CompiledTask, 'spec' | 'type'>,
  catalog: Pick<Catalog, 'effects' | 'queues'>,
): Decision<ExecutionPlan> {
  const wrong = (reason: string) => refuse('commands.plan.invalid', reason, { facts: { plan_id: plan.plan_id } })
  const allowed = new Set<string>([...mapTaskToPrimitives(task.spec), 'human_approval', 'async_task', 'sync_function'])
  for (const { primitive, metadata, step_id } of plan.steps) {
    if (!allowed.has(primitive)) return wrong(`step ${step_id} is a ${primitive}, which the task does not declare`)
    const type = metadata['effect_type']
    if (typeof type !== 'string') continue
    const isOwn = task.type.side_effects.includes(type) || type === APP_NOTIFICATION
    if (!isOwn || !catalog.effects.has(type))
      return wrong(`step ${step_id} would do ${quote(type)}, which the contract does not allow`)
  }
  if (!catalog.queues.includes(plan.queue)) return wrong(`no queue is called ${quote(plan.queue)}`)
  const graph = validateGraph(
    plan.steps.map((step, sequence) => ({ id: step.step_id, sequence, dependsOn: step.depends_on })),
  )
  return graph.ok ? accept(plan) : wrong(graph.reason)
}
