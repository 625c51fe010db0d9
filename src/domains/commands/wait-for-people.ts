/** Puts a command to people and lets it wait: for what its payload lacks, or for their consent. One commit. */
import { type ApprovedContent, supersedeApprovals } from '#domains/approvals'
import { KernelFault } from '#kernel/errors'
import { failpoint } from '#store'
import type { CompiledTask } from './catalog/open-catalog.ts'
import type { Course, PolicyQuestion } from './decide-course.ts'
import type { WriteDraft } from './draft-write.ts'
import type { StepEnd } from './end-failed.ts'
import { approvalEffectPayload, approvalKey, planAsks } from './request-approval.ts'
import { doneEffect, REQUEST_APPROVAL, requestInputInto } from './request-input.ts'
import { commitTurn, commitTurnWith, type Turn } from './turn.ts'
import { askingOf, bySystem } from './deps.ts'

export async function waitForInput(
  turn: Turn,
  draft: WriteDraft,
  task: CompiledTask,
  fields: readonly string[],
): Promise<StepEnd> {
  const { deps } = turn
  const request = { fields, expiresInMinutes: task.type.input_expires_in_minutes, id: deps.newId(), at: deps.now() }
  const write = requestInputInto(
    draft.move('waiting_for_input', bySystem, { missing_fields: fields }),
    turn,
    request,
  ).done()
  const isWritten = await commitTurn(turn, write)
  await failpoint('commands.input_requested')
  return isWritten ? { t: 'wait', until: write.set.run_after ?? null } : undefined
}

type Gate = Pick<Turn, 'command' | 'effects'> & {
  readonly course: Extract<Course, { t: 'approval' }>
  readonly question: PolicyQuestion
  readonly content: ApprovedContent
}

export async function waitForApproval(
  turn: Turn,
  draft: WriteDraft,
  task: CompiledTask,
  { command, effects, course, question, content }: Gate,
): Promise<StepEnd> {
  const { deps } = turn
  const at = deps.now()
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
        id: deps.newId(),
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
    const asked = await supersedeApprovals(tx, askingOf(deps), by, {
      workspaceId: command.workspace_id,
      commandId: command.command_id,
      why: 'asked_again',
      requests: asks,
    })
    if (!asked.ok) throw new KernelFault('commands.approval.refused', asked.reason, { code: asked.code })
    await failpoint('commands.approval_written')
  })
  await failpoint('commands.approval_requested')
  return isWritten ? { t: 'wait', until: null } : undefined
}
