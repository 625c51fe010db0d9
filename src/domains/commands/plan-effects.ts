/** Writes a plan and its effects, all of them `planned`, before the first of them runs; a run after a failure keeps what succeeded. */
import { renderKey } from '#kernel/key-template'
import { compilePolicy } from '#kernel/retry-policy'
import { attemptsAllowed } from '#kernel/retry'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { CompiledTask } from './catalog/open-catalog.ts'
import type { EffectDraft } from './catalog/definitions.ts'
import type { CommandWithEffects, StoredEffect } from './command-row.ts'
import type { NewEffect, WriteDraft } from './draft-write.ts'
import { createPlan, type ExecutionPlan } from './plan.ts'
import type { PolicyResult } from '#kernel/policy/evaluate'
import { bySystem, type CommandDeps } from './deps.ts'

/** The effects a command's function asks for; a function that throws is a fault of that function alone. */
export function draftEffects(
  task: CompiledTask,
  { command }: Pick<CommandWithEffects, 'command'>,
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

export type PlanTerms = { readonly policy: Pick<PolicyResult, 'decision' | 'metadata'>; readonly isApproved: boolean }

export function planInto(
  draft: WriteDraft,
  deps: Pick<CommandDeps, 'newId' | 'catalog'>,
  task: CompiledTask,
  found: CommandWithEffects,
  terms: PlanTerms,
): Decision<{ readonly plan: ExecutionPlan; readonly effects: readonly NewEffect[] }> {
  const drafts = draftEffects(task, found)
  if (!drafts.ok) return drafts
  const planned = createPlan({
    planId: deps.newId(),
    commandId: found.command.command_id,
    requestedBy: found.command.requested_by,
    task,
    policy: terms.policy,
    isApproved: terms.isApproved,
    drafts: drafts.value,
    effectIds: Array.from({ length: drafts.value.length + 1 }, () => deps.newId()),
    catalog: deps.catalog,
  })
  if (!planned.ok) return planned
  const { plan, effects: steps } = planned.value
  draft.set({ plan, runtime_workflow_id: `command:${found.command.command_id}` })
  draft.tell('plan_created', bySystem, {
    plan_id: plan.plan_id,
    execution_mode: plan.execution_mode,
    queue: plan.queue,
    steps: plan.steps.length,
  })
  const rows: NewEffect[] = []
  for (const [index, { effect, effectId }] of steps.entries()) {
    const row = newEffect(deps, found, { effect, effectId, order: found.effects.length + index })
    if (!row.ok) return row
    rows.push(row.value)
    draft.plan(row.value, bySystem)
  }
  return accept({ plan, effects: rows })
}

type Place = { readonly effect: EffectDraft; readonly effectId: string; readonly order: number }

function newEffect(
  deps: Pick<CommandDeps, 'catalog'>,
  { command }: CommandWithEffects,
  { effect, effectId, order }: Place,
): Decision<NewEffect> {
  const compiled = deps.catalog.effects.get(effect.effect_type)
  if (!compiled) return refuse('commands.plan.invalid', `no effect is called ${effect.effect_type}`)
  const { definition, keyTemplate, operation } = compiled
  const made = keyTemplate && renderKey(keyTemplate, effect.payload)
  if (made && !made.ok && operation?.idempotency_required) return made
  const retry = compilePolicy(definition.operation, deps.catalog.retries)
  if (!retry.ok) return retry
  const base = made?.ok ? made.value : `effect:${command.command_id}:${order}`
  return accept({
    domain_effect_id: effectId,
    effect_type: effect.effect_type,
    effect_payload: effect.payload,
    // Another run is another deed: its provider must not take it for the one that is known to have failed.
    idempotency_key: command.attempt === 1 ? base : `${base}:r${command.attempt}`,
    status: 'planned',
    executed_by_runtime_workflow_id: null,
    result: null,
    compensates_effect_id: null,
    declared_compensation: definition.undo?.name ?? null,
    declaration_order: order,
    attempt: 0,
    max_attempts: attemptsAllowed(retry.value.limit),
    turn_token: null,
    reversibility: definition.reversibility,
    completed_at: null,
  })
}

/** Another run: steps whose effect is known to have failed get a new one; the others keep theirs, done or not. */
export function replanInto(
  draft: WriteDraft,
  deps: Pick<CommandDeps, 'newId' | 'catalog'>,
  found: CommandWithEffects,
): Decision<readonly NewEffect[]> {
  const { command, effects } = found
  if (!command.plan) return refuse('commands.plan.invalid', 'there is no plan to run again')
  const failed = new Map(
    effects.filter(({ status }) => status === 'failed').map((effect) => [effect.domain_effect_id, effect]),
  )
  const rows: NewEffect[] = []
  const steps = []
  for (const step of command.plan.steps) {
    const old: StoredEffect | undefined = failed.get(String(step.metadata['domain_effect_id']))
    if (!old) {
      steps.push(step)
      continue
    }
    const effect = { effect_type: old.effect_type, payload: old.effect_payload }
    const row = newEffect(deps, found, { effect, effectId: deps.newId(), order: effects.length + rows.length })
    if (!row.ok) return row
    rows.push(row.value)
    draft.plan(row.value, bySystem)
    steps.push({ ...step, metadata: { ...step.metadata, domain_effect_id: row.value.domain_effect_id } })
  }
  if (rows.length > 0) draft.set({ plan: { ...command.plan, steps } })
  return accept(rows)
}
