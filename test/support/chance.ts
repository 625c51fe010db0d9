/** Seeded randomness: the same seed gives the same run, and named streams are independent of each other. */
import { createHash } from 'node:crypto'

export type Chance = {
  /** A number in [0, 1). */
  next(): number
  /** An integer in [0, below). */
  whole(below: number): number
  pick<T>(list: readonly T[]): T
  split(name: string): Chance
}

/** The 128-bit small fast counting generator ("sfc32"): fast, with a period far longer than a test needs. */
export function openChance(seed: string): Chance {
  const bytes = createHash('sha256').update(seed).digest()
  let a = bytes.readUInt32LE(0)
  let b = bytes.readUInt32LE(4)
  let c = bytes.readUInt32LE(8)
  let counter = bytes.readUInt32LE(12)
  const next = () => {
    const sum = (a + b + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return (sum >>> 0) / 2 ** 32
  }
  const whole = (below: number) => Math.floor(next() * below)
  return {
    next,
    whole,
    pick<T>(list: readonly T[]) {
      const found = list[whole(list.length)]
      if (found === undefined) throw new Error('There is nothing to pick from.')
      return found
    },
    split: (name) => openChance(`${seed}/${name}`),
  }
}
