/** Applies an answered approval to its command, in the transaction of the answer: the command moves and is resumed, or neither happens. */
import {
  approvalHash,
  type ApprovalOwner,
  type ApprovalRequest,
  type Resolution,
  type StoredApproval,
} from '#domains/approvals'
import { checkSecrets } from '#kernel/data-class'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import { aboutEffect, systemActor, type Change, composeWrite, move, set, stay, emitEvent, type Who } from './change.ts'
import { planAsks, requestInput } from './asks.ts'
import { type CommandWithEffects, type HeldCommand, lockCommand, refuseMissing } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { gatherFacts } from './facts.ts'
import { askPolicy, decidePolicyOutcome } from './intake.ts'
import { resumeCommandWith } from './change-command.ts'
import { contentOf, draftEffects, refuseTaskGone, taskOf, validatePayload } from './tasks.ts'

export function openApprovalOwner(deps: CommandDeps): ApprovalOwner {
  return {
    async lockCommand(tx, { workspace_id, command_id }) {
      const held = await lockCommand(tx, workspace_id, command_id)
      return held && { payloadHash: held.command.payload_hash, held }
    },
    // `held` is what `lockCommand` returned.
    onResolved: (tx, resolution, locked) => onResolved(deps, tx, resolution, locked?.held as HeldCommand | undefined),
    revise: (tx, approval, edited) => revise(deps, tx, approval, edited),
  }
}

async function onResolved(
  deps: CommandDeps,
  tx: Tx,
  { approval, next, by }: Resolution,
  held: HeldCommand | undefined,
): Promise<void> {
  const found = held ?? (await lockCommand(tx, approval.workspace_id, approval.command_id))
  if (!found)
    throw new KernelFault('commands.approval.orphan', 'an approval without its command', {
      approval_id: approval.approval_id,
    })
  const changes =
    approval.domain_effect_id === null
      ? moveAtGate(deps, found, approval, next, by.id)
      : settleEffect(found, approval, next, by.id)
  if (changes.length === 0) return
  const written = await resumeCommandWith(deps, tx, found, changes)
  // The row is locked and cannot have moved, so this is a fault. It rolls back the decision as well.
  if (!written.ok) throw new KernelFault('commands.approval.lost', written.reason)
}

function moveAtGate(
  deps: CommandDeps,
  found: CommandWithEffects,
  approval: StoredApproval,
  next: Resolution['next'],
  actor: string,
): readonly Change[] {
  if (found.command.status !== 'waiting_for_approval') return []
  const at = deps.now()
  const who: Who = { id: actor, kind: actor === 'system' ? 'system' : 'approver' }
  const reason = approval.decision_reason ?? 'no reason given'
  const why = { approval_id: approval.approval_id, decided_by: actor, reason }
  switch (next) {
    case 'run_command':
      return [move('approved', who, why), set({ run_after: at })]
    case 'fail_command':
    case 'fail_or_replan': {
      const error_class = 'approval_rejected'
      return [
        set({ error: `rejected: ${reason}`, error_class, run_after: null }),
        move('failed', who, { ...why, error_class }),
      ]
    }
    case 'ask_for_input': {
      const expiresInMinutes = taskOf(deps.catalog, found.command)?.type.input_expires_in_minutes ?? 60
      return requestInput(found, { fields: [], expiresInMinutes, id: deps.newId(), at }, who, why).changes
    }
    case 'expire_command':
      return [move('expired', systemActor, why), set({ run_after: null })]
    case 'wait':
    case 'ask_again':
    case 'effect_happened':
    case 'effect_did_not_happen':
      return []
  }
}

/** A person has found out whether the effect happened. The command goes back to its queue and continues from there. */
function settleEffect(
  { command, effects }: CommandWithEffects,
  approval: StoredApproval,
  next: Resolution['next'],
  actor: string,
): readonly Change[] {
  const effect = effects.find(({ domain_effect_id }) => domain_effect_id === approval.domain_effect_id)
  if (effect?.status !== 'executing' || (next !== 'effect_happened' && next !== 'effect_did_not_happen')) return []
  const by: Who = { id: actor, kind: 'operator' }
  const payload = { approval_id: approval.approval_id, reason: approval.decision_reason, reconciled: true }
  const settled = { t: 'effect', id: effect.domain_effect_id, by, payload } as const
  return [
    emitEvent('effect_reconciled', by, { ...payload, outcome: next }, aboutEffect(effect)),
    next === 'effect_happened'
      ? { ...settled, to: 'succeeded', set: { result: { reconciled: true }, read_back: { outcome: 'done' } } }
      : { ...settled, to: 'failed', set: { read_back: { outcome: 'not_done' } } },
    ...(command.status === 'blocked' ? [move('queued', systemActor, { reason: 'reconciled' })] : []),
    set({ run_after: approval.decided_at ?? command.updated_at }),
  ]
}

/** Validates the approver's edited payload, plans it and evaluates the policy again. Returns the requests to those who must consent now. */
async function revise(
  deps: CommandDeps,
  tx: Tx,
  approval: StoredApproval,
  edited: JsonObject,
): Promise<Decision<readonly ApprovalRequest[]>> {
  const found = await lockCommand(tx, approval.workspace_id, approval.command_id)
  if (!found) return refuseMissing()
  const task = taskOf(deps.catalog, found.command)
  if (!task) return refuseTaskGone(found.command)
  const secrets = checkSecrets(edited, task.type.fields)
  if (!secrets.ok) return secrets
  const verdict = validatePayload(task.type, task.spec, edited)
  if (verdict.t !== 'fits') {
    const what = verdict.t === 'missing' ? `missing: ${verdict.fields.join(', ')}` : verdict.errors.join('; ')
    return refuse('commands.payload.malformed', `The edited payload is not valid: ${what}.`, { path: 'edits' })
  }
  const command = { ...found.command, payload: verdict.payload }
  const drafts = draftEffects(task, command)
  if (!drafts.ok) return drafts
  const content = contentOf(task, verdict.payload, drafts.value)
  const question = askPolicy(task, command, await gatherFacts(deps, command, task.factNames))
  const at = deps.now()
  const outcome = decidePolicyOutcome(task, question.result, true, at)
  if (outcome.t !== 'approval')
    return refuse(
      'commands.payload.malformed',
      `Policy does not allow the edited command: ${question.result.decision}.`,
      { path: 'edits' },
    )
  const changes = [
    stay,
    set({ payload: verdict.payload, payload_hash: approvalHash(content) }),
    emitEvent('policy_evaluated', systemActor, question.record),
  ]
  const written = await deps.writes.commitIn(tx, composeWrite(found, 'any', changes, at))
  if (!written.ok) return written
  return accept(planAsks({ task, command, outcome, content, riskLevel: String(question.input.task['risk_level']) }))
}
