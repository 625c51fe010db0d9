/** The retry policy of a job type as stored, and the decision that it leads to after a failed run. Pure. */
import type { Random } from '#kernel/clock'
import type { FailureClass } from '#kernel/error-classes'
import type { Decision } from '#kernel/refusal'
import { decideRetry, type RetrySettings } from '#kernel/retry'
import { attemptOfHops } from '#kernel/retry-chain'
import { type RetryPolicyBody, retryPolicyBody } from './contract.ts'
import type { RetryVerdict } from './stored-rows.ts'

/** Three retries, at once: what a type gets that says nothing. */
export const defaultRetryPolicy: RetryPolicyBody = retryPolicyBody.parse({})

/** A policy that cannot be read any more counts as none: the work is not repeated by guesswork. */
export function readRetryPolicy(text: string): RetryPolicyBody {
  const parsed = retryPolicyBody.safeParse(safeJson(text))
  return parsed.success ? parsed.data : { ...defaultRetryPolicy, max_retries: 0 }
}

export function retrySettingsOf(policy: RetryPolicyBody): RetrySettings {
  return {
    limit: { retries: policy.max_retries },
    backoff: { delay: policy.delay, jitter: policy.jitter },
    retryable: policy.error_classes,
  }
}

export type FailedRun = {
  readonly policy: RetryPolicyBody
  /** From the failed job to its original, or why the chain cannot be walked. */
  readonly hops: Decision<number>
  readonly errorClass: FailureClass
  readonly exitCode: number | null
  /** Facts that rule a retry out before the policy is asked. */
  readonly ruledOut?: 'stopped' | 'direct' | 'group_halted' | 'orphan_alive' | undefined
  readonly random: Random
}

export type RetryPlan = { readonly verdict: RetryVerdict; readonly delayMs: number }

export function decideRetryPlan(failed: FailedRun): RetryPlan {
  const { policy, hops, errorClass, exitCode, ruledOut, random } = failed
  if (ruledOut) return { verdict: ruledOut, delayMs: 0 }
  if (!hops.ok) return { verdict: 'chain_broken', delayMs: 0 }
  if (policy.exit_codes !== null && exitCode !== null && !policy.exit_codes.includes(exitCode)) {
    return { verdict: 'not_listed', delayMs: 0 }
  }
  const decision = decideRetry(retrySettingsOf(policy), { attempt: attemptOfHops(hops.value), errorClass, random })
  return decision.retry ? { verdict: 'retry', delayMs: decision.delayMs } : { verdict: decision.why, delayMs: 0 }
}

function safeJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
