/** Writes a state as the end of a sentence about its row: "has succeeded", "is waiting for approval". */

/** States that a row enters by its own action ("has …"); all others are written with "is …". */
const BY_ITSELF: ReadonlySet<string> = new Set(['succeeded', 'failed', 'expired'])

export function sayState(state: string): string {
  return `${BY_ITSELF.has(state) ? 'has' : 'is'} ${state.replaceAll('_', ' ')}`
}
