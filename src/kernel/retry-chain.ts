/** Retries that are rows of their own: each points to the job it repeats, and the number of hops to the root is the count. */
import { accept, type Decision, refuse } from './refusal.ts'
import { attemptsAllowed, type RetryLimit } from './retry.ts'

/** What `retry_of` of a job holds: an id, null for an original; undefined when there is no such job. */
export type FindRetryOf = (jobId: string) => string | null | undefined

/** The ids from the job itself to its original; a loop or a missing parent is an error, never an endless walk. */
export function walkRetryChain(jobId: string, findRetryOf: FindRetryOf): Decision<readonly string[]> {
  const chain = new Set([jobId])
  for (let at = jobId; ; ) {
    const parent = findRetryOf(at)
    if (parent === null) return accept([...chain])
    if (parent === undefined) {
      return refuse('retry.chain.missing_parent', 'a retry chain names a job that does not exist', {
        facts: { missing: at },
      })
    }
    if (chain.has(parent)) {
      return refuse('retry.chain.cycle', 'a retry chain leads back into itself', {
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

/** Failed, nothing repeats it, and no retry is allowed any more. */
export function isPermanentFailure(
  job: { readonly isFailed: boolean; readonly hasRetry: boolean; readonly hops: number },
  limit: RetryLimit,
): boolean {
  return job.isFailed && !job.hasRetry && attemptOfHops(job.hops) >= attemptsAllowed(limit)
}
