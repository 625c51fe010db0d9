/** What goes wrong at the vendor, call by call, from a seed: the same seed gives the same trouble on every machine. */

/** Everything that ends in `_after` has done what it was asked for by then. */
export const troubles = [
  'slow',
  'fail_before',
  'rate_limited',
  'fail_after',
  'silent_after',
  'reset_after',
  'wrong_type_after',
  'too_large_after',
  /** Done, and answered with the key of somebody else. */
  'lie_after',
  /** Every row of a list twice. */
  'repeat',
] as const
export type Trouble = (typeof troubles)[number]

const operations = ['book', 'cancel', 'rates', 'search', 'rooms'] as const
export type Operation = (typeof operations)[number]

/** A list cannot be answered for another key, and a booking has no rows to repeat. */
const possible: Readonly<Record<Operation, readonly Trouble[]>> = {
  book: troubles.filter((trouble) => trouble !== 'repeat'),
  cancel: troubles.filter((trouble) => trouble !== 'repeat'),
  rates: ['slow', 'fail_before', 'rate_limited', 'wrong_type_after', 'too_large_after', 'repeat'],
  search: ['slow', 'fail_before', 'rate_limited', 'wrong_type_after', 'too_large_after', 'repeat'],
  rooms: ['slow', 'fail_before', 'rate_limited', 'wrong_type_after', 'too_large_after'],
}

/** The first calls of each operation go wrong, each in another way; what comes after them is answered as it should be. */
export function planTrouble(seed: number, count: number): Readonly<Record<Operation, readonly Trouble[]>> {
  const of = (operation: Operation) => shuffle(possible[operation], chance(`${seed}/${operation}`)).slice(0, count)
  return { book: of('book'), cancel: of('cancel'), rates: of('rates'), search: of('search'), rooms: of('rooms') }
}

function shuffle<T>(items: readonly T[], next: () => number): readonly T[] {
  return items
    .map((item) => ({ item, at: next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

/** Mulberry32 over an FNV hash of the name: small, and good enough to disagree with everybody's expectations. */
function chance(name: string): () => number {
  let state = 0x811c9dc5
  for (const char of name) state = Math.imul(state ^ (char.codePointAt(0) ?? 0), 0x01000193)
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
