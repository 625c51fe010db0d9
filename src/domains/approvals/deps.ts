/** What this room needs from outside: the database, ids, the approval types, and the room that acts on an answer. */
import type { Actor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import type { JsonObject } from '#kernel/json-value'
import type { Decision } from '#kernel/refusal'
import type { Db, Tx } from '#store'
import type { ApprovalRequest, StoredApproval } from './stored-approval.ts'
import type { Blocked } from './check-deciders.ts'
import type { NextStep } from './decide-vote.ts'
import type { ApprovalTypes } from './approval-type.ts'

export type ApprovalDeps = {
  readonly db: Db
  readonly newId: NewId
  readonly types: ApprovalTypes
  readonly owner: ApprovalOwner
  /** Told in the transaction that asks: the approval gets its first turn with the commit. */
  readonly notify?: Notify
}

export type Resolution = {
  /** As it is now. */
  readonly approval: StoredApproval
  /** What the owner does about it: move its row, and wake it. */
  readonly next: NextStep
  readonly by: Actor
  /** The database's time. */
  readonly at: Date
}

/**
 * The room whose command waits. All three run in the transaction of the answer: one commit, or none. They write there and nowhere else,
 * since the answer may still come to nothing: its deadline passes while they are at it.
 */
export type ApprovalOwner = {
  /**
   * Locks the command (`for no key update`) before any approval of it, and says the hash of what would run now. Cancelling
   * takes the command first as well; where this is missing, the two meet crosswise and Postgres makes one of them start over.
   */
  readonly lockCommand?: (tx: Tx, approval: StoredApproval) => Promise<LockedCommand | undefined>
  /**
   * Moves the command and wakes it. What it throws takes the decision along. `locked` is what `lockCommand` gave in this transaction; left out
   * where the owner has written the command since.
   */
  readonly onResolved: (tx: Tx, resolution: Resolution, locked?: LockedCommand) => Promise<void>
  /**
   * An approver changed the arguments: validates them, plans and asks the policy again, stores them on the command, and
   * says what has to be asked now (at least one). What it refuses was never written.
   */
  readonly revise?: (
    tx: Tx,
    approval: StoredApproval,
    edited: JsonObject,
    by: Actor,
  ) => Promise<Decision<readonly ApprovalRequest[]>>
}

/** The owner's row under its lock; only the owner looks inside `held`. */
export type LockedCommand = { readonly payloadHash: string; readonly held?: unknown }

export type ApprovalNotice = {
  readonly approval: StoredApproval
  readonly why: 'requested' | 'reminder' | 'escalation'
}

/** Joins the transaction with a wake; whatever talks to people is a step of its own. */
export type Notify = (tx: Tx, notice: ApprovalNotice) => Promise<void>

/** At most so many, or one approval alone. */
export type Sweep = { readonly limit?: number; readonly traceId: string; readonly approvalId?: string | null }

/** What is told about an approval: that it was asked, one of its reminders (`reminder:2`), that it went to the next role, or that nobody can decide. */
export type NoticeName = 'requested' | `reminder:${number}` | 'escalation' | 'blocked'

/** What is told when nobody can decide, and to whom: those who can change that. */
export type BlockedNotice = { readonly blocked: Blocked; readonly admins: readonly string[] }

export type Delivery = {
  /** The same for every attempt: a receiver knows a repeat by it. */
  readonly id: string
  readonly notice: NoticeName
  readonly approval: StoredApproval
  /** With the notice `blocked`. */
  readonly blocked?: BlockedNotice | undefined
  readonly signal: AbortSignal
}

/** A way to reach people. It throws when it could not be told, and is asked again later. */
export type NoticeChannel = {
  readonly name: string
  readonly deliver: (delivery: Delivery) => Promise<void>
}
