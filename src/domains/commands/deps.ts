/** What the services of this room need from outside, and on whose behalf they act. */
import type { Actor } from '#kernel/actor'
import type { Clock, NewId, Random } from '#kernel/clock'
import type { ArtifactDeps } from '#domains/artifacts'
import type { Principal } from '#domains/identity'
import type { Runtime } from '#runtime'
import type { Db, InsertLane } from '#store'
import type { ApprovalTypes, Notify } from '#domains/approvals'
import type { InProcessTurns } from '#turns'
import type { Catalog } from './catalog/open-catalog.ts'
import type { HeldCommand, StoredCommand } from './command-table.ts'
import type { ConnectorAccess } from './connector-access.ts'
import type { FactSources } from './gather-facts.ts'
import type { CommandWriter } from './write-command.ts'

export type CommandDeps = {
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly random: Random
  readonly catalog: Catalog
  readonly wake: Runtime['wake']
  readonly approvalTypes: ApprovalTypes
  /** Told in the transaction that asks a person. */
  readonly notifyApprovers?: Notify
  readonly inserts: InsertLane<StoredCommand>
  readonly writes: CommandWriter
  /** Left out: every turn is the runtime's. */
  readonly turns?: InProcessTurns<HeldCommand>
  readonly facts: FactSources
  /** Which connectors are not for everybody; left out: none is. */
  readonly connectorAccess?: ConnectorAccess | undefined
  /** Left out: effects of this process cannot write artifacts. */
  readonly artifacts?: ArtifactDeps
  /** Told whenever a turn finds that its command cannot go on, since its task is not in the catalog. */
  readonly onTaskGone?: (gone: { readonly command_id: string; readonly task_name: string }) => void
  /** Settles after the time, or at once when the signal is aborted: call limits and heartbeats are made of it. */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>
}

/** An administrator acts as operator: may retry, undo and end what others asked for. */
export function actingFor(principal: Principal, traceId: string): Actor & { readonly principal: Principal } {
  return {
    id: `user:${principal.userId}`,
    kind: principal.role === 'admin' ? 'operator' : 'user',
    traceId,
    principal,
  }
}

/** What asking a person needs of this room. */
export function askingOf({ newId, approvalTypes, notifyApprovers }: CommandDeps) {
  return { newId, types: approvalTypes, ...(notifyApprovers ? { notify: notifyApprovers } : {}) }
}
