/** The dependencies of this room's services, and who may act on a command. */
import type { Actor } from '#kernel/actor'
import type { Clock, NewId, Random } from '#kernel/clock'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ArtifactDeps } from '#domains/artifacts'
import type { Principal } from '#domains/identity'
import type { MemoryDeps } from '#domains/memory'
import type { Runtime } from '#runtime'
import type { Db, Tx } from '#store'
import type { ApprovalTypes, Notify } from '#domains/approvals'
import type { InProcessTurns } from '#turns'
import type { Catalog } from './catalog/open-catalog.ts'
import { type HeldCommand, lockCommand, refuseMissing, type StoredCommand } from './command-table.ts'
import type { CountCommands } from './count-commands.ts'
import type { ConnectorAccess, FactSources } from './facts.ts'
import type { CommandInserts } from './insert-command.ts'
import type { Count } from './observe.ts'
import type { CommandWriter } from './write-command.ts'

export type CommandDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly random: Random
  readonly catalog: Catalog
  readonly wake: Runtime['wake']
  readonly approvalTypes: ApprovalTypes
  /** Runs in the transaction that requests an approval. */
  readonly notifyApprovers?: Notify
  readonly counts: CountCommands
  readonly inserts: CommandInserts
  readonly writes: CommandWriter
  /** Omitted: every turn is the runtime's. */
  readonly turns?: InProcessTurns<HeldCommand>
  readonly facts: FactSources
  /** Grants of restricted connectors. Omitted: no connector is restricted. */
  readonly connectorAccess?: ConnectorAccess | undefined
  /** The declared places inside the organisation. Omitted: only `internal`. */
  readonly inside?: readonly string[] | undefined
  /** Omitted: effects of this process cannot write artifacts. */
  readonly artifacts?: ArtifactDeps
  /** Counts what has been committed, for metrics. */
  readonly count?: Count | undefined
  /** Omitted: effects of this process cannot read memory. */
  readonly memory?: MemoryDeps
  /** Called when a turn cannot continue because the task of its command is not in the catalog. */
  readonly onTaskGone?: (gone: { readonly command_id: string; readonly task_name: string }) => void
  /** Settles after the time, or at once when the signal is aborted. Used for call timeouts and heartbeats. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** An administrator acts as an operator, who may retry, compensate and end the commands of others. */
export function actingFor(principal: Principal, traceId: string): Actor & { readonly principal: Principal } {
  return {
    id: `user:${principal.userId}`,
    kind: principal.role === 'admin' ? 'operator' : 'user',
    traceId,
    principal,
  }
}

/** A person reads every command of the workspace, an agent those that it proposed for the same person. */
export function mayReadCommand(
  { userId, agent }: Principal,
  { requested_by, context }: Pick<StoredCommand, 'requested_by' | 'context'>,
): boolean {
  return !agent || (requested_by === `user:${userId}` && context.agent === agent.name)
}

/** The requester and administrators by default; a contract can name others for cancelling. Concord itself always may. */
export function isAllowed(
  { id, kind, principal }: Actor,
  { requested_by }: Pick<StoredCommand, 'requested_by'>,
  allowed: readonly ('requester' | 'writer' | 'admin')[] = ['requester', 'admin'],
): boolean {
  if (!principal || kind === 'system') return true
  const { role } = principal
  return (
    (allowed.includes('requester') && requested_by === id) ||
    (allowed.includes('admin') && role === 'admin') ||
    (allowed.includes('writer') && (role === 'writer' || role === 'admin'))
  )
}

/** Locks a command for its requester or an administrator. */
export async function lockAllowed(
  tx: Tx,
  by: Actor,
  workspaceId: string,
  commandId: string,
): Promise<Decision<HeldCommand>> {
  const found = await lockCommand(tx, workspaceId, commandId)
  if (!found) return refuseMissing()
  if (isAllowed(by, found.command)) return accept(found)
  return refuse('commands.action.not_allowed', 'Only the requester and administrators may do this.')
}

export function approvalDeps({ newId, approvalTypes, notifyApprovers }: CommandDeps) {
  return { newId, types: approvalTypes, ...(notifyApprovers ? { notify: notifyApprovers } : {}) }
}
