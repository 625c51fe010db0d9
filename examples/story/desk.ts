/** The actions of a person in a story: submit, decide, cancel, wait and read the record. */
import assert from 'node:assert/strict'
import { setTimeout as wait } from 'node:timers/promises'
import { type ApprovalDeps, type Decided, decideApproval, listApprovals } from '#domains/approvals'
import {
  actingFor,
  type Cancelled,
  cancelCommand,
  type CommandWithEffects,
  type CommandDeps,
  findCommand,
  listCommandEvents,
  previewUndo,
  submitCommand,
  type SubmittedCommand,
  supplyInput,
  undoCommand,
} from '#domains/commands'
import type { Principal } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import type { Decision } from '#kernel/refusal'
import { TRACE } from './company.ts'
import { byPerson } from '#kernel/actor'

type Asking = { readonly task: string; readonly payload: JsonObject; readonly key?: string }
type Answer = { readonly decision: 'approved' | 'rejected'; readonly reason?: string }

export type Desk = {
  submit(who: Principal, asking: Asking): Promise<Decision<SubmittedCommand>>
  supply(who: Principal, commandId: string, input: JsonObject): Promise<void>
  cancel(who: Principal, commandId: string, reason: string): Promise<Decision<Cancelled>>
  previewUndo(who: Principal, commandId: string): ReturnType<typeof previewUndo>
  undo(who: Principal, commandId: string, reason: string): Promise<Decision<SubmittedCommand>>
  /** Waits until the command has this state; a failure shows its actual state. */
  reach(commandId: string, isThere: (found: CommandWithEffects) => boolean): Promise<CommandWithEffects>
  reachStatus(commandId: string, status: string): Promise<CommandWithEffects>
  /** The pending approvals of a command, by approver. */
  asked(commandId: string): Promise<readonly { readonly approver: string; readonly approvalId: string }[]>
  answer(who: Principal, approvalId: string, answer: Answer): Promise<Decision<Decided>>
  /** All states that the command has been in. */
  path(commandId: string): Promise<readonly string[]>
  countEvents(commandId: string, eventType: string): Promise<number>
}

const REACH_MS = 60_000
const LOOK_MS = 25
const EVENTS_MAX = 1_000

/** Returns the first value that `look` finds; fails after a minute. */
export async function eventually<T>(look: () => Promise<T | undefined>, otherwise: () => string): Promise<T> {
  for (const until = performance.now() + REACH_MS; performance.now() < until; await wait(LOOK_MS)) {
    const found = await look()
    if (found !== undefined) return found
  }
  throw new Error(otherwise())
}

export type DeskRooms = {
  readonly commands: CommandDeps
  readonly approvals: ApprovalDeps
  readonly workspaceId: string
}

export function openDesk({ commands, approvals, workspaceId }: DeskRooms): Desk {
  const { db } = commands
  const acting = (who: Principal) => actingFor(who, TRACE)
  const events = (commandId: string) =>
    listCommandEvents(db, workspaceId, commandId, { afterSeq: null, limit: EVENTS_MAX })

  function reach(commandId: string, isThere: (found: CommandWithEffects) => boolean): Promise<CommandWithEffects> {
    let last = 'absent'
    const look = async () => {
      const found = await findCommand(db, workspaceId, commandId)
      if (!found) return undefined
      last = `${found.command.status} ${found.command.error ?? ''}`
      return isThere(found) ? found : undefined
    }
    return eventually(look, () => `the command did not get there; it is ${last}`)
  }

  return {
    submit: (who, { task, payload, key }) =>
      submitCommand(commands, acting(who), {
        workspaceId,
        taskName: task,
        payload,
        idempotencyKey: key,
        ingress: 'user_request',
        requestId: 'req_example',
      }),
    async supply(who, commandId, input) {
      const supplied = await supplyInput(commands, acting(who), { workspaceId, commandId, input })
      assert.ok(supplied.ok, supplied.ok ? '' : supplied.reason)
    },
    previewUndo: (who, commandId) =>
      previewUndo(commands, acting(who), { workspaceId, commandId, requestId: 'req_example' }),
    undo: (who, commandId, reason) =>
      undoCommand(commands, acting(who), { workspaceId, commandId, reason, requestId: 'req_example' }),
    cancel: (who, commandId, reason) => cancelCommand(commands, acting(who), { workspaceId, commandId, reason }),
    reach,
    reachStatus: (commandId, status) => reach(commandId, ({ command }) => command.status === status),
    async asked(commandId) {
      // Lists all pending approvals, for any approver.
      const anybody = { userId: workspaceId, externalId: 'local:story', orgRoles: [] }
      const { items } = await listApprovals(db, anybody, { workspaceId, commandId, limit: 10 })
      return items
        .map(({ approver, approval_id }) => ({ approver, approvalId: approval_id }))
        .toSorted((a, b) => (a.approver < b.approver ? -1 : 1))
    },
    answer: (who, approvalId, answer) =>
      decideApproval(approvals, byPerson(who, TRACE), { workspaceId, approvalId, ...answer }),
    async path(commandId) {
      const moves = (await events(commandId)).filter(
        ({ event_type, payload }) => event_type === 'status_changed' && payload['target_type'] === 'command',
      )
      return ['created', ...moves.map(({ payload }) => String(payload['to']))]
    },
    countEvents: async (commandId, eventType) =>
      (await events(commandId)).filter(({ event_type }) => event_type === eventType).length,
  }
}
