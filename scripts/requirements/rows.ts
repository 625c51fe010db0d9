/** Reads the requirement rows from the Markdown tables of docs/requirements. */
const priorities = ['core', 'important', 'later'] as const
type Priority = (typeof priorities)[number]
/** Stated by the source, implied by it, or proposed where the source was silent. The default is stated. */
const origins = ['source', 'derived', 'proposed'] as const
type Origin = (typeof origins)[number]

export type Row = {
  readonly id: string
  /** The file of the row without its extension: `missions`, `flow`. */
  readonly room: string
  readonly text: string
  readonly verifiedBy: string
  readonly priority: Priority
  readonly origin: Origin
  readonly line: number
}

const rowStart = /^\|\s*([A-Z]{2,4}-\d{2,3})\s*\|/
const unescapedBar = /(?<!\\)\|/

/** A line that starts like a row but has the wrong number of cells is a mistake. */
export function parseRows(room: string, markdown: string): Row[] {
  return markdown.split('\n').flatMap((text, index): Row[] => {
    if (!rowStart.test(text)) return []
    const cells = text
      .trim()
      .replace(/^\|/, '')
      .replace(/\|$/, '')
      .split(unescapedBar)
      .map((cell) => cell.trim())
    const [id, requirement, verifiedBy, priority, origin = 'source'] = cells
    const known = priorities.find((each) => each === priority)
    const from = origins.find((each) => each === origin)
    if (cells.length < 4 || cells.length > 5 || !id || !requirement || !verifiedBy || !known || !from) {
      throw new Error(`${room}.md:${index + 1}: a row needs ID, requirement, how it is verified, priority, origin`)
    }
    return [{ id, room, text: requirement, verifiedBy, priority: known, origin: from, line: index + 1 }]
  })
}

/** Ids with more than one row, and the places of their rows. */
export function findDuplicates(rows: readonly Row[]): { id: string; places: string[] }[] {
  const places = Map.groupBy(rows, (row) => row.id)
  return [...places]
    .filter(([, found]) => found.length > 1)
    .map(([id, found]) => ({ id, places: found.map((row) => `${row.room}.md:${row.line}`) }))
}

/** The order of the files in the README of the requirements, which the report follows. */
export function roomOrder(readme: string): string[] {
  return [...new Set([...readme.matchAll(/\]\(([a-z-]+)\.md\)/g)].flatMap((match) => match[1] ?? []))]
}
