/**
 * The shipped task Undo Command: undoes the effects of a command that has succeeded, failed or was cancelled, as a governed command, so that an agent may propose it. It
 * names only the command; the effects and their order come from the rows and the catalog. A failed command compensates itself and ends `compensated`. A
 * command that succeeded or was cancelled keeps its status: the undos are effects of the Undo Command.
 */
import { z } from 'zod'
import { checkApproved } from '#domains/approvals'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { CommandState } from '#kernel/machines/command'
import type { Facts, PolicyAnswer, PolicyInput, PolicyRule } from '#kernel/policy/policy'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { planCompensation } from '#kernel/saga/compensation'
import { sayState } from '#kernel/say-state'
import {
  defineCommandType,
  defineFunction,
  definePolicy,
  defineTask,
  type Definition,
  type EffectDraft,
} from './catalog/definitions.ts'
import { defineEffect, type EffectCall, EffectFailure, EffectPending } from './catalog/effect-definition.ts'
import {
  type CommandWithEffects,
  findCommand,
  type ForeignUndo,
  listForeignUndos,
  type StoredCommand,
} from './command-table.ts'
import type { FactSources } from './facts.ts'
import { systemActor } from './change.ts'
import { compensateCommand } from './change-command.ts'
import type { CommandDeps } from './deps.ts'
import { riskOf } from './intake.ts'
import { COMPENSATE, undoPayload } from './plan.ts'
import { taskOf, undoTypeOf } from './tasks.ts'
import { asEffect, type KeptWhy, planUndo, undoneIdOf, UNDO_TYPE } from './undo-plan.ts'

export const UNDO_COMMAND = 'Undo Command'
/** One undo of a command at a time: the unique index of keys decides. */
const KEY_TEMPLATE = 'undo:{command_id}'
export const undoKeyOf = (commandId: string) => KEY_TEMPLATE.replace('{command_id}', encodeId('command', commandId))

/** An id has several spellings. The stored one makes the key, so that one command has one undo. */
function spellId(text: string): string {
  const id = decodeId('command', text)
  return id.ok ? encodeId('command', id.value) : text
}

const payload = z.strictObject({
  command_id: z
    .string()
    .refine((text) => decodeId('command', text).ok, 'the id of a command, cmd_…')
    .overwrite(spellId),
})

/** What an undo of the command would do now. JSON: it is recorded with the decision. */
export type UndoTarget = {
  readonly command_id: string
  readonly command_type: string
  readonly status: CommandState
  readonly requested_by: string
  readonly cancellation_requested: boolean
  /** Those who approved it; they approve its undo too. */
  readonly approvers: readonly { readonly role: string; readonly count: number }[]
  /** Last effect first. `nth`: the number of the undo among all undos of the effect. */
  readonly steps: readonly {
    readonly effect_id: string
    readonly effect_type: string
    readonly compensation: string
    readonly nth: number
  }[]
  readonly kept: readonly { readonly effect_id: string; readonly effect_type: string; readonly why: KeptWhy }[]
  /** Undos that the catalog of this process does not have. */
  readonly unknown: readonly string[]
}

type TargetDeps = Pick<CommandDeps, 'db' | 'now' | 'catalog'>

/** `undoId` is the Undo Command that asks: what an earlier run of it had planned is planned anew. Undefined: there is no such command in the workspace. */
export async function findUndoTarget(
  deps: TargetDeps,
  workspaceId: string,
  commandId: string,
  undoId?: string,
): Promise<UndoTarget | undefined> {
  const { db, catalog, now } = deps
  const found = await findCommand(db, workspaceId, commandId)
  if (!found) return undefined
  const foreign = await db.run(listForeignUndos, [workspaceId, [commandId]])
  const { command_id, command_type, status, requested_by, cancellation_requested, payload_hash } = found.command
  const approved = await checkApproved(db, { workspaceId, commandId, payloadHash: payload_hash })
  const { steps, kept } = planUndo(
    [...found.effects, ...foreign.filter((undo) => isInTheWay(undo, undoId)).map(asEffect)],
    catalog,
    now(),
  )
  const typeOf = (id: string) =>
    found.effects.find(({ domain_effect_id }) => domain_effect_id === id)?.effect_type ?? ''
  const before = (id: string) => countUndos(found, id) + foreign.filter(({ effect_id }) => effect_id === id).length
  const isOpen = ({ effect_id, begun_as }: (typeof steps)[number]) =>
    begun_as !== null && !found.effects.some((own) => own.compensates_effect_id === effect_id)
  return {
    command_id,
    command_type,
    status,
    requested_by,
    cancellation_requested,
    approvers: approved.ok
      ? approved.value.map(({ approver, approvals_required }) => ({ role: approver, count: approvals_required }))
      : [],
    steps: steps
      .filter((step) => !isOpen(step))
      .map(({ effect_id, compensation }) => ({
        effect_id,
        effect_type: typeOf(effect_id),
        compensation,
        nth: before(effect_id) + 1,
      })),
    kept: [
      ...steps.filter(isOpen).map(({ effect_id }) => ({ effect_id, why: 'in_doubt' as const })),
      ...kept.map(({ effect, why }) => ({ effect_id: effect.domain_effect_id, why })),
    ].map((each) => ({ ...each, effect_type: typeOf(each.effect_id) })),
    unknown: steps.map(({ compensation }) => compensation).filter((name) => !catalog.undos.has(name)),
  }
}

const countUndos = ({ effects }: CommandWithEffects, id: string) =>
  effects.filter(({ compensates_effect_id }) => compensates_effect_id === id).length

/** An undo that has ended without success, or that its command can no longer begin, is not in the way. */
function isInTheWay({ command_id, status, is_open }: ForeignUndo, undoId: string | undefined): boolean {
  return status !== 'failed' && (status !== 'planned' || (is_open && command_id !== undoId))
}

/** Whether the command can be undone, and what to do if not. */
export function judgeUndo(target: UndoTarget | undefined): Decision<UndoTarget> {
  if (!target) return refuse('commands.command.not_found', 'There is no such command.')
  const { status, command_type } = target
  const facts = { status }
  if (command_type === UNDO_TYPE) return refuse('commands.undo.of_undo', 'An undo cannot be undone.', { facts })
  if (status !== 'succeeded' && status !== 'failed' && status !== 'cancelled')
    return refuse(
      'commands.undo.not_ended',
      `Only a command that has succeeded, failed or was cancelled can be undone; this one ${sayState(status)}.`,
      { facts },
    )
  if (target.cancellation_requested && status === 'failed')
    return refuse('commands.undo.cancelling', 'Its cancel was requested and undoes its effects.', { facts })
  if (target.steps.length === 0)
    return refuse('commands.undo.nothing_left', 'None of its effects can be undone.', { facts })
  const [lost] = target.unknown
  // Checked before the first effect is undone, not in the middle.
  if (lost !== undefined)
    return refuse('commands.undo.unknown_undo', `The catalog has no undo ${quote(lost)}.`, { facts })
  return accept(target)
}

/**
 * The command that an Undo Command names. An agent with a key of its own undoes only what it proposed: the facts are recorded with the decision, and it may
 * read its own record.
 */
async function findNamed(
  { db }: Pick<CommandDeps, 'db'>,
  undo: StoredCommand,
): Promise<CommandWithEffects | undefined> {
  const found = await findCommand(db, undo.workspace_id, undoneIdOf(undo.payload))
  const { agent } = undo.context
  const isOwn = found?.command.requested_by === undo.requested_by && found.command.context.agent === agent
  return agent === undefined || isOwn ? found : undefined
}

/** The facts about the command to undo. A command of another workspace is reported as not found. */
export const undoFacts: FactSources = {
  undo_target: async (deps, undo) => {
    const named = await findNamed(deps, undo)
    if (!named) return null
    return (await findUndoTarget(deps, undo.workspace_id, named.command.command_id, undo.command_id)) ?? null
  },
  risk_level: async ({ db, catalog }, undo) => {
    const found = await findNamed({ db }, undo)
    const task = found && taskOf(catalog, found.command)
    return task ? riskOf(task, found.command) : null
  },
}

// Only `undoFacts` makes this fact.
const targetIn = (facts: Facts) => (facts['undo_target'] ?? undefined) as UndoTarget | undefined
const factsOf = (value: unknown): Facts => (typeof value === 'object' && value !== null ? (value as Facts) : {})
const deny = (reason: string): PolicyAnswer => ({ decision: 'deny', reasons: [reason] })

/**
 * Those who approved a command that succeeded or was cancelled approve its undo. Otherwise an operator does; an administrator's own request counts as one.
 * An undo that follows from a decision of Concord needs nobody: only Concord itself has the ingress `system_event`.
 */
function decideUndo({ command, context }: PolicyInput): PolicyAnswer {
  const judged = judgeUndo(targetIn(factsOf(context['facts'])))
  if (judged.ok && command['ingress'] === 'system_event') return { decision: 'allow' }
  const { role } = factsOf(context['metadata'])
  const isOwn = judged.ok && judged.value.requested_by === command['requested_by']
  if (judged.ok && role !== 'admin' && !isOwn)
    return deny('Only the requester of a command and administrators may have it undone.')
  if (!judged.ok) return deny(judged.reason)
  const { steps, kept, status, approvers } = judged.value
  const again = status === 'failed' ? [] : approvers
  if (again.length === 0 && role === 'admin' && context['run_as'] === 'user') return { decision: 'allow' }
  const stays = kept.length === 0 ? '' : ` It keeps ${kept.map(({ effect_type }) => effect_type).join(', ')}.`
  return {
    decision: 'require_approval',
    reasons: [`It undoes ${steps.map(({ effect_type }) => effect_type).join(', ')}.${stays}`],
    required_approvals: again.length > 0 ? [...again] : ['operator'],
  }
}

const rule: PolicyRule = {
  name: 'undo_scope',
  category: 'approval_requirement',
  actions: '*',
  decide: decideUndo,
}

function planOf(asked: JsonObject, facts: Facts): readonly EffectDraft[] {
  const target = targetIn(facts)
  if (target?.status !== 'succeeded' && target?.status !== 'cancelled')
    return [{ effect_type: COMPENSATE, payload: { command_id: asked['command_id'] ?? null } }]
  return target.steps.map(({ effect_id, effect_type, compensation, nth }) => ({
    effect_type: undoTypeOf(compensation),
    payload: undoPayload({ effect_id, compensation }, effect_type),
    undoes: { effect_id, nth },
  }))
}

async function compensate(deps: CommandDeps, call: EffectCall): Promise<JsonObject> {
  const { workspaceId, payload: asked, traceId } = call
  const commandId = undoneIdOf(asked)
  const found = await findCommand(deps.db, workspaceId, commandId)
  // A repeat after a crash: the compensation has begun or ended.
  if (found?.command.status === 'compensating') throw new EffectPending(commandId, 'compensated')
  if (found?.command.status === 'compensated')
    return { command_id: encodeId('command', commandId), status: 'compensated' }
  const lost = planCompensation(found?.effects ?? []).steps.find(
    ({ compensation: name }) => !deps.catalog.undos.has(name),
  )
  // The catalog may have changed since the request was judged.
  if (lost) throw new EffectFailure('validation_error', `no handler for ${quote(lost.compensation)}`, 'no')
  const reason = `requested by ${encodeId('command', call.commandId)}`
  const begun = await compensateCommand(deps, { ...systemActor, traceId }, { workspaceId, commandId, reason })
  if (!begun.ok) throw new EffectFailure('validation_error', begun.reason, 'no')
  throw new EffectPending(commandId, 'compensated')
}

/** `deps` is called at the first use, because the catalog is opened before the room. */
export function undoDefinitions(deps: () => CommandDeps): readonly Definition[] {
  return [
    definePolicy(rule, { facts: Object.keys(undoFacts) }),
    defineEffect({ effect_type: COMPENSATE, class: 'keyed', outward: false, do: (call) => compensate(deps(), call) }),
    defineFunction({
      name: UNDO_TYPE,
      reads_facts: true,
      plan: (asked, { facts }) => planOf(asked, facts),
      result: (results) => ({ undone: results.length }),
    }),
    defineCommandType({
      name: UNDO_TYPE,
      description: 'Undoes the effects of a command, last first.',
      payload,
      side_effects: [COMPENSATE],
      error_classes: ['validation_error', 'policy_denied', 'approval_rejected', 'internal_error'],
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
      risk_level: 'medium',
      approval: { approver: 'role:operator' },
      idempotency: { required: false, key_template: KEY_TEMPLATE },
    }),
    defineTask({
      name: UNDO_COMMAND,
      description: 'Undoes the effects of a command that has succeeded, failed or was cancelled.',
      command_type: UNDO_TYPE,
      function_name: UNDO_TYPE,
      ingress_types: ['user_request', 'agent_action', 'system_event'],
      required_inputs: ['command_id'],
      async_required: true,
      policy_checks: ['permission', rule.name],
      risk_level: 'medium',
      // Each run undoes what is left.
      max_attempts: 100,
    }),
  ]
}
