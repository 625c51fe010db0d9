/** Maps an exception to a refusal: a database that cannot answer is 503, everything else is 500 with ids only. */
import { type Refusal, type RefusalCode, refuse } from '#kernel/refusal'

/** `settled`: the database itself refused, so nothing was written. Without its answer a write may have happened. */
type Answer = {
  readonly code: RefusalCode
  readonly reason: string
  readonly retryAfterS: number
  readonly settled: boolean
}

const answer = (code: RefusalCode, reason: string, retryAfterS: number, settled = true): Answer => ({
  code,
  reason,
  retryAfterS,
  settled,
})

const silent = answer('database_unavailable', 'The database does not answer.', 2, false)
const busy = answer('database_busy', 'The database takes no more work right now.', 2)
const slow = answer('database_timeout', 'The database did not answer in time.', 5)
const conflict = answer('database_conflict', 'Other writers won every attempt.', 1)
const full = answer('storage_full', 'The disk of the database is full.', 30)
const readOnly = answer('database_read_only', 'The database accepts no writes right now.', 10)

/** By SQLSTATE, and by Node's codes for broken connections. */
const answers: Readonly<Record<string, Answer>> = {
  '53100': full,
  '53200': busy,
  '53300': busy,
  '55P03': busy,
  '25006': readOnly,
  '40001': conflict,
  '40P01': conflict,
  '57014': slow,
  '57P01': silent,
  '57P02': silent,
  '57P03': silent,
  '57P05': silent,
  unknown_outcome: silent,
  '25P03': slow,
  ECONNREFUSED: silent,
  ECONNRESET: silent,
  EPIPE: silent,
  ENOTFOUND: silent,
  EAI_AGAIN: silent,
  EHOSTUNREACH: silent,
  ENETUNREACH: silent,
  ETIMEDOUT: silent,
}

/** Errors of `pg` without a code. */
const messages: ReadonlyArray<readonly [RegExp, Answer]> = [
  [/^timeout (exceeded|expired)|^Connection terminated|^Client has encountered a connection error/, silent],
  [/^Cannot use a pool after calling end on the pool/, silent],
  [/^Query read timeout/, { ...slow, settled: false }],
]

/** Bounds the walk along the causes of a wrapped error, which may contain a cycle. */
const CAUSES_MAX = 8

function findAnswer(error: unknown): Answer | undefined {
  let current = error
  for (let depth = 0; depth < CAUSES_MAX && current instanceof Error; depth++) {
    const { code, message } = current as Error & { code?: unknown }
    if (typeof code === 'string') {
      const known = Object.hasOwn(answers, code) ? answers[code] : undefined
      // Class 08 is the SQL standard's own class of connection faults.
      if (known) return known
      if (/^08[0-9A-Z]{3}$/.test(code)) return silent
    }
    const known = messages.find(([pattern]) => pattern.test(message))
    if (known) return known[1]
    current = current.cause
  }
  return undefined
}

/** Returns the refusal for an exception, and whether it is a bug to log with its stack. */
export function judgeFault(error: unknown): { readonly refusal: Refusal; readonly bug: boolean } {
  const known = findAnswer(error)
  if (!known) {
    const hint = 'Report the request id. The server log has the details.'
    return { refusal: refuse('internal_error', 'The server failed with an internal error.', { hint }), bug: true }
  }
  const { code, reason, retryAfterS, settled } = known
  const hint = settled
    ? 'Nothing was written. Send the same request again.'
    : 'The outcome is unknown. Check it, or send the same request with the same idempotency key.'
  const facts = { outcome: settled ? 'not_done' : 'unknown', retry_after_s: retryAfterS }
  return { refusal: refuse(code, reason, { hint, facts }), bug: false }
}

/** The database answers reads, but nothing can be written. */
export function isWriteFault({ code }: Refusal): boolean {
  return code === full.code || code === readOnly.code
}
