/** Plans the vendor's failures from a seed: the same seed gives the same failures on every machine. */

/** Failures that end in `_after` happen after the effect. */
export const troubles = [
  'slow',
  'fail_before',
  'rate_limited',
  'fail_after',
  'silent_after',
  'reset_after',
  'wrong_type_after',
  'too_large_after',
  /** Takes effect, but the answer has another key. */
  'lie_after',
  /** Repeats every row of a list. */
  'repeat',
] as const
export type Trouble = (typeof troubles)[number]

const operations = ['book', 'cancel', 'rates', 'search', 'rooms'] as const
export type Operation = (typeof operations)[number]

/** A list has no key to confuse, and a booking has no rows to repeat. */
const possible: Readonly<Record<Operation, readonly Trouble[]>> = {
  book: troubles.filter((trouble) => trouble !== 'repeat'),
  cancel: troubles.filter((trouble) => trouble !== 'repeat'),
  rates: ['slow', 'fail_before', 'rate_limited', 'wrong_type_after', 'too_large_after', 'repeat'],
  search: ['slow', 'fail_before', 'rate_limited', 'wrong_type_after', 'too_large_after', 'repeat'],
  rooms: ['slow', 'fail_before', 'rate_limited', 'wrong_type_after', 'too_large_after'],
}

/** The first calls of each operation fail, each in a different way; later calls succeed. */
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

/** Mulberry32 over an FNV hash of the name: small and sufficiently random. */
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
