/** Requests to people: for missing input, for an approval, or for the outcome of an effect. Each request is recorded as an effect. Pure. */
import { type ApprovalRequest, type ApprovedContent, type Writers, writersAfter } from '#domains/approvals'
import { canonicalJson } from '#kernel/canonical-json'
import { encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import type { EnvelopeAnswer } from '#kernel/policy/envelope'
import { showQuoted } from '#kernel/visible-text'
import type { CompiledTask } from './catalog/open-catalog.ts'
import {
  type Change,
  move,
  newEffect,
  type NewEffect,
  planEffect,
  releaseTurn,
  systemActor,
  emitEvent,
  type Who,
} from './change.ts'
import type { CommandWithEffects, StoredCommand, StoredEffect } from './command-table.ts'
import { REQUEST_APPROVAL, REQUEST_INPUT } from './tasks.ts'
import { sayAgent } from './say-agent.ts'

/** This many different persons of the role, or the one named person. */
export type NeededApproval = { readonly approver: string; readonly count: number }

export type PolicyOutcome =
  | { readonly t: 'deny'; readonly reason: string }
  | { readonly t: 'input'; readonly fields: readonly string[] }
  | {
      readonly t: 'approval'
      readonly approvers: readonly NeededApproval[]
      readonly approvalType: string
      readonly reason: string
      /** The shortest time that a rule gives people; null: no rule does. */
      readonly expiresInMinutes: number | null
    }
  | { readonly t: 'delay'; readonly until: Date }
  | { readonly t: 'go' }

type AskInput = {
  readonly task: CompiledTask
  readonly command: Pick<
    StoredCommand,
    'command_id' | 'workspace_id' | 'requested_by' | 'context' | 'created_at' | 'agent_run_id'
  >
  readonly outcome: Extract<PolicyOutcome, { t: 'approval' }>
  readonly content: ApprovedContent
  readonly riskLevel: string
  readonly effects: readonly StoredEffect[]
}

export function planAsks({
  task,
  command,
  outcome,
  content,
  riskLevel,
  effects,
}: AskInput): readonly ApprovalRequest[] {
  const input = lastRequest(effects)?.result as InputRecord | null | undefined
  const writers = writersIn(effects, command.requested_by)
  const { approval, side_effects, description } = task.type
  const minutes = [approval.expires_in_minutes, outcome.expiresInMinutes].filter((each) => each !== null)
  const isByAgent = command.context.run_as === 'agent'
  return outcome.approvers.map(({ approver, count }) => ({
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    approvalType: outcome.approvalType,
    requestedBy: command.requested_by,
    requestedAt: command.created_at,
    approver,
    content,
    packet: {
      requestedAction: `${task.spec.name}: ${description}`,
      why: whyOf(outcome, command),
      affected: side_effects.length > 0 ? side_effects : ['nothing outside'],
      policy: task.policy.version,
      afterApproval: sayAfter(outcome.approvers),
    },
    riskLevel,
    approvalsRequired: count,
    // An agent has the key of its requester and would approve its own proposal.
    selfDecisionAllowed: approval.self_decision_allowed && !isByAgent,
    isByAgent,
    ...(minutes.length > 0 && { expiresInMinutes: Math.min(...minutes) }),
    writers,
    ...(input && Object.values(writers).includes(input.by) ? { edits: input } : {}),
  }))
}

function sayAfter(needed: readonly NeededApproval[]): string {
  if (needed.length === 1) return 'The command runs as shown.'
  const who = needed.map(({ approver }) => approver).join(', ')
  return `The command runs as shown when all of these have approved: ${who}. One person counts once, whatever roles they hold.`
}

/** Shows approvers the reason that the requester gave, and that an agent proposed this. */
function whyOf({ reason }: AskInput['outcome'], command: Pick<StoredCommand, 'context' | 'agent_run_id'>): string {
  const { context } = command
  const said = context.metadata['reason']
  const quoted = typeof said === 'string' ? `: "${showQuoted(said)}"` : undefined
  if (context.run_as !== 'agent') return quoted === undefined ? reason : `${reason} The requester says${quoted}`
  return `${reason} Proposed by ${sayAgent(command)}${quoted === undefined ? '.' : `, which says${quoted}`}`
}

/** Says what differs between two contents of one command. */
function sayDifference(before: ApprovedContent, after: ApprovedContent): string {
  const texts = ({ effects }: ApprovedContent) => effects.map((effect) => canonicalJson(effect))
  const [old, now] = [texts(before), texts(after)]
  const parts = [
    ...now.filter((text) => !old.includes(text)).map((text) => `it now does ${showQuoted(text)}`),
    ...old.filter((text) => !now.includes(text)).map((text) => `it no longer does ${showQuoted(text)}`),
    ...Object.keys({ ...before.arguments, ...after.arguments })
      .filter((name) => !isEqual(before.arguments[name], after.arguments[name]))
      .map((name) => `the argument ${name} is ${showQuoted(canonicalJson(after.arguments[name] ?? null))}`),
    ...(before.command_version === after.command_version
      ? []
      : [`the contract has version ${after.command_version} instead of ${before.command_version}`]),
    ...(before.policy_version === after.policy_version
      ? []
      : [`the policy is ${after.policy_version} instead of ${before.policy_version}`]),
  ]
  return parts.length > 0 ? parts.join('; ') : 'the order of its effects'
}

/** The same requests, with what has changed since people were asked about `before`. */
export function sayChanged(requests: readonly ApprovalRequest[], before: ApprovedContent): readonly ApprovalRequest[] {
  return requests.map((request) => {
    const { why, ...packet } = request.packet
    const changed = sayDifference(before, request.content)
    return {
      ...request,
      packet: { ...packet, why: `The plan has changed since people were asked: ${changed}. ${why}` },
    }
  })
}

/** The same requests, with why the envelope of the run does not cover the call. */
export function sayOutside(
  requests: readonly ApprovalRequest[],
  { envelope_id, deviations }: EnvelopeAnswer,
): readonly ApprovalRequest[] {
  const said = `It is outside of the envelope ${encodeId('command', envelope_id)}: ${deviations.join('; ')}.`
  return requests.map((request) => ({
    ...request,
    packet: { ...request.packet, why: `${request.packet.why} ${said}` },
  }))
}

export const isEqual = (left: JsonValue | undefined, right: JsonValue | undefined) =>
  canonicalJson(left ?? null) === canonicalJson(right ?? null)

/** With one approver the key is `approval:{command_id}`. Several approvers and later rounds have separate keys. */
function approvalKey(ask: ApprovalRequest, asks: number, round: number): string {
  const base =
    asks === 1 ? `approval:${ask.commandId}` : `approval:${ask.commandId}:${ask.approvalType}:${ask.approver ?? ''}`
  return round === 0 ? base : `${base}:${round + 1}`
}

function approvalEffectPayload({
  approvalType,
  commandId,
  approver = '',
  packet,
  riskLevel,
}: ApprovalRequest): JsonObject {
  const { requestedAction, why, affected, policy, afterApproval } = packet
  const words = {
    requested_action: requestedAction,
    why,
    affected,
    policy,
    after_approval: afterApproval,
    risk_level: riskLevel ?? 'low',
  }
  return { approval_type: approvalType, command_id: commandId, approver, approval_packet: words }
}

/** Asks a person for the outcome of an effect that cannot be looked up. */
export function reconcileAsk(
  command: Pick<StoredCommand, 'command_id' | 'workspace_id' | 'requested_by' | 'created_at'>,
  effect: StoredEffect,
  content: ApprovedContent,
  failure: { readonly message: string; readonly errorClass: string },
): ApprovalRequest {
  return {
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    approvalType: RECONCILE_EFFECT,
    requestedBy: command.requested_by,
    requestedAt: command.created_at,
    approver: 'role:operator',
    content,
    packet: {
      requestedAction: `Find out whether ${effect.effect_type} was done.`,
      why: `Attempt ${effect.attempt} ended without an answer: ${failure.message || 'no message'} (${failure.errorClass}).`,
      affected: [effect.effect_type, `key ${effect.idempotency_key ?? effect.domain_effect_id}`],
      policy: 'A person settles an unknown outcome; Concord does not guess and retry.',
      afterApproval:
        'Approved: it happened, and the command continues. Rejected: it did not happen, and the effect has failed.',
    },
    domainEffectId: effect.domain_effect_id,
  }
}

const RECONCILE_EFFECT = 'reconcile_effect'

const MINUTE_MS = 60_000

type InputRequest = {
  readonly fields: readonly string[]
  /** An approver asked for changes, so values that were given may be replaced. */
  readonly mayReplace?: true
  /** Who wrote the content that the approver saw. */
  readonly writers?: Writers
  readonly expiresInMinutes: number
  readonly id: string
  readonly at: Date
}

/** Makes the command wait for missing fields until a deadline. */
export function requestInput(
  { command, effects }: CommandWithEffects,
  { fields, expiresInMinutes, id, at, mayReplace: replaces, writers }: InputRequest,
  by: Who,
  why: Readonly<Record<string, unknown>>,
): { readonly changes: readonly Change[]; readonly expiresAt: Date } {
  const expiresAt = new Date(at.getTime() + expiresInMinutes * MINUTE_MS)
  const asked = effects.filter(({ effect_type }) => effect_type === REQUEST_INPUT).length
  const key = asked === 0 ? `input:${command.command_id}` : `input:${command.command_id}:${asked + 1}`
  const payload = {
    missing_fields: fields,
    expires_at: expiresAt.toISOString(),
    ...(replaces && { may_replace: true }),
    ...(writers && { writers }),
  }
  const changes = [
    move('waiting_for_input', by, why),
    planEffect(doneEffect(id, REQUEST_INPUT, payload, key, effects.length, at), systemActor),
    emitEvent('input_requested', systemActor, payload),
    releaseTurn(expiresAt),
  ]
  return { changes, expiresAt }
}

const lastRequest = (effects: readonly StoredEffect[]) =>
  effects.findLast(({ effect_type }) => effect_type === REQUEST_INPUT)

/** The result of a request for input: who supplied it, and which values are new. A person who is not the requester is then an author of the request. */
type InputRecord = { readonly by: string; readonly fields: readonly string[] }

/** Who wrote the arguments, after all input. A request after an approver asked for changes knows the edits before it. */
function writersIn(effects: readonly StoredEffect[], requestedBy: string): Writers {
  return effects
    .filter(({ effect_type }) => effect_type === REQUEST_INPUT)
    .reduce((before: Writers, { effect_payload, result }) => {
      const writers = (effect_payload['writers'] as Writers | undefined) ?? before
      return result === null ? writers : writersAfter(writers, requestedBy, result as InputRecord)
    }, {})
}

export function recordInput(effects: readonly StoredEffect[], by: Who, result: InputRecord): readonly Change[] {
  const id = lastRequest(effects)?.domain_effect_id
  return id === undefined ? [] : [{ t: 'effect', id, by, set: { result } }]
}

/** The fields that the command waits for. */
export function askedFields(effects: readonly StoredEffect[]): readonly string[] {
  const fields = lastRequest(effects)?.effect_payload['missing_fields']
  return Array.isArray(fields) ? fields.map(String) : []
}

/** The input that the command waits for may replace values that were given. */
export function mayReplace(effects: readonly StoredEffect[]): boolean {
  return lastRequest(effects)?.effect_payload['may_replace'] === true
}

/** When the wait for input ends. Null: no input was requested. */
export function inputDeadline(effects: readonly StoredEffect[]): Date | null {
  const text = lastRequest(effects)?.effect_payload['expires_at']
  return typeof text === 'string' ? new Date(text) : null
}

/** One effect per request, in the next round if there was an earlier one. */
export function requestEffects(
  requests: readonly ApprovalRequest[],
  effects: readonly StoredEffect[],
  at: Date,
  newId: () => string,
): readonly NewEffect[] {
  const earlier = effects
    .filter(({ effect_type }) => effect_type === REQUEST_APPROVAL)
    .map(({ effect_payload }) => Number(effect_payload['round'] ?? 0))
  const round = earlier.length === 0 ? 0 : Math.max(...earlier) + 1
  return requests.map((ask, index) => {
    const payload = { ...approvalEffectPayload(ask), round }
    const key = approvalKey(ask, requests.length, round)
    return doneEffect(newId(), REQUEST_APPROVAL, payload, key, effects.length + index, at)
  })
}

/** An effect that is done by the transaction that records it. */
function doneEffect(id: string, type: string, payload: JsonObject, key: string, order: number, at: Date): NewEffect {
  return newEffect({
    domain_effect_id: id,
    effect_type: type,
    effect_payload: payload,
    idempotency_key: key,
    declaration_order: order,
    status: 'succeeded',
    attempt: 1,
    completed_at: at,
  })
}
