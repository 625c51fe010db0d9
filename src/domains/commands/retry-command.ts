/** Decisions after a failure: another run that keeps what succeeded, or the walk back through it. */
import type { CommandState } from '#kernel/machines/command'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { failpoint } from '#store'
import type { CommandWithEffects, StoredCommand } from './command-row.ts'
import { reasonOf } from './cancel-command.ts'
import { lockCase, refuseMissing } from './command-repository.ts'
import { decideMayCancel } from './decide-cancel.ts'
import { draftWrite, type WriteDraft } from './draft-write.ts'
import { commitAndGoOn } from './go-on.ts'
import { recordRefusal } from './record-refusal.ts'
import { taskOf } from './task-of.ts'
import type { Acting, CommandDeps } from './deps.ts'

export type AfterFailure = {
  readonly workspaceId: string
  readonly commandId: string
  readonly reason?: string | undefined
}

/** Somebody said no: that is an answer, not a mishap. */
const FINAL = ['policy_denied', 'approval_rejected', 'malformed_payload', 'permission_denied']

/** `max_attempts` of the task bounds the runs of a command, the first one included. */
export function decideRetryRun(
  { command }: Pick<CommandWithEffects, 'command'>,
  maxAttempts: number,
): Decision<number> {
  if (command.status !== 'failed') {
    return refuse(
      'commands.command.not_failed',
      `Only a failed command runs again; this one ${sayState(command.status)}.`,
      {
        facts: { status: command.status },
      },
    )
  }
  if (command.plan === null || FINAL.includes(command.error_class ?? '')) {
    return refuse('commands.command.not_failed', 'This failure is an answer, not a mishap: submit a new command.', {
      facts: { error_class: command.error_class },
    })
  }
  if (command.attempt >= maxAttempts) {
    return refuse('commands.retry.exhausted', `It has run ${command.attempt} times, which is the limit.`, {
      facts: { attempt: command.attempt, max_attempts: maxAttempts },
    })
  }
  return accept(command.attempt + 1)
}

export function retryCommand(deps: CommandDeps, by: Acting, input: AfterFailure): Promise<Decision<StoredCommand>> {
  return afterFailure(deps, by, input, 'queued', (found, draft) => {
    const { command } = found
    const task = taskOf({ deps, command })
    const attempt = decideRetryRun(found, task?.spec.max_attempts ?? 1)
    if (!attempt.ok) return attempt
    draft.tell('retry_requested', by, {
      attempt: attempt.value,
      reason: reasonOf(input.reason),
      last_error: command.error,
      error_class: command.error_class,
    })
    draft.set({
      attempt: attempt.value,
      error: null,
      error_class: null,
      result: null,
      run_after: deps.now(),
      runtime_workflow_id: `command:${command.command_id}:r${attempt.value}`,
    })
    draft.move('queued', by, { attempt: attempt.value })
    return accept(draft)
  })
}

/** For operators and policies: what a failed command did is undone, in reverse. */
export function compensateCommand(
  deps: CommandDeps,
  by: Acting,
  input: AfterFailure,
): Promise<Decision<StoredCommand>> {
  return afterFailure(deps, by, input, 'compensating', ({ command }, draft) => {
    if (command.status !== 'failed') {
      return refuse(
        'commands.command.not_failed',
        `Only a failed command is undone; this one ${sayState(command.status)}.`,
        {
          facts: { status: command.status },
        },
      )
    }
    if (by.kind !== 'operator' && by.kind !== 'system')
      return refuse('commands.action.not_allowed', 'Undoing a failed command is for operators.')
    draft.set({ run_after: deps.now() }).move('compensating', by, { reason: reasonOf(input.reason) })
    return accept(draft)
  })
}

async function afterFailure(
  deps: CommandDeps,
  by: Acting,
  { workspaceId, commandId }: AfterFailure,
  to: CommandState,
  decide: (found: CommandWithEffects, draft: WriteDraft) => Decision<WriteDraft>,
): Promise<Decision<StoredCommand>> {
  return deps.db.transaction(async (tx): Promise<Decision<StoredCommand>> => {
    const found = await lockCase(tx, workspaceId, commandId)
    if (!found) return refuseMissing()
    const allowed = decideMayCancel({ cancellable_by: ['requester', 'admin'] }, found.command, by)
    if (!allowed.ok) return refuse('commands.action.not_allowed', 'Only the requester and administrators may do this.')
    const draft = decide(found, draftWrite(found.command, 'any', { at: deps.now(), newId: deps.newId }))
    if (!draft.ok) return tx.commitRefusal(await recordRefusal(tx, deps, by, found.command, to, draft))
    const written = await commitAndGoOn(deps, tx, found, draft.value)
    if (!written.ok) return written
    await failpoint('commands.retry_written')
    return accept(written.value.command)
  })
}
