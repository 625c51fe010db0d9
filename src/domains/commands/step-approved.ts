/** From the consent of every person to the plan: what was approved must be what runs. */
import { checkApproved } from '#domains/approvals'
import { contentHash, contentOf } from './content.ts'
import { endFailed, type StepEnd } from './end-failed.ts'
import { putToWork } from './put-to-work.ts'
import { draftEffects } from './plan-effects.ts'
import { taskOf } from './task-of.ts'
import { draftOf, type Turn } from './turn.ts'
import { waitForTask } from './wait-for-task.ts'
import { bySystem } from './deps.ts'

/** For `approved`: every person has consented to this very payload. */
export async function stepApproved(turn: Turn): Promise<StepEnd> {
  const task = taskOf(turn)
  if (!task) return waitForTask(turn)
  // What was approved must be what runs: the rows answer for the hash, and the hash for what the plan would do today.
  const { command } = turn
  const approved = await checkApproved(turn.deps.db, {
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
  return putToWork(turn, draft, task, {
    command: turn.command,
    effects: turn.effects,
    policy,
    isApproved: true,
  })
}
