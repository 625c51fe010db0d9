/**
 * The fence of a turn: a token that grows with every turn of a process and is stored on the row that the turn writes. A
 * driver that resumes late finds a greater token and writes nothing.
 *
 * The token is a UUID whose leading bits are a number that only increases, so `token < $1::uuid` in SQL and `<` between
 * strings order tokens as their numbers.
 */
import { KernelFault } from '#kernel/errors'

export type Fence = {
  /** For the row: `turn_token = $1 where turn_token is null or turn_token <= $1`. */
  readonly token: string
  /** Name of the turn, `turn:{kind}:{id}:{n}`. */
  readonly turn: string
  /** Above 1 when an earlier worker died during this turn. */
  readonly attempt: number
  /** Aborted when the worker learns that it no longer holds the turn, or that it has to close. */
  readonly signal: AbortSignal
}

/** 60 bits: a million turns a second for 36,000 years. */
const NUMBER_DIGITS = 15

/** A UUID of version 8 (RFC 9562), with a layout of our own. */
export function fenceToken(number: number): string {
  if (!Number.isSafeInteger(number) || number < 1) {
    throw new KernelFault('runtime.fence.number', 'A fence number must be a whole number of at least 1.', { number })
  }
  const hex = number.toString(16).padStart(NUMBER_DIGITS, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(12)}-8000-000000000000`
}
