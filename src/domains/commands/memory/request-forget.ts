/** Requests that a subject be forgotten: writes the erasure and the command that performs it after an approval, in one transaction. */
import type { Actor } from '#kernel/actor'
import {
  getErasure,
  insertErasure,
  type MemoryDeps,
  previewForget,
  subjectDigest,
  type StoredErasure,
  type Subject,
} from '#domains/memory'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { eventIdOf } from '#store'
import type { StoredCommand } from '../command-table.ts'
import { submitCommand } from '../submit.ts'
import type { CommandDeps } from '../deps.ts'
import { refuseReused } from './candidates.ts'
import { forgetMemoryTask } from './memory-definitions.ts'

export type RequestForget = {
  readonly workspaceId: string
  readonly subject: Subject
  readonly idempotencyKey?: string | undefined
  readonly requestId: string
}

export type ForgetRequest = { readonly erasure: StoredErasure; readonly command: StoredCommand }

export async function requestForget(
  deps: CommandDeps,
  memory: MemoryDeps,
  by: Actor,
  { workspaceId, subject, idempotencyKey, requestId }: RequestForget,
): Promise<Decision<ForgetRequest>> {
  const key = idempotencyKey === undefined ? undefined : eventIdOf('memory_erasure', workspaceId, idempotencyKey)
  const known = key === undefined ? undefined : await getErasure(memory.db, { workspaceId, erasureId: key })
  if (!known?.ok) {
    const { items } = await previewForget(memory, workspaceId, subject)
    if (items.length === 0)
      return refuse('memory.forget.nothing_known', 'Nothing is known about this subject.', { path: 'subject' })
  }
  const erasureId = key ?? memory.newId()
  const submitted = await submitCommand(deps, by, {
    workspaceId,
    taskName: forgetMemoryTask,
    payload: { memory_erasure_id: erasureId },
    idempotencyKey,
    ingress: 'user_request',
    requestId,
    alongside: (tx, { command_id: commandId }) =>
      insertErasure(tx, memory, by, { workspaceId, erasureId, commandId, subject }),
  })
  if (!submitted.ok) return submitted
  const erasure = await getErasure(memory.db, { workspaceId, erasureId })
  if (!erasure.ok) return erasure
  const { command } = submitted.value
  // The digest outlives the subject: a repeat of the request is recognised even after the erasure.
  if (erasure.value.subject_digest !== subjectDigest(erasureId, subject)) return refuseReused(command)
  return accept({ erasure: erasure.value, command })
}
