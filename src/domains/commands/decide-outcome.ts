/** What follows from an attempt at an effect, by what can be known about it: done, again later, failed, or a question for a person. Pure. */
import type { Random } from '#kernel/clock'
import type { ErrorClass } from '#kernel/error-classes'
import { decideRetry, type RetrySettings } from '#kernel/retry'
import type { EffectClass } from './catalog/effect-definition.ts'

export type AttemptFailure = {
  readonly errorClass: ErrorClass
  readonly message: string
  /** `no` only if it is certain that nothing was done. */
  readonly happened: 'no' | 'unknown'
  /** The provider asked to be left alone for so long. */
  readonly retryAfterMs?: number | undefined
}

export type AfterFailure =
  | { readonly t: 'retry'; readonly delayMs: number }
  /** Known not to have happened. */
  | { readonly t: 'fail' }
  /** Look it up before anything else is decided. */
  | { readonly t: 'look_up' }
  | { readonly t: 'ask_person' }

export function decideAfterFailure(
  effectClass: EffectClass,
  settings: RetrySettings,
  { errorClass, happened, retryAfterMs }: AttemptFailure,
  { attempt, random }: { readonly attempt: number; readonly random: Random },
): AfterFailure {
  const retry = decideRetry(settings, { attempt, errorClass, random, askedToWaitMs: retryAfterMs })
  if (happened === 'no' || effectClass === 'read')
    return retry.retry ? { t: 'retry', delayMs: retry.delayMs } : { t: 'fail' }
  switch (effectClass) {
    case 'keyed':
      // The provider knows our key: the same call again does nothing twice, and tells what became of the first.
      return retry.retry ? { t: 'retry', delayMs: retry.delayMs } : { t: 'ask_person' }
    case 'queryable':
      return { t: 'look_up' }
    case 'opaque':
      return { t: 'ask_person' }
  }
}

export type InDoubt = 'repeat' | 'look_up' | 'fail' | 'ask_person'

/** An effect found `executing` that nobody is executing: its driver ended between the call and the record. */
export function decideInDoubt(effectClass: EffectClass, attempt: number, maxAttempts: number): InDoubt {
  const isLeft = attempt < maxAttempts
  switch (effectClass) {
    case 'read':
      return isLeft ? 'repeat' : 'fail'
    case 'keyed':
      return isLeft ? 'repeat' : 'ask_person'
    case 'queryable':
      return 'look_up'
    case 'opaque':
      return 'ask_person'
  }
}
