/** The only place that reads the clock, chance and new ids of the real world; everything else gets them as arguments. */
import { randomBytes } from 'node:crypto'
import type { Clock, NewId, Random } from '#kernel/clock'
import { uuidV7Generator } from '#kernel/uuid'

export type World = {
  readonly now: Clock
  readonly random: Random
  readonly randomBytes: (count: number) => Uint8Array
  readonly newId: NewId
}

export function realWorld(): World {
  const now = () => new Date()
  return {
    now,
    random: Math.random,
    randomBytes,
    newId: uuidV7Generator(now, randomBytes),
  }
}
