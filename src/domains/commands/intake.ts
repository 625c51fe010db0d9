/** The first part of a command's life: validate the payload, ask policy, then refuse, wait for people, or plan. Pure. */
import { hash } from 'node:crypto'
import { approvalHash, type ApprovalRequest, editsOf, type StoredApproval } from '#domains/approvals'
import { listLostScope } from '#kernel/agents/authority'
import { canonicalJson } from '#kernel/canonical-json'
import type { NewId } from '#kernel/clock'
import { highestClass } from '#kernel/data-class'
import type { JsonValue } from '#kernel/json-value'
import type { CallToCover } from '#kernel/policy/envelope'
import { evaluatePolicy, type PolicyResult } from '#kernel/policy/evaluate'
import { higherRisk, type PolicyInput, type RiskLevel } from '#kernel/policy/policy'
import { planAsks, requestEffects, requestInput, sayChanged, sayOutside } from './asks.ts'
import type { EffectDraft } from './catalog/definitions.ts'
import type { Catalog, CompiledTask } from './catalog/open-catalog.ts'
import { isSyncTask } from './catalog/primitives.ts'
import {
  type Change,
  fail,
  move,
  need,
  proceed,
  planEffect,
  releaseTurn,
  rest,
  type Seen,
  set,
  type Step,
  systemActor,
  emitEvent,
  workerActor,
} from './change.ts'
import type { CommandWithEffects, StoredCommand } from './command-table.ts'
import { decideMode, planCommand, type PlanTerms } from './plan.ts'
import { decidePolicyOutcome } from './policy-outcome.ts'
import { contentOf, draftEffects, sayTaskGone, taskOf, validatePayload } from './tasks.ts'

/** Polling interval: a worker with another catalog may start at any time, and no event reports that the task is back. */
const TASK_AGAIN_MS = 30_000

export function validate(found: CommandWithEffects, seen: Seen, at: Date, newId: NewId): Step {
  const task = taskOf(seen.catalog, found.command)
  if (!task) return fail('internal_error', 'The task of this command is no longer registered.')
  const verdict = validatePayload(task.type, task.spec, found.command.payload)
  switch (verdict.t) {
    case 'malformed':
      return fail('malformed_payload', verdict.errors.join('; '))
    case 'missing':
      return askInput(found, task, verdict.fields, at, newId, [move('validated', systemActor)])
    case 'fits':
      return { changes: [set({ payload: verdict.payload }), move('validated', systemActor)], next: proceed }
  }
}

function askInput(
  found: CommandWithEffects,
  { type }: CompiledTask,
  fields: readonly string[],
  at: Date,
  newId: NewId,
  before: readonly Change[],
): Step {
  const request = { fields, expiresInMinutes: type.input_expires_in_minutes, id: newId(), at }
  const { changes, expiresAt } = requestInput(found, request, systemActor, { missing_fields: fields })
  return { changes: [...before, ...changes], next: { t: 'wait', until: expiresAt } }
}

/**
 * `validated`: policy decides whether to refuse, wait, ask people, or plan. `approved`: `gates` agreed to something else than what would run, so people
 * are asked again, with the difference.
 */
export function decide(
  found: CommandWithEffects,
  seen: Seen,
  at: Date,
  newId: NewId,
  gates?: readonly StoredApproval[],
): Step {
  const task = taskOf(seen.catalog, found.command)
  if (!task) return fail('internal_error', 'The task of this command is no longer registered.')
  if (!seen.facts) return need('facts')
  const drafts = draftEffects(task, found.command, seen.facts)
  const effects = drafts.ok ? drafts.value : []
  const content = contentOf(task, found.command.payload, effects)
  const command = { ...found.command, payload_hash: approvalHash(content) }
  const question = askPolicy(task, { ...command, context: seen.context ?? command.context }, seen.facts)
  const evaluated = emitEvent('policy_evaluated', systemActor, question.record)
  const asked = [
    ...(gates ? [move('waiting_for_approval', systemActor, { reason: 'plan_changed' })] : []),
    set({ payload: command.payload, payload_hash: command.payload_hash }),
    evaluated,
  ]
  const isOperationGated = effects.some(
    ({ effect_type }) => seen.catalog.effects.get(effect_type)?.operation?.approval_required,
  )
  const outcome = decidePolicyOutcome(task, question.result, isOperationGated || gates !== undefined, at)
  const freed = { policy: question.result, isApproved: false, facts: seen.facts }
  switch (outcome.t) {
    case 'deny':
      return fail('policy_denied', outcome.reason, ...asked)
    case 'input':
      return askInput(found, task, outcome.fields, at, newId, asked)
    case 'delay':
      return rest(outcome.until, ...(gates ? [evaluated] : asked))
    case 'approval': {
      const terms = { policy: question.result, isApproved: true, facts: seen.facts }
      const planned = planCommand(seen.catalog, task, { ...found, command }, terms, newId, seen.tries)
      // People are not asked about what cannot run. A key that another command has may be free by then.
      if (!planned.ok && planned.code !== 'commands.effect.key_taken' && !gates)
        return fail('validation_error', planned.reason, ...asked)
      const riskLevel = highestRisk(seen.catalog, question, effects)
      const { envelope } = seen
      const asks = planAsks({ task, command, outcome, content, riskLevel, effects: found.effects })
      if (envelope === undefined && mayBeCovered(command, outcome) && !gates) {
        const call = callToCover(task, command, question, effects)
        return { changes: [], next: { t: 'need', what: 'envelope', call, requests: asks } }
      }
      if (envelope?.deviations.length === 0) {
        const { envelope_id, approved_by, calls_max } = envelope
        const use = { envelope_id, approved_by, calls_max, task_name: task.spec.name }
        const covered = [...asked, emitEvent('envelope_used', systemActor, use)]
        return planAndQueue({ ...found, command }, seen, task, freed, newId, covered)
      }
      const first = envelope ? sayOutside(asks, envelope) : asks
      const requests = askAnew(first, gates)
      const approvers = outcome.approvers.map(({ approver }) => approver)
      const { reason } = outcome
      const changes = [
        ...asked,
        ...(gates ? [] : [move('waiting_for_approval', systemActor, { approvers, reason })]),
        ...requestEffects(requests, found.effects, at, newId).map((effect) => planEffect(effect, systemActor)),
        releaseTurn(null),
      ]
      return { changes, next: { t: 'ask', what: 'gates', requests } }
    }
    case 'go':
      return planAndQueue({ ...found, command }, seen, task, freed, newId, asked)
  }
}

/** An escalation is never covered, nor what a person proposed. */
function mayBeCovered({ agent_run_id }: StoredCommand, { approvalType }: { readonly approvalType: string }): boolean {
  return agent_run_id !== null && approvalType !== 'escalation'
}

function callToCover(
  task: CompiledTask,
  { payload }: StoredCommand,
  { input, result }: PolicyQuestion,
  effects: readonly EffectDraft[],
): CallToCover {
  return {
    task_name: task.spec.name,
    arguments: payload,
    is_untrusted: result.trace.some(
      ({ rule, answer }) => rule === 'untrusted_content' && answer === 'require_approval',
    ),
    effects: effects.map(({ effect_type }) => effect_type),
    risk_level: String(input.task['risk_level']),
    policy_version: task.policy.version,
    command_version: task.type.version,
  }
}

/** The person who edited the content stays its author. */
function askAnew(requests: readonly ApprovalRequest[], gates: readonly StoredApproval[] = []) {
  const gate = gates.find(({ request_payload }) => request_payload.edits) ?? gates[0]
  if (!gate) return requests
  return sayChanged(requests, gate.request_payload).map((request) => ({ ...request, ...editsOf(gate) }))
}

/** `approved`: runs exactly what was approved. The approvals must have the hash of the command, and so must the effects as drafted now. */
export function planApproved(found: CommandWithEffects, seen: Seen, at: Date, newId: NewId): Step {
  const { command } = found
  const task = taskOf(seen.catalog, command)
  if (!task) {
    const until = new Date(at.getTime() + TASK_AGAIN_MS)
    const { changes } = rest(until, set({ error: sayTaskGone(command) }))
    return { changes, next: { t: 'wait', until, isTaskGone: true } }
  }
  if (!seen.approved) return need('approved')
  if ((task.fn.reads_facts || command.agent_run_id !== null) && !seen.facts) return need('facts')
  const lost = listLostScope(seen.facts?.['agent_scope'])
  if (lost.length > 0) return fail('policy_denied', lost.join(' '), move('queued', systemActor))
  const drafts = draftEffects(task, command, seen.facts)
  const isSame = drafts.ok && approvalHash(contentOf(task, command.payload, drafts.value)) === command.payload_hash
  const cannotRun = (reason: string) => fail('validation_error', reason, move('queued', systemActor))
  if (!seen.approved.ok) return cannotRun(seen.approved.reason)
  if (!drafts.ok) return cannotRun(drafts.reason)
  if (!isSame) {
    const { t: verdict } = validatePayload(task.type, task.spec, command.payload)
    if (verdict !== 'fits') return cannotRun('The approved payload is no longer valid for its contract.')
    return decide(found, seen, at, newId, seen.approved.value)
  }
  const terms = { policy: { decision: 'allow' as const, metadata: {} }, isApproved: true, facts: seen.facts }
  // Clears the error of a command that had to wait for its task.
  return planAndQueue(found, seen, task, terms, newId, command.error === null ? [] : [set({ error: null })])
}

/** Effects that start agents and wait for their end. */
const AGENTIC = /^(?:agent|swarm)\.run/

function planAndQueue(
  found: CommandWithEffects,
  seen: Seen,
  task: CompiledTask,
  terms: PlanTerms,
  newId: NewId,
  before: readonly Change[],
): Step {
  const { command } = found
  const planned = planCommand(seen.catalog, task, found, terms, newId, seen.tries)
  // Nothing of the plan is kept. The machine allows `failed` after `approved` only through `queued`.
  const failed = (reason: string) =>
    fail('validation_error', reason, ...(terms.isApproved ? [move('queued', systemActor)] : []))
  if (!planned.ok) return failed(planned.reason)
  const { changes, effects } = planned.value
  // In the request itself nothing is queued and no runtime is involved. A policy can route a command to `sync`, but only a bounded effect
  // that is safe to repeat may be called before its row is written.
  const drafts = effects.map(({ effect_type, effect_payload }) => ({ effect_type, payload: effect_payload }))
  const isInline =
    planned.value.plan.execution_mode === 'sync' && decideMode(task, terms.isApproved, drafts, seen.catalog) === 'sync'
  if (!seen.turn && isInline) {
    const rows = effects.map((effect) => planEffect(effect, workerActor))
    const inline = [...before, ...changes, set({ runtime_workflow_id: null }), move('running', workerActor), ...rows]
    return { changes: inline, next: proceed }
  }
  const isFree = !seen.hasParents && !command.cancellation_requested && command.attempt === 1
  // An approved, quick command without dependencies need not be queued.
  const isQuick =
    terms.isApproved &&
    isFree &&
    isSyncTask(task.spec) &&
    effects.every(({ effect_type }) => seen.catalog.effects.get(effect_type)?.definition.bounded)
  // Nothing but the run of an agent is started: it has a queue of its own.
  const isAgentic = isFree && effects.length > 0 && effects.every(({ effect_type }) => AGENTIC.test(effect_type))
  const rows = effects.map((effect) => planEffect(effect, systemActor))
  return {
    changes: [...before, ...changes, ...rows, move(isQuick || isAgentic ? 'running' : 'queued', systemActor)],
    next: proceed,
  }
}

type PolicyQuestion = {
  readonly input: PolicyInput
  readonly result: PolicyResult
  /** The payload of the event. It holds the exact question, so the decision can be reproduced. */
  readonly record: Readonly<Record<string, unknown>>
}

export function riskOf({ spec, type }: CompiledTask, { context }: Pick<StoredCommand, 'context'>): RiskLevel {
  const declared = context.metadata['risk_level']
  return higherRisk(higherRisk(spec.risk_level, type.risk_level), typeof declared === 'string' ? declared : undefined)
}

export function askPolicy(
  task: CompiledTask,
  command: StoredCommand,
  facts: Readonly<Record<string, unknown>>,
): PolicyQuestion {
  const { spec, type } = task
  const { follower: _follower, ...context } = command.context
  // The fact `risk_level` can only raise it: an undo has at least the risk of what it undoes.
  const least = facts['risk_level']
  const risk = higherRisk(riskOf(task, command), typeof least === 'string' ? least : undefined)
  const input: PolicyInput = {
    action: type.name,
    command: {
      command_id: command.command_id,
      command_type: command.command_type,
      requested_by: command.requested_by,
      ingress: command.ingress,
      payload: command.payload,
      data_class: highestClass(command.payload, type.fields),
    },
    task: {
      name: spec.name,
      risk_level: risk,
      connector_requirements: spec.connector_requirements,
      notification_required: spec.notification_required,
      approval_required: spec.approval_required || type.approval.required,
      required_inputs: spec.required_inputs,
      metadata: spec.metadata,
    },
    context: { ...context, facts },
  }
  const result = evaluatePolicy(task.policy, input)
  // Everything in it comes from jsonb or from the catalog, so it is JSON.
  const text = canonicalJson(input as unknown as JsonValue)
  const { decision, reasons, required_approvals, metadata, trace, policy_version } = result
  return {
    input,
    result,
    record: {
      decision,
      reasons,
      required_approvals,
      metadata,
      trace,
      policy_version,
      policies: task.policyNames,
      input,
      input_hash: hash('sha256', text),
    },
  }
}

/** For the approval card: the risk that policy saw, or that of an effect if it is higher. */
export function highestRisk(
  { effects }: Pick<Catalog, 'effects'>,
  { input }: Pick<PolicyQuestion, 'input'>,
  drafts: readonly EffectDraft[],
): RiskLevel {
  return drafts.reduce(
    (risk, { effect_type }) => higherRisk(risk, effects.get(effect_type)?.definition.risk_level),
    higherRisk(String(input.task['risk_level']), undefined),
  )
}
