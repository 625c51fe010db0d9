/** Decides the seed and the number of runs of every property from the environment. */

/** In CI the change is judged, not luck: the same commit meets the same values every time. */
const CI_SEED = 20_261_115
/** fast-check keeps seeds and counts in 32 bits. */
const MOST = 2 ** 31 - 1

export type PropertyPlan =
  | {
      readonly ok: true
      /** Absent: every property draws its own. */
      readonly seed?: number
      /** How many times as many runs as a property asks for. */
      readonly times: number
      readonly says: string
    }
  | { readonly ok: false; readonly says: string }

export function planProperties(env: Readonly<Record<string, string | undefined>>): PropertyPlan {
  const runs = env['CONCORD_PROPERTY_RUNS'] ?? '1'
  const times = wholeNumber(runs)
  if (times === undefined || times < 1)
    return { ok: false, says: `CONCORD_PROPERTY_RUNS=${runs}: give a whole number from 1 to ${MOST}` }
  const harder = times === 1 ? '' : `, ${times} times the runs that each asks for`
  const asked = env['CONCORD_PROPERTY_SEED'] ?? (env['CI'] === 'true' ? String(CI_SEED) : 'random')
  if (asked === 'random')
    return { ok: true, times, says: `properties: random seeds, a failure prints its own${harder}` }
  const seed = wholeNumber(asked)
  if (seed === undefined)
    return { ok: false, says: `CONCORD_PROPERTY_SEED=${asked}: give a whole number of 32 bits, or random` }
  return { ok: true, seed, times, says: `properties: CONCORD_PROPERTY_SEED=${seed}${harder}` }
}

function wholeNumber(text: string): number | undefined {
  return /^-?\d{1,10}$/.test(text) && Math.abs(Number(text)) <= MOST ? Number(text) : undefined
}
