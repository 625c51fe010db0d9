/** The dependencies of this room: the database, ids, the approval types, the owner of an answer, and the channels. */
import type { Actor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import type { Origins } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import type { Decision } from '#kernel/refusal'
import type { Db, Statement, Tx } from '#store'
import type { ApprovalRequest, StoredApproval } from './stored-approval.ts'
import type { Blocked } from './check-deciders.ts'
import type { NextStep, Sibling } from './decide-vote.ts'
import type { ApprovalTypes } from './approval-type.ts'

export type ApprovalDeps = {
  readonly db: Db
  readonly newId: NewId
  readonly types: ApprovalTypes
  readonly owner: ApprovalOwner
  /** Called in the transaction of the request: the approval gets its first turn with the commit. */
  readonly notify?: Notify
}

export type Resolution = {
  /** The current row. */
  readonly approval: StoredApproval
  /** The step that the owner takes: it moves its row and wakes it. */
  readonly next: NextStep
  readonly by: Actor
  /** The time of the database. */
  readonly at: Date
}

/**
 * The room whose command waits. All three functions run in the transaction of the answer and write only there, since the answer may
 * still be refused: its deadline can pass meanwhile.
 */
export type ApprovalOwner = {
  /**
   * Locks the command (`for no key update`) before any approval of it, and returns the hash of the content that would run now.
   * Cancelling also locks the command first; without this function the two can deadlock, and Postgres aborts one of them.
   */
  readonly lockCommand?: (tx: Tx, approval: StoredApproval) => Promise<LockedCommand | undefined>
  /**
   * Moves the command and wakes it. An error rolls back the decision. `locked` is the result of `lockCommand` in this
   * transaction; it is omitted when the owner has written the command since.
   */
  readonly onResolved: (tx: Tx, resolution: Resolution, locked?: LockedCommand) => Promise<void>
  /**
   * An approver changed the arguments. Validates them, plans and evaluates the policy again, stores them on the command, and
   * returns the approvals that are needed now (at least one). A refusal rolls everything back.
   */
  readonly revise?: (
    tx: Tx,
    approval: StoredApproval,
    edited: JsonObject,
    by: Actor,
  ) => Promise<Decision<readonly ApprovalRequest[]>>
  /**
   * What would run has changed since people were asked, for example by a deploy. Stores what would run now, and returns the approvals that it
   * needs (at least one). A refusal rolls everything back.
   */
  readonly askAgain?: (tx: Tx, approval: StoredApproval) => Promise<Decision<readonly ApprovalRequest[]>>
  /** Answers in one read and one write. Omitted, or if it cannot: under the locks. */
  readonly atOnce?: AnswerAtOnce
}

/** A read approval with the command as the owner's column shows it. */
export type Readable = StoredApproval & {
  readonly version: string
  readonly asked_at: Date
  readonly others: readonly Sibling[]
  /** Of the person who decides. */
  readonly origins: Origins | null
  readonly owned: unknown
}

export type AnswerAtOnce = {
  /** Made by `readWith` from a column of the owner. */
  readonly read: Statement<Readable>
  /** The command from its column. */
  readonly commandOf: (owned: unknown) => LockedCommand
  /**
   * Writes the vote and the command as one statement. `given` of the vote is true if the command is as it was read; the command changes if the vote
   * does. False: nothing was written.
   */
  readonly write: (resolution: Resolution, command: LockedCommand, vote: JoinedVote) => Promise<boolean>
}

/** Common table expressions for the statement of the owner, the last of them `told`, and the values of their two parameters. */
export type JoinedVote = {
  readonly text: (id: string, values: string, given: string) => string
  readonly id: string
  readonly values: string
}

/** The row of the owner under its lock; only the owner reads `held`. */
export type LockedCommand = {
  /** Of the content on the row. */
  readonly payloadHash: string
  /** Of the content that would run now. Omitted: not known. */
  readonly hashNow?: string | undefined
  readonly held?: unknown
}

export type ApprovalNotice = {
  readonly approval: StoredApproval
  readonly why: 'requested' | 'reminder' | 'escalation'
}

/** Adds a wake to the transaction; a separate step notifies people. */
export type Notify = (tx: Tx, notice: ApprovalNotice) => Promise<void>

/** At most `limit` approvals, or one approval only. */
export type Sweep = { readonly limit?: number; readonly traceId: string; readonly approvalId?: string | null }

/** The kinds of notice: a new request, a reminder (`reminder:2`), an escalation, or that nobody can decide. */
export type NoticeName = 'requested' | `reminder:${number}` | 'escalation' | 'blocked'

/** The reason why nobody can decide, and the administrators who can change that. */
export type BlockedNotice = { readonly blocked: Blocked; readonly admins: readonly string[] }

export type Delivery = {
  /** The same for every attempt, so that a receiver recognises a repeat. */
  readonly id: string
  readonly notice: NoticeName
  readonly approval: StoredApproval
  /** With the notice `blocked`. */
  readonly blocked?: BlockedNotice | undefined
  readonly signal: AbortSignal
}

/** A way to reach people. A failed delivery throws and is tried again later. */
export type NoticeChannel = {
  readonly name: string
  readonly deliver: (delivery: Delivery) => Promise<void>
}
