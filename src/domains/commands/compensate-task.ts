/**
 * Compensate Command, which every installation has: undoing a failed command as a governed command, so that an agent may propose it. It
 * names a command and nothing else: what is undone, how and in which order stands in the catalog and on the rows, as for an operator.
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

/** What the rule knows of the command that would be undone; one of another workspace does not exist. */
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

/** Undoing is an operator's decision: an administrator who asks in person is one, for everybody else one is asked. */
function decideCompensation({ command, context }: PolicyInput): PolicyAnswer {
  const target = factsOf(context['facts'])['compensation_target']
  if (typeof target !== 'object' || target === null) return deny('There is no such command.')
  const { status, requested_by, undoable } = target as Facts
  const { role } = factsOf(context['metadata'])
  if (role !== 'admin' && requested_by !== command['requested_by'])
    return deny('Only the requester of a command and administrators may have it undone.')
  if (status !== 'failed') return deny(`Only a failed command is undone; this one ${sayState(String(status))}.`)
  if (undoable === 0) return deny('Nothing that it did can be undone.')
  if (role === 'admin' && context['run_as'] === 'user') return { decision: 'allow' }
  return {
    decision: 'require_approval',
    reasons: [`${String(undoable)} deeds of a failed command would be undone.`],
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
  // A repeat after a crash: the walk has begun, or is over.
  if (found?.command.status === 'compensating') throw new EffectPending(commandId, 'compensated')
  if (found?.command.status === 'compensated')
    return { command_id: encodeId('command', commandId), status: 'compensated' }
  const lost = planCompensation(found?.effects ?? []).steps.find(
    ({ compensation: name }) => !deps.catalog.undos.has(name),
  )
  // Found out before the first deed is undone, not in the middle of the way.
  if (lost) throw new EffectFailure('validation_error', `no handler for ${quote(lost.compensation)}`, 'no')
  const reason = `asked for by ${encodeId('command', call.commandId)}`
  const begun = await compensateCommand(deps, { ...systemActor, traceId }, { workspaceId, commandId, reason })
  if (!begun.ok) throw new EffectFailure('validation_error', begun.reason, 'no')
  throw new EffectPending(commandId, 'compensated')
}

/** `world` is asked for at the first call: the catalog is there before the room is. */
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
      description: 'Undoes what a failed command had done, last deed first.',
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
      description: 'What a failed command had done, undone.',
      command_type: TYPE,
      function_name: TYPE,
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: ['command_id'],
      async_required: true,
      policy_checks: ['permission', rule.name],
      risk_level: 'medium',
      // A walk that halted is asked for anew, as another command: this one has waited for it in vain.
      max_attempts: 1,
    }),
  ]
}
