/** A state as the end of a sentence about its thing: "has succeeded", "is waiting for approval". */

/** What a thing has done by itself; anything else is what it is, or what was done to it. */
const BY_ITSELF: ReadonlySet<string> = new Set(['succeeded', 'failed', 'expired'])

export function sayState(state: string): string {
  return `${BY_ITSELF.has(state) ? 'has' : 'is'} ${state.replaceAll('_', ' ')}`
}
