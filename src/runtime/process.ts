/** Names of processes and of their turns, checked before anything durable is written. */
import { KernelFault } from '#kernel/errors'
import { MAX_DURATION_MS } from '#kernel/duration'
import { checkInstant } from '#kernel/instant'
import { quote } from '#kernel/refusal'
import type { Next, Process, WakeOptions } from './port.ts'

const KIND = /^[a-z][a-z0-9_]{0,39}$/
/** No engine gets to see a longer one, so none gets to refuse it. */
const PROCESS_ID_LENGTH_MAX = 200
export const PRIORITY_MAX = 1_000_000
/** Throws in a row, and workers that ended in one turn, before a process is stuck. */
export const DEFAULT_FAILURES_MAX = 8
export const DEFAULT_ATTEMPTS_MAX = 10

export function isKind(kind: string): boolean {
  return KIND.test(kind)
}

export function isProcessId(id: string): boolean {
  return id.length > 0 && id.length <= PROCESS_ID_LENGTH_MAX && isPlain(id)
}

/** No control characters and no half pairs: what comes back is what went in. */
function isPlain(text: string): boolean {
  return text.isWellFormed() && Array.from(text).every((char) => (char.codePointAt(0) ?? 0) >= 0x20)
}

/** A wake with a name that cannot be kept is a fault of the caller's code: nothing of it is written. */
export function checkProcess({ kind, id }: Process): void {
  if (!isKind(kind)) throw new KernelFault('runtime.process.kind', `${quote(kind)} is no kind of process`)
  if (!isProcessId(id)) {
    throw new KernelFault('runtime.process.id', `the id of a ${kind} has 1 to ${PROCESS_ID_LENGTH_MAX} characters`, {
      length: id.length,
    })
  }
}

export function checkWake({ delayMs = 0, priority = 0, partition }: WakeOptions): void {
  if (!Number.isInteger(delayMs) || delayMs < 0 || delayMs > MAX_DURATION_MS) {
    throw new KernelFault('runtime.wake.delay', 'a delay is a whole number of milliseconds up to 366 days', { delayMs })
  }
  if (!Number.isInteger(priority) || priority < 0 || priority > PRIORITY_MAX) {
    throw new KernelFault('runtime.wake.priority', `a priority is a whole number up to ${PRIORITY_MAX}`, { priority })
  }
  if (partition !== undefined && !isProcessId(partition)) {
    throw new KernelFault('runtime.wake.partition', 'a partition has 1 to 200 plain characters')
  }
}

/** What a drive has answered; anything else than the three is a bug of the drive and counts as a throw. */
export function checkNext(next: Next): Next {
  // A drive is other people's code: its answer is looked at, not believed.
  const { t, until } = (next ?? {}) as { t?: unknown; until?: unknown }
  if (t === 'done' || t === 'again') return next
  if (t === 'wait' && (until === null || (until instanceof Date && checkInstant(until).ok))) return next
  throw new KernelFault('runtime.next.invalid', 'a drive answers done, again, or wait with a time or null')
}

/** `turn:{kind}:{id}:{n}`. Unambiguous: a kind has no colon, and what stands behind the last one is a number. */
export function turnName({ kind, id }: Process, turn: number): string {
  return `turn:${kind}:${id}:${turn}`
}
