/** Applies an answered approval to its command, in the transaction of the answer: the command moves and is resumed, or neither happens. */
import {
  approvalHash,
  type ApprovalOwner,
  type ApprovalRequest,
  type JoinedVote,
  readWith,
  type Resolution,
  type StoredApproval,
  writersOf,
} from '#domains/approvals'
import type { Actor } from '#kernel/actor'
import { checkSecrets } from '#kernel/data-class'
import { KernelFault } from '#kernel/errors'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { constraintOf, outcomeOf, type Tx } from '#store'
import { inProcessTurnName, type Taking } from '#turns'
import { endRun, fold, type Folded } from './advance.ts'
import {
  aboutEffect,
  applyChanges,
  applyWrite,
  systemActor,
  type Change,
  composeWrite,
  move,
  openDraft,
  set,
  stay,
  emitEvent,
  type Who,
  type Write,
} from './change.ts'
import { planAsks, requestInput, sayChanged } from './asks.ts'
import { contractKeyOf, moveKey, takeContractKey } from './command-keys.ts'
import {
  type CommandWithEffects,
  type HeldCommand,
  lockCommand,
  processOf,
  refuseMissing,
  versionedColumn,
  type VersionedCommand,
  versionedCommand,
} from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { gatherFacts } from './facts.ts'
import { askPolicy, highestRisk } from './intake.ts'
import { decidePolicyOutcome } from './policy-outcome.ts'
import { resumeCommandWith } from './change-command.ts'
import { passAfter, passBefore } from './drive.ts'
import {
  contentOf,
  draftEffects,
  findHandler,
  readBackOf,
  refuseTaskGone,
  taskOf,
  validatePayload,
  wakeOptionsOf,
} from './tasks.ts'
import { askBegin } from './may-begin.ts'
import { withPresentRights } from './requester.ts'
import { wakeDependents, type WriteResult } from './write-command.ts'

export function openApprovalOwner(deps: CommandDeps): ApprovalOwner {
  return {
    async lockCommand(tx, { workspace_id, command_id }) {
      const held = await lockCommand(tx, workspace_id, command_id)
      return held && { payloadHash: held.command.payload_hash, hashNow: hashNow(deps, held), held }
    },
    // `held` is what `lockCommand` returned.
    onResolved: (tx, resolution, locked) => onResolved(deps, tx, resolution, locked?.held as HeldCommand | undefined),
    revise: (tx, approval, edited, by) => revise(deps, tx, approval, edited, by),
    askAgain: (tx, approval) => askAgain(deps, tx, approval),
    atOnce: {
      read: readAnswerable,
      commandOf(owned) {
        const held = versionedCommand(owned)
        return { payloadHash: held.command.payload_hash, hashNow: hashNow(deps, held), held }
      },
      write: (resolution, { held }, vote) => answerAtOnce(deps, resolution, held as VersionedCommand, vote),
    },
  }
}

const readAnswerable = readWith(versionedColumn('t.command_id'))

/**
 * Writes the vote, the plan and the first effect in one statement, and makes the call in a turn of this process. Returns false, with nothing written, if
 * no turn is free, if the fold needs more than the rows, or if a row has changed since it was read.
 */
async function answerAtOnce(
  deps: CommandDeps,
  { approval, next, by }: Resolution,
  { version, ...found }: VersionedCommand,
  vote: JoinedVote,
): Promise<boolean> {
  const { command, hasParents } = found
  // The run that proposed it is woken, which takes a transaction.
  if (command.agent_run_id !== null) return false
  const changes = moveAtGate(deps, found, approval, next, by.id)
  if (changes.length === 0) return false
  const { queue } = wakeOptionsOf(deps.catalog, command)
  const turn = command.turn_token === null && queue !== undefined ? deps.turns?.offer(queue) : undefined
  if (!turn) return false
  try {
    const folded = foldAnswered(deps, found, changes, turn.token)
    const { draft, next: begun } = folded ?? {}
    const written =
      draft &&
      begun?.t === 'call' &&
      (await commitVoted(deps, askBegin(found, draft.write, begun), { version, vote }, turn))
    if (!written) {
      turn.release()
      return false
    }
    const effects = applyWrite(found.effects, draft.write)
    turn.start(command.command_id, { command: written.command, effects, hasParents, begun })
    // The commands are marked as due, so the reconciler finds them without a wake.
    await wakeDependents(deps, written.dependents).catch(() => {})
    return true
  } catch (error) {
    turn.release()
    throw error
  }
}

/** Undefined: a turn decides it. If the fold throws, the turn meets the same error and records it. */
function foldAnswered(
  { catalog, random, now, newId }: CommandDeps,
  found: HeldCommand,
  changes: readonly Change[],
  token: string,
): Folded | undefined {
  const at = now()
  const turn = { token, name: inProcessTurnName(processOf(found.command.command_id)) }
  // The statement that writes the fold casts the last vote, and every other approval of the command has agreed to its hash.
  const seen = { catalog, random, turn, hasParents: found.hasParents, approved: accept([]) }
  try {
    const folded = fold(applyChanges(openDraft(found, 'any', at), changes, at), seen, at, newId)
    const { next, draft } = folded
    const effect =
      next.t === 'call' && draft.now.effects.find(({ domain_effect_id }) => domain_effect_id === next.effectId)
    // If the answer to the write is lost, nothing can tell whether an opaque effect was called.
    return effect && findHandler(catalog, effect)?.class !== 'opaque' ? folded : undefined
  } catch {
    return undefined
  }
}

async function commitVoted(
  deps: CommandDeps,
  write: Write,
  joined: { readonly version: string; readonly vote: JoinedVote },
  takes: Taking,
): Promise<WriteResult | undefined> {
  await passBefore(write)
  try {
    const written = await deps.writes.commitVoted(write, joined, takes)
    if (!written.ok) return undefined
    await passAfter(write)
    return written.value
  } catch (error) {
    // Another command has the key of an effect, or Postgres has ended a deadlock: nothing was written.
    if (constraintOf(error) === 'idx_domain_effects_idem' || outcomeOf(error) === 'again') return undefined
    throw error
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
      : settleEffect(deps, found, approval, next, by.id)
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
      const writers = writersOf(approval)
      const request = { fields: [], expiresInMinutes, id: deps.newId(), at, mayReplace: true, writers } as const
      return requestInput(found, request, who, why).changes
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

/** An operator has decided whether the command continues without its requester. An effect in doubt is settled before the command ends. */
function settleGone(
  deps: CommandDeps,
  found: CommandWithEffects,
  { approval_id, decided_at, decision_reason: reason }: StoredApproval,
  next: 'run_command' | 'fail_command',
): readonly Change[] {
  const { command, effects } = found
  if (command.status !== 'blocked') return []
  const isInDoubt = effects.some((effect) => effect.status === 'executing' && readBackOf(effect).outcome !== 'not_done')
  if (next === 'run_command' || isInDoubt)
    return [move('queued', systemActor, { approval_id, reason }), set({ run_after: decided_at })]
  const error = `The requester may no longer act, and an operator ended it: ${reason ?? 'no reason given'}`
  return endRun(found, deps, error, deps.now())
}

/** A person has found out whether the effect happened. The command goes back to its queue and continues from there. */
function settleEffect(
  deps: CommandDeps,
  { command, effects }: CommandWithEffects,
  approval: StoredApproval,
  next: Resolution['next'],
  actor: string,
): readonly Change[] {
  if (next === 'run_command' || next === 'fail_command') return settleGone(deps, { command, effects }, approval, next)
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

/** An approver has edited the payload. Returns the requests to those who must consent now. */
async function revise(
  deps: CommandDeps,
  tx: Tx,
  approval: StoredApproval,
  edited: JsonObject,
  by: Actor,
): Promise<Decision<readonly ApprovalRequest[]>> {
  const found = await lockCommand(tx, approval.workspace_id, approval.command_id)
  if (!found) return refuseMissing()
  const revised = await decideAgain(deps, tx, found, edited, { id: by.id, kind: 'approver' })
  return revised.ok ? revised : { ...revised, path: revised.path ?? 'edits' }
}

/** What would run has changed since people were asked. Returns the requests to those who must consent now, with the difference. */
async function askAgain(
  deps: CommandDeps,
  tx: Tx,
  approval: StoredApproval,
): Promise<Decision<readonly ApprovalRequest[]>> {
  const found = await lockCommand(tx, approval.workspace_id, approval.command_id)
  if (!found) return refuseMissing()
  const asked = await decideAgain(deps, tx, found, found.command.payload, systemActor)
  if (!asked.ok) return refuse('commands.plan.changed', `The plan has changed and cannot be approved: ${asked.reason}`)
  return accept(sayChanged(asked.value, approval.request_payload))
}

/** The hash of what would run now. Undefined while people are not asked, or while the task is missing. A plan that cannot be made has no hash. */
function hashNow({ catalog }: CommandDeps, { command }: CommandWithEffects): string | undefined {
  const task = command.status === 'waiting_for_approval' ? taskOf(catalog, command) : undefined
  // A plan that depends on facts is compared when it is made, with the facts of that moment.
  if (!task || task.fn.reads_facts) return undefined
  const drafts = draftEffects(task, command)
  try {
    return drafts.ok ? approvalHash(contentOf(task, command.payload, drafts.value)) : ''
  } catch {
    // The function drafts something that is not JSON.
    return ''
  }
}

/** Validates a payload, plans it and evaluates the policy again, and stores it with its hash. */
async function decideAgain(
  deps: CommandDeps,
  tx: Tx,
  found: HeldCommand,
  payload: JsonObject,
  by: Who,
): Promise<Decision<readonly ApprovalRequest[]>> {
  const task = taskOf(deps.catalog, found.command)
  if (!task) return refuseTaskGone(found.command)
  const secrets = checkSecrets(payload, task.type.fields)
  if (!secrets.ok) return secrets
  const verdict = validatePayload(task.type, task.spec, payload)
  if (verdict.t !== 'fits') {
    const what = verdict.t === 'missing' ? `missing: ${verdict.fields.join(', ')}` : verdict.errors.join('; ')
    return refuse('commands.payload.malformed', `The payload is not valid: ${what}.`)
  }
  const key = contractKeyOf(task, verdict.payload, 'edits')
  if (!key.ok) return key
  const command = { ...found.command, payload: verdict.payload }
  const present = await withPresentRights(deps, command)
  const facts = await gatherFacts(deps, present, task.factNames)
  const drafts = draftEffects(task, command, facts)
  if (!drafts.ok) return drafts
  const content = contentOf(task, verdict.payload, drafts.value)
  const question = askPolicy(task, present, facts)
  const at = deps.now()
  const outcome = decidePolicyOutcome(task, question.result, true, at)
  if (outcome.t !== 'approval')
    return refuse('commands.payload.malformed', `Policy does not allow it: ${question.result.decision}.`)
  const changes = [
    stay,
    set({ payload: verdict.payload, payload_hash: approvalHash(content) }),
    ...moveKey(found.command, key.value, by, by.kind === 'approver' ? 'edited' : 'plan_changed'),
    emitEvent('policy_evaluated', systemActor, question.record),
  ]
  const write = (sub: Tx) => deps.writes.commitIn(sub, composeWrite(found, 'any', changes, at))
  const written = await takeContractKey(tx, task, { command, changes }, write)
  if (!written.ok) return written
  const riskLevel = highestRisk(deps.catalog, question, drafts.value)
  return accept(planAsks({ task, command, outcome, content, riskLevel, effects: found.effects }))
}
