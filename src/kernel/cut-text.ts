/** Makes foreign text storable. */

/** The first `max` characters. None is cut in half, and half a surrogate pair and NUL, which Postgres refuses, are replaced. */
export function cutText(text: string, max: number): string {
  const start = Array.from(text.slice(0, 2 * max)).slice(0, max)
  return start.join('').replaceAll('\0', '\uFFFD').toWellFormed()
}
