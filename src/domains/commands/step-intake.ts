/** From the record of a request to its plan: validate, put to policy, then wait for a person, refuse, or plan. One commit. */
import { KernelFault } from '#kernel/errors'
import type { ErrorClass } from '#kernel/error-classes'
import type { Next } from '#runtime'
import { constraintOf, point } from '#store'
import type { ApprovedContent } from '#domains/approvals'
import type { CompiledTask } from './catalog/open-catalog.ts'
import { type Course, decideCourse, askPolicy, type PolicyQuestion } from './decide-course.ts'
import { beginPlannedInto, markBegun } from './begin-effect.ts'
import type { NewEffect, WriteDraft } from './draft-write.ts'
import { gatherFacts } from './gather-facts.ts'
import { contentHash, contentOf } from './content.ts'
import { isSyncTask } from './catalog/primitives.ts'
import { taskOf } from './task-of.ts'
import { draftEffects, planInto } from './plan-effects.ts'
import { supersedeApprovals, checkApproved } from '#domains/approvals'
import { approvalEffectPayload, approvalKey, planAsks } from './request-approval.ts'
import { doneEffect, REQUEST_APPROVAL, requestInputInto } from './request-input.ts'
import { nextStep } from './next-step.ts'
import type { ExecutionPlan } from './plan.ts'
import { asStored, commitTurn, commitTurnWith, draftOf, type Turn } from './turn.ts'
import { validatePayload } from './validate-payload.ts'
import { waitForTask } from './wait-for-task.ts'
import { askingOf, bySystem, byWorker } from './world.ts'

/** Undefined: go on with the row as it is now. */
export type StepEnd = Next | undefined

/** For `created` and `validated`. */
export async function stepIntake(turn: Turn): Promise<StepEnd> {
  const task = taskOf(turn)
  const draft = draftOf(turn)
  if (!task) return endFailed(turn, draft, 'internal_error', `the task of this command is no longer registered`)
  const at = turn.world.now()
  let { command } = turn
  if (command.status === 'created') {
    const verdict = validatePayload(task.type, task.spec, command.payload)
    if (verdict.t === 'malformed') return endFailed(turn, draft, 'malformed_payload', verdict.errors.join('; '))
    if (verdict.t === 'fits') command = { ...command, payload: verdict.payload }
    draft.move('validated', bySystem)
    if (verdict.t === 'missing') return waitForInput(turn, draft, task, verdict.fields)
  }
  const classified = point('commands.classified')
  if (classified) await classified
  const drafts = draftEffects(task, { command })
  const content = contentOf(task, command.payload, drafts.ok ? drafts.value : [])
  command = { ...command, payload_hash: contentHash(content) }
  draft.set({ payload: command.payload, payload_hash: command.payload_hash })
  const question = askPolicy(task, command, await gatherFacts(turn.world, command, task.factNames))
  draft.tell('policy_evaluated', bySystem, question.record)
  const byOperation =
    drafts.ok &&
    drafts.value.some(({ effect_type }) => turn.world.catalog.effects.get(effect_type)?.operation?.approval_required)
  const course = decideCourse(task, question.result, { byOperation }, at)
  const decided = point('commands.policy_decided')
  if (decided) await decided
  const found = { command, effects: turn.effects }
  switch (course.t) {
    case 'deny':
      return endFailed(turn, draft, 'policy_denied', course.reason)
    case 'input':
      return waitForInput(turn, draft, task, course.fields)
    case 'delay':
      return (await commitTurn(turn, draft.release(course.until).done()))
        ? { t: 'wait', until: course.until }
        : undefined
    case 'approval':
      return waitForApproval(turn, draft, task, { ...found, course, question, content })
    case 'go':
      return planAndQueue(turn, draft, task, { ...found, policy: question.result, isApproved: false })
  }
}

/** For `approved`: every person has consented to this very payload. */
export async function stepApproved(turn: Turn): Promise<StepEnd> {
  const task = taskOf(turn)
  if (!task) return waitForTask(turn)
  // What was approved must be what runs: the rows answer for the hash, and the hash for what the plan would do today.
  const { command } = turn
  const approved = await checkApproved(turn.world.db, {
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    payloadHash: command.payload_hash,
  })
  const drafts = draftEffects(task, { command })
  const isSame = drafts.ok && contentHash(contentOf(task, command.payload, drafts.value)) === command.payload_hash
  if (!approved.ok || !isSame) {
    return endFailed(
      turn,
      draftOf(turn).move('queued', bySystem),
      'validation_error',
      approved.ok ? 'what was approved is not what would run' : approved.reason,
    )
  }
  const policy = { decision: 'allow' as const, metadata: {} }
  // It may have waited for its task: that is over.
  const draft = command.error === null ? draftOf(turn) : draftOf(turn).set({ error: null })
  return planAndQueue(turn, draft, task, {
    command: turn.command,
    effects: turn.effects,
    policy,
    isApproved: true,
  })
}

type Planning = Pick<Turn, 'command' | 'effects'> & {
  readonly policy: Pick<PolicyQuestion['result'], 'decision' | 'metadata'>
  readonly isApproved: boolean
}

async function planAndQueue(
  turn: Turn,
  draft: WriteDraft,
  task: CompiledTask,
  { policy, isApproved, ...found }: Planning,
): Promise<StepEnd> {
  const planned = planInto(draft, turn.world, task, found, { policy, isApproved })
  if (!planned.ok) return endFailed(turn, draftAfter(turn, draft), 'validation_error', planned.reason)
  // Approved, quick and waiting for nobody: there is nothing to queue for.
  const isQuick =
    isApproved &&
    isSyncTask(task.spec) &&
    planned.value.effects.every(({ effect_type }) => turn.world.catalog.effects.get(effect_type)?.definition.bounded)
  const { command } = turn
  const isFree = !turn.hasParents && !command.cancellation_requested && command.attempt === 1
  if (!isQuick || !isFree) draft.move('queued', bySystem)
  const first = isFree ? beginFirstInto(draft, turn, planned.value) : undefined
  try {
    if ((await commitTurn(turn, draft.done())) && first) markBegun(turn, first.domain_effect_id)
    const stop = point('commands.planned')
    if (stop) await stop
    return undefined
  } catch (error) {
    if (constraintOf(error) !== 'idx_domain_effects_idem') throw error
    return endFailed(
      turn,
      draftAfter(turn, draft),
      'validation_error',
      'this deed was already asked for by another command',
    )
  }
}

/** Waiting for nobody, it runs at once: its plan and the beginning of its first effect are one commit. */
function beginFirstInto(
  draft: WriteDraft,
  turn: Turn,
  { plan, effects }: { readonly plan: ExecutionPlan; readonly effects: readonly NewEffect[] },
): NewEffect | undefined {
  draft.move('running', draft.status === 'queued' ? byWorker : bySystem)
  const at = turn.world.now()
  const rows = effects.map((effect) => asStored(effect, at))
  const next = nextStep({ command: { ...turn.command, plan }, effects: rows }, at)
  const first =
    next.t === 'begin' ? effects.find((each) => each.domain_effect_id === next.effect.domain_effect_id) : undefined
  if (first) beginPlannedInto(draft, turn, first)
  return first
}

/** Nothing of the plan is kept; the moves up to it are. */
function draftAfter(turn: Turn, failed: WriteDraft): WriteDraft {
  const draft = draftOf(turn)
  if (turn.command.status === 'created' && failed.status !== 'created') draft.move('validated', bySystem)
  // `approved` has no way to `failed` but through the queue.
  return turn.command.status === 'approved' ? draft.move('queued', bySystem) : draft
}

export async function endFailed(
  turn: Turn,
  draft: WriteDraft,
  errorClass: ErrorClass,
  error: string,
): Promise<StepEnd> {
  draft
    .set({ error, error_class: errorClass })
    .move('failed', bySystem, { error_class: errorClass, error })
    .release(null)
  return (await commitTurn(turn, draft.done())) ? { t: 'done' } : undefined
}

async function waitForInput(
  turn: Turn,
  draft: WriteDraft,
  task: CompiledTask,
  fields: readonly string[],
): Promise<StepEnd> {
  const { world } = turn
  const request = { fields, expiresInMinutes: task.type.input_expires_in_minutes, id: world.newId(), at: world.now() }
  const write = requestInputInto(
    draft.move('waiting_for_input', bySystem, { missing_fields: fields }),
    turn,
    request,
  ).done()
  const isWritten = await commitTurn(turn, write)
  const stop = point('commands.input_requested')
  if (stop) await stop
  return isWritten ? { t: 'wait', until: write.set.run_after ?? null } : undefined
}

type Gate = Pick<Turn, 'command' | 'effects'> & {
  readonly course: Extract<Course, { t: 'approval' }>
  readonly question: PolicyQuestion
  readonly content: ApprovedContent
}

async function waitForApproval(
  turn: Turn,
  draft: WriteDraft,
  task: CompiledTask,
  { command, effects, course, question, content }: Gate,
): Promise<StepEnd> {
  const { world } = turn
  const at = world.now()
  const earlier = effects
    .filter(({ effect_type }) => effect_type === REQUEST_APPROVAL)
    .map(({ effect_payload }) => Number(effect_payload['round'] ?? 0))
  const round = earlier.length === 0 ? 0 : Math.max(...earlier) + 1
  const asks = planAsks({ task, command, course, content, riskLevel: String(question.input.task['risk_level']) })
  draft.move('waiting_for_approval', bySystem, { approvers: course.approvers, reason: course.reason })
  for (const [index, ask] of asks.entries()) {
    const payload = { ...approvalEffectPayload(ask), round }
    draft.plan(
      doneEffect({
        id: world.newId(),
        type: REQUEST_APPROVAL,
        payload,
        key: approvalKey(ask, asks.length, round),
        order: effects.length + index,
        at,
      }),
      bySystem,
    )
  }
  const by = { actor: bySystem.actor, traceId: command.context.trace_id }
  const isWritten = await commitTurnWith(turn, draft.release(null).done(), async (tx) => {
    // The whole set of gates at once: one that an earlier round asked for and this one does not must not stand in the way.
    const asked = await supersedeApprovals(tx, askingOf(world), by, {
      workspaceId: command.workspace_id,
      commandId: command.command_id,
      why: 'asked_again',
      requests: asks,
    })
    if (!asked.ok) throw new KernelFault('commands.approval.refused', asked.reason, { code: asked.code })
    const written = point('commands.approval_written')
    if (written) await written
  })
  const requested = point('commands.approval_requested')
  if (requested) await requested
  return isWritten ? { t: 'wait', until: null } : undefined
}
