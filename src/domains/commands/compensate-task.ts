/**
 * The shipped task Compensate Command: compensates a failed command as a governed command, so that an agent may propose it. It names only
 * the command; the effects to undo and their order come from the catalog and the rows, as for an operator.
 */
import { z } from 'zod'
import { planCompensation } from '#kernel/saga/compensation'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { Facts, PolicyAnswer, PolicyInput, PolicyRule } from '#kernel/policy/policy'
import { quote } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { defineCommandType, defineFunction, definePolicy, defineTask, type Definition } from './catalog/definitions.ts'
import { defineEffect, type EffectCall, EffectFailure, EffectPending } from './catalog/effect-definition.ts'
import { findCommand } from './command-table.ts'
import type { FactSources } from './facts.ts'
import { systemActor } from './change.ts'
import { compensateCommand } from './change-command.ts'
import type { CommandDeps } from './deps.ts'

export const COMPENSATE_COMMAND = 'Compensate Command'
const TYPE = 'compensate_command'
const EFFECT = 'command.compensate'

const payload = z.strictObject({
  command_id: z.string().refine((text) => decodeId('command', text).ok, 'the id of a command, cmd_…'),
})

function targetOf(asked: JsonObject): string {
  const { command_id: id } = asked
  const decoded = typeof id === 'string' ? decodeId('command', id) : undefined
  return decoded?.ok ? decoded.value : ''
}

/** The facts about the command to compensate. A command of another workspace is reported as not found. */
export const compensationFacts: FactSources = {
  compensation_target: async ({ db }, { workspace_id, payload: asked }) => {
    const found = await findCommand(db, workspace_id, targetOf(asked))
    if (!found) return null
    const { status, requested_by } = found.command
    return { status, requested_by, undoable: planCompensation(found.effects).steps.length }
  },
}

const deny = (reason: string): PolicyAnswer => ({ decision: 'deny', reasons: [reason] })
const factsOf = (value: unknown): Facts => (typeof value === 'object' && value !== null ? (value as Facts) : {})

/** Compensation needs an operator: an administrator's own request counts as one; for all other requests Concord asks one. */
function decideCompensation({ command, context }: PolicyInput): PolicyAnswer {
  const target = factsOf(context['facts'])['compensation_target']
  if (typeof target !== 'object' || target === null) return deny('There is no such command.')
  const { status, requested_by, undoable } = target as Facts
  const { role } = factsOf(context['metadata'])
  if (role !== 'admin' && requested_by !== command['requested_by'])
    return deny('Only the requester of a command and administrators may have it compensated.')
  if (status !== 'failed')
    return deny(`Only a failed command can be compensated; this one ${sayState(String(status))}.`)
  if (undoable === 0) return deny('None of its effects can be undone.')
  if (role === 'admin' && context['run_as'] === 'user') return { decision: 'allow' }
  return {
    decision: 'require_approval',
    reasons: [`${String(undoable)} effects of a failed command would be undone.`],
    required_approvals: ['operator'],
  }
}

const rule: PolicyRule = {
  name: 'compensation_scope',
  category: 'approval_requirement',
  actions: '*',
  decide: decideCompensation,
}

async function compensate(deps: CommandDeps, call: EffectCall): Promise<JsonObject> {
  const { workspaceId, payload: asked, traceId } = call
  const commandId = targetOf(asked)
  const found = await findCommand(deps.db, workspaceId, commandId)
  // A repeat after a crash: the compensation has begun or ended.
  if (found?.command.status === 'compensating') throw new EffectPending(commandId, 'compensated')
  if (found?.command.status === 'compensated')
    return { command_id: encodeId('command', commandId), status: 'compensated' }
  const lost = planCompensation(found?.effects ?? []).steps.find(
    ({ compensation: name }) => !deps.catalog.undos.has(name),
  )
  // Checked before the first effect is undone, not in the middle of the compensation.
  if (lost) throw new EffectFailure('validation_error', `no handler for ${quote(lost.compensation)}`, 'no')
  const reason = `requested by ${encodeId('command', call.commandId)}`
  const begun = await compensateCommand(deps, { ...systemActor, traceId }, { workspaceId, commandId, reason })
  if (!begun.ok) throw new EffectFailure('validation_error', begun.reason, 'no')
  throw new EffectPending(commandId, 'compensated')
}

/** `deps` is called at the first use, because the catalog is opened before the room. */
export function compensateDefinitions(deps: () => CommandDeps): readonly Definition[] {
  return [
    definePolicy(rule, { facts: ['compensation_target'] }),
    defineEffect({ effect_type: EFFECT, class: 'keyed', do: (call) => compensate(deps(), call) }),
    defineFunction({
      name: TYPE,
      plan: ({ command_id = null }) => [{ effect_type: EFFECT, payload: { command_id } }],
    }),
    defineCommandType({
      name: TYPE,
      description: 'Undoes the effects of a failed command, last first.',
      payload,
      side_effects: [EFFECT],
      error_classes: ['validation_error', 'policy_denied', 'approval_rejected', 'internal_error'],
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
      risk_level: 'medium',
      approval: { approver: 'role:operator' },
    }),
    defineTask({
      name: COMPENSATE_COMMAND,
      description: 'Undoes the effects of a failed command.',
      command_type: TYPE,
      function_name: TYPE,
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: ['command_id'],
      async_required: true,
      policy_checks: ['permission', rule.name],
      risk_level: 'medium',
      // After a compensation that stopped, a new command is submitted.
      max_attempts: 1,
    }),
  ]
}
