/** What this room does about an answered approval, in the transaction of the answer: the command moves and is woken, or neither. */
import type { ApprovalOwner, ApprovalRequest, Resolution, StoredApproval } from '#domains/approvals'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Tx } from '#store'
import type { CommandWithEffects } from './command-row.ts'
import { type HeldCase, lockCase, refuseMissing } from './command-repository.ts'
import { checkSecrets } from '#kernel/data-class'
import { contentHash, contentOf } from './content.ts'
import { askPolicy, decideCourse } from './decide-course.ts'
import { draftWrite, type Who, type WriteDraft } from './draft-write.ts'
import { gatherFacts } from './gather-facts.ts'
import { commitAndGoOn } from './go-on.ts'
import { draftEffects } from './plan-effects.ts'
import { planAsks } from './request-approval.ts'
import { requestInputInto } from './request-input.ts'
import { taskOf } from './task-of.ts'
import { validatePayload } from './validate-payload.ts'
import { refuseTaskGone } from './wait-for-task.ts'
import { bySystem, type CommandDeps } from './deps.ts'
import { commitWrite } from './write-lane.ts'

export function openApprovalOwner(deps: CommandDeps): ApprovalOwner {
  /** Locked by the transaction and as it was then: nobody else writes it until it ends, and we say when we have. */
  const locked = new WeakMap<Tx, HeldCase>()
  return {
    async lockCommand(tx, approval) {
      const found = await lockCase(tx, approval.workspace_id, approval.command_id)
      if (found) locked.set(tx, found)
      return found && { payloadHash: found.command.payload_hash }
    },
    async onResolved(tx, resolution) {
      const { workspace_id, command_id } = resolution.approval
      const known = locked.get(tx)
      locked.delete(tx)
      const found = known?.command.command_id === command_id ? known : await lockCase(tx, workspace_id, command_id)
      await onResolved(deps, tx, found, resolution)
    },
    revise(tx, approval, edited) {
      locked.delete(tx)
      return revise(deps, tx, approval, edited)
    },
  }
}

async function onResolved(
  deps: CommandDeps,
  tx: Tx,
  found: HeldCase | undefined,
  { approval, next, by }: Resolution,
): Promise<void> {
  if (!found)
    throw new KernelFault('commands.approval.orphan', 'an approval without its command', {
      approval_id: approval.approval_id,
    })
  const draft = draftWrite(found.command, 'any', { at: deps.now(), newId: deps.newId })
  const who: Who = { actor: by.actor, kind: by.actor === 'system' ? 'system' : 'approver' }
  const reason = approval.decision_reason ?? 'no reason given'
  const why = { approval_id: approval.approval_id, decided_by: by.actor, reason }
  if (approval.domain_effect_id !== null) settleEffect(draft, found, approval, next, by.actor)
  else moveAtGate(draft, deps, found, next, { who, why })
  if (draft.isEmpty) return
  const written = await commitAndGoOn(deps, tx, found, draft)
  // The row is locked: it cannot have moved, so this is a fault and takes the decision along.
  if (!written.ok) throw new KernelFault('commands.approval.lost', written.reason)
}

function moveAtGate(
  draft: WriteDraft,
  deps: CommandDeps,
  found: CommandWithEffects,
  next: Resolution['next'],
  {
    who,
    why,
  }: { who: Who; why: { readonly approval_id: string; readonly decided_by: string; readonly reason: string } },
): void {
  if (found.command.status !== 'waiting_for_approval') return
  const at = deps.now()
  switch (next) {
    case 'run_command':
      draft.move('approved', who, why).set({ run_after: at })
      return
    case 'fail_command':
    case 'fail_or_replan':
      draft.set({
        error: `rejected: ${why.reason}`,
        error_class: 'approval_rejected',
        run_after: null,
      })
      draft.move('failed', who, { ...why, error_class: 'approval_rejected' })
      return
    case 'ask_for_input': {
      const expiresInMinutes = taskOf({ deps, command: found.command })?.type.input_expires_in_minutes ?? 60
      draft.move('waiting_for_input', who, why)
      requestInputInto(draft, found, { fields: [], expiresInMinutes, id: deps.newId(), at })
      return
    }
    case 'expire_command':
      draft.move('expired', bySystem, why).set({ run_after: null })
      return
    case 'wait':
    case 'ask_again':
    case 'effect_happened':
    case 'effect_did_not_happen':
      return
  }
}

/** A person has looked: the deed was done, or it was not. The command goes back to its queue and from there on. */
function settleEffect(
  draft: WriteDraft,
  { command, effects }: CommandWithEffects,
  approval: StoredApproval,
  next: Resolution['next'],
  actor: string,
): void {
  const effect = effects.find(({ domain_effect_id }) => domain_effect_id === approval.domain_effect_id)
  if (effect?.status !== 'executing' || (next !== 'effect_happened' && next !== 'effect_did_not_happen')) return
  const by: Who = { actor, kind: 'operator' }
  const payload = { approval_id: approval.approval_id, reason: approval.decision_reason, reconciled: true }
  draft.tell('effect_reconciled', by, { ...payload, outcome: next }, { type: 'effect', id: effect.domain_effect_id })
  if (next === 'effect_happened')
    draft.moveEffect(
      effect,
      'succeeded',
      by,
      { result: { reconciled: true }, read_back: { outcome: 'done' } },
      { payload },
    )
  else draft.moveEffect(effect, 'failed', by, { read_back: { outcome: 'not_done' } }, { payload })
  if (command.status === 'blocked') draft.move('queued', bySystem, { reason: 'reconciled' })
  draft.set({ run_after: approval.decided_at ?? command.updated_at })
}

/** The approver's own version: validated, planned and put to policy again; whoever has to consent to it now is asked. */
async function revise(
  deps: CommandDeps,
  tx: Tx,
  approval: StoredApproval,
  edited: JsonObject,
): Promise<Decision<readonly ApprovalRequest[]>> {
  const found = await lockCase(tx, approval.workspace_id, approval.command_id)
  if (!found) return refuseMissing()
  const task = taskOf({ deps, command: found.command })
  if (!task) return refuseTaskGone(found.command)
  const secrets = checkSecrets(edited, task.type.fields)
  if (!secrets.ok) return secrets
  const verdict = validatePayload(task.type, task.spec, edited)
  if (verdict.t !== 'fits') {
    const what = verdict.t === 'missing' ? `missing: ${verdict.fields.join(', ')}` : verdict.errors.join('; ')
    return refuse('commands.payload.malformed', `the edited payload does not fit: ${what}`, { path: 'edits' })
  }
  const changed = { ...found.command, payload: verdict.payload }
  const drafts = draftEffects(task, { command: changed })
  if (!drafts.ok) return drafts
  const content = contentOf(task, verdict.payload, drafts.value)
  const question = askPolicy(task, changed, await gatherFacts(deps, changed, task.factNames))
  const course = decideCourse(task, question.result, { byOperation: true }, deps.now())
  if (course.t !== 'approval')
    return refuse(
      'commands.payload.malformed',
      `policy does not let the edited command through: ${question.result.decision}`,
      { path: 'edits' },
    )
  const draft = draftWrite(found.command, 'any', { at: deps.now(), newId: deps.newId }).stay()
  draft
    .set({ payload: verdict.payload, payload_hash: contentHash(content) })
    .tell('policy_evaluated', bySystem, question.record)
  const written = await commitWrite(tx, draft.done())
  if (!written.ok) return written
  return accept(
    planAsks({ task, command: changed, course, content, riskLevel: String(question.input.task['risk_level']) }),
  )
}
