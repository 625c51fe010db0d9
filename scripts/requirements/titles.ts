/** Finds the requirement ids that a test cites: in brackets at the front of any title on its path. */
const leadingIds = /^\s*((?:\[[A-Z]{2,4}-\d{2,4}\]\s*)+)/
const oneId = /\[([A-Z]{2,4}-\d{2,4})\]/g

export function idsInTitle(title: string): string[] {
  const front = leadingIds.exec(title)?.[1] ?? ''
  return [...front.matchAll(oneId)].flatMap((match) => match[1] ?? [])
}

/** `describe('[ST-01] …')` around `test('[ST-02] …')` proves both rows. */
export function idsInPath(titles: readonly string[]): string[] {
  return [...new Set(titles.flatMap(idsInTitle))]
}

export type Citation = { readonly id: string; readonly file: string; readonly line: number }

/**
 * Finds the citations in a source text: calls whose first argument is a string that starts with ids. Titles that are composed at
 * run time appear only in results.
 */
export function citationsInSource(file: string, source: string): Citation[] {
  return [...source.matchAll(/\w\(\s*['"`](\s*(?:\[[A-Z]{2,4}-\d{2,4}\]\s*)+)/g)].flatMap((match) => {
    const line = source.slice(0, match.index + match[0].length).split('\n').length
    return idsInTitle(match[1] ?? '').map((id) => ({ id, file, line }))
  })
}
