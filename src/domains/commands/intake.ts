/** From the record of a request to its plan: validate, ask policy, then wait for people, refuse, or plan. Pure. */
import type { NewId } from '#kernel/clock'
import { bySystem, byWorker, type Change, move, plan, release, set, tell } from './change.ts'
import { planAsks, requestEffects, requestInput } from './asks.ts'
import type { CompiledTask } from './catalog/open-catalog.ts'
import { isSyncTask } from './catalog/primitives.ts'
import type { CommandWithEffects } from './command-table.ts'
import { decideMode, planCommand, type PlanTerms } from './plan.ts'
import { askPolicy, decidePolicyOutcome } from './policy.ts'
import { again, fail, need, rest, type Seen, type Step } from './step.ts'
import { contentHash, contentOf, draftEffects, sayTaskGone, taskOf, validatePayload } from './tasks.ts'

/** A worker with another catalog may start at any time, and nothing reports that the task is back. */
const TASK_AGAIN_MS = 30_000

export function validate(found: CommandWithEffects, seen: Seen, at: Date, newId: NewId): Step {
  const task = taskOf(seen.catalog, found.command)
  if (!task) return fail('internal_error', 'the task of this command is no longer registered')
  const verdict = validatePayload(task.type, task.spec, found.command.payload)
  switch (verdict.t) {
    case 'malformed':
      return fail('malformed_payload', verdict.errors.join('; '))
    case 'missing':
      return askInput(found, task, verdict.fields, at, newId, [move('validated', bySystem)])
    case 'fits':
      return { changes: [set({ payload: verdict.payload }), move('validated', bySystem)], next: again }
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
  const { changes, expiresAt } = requestInput(found, request, bySystem, { missing_fields: fields })
  return { changes: [...before, ...changes], next: { t: 'wait', until: expiresAt } }
}

/** `validated`: policy decides to refuse, wait, ask people, or plan. */
export function decide(found: CommandWithEffects, seen: Seen, at: Date, newId: NewId): Step {
  const task = taskOf(seen.catalog, found.command)
  if (!task) return fail('internal_error', 'the task of this command is no longer registered')
  if (!seen.facts) return need('facts')
  const drafts = draftEffects(task, found.command)
  const effects = drafts.ok ? drafts.value : []
  const content = contentOf(task, found.command.payload, effects)
  const command = { ...found.command, payload_hash: contentHash(content) }
  const question = askPolicy(task, command, seen.facts)
  const asked = [
    set({ payload: command.payload, payload_hash: command.payload_hash }),
    tell('policy_evaluated', bySystem, question.record),
  ]
  const byOperation = effects.some(
    ({ effect_type }) => seen.catalog.effects.get(effect_type)?.operation?.approval_required,
  )
  const outcome = decidePolicyOutcome(task, question.result, { byOperation }, at)
  switch (outcome.t) {
    case 'deny':
      return fail('policy_denied', outcome.reason, ...asked)
    case 'input':
      return askInput(found, task, outcome.fields, at, newId, asked)
    case 'delay':
      return rest(outcome.until, ...asked)
    case 'approval': {
      const riskLevel = String(question.input.task['risk_level'])
      const requests = planAsks({ task, command, outcome, content, riskLevel })
      const { approvers, reason } = outcome
      const changes = [
        ...asked,
        move('waiting_for_approval', bySystem, { approvers, reason }),
        ...requestEffects(requests, found.effects, at, newId).map((effect) => plan(effect, bySystem)),
        release(null),
      ]
      return { changes, next: { t: 'ask', what: 'gates', requests } }
    }
    case 'go':
      return planAndQueue(
        { ...found, command },
        seen,
        task,
        { policy: question.result, isApproved: false },
        newId,
        asked,
      )
  }
}

/** What was approved must be what runs: the rows answer for the hash, and the hash for what the plan would do today. */
export function checkApproved(found: CommandWithEffects, seen: Seen, at: Date, newId: NewId): Step {
  const { command } = found
  const task = taskOf(seen.catalog, command)
  if (!task) {
    const until = new Date(at.getTime() + TASK_AGAIN_MS)
    const { changes } = rest(until, set({ error: sayTaskGone(command) }))
    return { changes, next: { t: 'wait', until, isTaskGone: true } }
  }
  if (!seen.approved) return need('approved')
  const drafts = draftEffects(task, command)
  const isSame = drafts.ok && contentHash(contentOf(task, command.payload, drafts.value)) === command.payload_hash
  if (!seen.approved.ok || !isSame) {
    const reason = seen.approved.ok ? 'what was approved is not what would run' : seen.approved.reason
    return fail('validation_error', reason, move('queued', bySystem))
  }
  const terms = { policy: { decision: 'allow' as const, metadata: {} }, isApproved: true }
  // It may have waited for its task: that is over.
  return planAndQueue(found, seen, task, terms, newId, command.error === null ? [] : [set({ error: null })])
}

function planAndQueue(
  found: CommandWithEffects,
  seen: Seen,
  task: CompiledTask,
  terms: PlanTerms,
  newId: NewId,
  before: readonly Change[],
): Step {
  const { command } = found
  const planned = planCommand(seen.catalog, task, found, terms, newId)
  // Nothing of the plan is kept. `approved` has no way to `failed` but through the queue.
  const failed = (reason: string) =>
    fail('validation_error', reason, ...(terms.isApproved ? [move('queued', bySystem)] : []))
  if (!planned.ok) return failed(planned.reason)
  if (seen.isKeyTaken) return failed('Another command already owns this idempotency key.')
  const { changes, effects } = planned.value
  // In the request itself: nothing is queued, and no runtime is involved. A policy can route a command to `sync`, but only an effect that
  // is bounded and safe to repeat is called before its row is written.
  const drafts = effects.map(({ effect_type, effect_payload }) => ({ effect_type, payload: effect_payload }))
  const isInline =
    planned.value.plan.execution_mode === 'sync' && decideMode(task, terms.isApproved, drafts, seen.catalog) === 'sync'
  if (!seen.turn && isInline) {
    const rows = effects.map((effect) => plan(effect, byWorker))
    const inline = [...before, ...changes, set({ runtime_workflow_id: null }), move('running', byWorker), ...rows]
    return { changes: inline, next: again }
  }
  const isFree = !seen.hasParents && !command.cancellation_requested && command.attempt === 1
  // Approved, quick and waiting for nothing: there is no reason to queue.
  const isQuick =
    terms.isApproved &&
    isFree &&
    isSyncTask(task.spec) &&
    effects.every(({ effect_type }) => seen.catalog.effects.get(effect_type)?.definition.bounded)
  const rows = effects.map((effect) => plan(effect, bySystem))
  return { changes: [...before, ...changes, ...rows, move(isQuick ? 'running' : 'queued', bySystem)], next: again }
}
