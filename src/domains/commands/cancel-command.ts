/** Asks a command to stop. After the answer no new effect starts; what is under way is finished, and undone where the mode says so. */
import { cancelApprovals } from '#domains/approvals'
import { accept, type Decision } from '#kernel/refusal'
import { failpoint } from '#store'
import { redactText } from '#kernel/secret-shapes'
import type { StoredCommand } from './command-row.ts'
import { lockCase, refuseMissing } from './command-repository.ts'
import { decideCancel, decideForce, decideMayCancel } from './decide-cancel.ts'
import { draftWrite } from './draft-write.ts'
import { awaitedOf } from './step-blocked.ts'
import { decideMode } from './submit-command.ts'
import { queueOf, taskOf } from './task-of.ts'
import { type Acting, type CommandDeps, processOf } from './deps.ts'
import { commitWrite } from './write-lane.ts'

export type CancelCommand = {
  readonly workspaceId: string
  readonly commandId: string
  readonly reason?: string | undefined
  /** Takes the place of the command's own mode. */
  readonly cancellationMode?: string | undefined
  /** An operator's last resort for a command whose driver no longer answers: it ends here and now. */
  readonly force?: boolean | undefined
}

export type Cancelled = { readonly command: StoredCommand; readonly changed: boolean }

const REASON_CHARS_MAX = 500

export async function cancelCommand(deps: CommandDeps, by: Acting, input: CancelCommand): Promise<Decision<Cancelled>> {
  const mode = decideMode(input.cancellationMode)
  if (!mode.ok) return mode
  const outcome = await deps.db.transaction(async (tx) => {
    const found = await lockCase(tx, input.workspaceId, input.commandId)
    if (!found) return refuseMissing()
    const { command } = found
    const allowed = decideMayCancel(taskOf({ deps, command })?.type, command, by)
    if (!allowed.ok) return allowed
    const course = input.force ? decideForce(found, by) : accept(decideCancel(found))
    if (!course.ok) return course
    const { value: way } = course
    const draft = draftWrite(command, 'any', { at: deps.now(), newId: deps.newId })
    const told = {
      cancellation_mode: mode.value ?? command.cancellation_mode,
      cancel_reason: reasonOf(input.reason),
      cancelled_by: by.actor,
    }
    if (way.t === 'nothing') draft.tell('cancellation_ignored', by, { ...told, status: command.status })
    else draft.set({ cancellation_requested: true, cancellation_mode: told.cancellation_mode, run_after: deps.now() })
    if (way.t === 'flag')
      draft.tell('cancellation_requested', by, { ...told, from: command.status, to: command.status })
    if (way.t === 'move') {
      draft.move(way.to, by, { ...told, forced: input.force ?? false })
      if (way.to === 'cancelled') draft.set({ run_after: null })
    }
    const written = await commitWrite(tx, draft.done())
    if (!written.ok) return written
    if (command.status === 'waiting_for_approval') {
      const closed = {
        workspaceId: command.workspace_id,
        commandId: command.command_id,
        why: 'command_cancelled',
        actorKind: closerOf(by),
      }
      await cancelApprovals(tx, deps.newId, { actor: by.actor, traceId: by.traceId }, closed)
    }
    if (way.t !== 'nothing') await deps.wake(processOf(command.command_id), { tx, ...queueOf({ deps, command }) })
    await failpoint('commands.cancel_written')
    return accept({
      written: written.value,
      changed: way.t !== 'nothing',
      awaited: awaitedOf(found.effects)?.commandId,
    })
  })
  await failpoint('commands.cancel_committed')
  if (!outcome.ok) return outcome
  const { written, changed, awaited } = outcome.value
  for (const id of written.dependents) await deps.wake(processOf(id)).catch(() => {})
  // What it had set going is stopped by the same word; its end lets this one go on to its own.
  if (changed && awaited !== undefined)
    await cancelCommand(deps, { ...by, kind: 'system' }, { ...input, commandId: awaited })
  return accept({ command: written.command, changed })
}

/** Free words go into the record; a secret among them does not. */
export function reasonOf(reason: string | undefined): string | null {
  return reason === undefined ? null : redactText(reason).slice(0, REASON_CHARS_MAX)
}

function closerOf(by: Acting): 'user' | 'operator' | 'system' {
  return by.kind === 'user' || by.kind === 'operator' ? by.kind : 'system'
}
