/** Validates the names of processes and of their turns before anything durable is written. */
import { KernelFault } from '#kernel/errors'
import { MAX_DURATION_MS } from '#kernel/duration'
import { checkInstant } from '#kernel/instant'
import { quote } from '#kernel/refusal'
import type { Next, Process, WakeOptions } from './port.ts'

const KIND = /^[a-z][a-z0-9_]{0,39}$/
/** The limit that every engine accepts. */
const PROCESS_ID_LENGTH_MAX = 200
export const PRIORITY_MAX = 1_000_000
/** Consecutive throws, and workers that died during one turn, before a process is stuck. */
export const DEFAULT_FAILURES_MAX = 8
export const DEFAULT_ATTEMPTS_MAX = 10

export function isKind(kind: string): boolean {
  return KIND.test(kind)
}

export function isProcessId(id: string): boolean {
  return id.length > 0 && id.length <= PROCESS_ID_LENGTH_MAX && isPlain(id)
}

/** No control characters and no lone surrogates, so that the text is read back unchanged. */
function isPlain(text: string): boolean {
  return text.isWellFormed() && Array.from(text).every((char) => (char.codePointAt(0) ?? 0) >= 0x20)
}

/** Throws before anything is written: an invalid name is a fault of the caller's code. */
export function checkProcess({ kind, id }: Process): void {
  if (!isKind(kind)) throw new KernelFault('runtime.process.kind', `${quote(kind)} is not a process kind.`)
  if (!isProcessId(id)) {
    throw new KernelFault(
      'runtime.process.id',
      `The id of a ${kind} must have 1 to ${PROCESS_ID_LENGTH_MAX} characters.`,
      {
        length: id.length,
      },
    )
  }
}

export function checkWake({ delayMs = 0, priority = 0, partition }: WakeOptions): void {
  if (!Number.isInteger(delayMs) || delayMs < 0 || delayMs > MAX_DURATION_MS) {
    throw new KernelFault('runtime.wake.delay', 'A delay must be a whole number of milliseconds up to 366 days.', {
      delayMs,
    })
  }
  if (!Number.isInteger(priority) || priority < 0 || priority > PRIORITY_MAX) {
    throw new KernelFault('runtime.wake.priority', `A priority must be a whole number up to ${PRIORITY_MAX}.`, {
      priority,
    })
  }
  if (partition !== undefined && !isProcessId(partition)) {
    throw new KernelFault('runtime.wake.partition', 'A partition must have 1 to 200 plain characters.')
  }
}

/** Validates the result of a drive; any other value is a bug of the drive and counts as a throw. */
export function checkNext(next: Next): Next {
  // A drive is third-party code, so its result is validated.
  const { t, until } = (next ?? {}) as { t?: unknown; until?: unknown }
  if (t === 'done' || t === 'again') return next
  if (t === 'wait' && (until === null || (until instanceof Date && checkInstant(until).ok))) return next
  throw new KernelFault('runtime.next.invalid', 'A drive must return done, again, or wait with a time or null.')
}

/** Returns `turn:{kind}:{id}:{n}`. Unambiguous: a kind has no colon, and the part after the last colon is a number. */
export function turnName({ kind, id }: Process, turn: number): string {
  return `turn:${kind}:${id}:${turn}`
}
