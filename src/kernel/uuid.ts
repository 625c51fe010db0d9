/**
 * Generates UUIDs of version 7, so that new rows land at the end of the primary key's index, strictly increasing
 * within one generator even when many fall into one millisecond or the clock moves back.
 */
import type { Clock, NewId } from './clock.ts'
import { KernelFault } from './errors.ts'

/** Returns the requested number of random bytes; tests pass their own. */
export type RandomBytes = (count: number) => Uint8Array

const CANONICAL = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const HEX_32 = /^[0-9a-f]{32}$/
const MAX_TIME_MS = 2 ** 48 - 1
const MAX_COUNTER = 0xfff

/** The only form that Concord stores and compares: lower case, with hyphens, without braces. */
export function isUuid(text: string): boolean {
  return CANONICAL.test(text)
}

/** Returns 32 lower-case hex digits without hyphens, or undefined for anything that is not a canonical UUID. */
export function hexOfUuid(uuid: string): string | undefined {
  return CANONICAL.test(uuid) ? uuid.replaceAll('-', '') : undefined
}

export function uuidOfHex(hex: string): string | undefined {
  return HEX_32.test(hex) ? hyphenate(hex) : undefined
}

/** Lays out a time, a counter of 12 bits and 8 random bytes as version 7 (RFC 9562); 62 random bits remain. */
export function uuidV7(timeMs: number, counter: number, random: Uint8Array): string {
  if (!Number.isInteger(timeMs) || timeMs < 0 || timeMs > MAX_TIME_MS) {
    throw new KernelFault('uuid.time', 'A version 7 UUID needs a whole number of milliseconds in 48 bits.', {
      timeMs,
    })
  }
  if (!Number.isInteger(counter) || counter < 0 || counter > MAX_COUNTER) {
    throw new KernelFault('uuid.counter', 'The counter of a version 7 UUID has 12 bits.', { counter })
  }
  const tail = hexOf(random, 8)
  const variant = (Number.parseInt(tail.charAt(0), 16) & 0x3) | 0x8
  const time = timeMs.toString(16).padStart(12, '0')
  return hyphenate(`${time}7${counter.toString(16).padStart(3, '0')}${variant.toString(16)}${tail.slice(1)}`)
}

/** Writes sixteen random bytes as a UUID of version 4. */
export function uuidV4(random: Uint8Array): string {
  const hex = hexOf(random, 16)
  const variant = (Number.parseInt(hex.charAt(16), 16) & 0x3) | 0x8
  return hyphenate(`${hex.slice(0, 12)}4${hex.slice(13, 16)}${variant.toString(16)}${hex.slice(17)}`)
}

/**
 * Creates a generator whose ids only increase. Within a millisecond the counter rises from a random start in its lower half;
 * when it is full, or when the clock stops or moves back, the generator advances its own time.
 */
export function uuidV7Generator(clock: Clock, randomBytes: RandomBytes): NewId {
  let timeMs = -1
  let counter = 0
  return () => {
    const nowMs = clock().getTime()
    const random = randomBytes(10)
    if (nowMs > timeMs) {
      timeMs = nowMs
      counter = freshCounter(random)
    } else if (counter < MAX_COUNTER) {
      counter += 1
    } else {
      timeMs += 1
      counter = freshCounter(random)
    }
    return uuidV7(timeMs, counter, random.subarray(2, 10))
  }
}

/** 11 random bits: at least 2,048 ids fit into the millisecond before the generator borrows the next one. */
function freshCounter(random: Uint8Array): number {
  return (((random[0] ?? 0) & 0x7) << 8) | (random[1] ?? 0)
}

function hexOf(bytes: Uint8Array, count: number): string {
  if (bytes.length !== count) {
    throw new KernelFault('uuid.random', `The random source must return ${count} bytes.`, { given: bytes.length })
  }
  let hex = ''
  for (const byte of bytes) hex += byte < 16 ? `0${byte.toString(16)}` : byte.toString(16)
  return hex
}

function hyphenate(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}
