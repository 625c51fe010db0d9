/** Requests the undo of a command, previews it, and finds the undos of commands. */
import { z } from 'zod'
import { idView } from '#contract'
import type { Actor } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Db, type Paged, scoped, statement } from '#store'
import { reasonOf } from './cancel-command.ts'
import { listForeignUndos, readCommand, type StoredCommand } from './command-table.ts'
import { commandStatus } from './contract.ts'
import { type CommandDeps, isAllowed } from './deps.ts'
import type { HistoryEvent } from './explain-command.ts'
import { previewCommand, previewView } from './preview.ts'
import { listCommandEvents } from './read-commands.ts'
import { rejectRequest, type SubmitCommand, type SubmittedCommand, submitCommand } from './submit.ts'
import { systemActor } from './change.ts'
import { isInForce, undoneIdOf, UNDO_TYPE, type UndoLink } from './undo-plan.ts'
import { findUndoTarget, judgeUndo, UNDO_COMMAND, undoKeyOf } from './undo-task.ts'

type UndoRequest = {
  readonly workspaceId: string
  readonly commandId: string
  readonly requestId: string
  readonly reason?: string | undefined
}

const submitOf = ({ workspaceId, commandId, requestId, reason }: UndoRequest) => ({
  workspaceId,
  taskName: UNDO_COMMAND,
  payload: { command_id: encodeId('command', commandId) },
  ingress: 'user_request' as const,
  requestId,
  ...(reason === undefined ? {} : { metadata: { reason: reasonOf(reason) } }),
})

/** Submits an Undo Command. While one is under way, and after one has succeeded, the answer is that one. */
export async function undoCommand(
  deps: CommandDeps,
  by: Actor,
  request: UndoRequest,
): Promise<Decision<SubmittedCommand>> {
  const { workspaceId, commandId } = request
  const found = await readCommand(deps.db, workspaceId, commandId)
  if (!found.ok) return found
  if (!isAllowed(by, found.value.command))
    return refuse('commands.action.not_allowed', 'Only the requester and administrators may undo a command.')
  const undo = (await listUndos(deps.db, workspaceId, [commandId]))(commandId)
  const first = undo && isInForce(undo) ? await readCommand(deps.db, workspaceId, undo.command_id) : undefined
  if (first?.ok) return accept({ command: first.value.command, isNew: false })
  const judged = judgeUndo(await findUndoTarget(deps, workspaceId, commandId))
  if (!judged.ok) return rejectRequest(deps, by, submitOf(request), judged)
  return submitCommand(deps, by, submitOf(request))
}

/** Where the undo of a command stands. `none`: there is nothing that can be undone. */
export type UndoState = 'none' | 'open' | 'done' | 'failed'

/**
 * Undoes a command because a decision of Concord requires it, such as the join of a swarm. Nobody is asked about it again. A repeat returns how far it is;
 * `follower` is woken when it ends.
 */
export async function undoByDecision(
  deps: CommandDeps,
  by: Pick<Actor, 'traceId'>,
  { follower, ...request }: UndoRequest & Pick<SubmitCommand, 'follower'>,
): Promise<UndoState> {
  const { workspaceId, commandId } = request
  const undo = (await listUndos(deps.db, workspaceId, [commandId]))(commandId)
  if (undo && isInForce(undo)) return undo.status === 'succeeded' ? 'done' : 'open'
  if (undo) return 'failed'
  const judged = judgeUndo(await findUndoTarget(deps, workspaceId, commandId))
  if (!judged.ok) return 'none'
  const submitted = await submitCommand(
    deps,
    { ...systemActor, traceId: by.traceId },
    { ...submitOf(request), ingress: 'system_event', runAs: 'service', follower },
  )
  // Nothing that is refused here was asked by a caller: the turn is given again.
  if (!submitted.ok) throw new KernelFault('commands.undo.refused', submitted.reason)
  return 'open'
}

/** $1 workspace, $2 keys. */
const listByKey = statement<UndoLink & { readonly key: string }>(
  'commands_list_undos',
  `select c.command_id, c.status, c.contract_key as key from concord.commands as c
where c.workspace_id = $1::uuid and c.contract_key = any($2::text[]) and c.command_type = '${UNDO_TYPE}'`,
)

/** Returns the last undo of each command: the one that has its key, or else the last that undid one of its effects. */
export async function listUndos(
  db: Db,
  workspaceId: string,
  commandIds: readonly string[],
): Promise<(commandId: string) => UndoLink | undefined> {
  const found = new Map<string, UndoLink>()
  const keys = new Map(commandIds.map((id) => [undoKeyOf(id), id]))
  await scoped(db, workspaceId).read(async (tx) => {
    for (const undo of await tx.run(listForeignUndos, [workspaceId, commandIds]))
      found.set(undo.of_command_id, { command_id: undo.command_id, status: undo.command_status })
    for (const { key, ...undo } of await tx.run(listByKey, [workspaceId, [...keys.keys()]]))
      found.set(keys.get(key) ?? '', undo)
  })
  return (commandId) => found.get(commandId)
}

const EVENTS_MAX = 1_000

type UndoLinks = {
  readonly undo?: { readonly command: StoredCommand; readonly events: readonly (HistoryEvent & Paged)[] }
  readonly undoes?: StoredCommand
}

/** The last undo of a command with its events, and the command that it undoes itself. */
export async function readUndoLinks(db: Db, command: StoredCommand): Promise<UndoLinks> {
  const { workspace_id: workspaceId, command_id: commandId } = command
  if (command.command_type === UNDO_TYPE) {
    const undoes = await readCommand(db, workspaceId, undoneIdOf(command.payload))
    return undoes.ok ? { undoes: undoes.value.command } : {}
  }
  const undo = (await listUndos(db, workspaceId, [commandId]))(commandId)
  const found = undo && (await readCommand(db, workspaceId, undo.command_id))
  if (!found?.ok) return {}
  const { command: last } = found.value
  const page = { afterSeq: null, limit: EVENTS_MAX, withoutResults: true }
  return {
    undo: {
      command: last,
      events: await listCommandEvents(db, workspaceId, last.command_id, page),
    },
  }
}

const effectLine = {
  effect_id: z.string(),
  effect_type: z.string().meta({ example: 'connector.hotel_booking.book_hotel' }),
}

export const undoPreviewView = z
  .object({
    command_id: idView('command'),
    status: commandStatus,
    refused: z
      .object({ code: z.string(), reason: z.string() })
      .nullable()
      .meta({ description: 'Why it cannot be undone; null: it can.' }),
    undone: z
      .array(z.object({ ...effectLine, undo: z.string().meta({ example: 'hotel_booking.cancel' }) }))
      .meta({ description: 'The effects that would be undone, in this order.' }),
    kept: z
      .array(
        z.object({
          ...effectLine,
          why: z.enum(['no_undo_declared', 'already_undone', 'in_doubt', 'too_late']),
        }),
      )
      .meta({ description: 'The effects that would stay as they are.' }),
    request: previewView.nullable().meta({ description: 'What policy would decide about your request.' }),
  })
  .meta({ id: 'UndoPreview', description: 'What an undo of the command would do; nothing is recorded.' })

export async function previewUndo(
  deps: CommandDeps,
  by: Actor,
  request: UndoRequest,
): Promise<Decision<z.infer<typeof undoPreviewView>>> {
  const target = await findUndoTarget(deps, request.workspaceId, request.commandId)
  const judged = judgeUndo(target)
  if (!target) return judged.ok ? refuse('commands.command.not_found', 'There is no such command.') : judged
  const preview = judged.ok ? await previewCommand(deps, by, submitOf(request)) : accept(null)
  if (!preview.ok) return preview
  const lineOf = ({ effect_id, effect_type }: { effect_id: string; effect_type: string }) => ({
    effect_id: encodeId('effect', effect_id),
    effect_type,
  })
  return accept({
    command_id: encodeId('command', target.command_id),
    status: target.status,
    refused: judged.ok ? null : { code: judged.code, reason: judged.reason },
    undone: target.steps.map((step) => ({ ...lineOf(step), undo: step.compensation })),
    kept: target.kept.map((each) => ({ ...lineOf(each), why: each.why })),
    request: preview.value,
  })
}
