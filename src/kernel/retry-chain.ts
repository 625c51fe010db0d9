/** Retries that are rows of their own: each points to the job it repeats, and the number of hops to the root is the count. */
import { accept, type Decision, refuse } from './refusal.ts'
import { attemptsAllowed, type RetryLimit } from './retry.ts'

/** The `retry_of` of a job: an id, or null for an original; undefined when the job does not exist. */
export type FindRetryOf = (jobId: string) => string | null | undefined

/** Returns the ids from the job to its original; a loop or a missing parent is an error, never an endless walk. */
export function walkRetryChain(jobId: string, findRetryOf: FindRetryOf): Decision<readonly string[]> {
  const chain = new Set([jobId])
  for (let at = jobId; ; ) {
    const parent = findRetryOf(at)
    if (parent === null) return accept([...chain])
    if (parent === undefined) {
      return refuse('retry.chain.missing_parent', 'A retry chain names a job that does not exist.', {
        facts: { missing: at },
      })
    }
    if (chain.has(parent)) {
      return refuse('retry.chain.cycle', 'A retry chain contains a cycle.', {
        facts: { cycle: [...chain, parent] },
      })
    }
    chain.add(parent)
    at = parent
  }
}

/** 0 for an original, 1 for its first retry. */
export function countHops(jobId: string, findRetryOf: FindRetryOf): Decision<number> {
  const chain = walkRetryChain(jobId, findRetryOf)
  return chain.ok ? accept(chain.value.length - 1) : chain
}

/** Hops are counted from 0, attempts from 1. */
export function attemptOfHops(hops: number): number {
  return hops + 1
}

/** True when the job failed, no retry of it exists, and no further retry is allowed. */
export function isPermanentFailure(
  job: { readonly isFailed: boolean; readonly hasRetry: boolean; readonly hops: number },
  limit: RetryLimit,
): boolean {
  return job.isFailed && !job.hasRetry && attemptOfHops(job.hops) >= attemptsAllowed(limit)
}
