/** A carrier in this process that does to turns whatever an engine might: loses them, brings them twice, late, or not at all. */
import type { Carrier, CarrierHost, GivenTurn } from '#runtime/book'
import { referenceProfile } from './reference-runtime/profile.ts'

export type TestCarrier = Carrier & {
  /** Everything that was handed over, in order. */
  readonly given: GivenTurn[]
  /** What becomes of a turn; it is delivered. */
  treat: (turn: GivenTurn, deliver: (delivery: number) => Promise<string>) => void
  /** How many of the next turns are refused. */
  refuses: number
  isReachable: boolean
}

export function createTestCarrier(): TestCarrier {
  let host: CarrierHost | undefined
  const carrier: TestCarrier = {
    profile: referenceProfile,
    unavailable: undefined,
    given: [],
    refuses: 0,
    isReachable: true,
    treat: (_turn, deliver) => void deliver(1),
    async open(opened) {
      host = opened
    },
    ready: async () => carrier.isReachable,
    async give(turns) {
      if (!host) return turns
      if (!carrier.isReachable) throw new Error('the engine does not answer')
      const { deliver } = host
      const refused = turns.slice(0, carrier.refuses)
      carrier.refuses -= refused.length
      for (const turn of turns.slice(refused.length)) {
        carrier.given.push(turn)
        carrier.treat(turn, (delivery) => deliver(turn, delivery))
      }
      return refused
    },
    defineQueue: async () => {},
    async close() {
      host = undefined
    },
  }
  return carrier
}
