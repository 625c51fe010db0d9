/** One step in the life of a command: what has been seen before it, what it changes, and what comes after it. Pure. */
import type { ApprovalRequest } from '#domains/approvals'
import type { Random } from '#kernel/clock'
import type { ErrorClass } from '#kernel/error-classes'
import type { Decision } from '#kernel/refusal'
import { bySystem, type Change, move, release, set } from './change.ts'
import type { Awaits } from './catalog/effect-definition.ts'
import type { Catalog } from './catalog/open-catalog.ts'
import type { AwaitedRow, ParentFact } from './command-table.ts'

export type AttemptFailure = {
  readonly errorClass: ErrorClass
  readonly message: string
  /** `no` only if it is certain that nothing was done. */
  readonly happened: 'no' | 'unknown'
  /** The provider asked to be left alone for so long. */
  readonly retryAfterMs?: number | undefined
}

/** Why the provider is asked what became of an effect: an attempt failed, its driver died, or the process it waits for may have ended. */
export type LookUp = { readonly why: 'failed' | 'cut' | 'process'; readonly cause: AttemptFailure }

export type CallResult =
  | { readonly t: 'done'; readonly result: unknown; readonly emitted: readonly string[] }
  | { readonly t: 'failed'; readonly failure: AttemptFailure; readonly emitted: readonly string[] }
  | { readonly t: 'pending'; readonly awaits: Awaits }
  /** Answers to a look-up. */
  | { readonly t: 'found'; readonly result: unknown }
  | { readonly t: 'missing' }

/** What came of the call, or of the look-up, that this very turn has just made. */
export type CallOutcome = {
  readonly effectId: string
  /** The attempt that made the call: a later one may have replaced it meanwhile. */
  readonly attempt: number
  readonly lookUp?: LookUp
  readonly result: CallResult
}

/** Everything that a step knows beside the rows of the command. */
export type Seen = {
  readonly catalog: Catalog
  readonly random: Random
  /** The turn that carries the step out; null: the request itself. */
  readonly turn: { readonly token: string; readonly name: string } | null
  readonly hasParents: boolean
  readonly outcome?: CallOutcome
  /** Another command has an effect with the same idempotency key. */
  readonly isKeyTaken?: boolean
  readonly facts?: Readonly<Record<string, unknown>>
  readonly parents?: readonly ParentFact[]
  readonly approved?: Decision<unknown>
  readonly awaited?: { readonly commandId: string; readonly row: AwaitedRow | undefined }
}

export type Need = 'facts' | 'parents' | 'approved'

export type AfterStep =
  | { readonly t: 'again' }
  /** The step has to see this first; it changes nothing before. */
  | { readonly t: 'need'; readonly what: Need }
  | { readonly t: 'need'; readonly what: 'awaited'; readonly commandId: string }
  | { readonly t: 'call'; readonly effectId: string }
  | { readonly t: 'look_up'; readonly effectId: string; readonly lookUp: LookUp }
  /** `gates` replace what was asked before; `outcome` is one more question. */
  | { readonly t: 'ask'; readonly what: 'gates' | 'outcome'; readonly requests: readonly ApprovalRequest[] }
  /** The wait for another command is written down; it may have ended before, so it is looked at after the commit. */
  | { readonly t: 'follow'; readonly commandId: string }
  | { readonly t: 'wait'; readonly until: Date | null; readonly isTaskGone?: true }
  | { readonly t: 'end' }

export type Step = { readonly changes: readonly Change[]; readonly next: AfterStep }

export const again: AfterStep = { t: 'again' }

export const need = (what: Need): Step => ({ changes: [], next: { t: 'need', what } })

/** Nothing more to do until the time, or until a wake. */
export const rest = (until: Date | null, ...changes: readonly Change[]): Step => ({
  changes: [...changes, release(until)],
  next: { t: 'wait', until },
})

export function fail(errorClass: ErrorClass, error: string, ...before: readonly Change[]): Step {
  const why = { error_class: errorClass, error }
  return { changes: [...before, set(why), move('failed', bySystem, why), release(null)], next: { t: 'end' } }
}
