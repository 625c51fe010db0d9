/** Decides the seed and the number of runs of every property from the environment. */

/** CI judges the change and not luck: the same commit meets the same values every time. */
const CI_SEED = 20_261_115
/** fast-check keeps seeds and counts in 32 bits. */
const MOST = 2 ** 31 - 1
/** The runs of one property in the quick tier. A property's own number is for the chaos tier. */
const QUICK_RUNS = 100

export type PropertyPlan =
  | {
      readonly ok: true
      /** Absent when every property draws its own seed. */
      readonly seed?: number
      /** The factor for the number of runs that a property asks for. */
      readonly times: number
      /** True in the chaos tier, and when a person asks for more runs. */
      readonly isLong: boolean
      readonly says: string
    }
  | { readonly ok: false; readonly says: string }

export function planProperties(env: Readonly<Record<string, string | undefined>>): PropertyPlan {
  const runs = env['CONCORD_PROPERTY_RUNS'] ?? '1'
  const times = wholeNumber(runs)
  if (times === undefined || times < 1)
    return { ok: false, says: `CONCORD_PROPERTY_RUNS=${runs}: give a whole number from 1 to ${MOST}` }
  const isLong = times > 1 || env['CONCORD_PROOF'] === 'long'
  const size = !isLong
    ? `, at most ${QUICK_RUNS} runs each`
    : times > 1
      ? `, ${times} times the runs that each asks for`
      : ''
  const asked = env['CONCORD_PROPERTY_SEED'] ?? (env['CI'] === 'true' ? String(CI_SEED) : 'random')
  if (asked === 'random')
    return { ok: true, times, isLong, says: `properties: random seeds, a failure prints its own${size}` }
  const seed = wholeNumber(asked)
  if (seed === undefined)
    return { ok: false, says: `CONCORD_PROPERTY_SEED=${asked}: give a whole number of 32 bits, or random` }
  return { ok: true, seed, times, isLong, says: `properties: CONCORD_PROPERTY_SEED=${seed}${size}` }
}

export function runsOf({ times, isLong }: { times: number; isLong: boolean }, asked: number): number {
  return isLong ? times * asked : Math.min(asked, QUICK_RUNS)
}

function wholeNumber(text: string): number | undefined {
  return /^-?\d{1,10}$/.test(text) && Math.abs(Number(text)) <= MOST ? Number(text) : undefined
}
