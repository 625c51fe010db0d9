/** Lays out tables, facts and long texts for the width of the terminal. Without a terminal nothing is cut or wrapped. */
import stringWidth from 'string-width'
import { colorsOf, type Terminal, tint } from './terminal.ts'

const GAP = '  '
/** A column does not become narrower than this. */
const CELL_MIN = 10
/** People copy ids, so a column of ids keeps its width. */
const ID = /^[a-z]+_[0-9a-f]{32}$/
/** "14:03, 2 min ago", as `sayTime` writes it. */
const TIME = /^.*\d\d:\d\d, (.+ ago|in .+|just now)$/
const segmenter = new Intl.Segmenter()

type Shape = {
  /** What happens to a text that is too long for its column: a list keeps one line for each row, a document shows everything. */
  readonly long?: 'cut' | 'wrap'
  /** A line below each row, for ids that would leave no room for the other columns. */
  readonly below?: readonly string[]
}

/** Pads every column but the last to its widest cell. The widest column shrinks until the table fits. */
export function formatTable(
  terminal: Terminal,
  head: readonly string[],
  given: readonly (readonly string[])[],
  { long = 'cut', below = [] }: Shape = {},
): string {
  const columnsOf = (cells: readonly (readonly string[])[]) =>
    head.map((title, at) => [title, ...cells.map((row) => row[at] ?? '')])
  const isWide = terminal.columns !== undefined && widthOf(columnsOf(given).map(widestOf)) > terminal.columns
  // Where there is no room for both, the distance alone still says when.
  const rows = isWide ? given.map((row) => row.map((cell) => TIME.exec(cell)?.[1] ?? cell)) : given
  const widths = fit(columnsOf(rows), terminal.columns)
  const { bold, dim } = colorsOf(terminal)
  const paint = (text: string, at: number) => (head[at] === 'status' ? tint(terminal, text) : text)
  const linesOf = (cells: readonly string[], show: typeof paint) => {
    const parts = widths.map((width, at) => {
      const cell = cells[at] ?? ''
      return long === 'wrap' ? wrap(cell, width) : [cut(cell, width)]
    })
    return Array.from({ length: Math.max(...parts.map(({ length }) => length)) }, (_, row) =>
      widths
        .map((width, at) => {
          const text = parts[at]?.[row] ?? ''
          return show(text, at) + ' '.repeat(at === widths.length - 1 ? 0 : Math.max(0, width - stringWidth(text)))
        })
        .join(GAP)
        .trimEnd(),
    )
  }
  const lines = [
    ...linesOf(head, (text) => (text === '' ? '' : bold(text))),
    ...rows.flatMap((row, at) => [...linesOf(row, paint), ...(below[at] ? [`  ${dim(below[at])}`] : [])]),
  ]
  return lines.map((line) => `${line}\n`).join('')
}

const widestOf = (cells: readonly string[]) => Math.max(...cells.map((cell) => stringWidth(cell)))
const widthOf = (widths: readonly number[]) => widths.reduce((sum, each) => sum + each + GAP.length, -GAP.length)

function fit(columns: readonly (readonly string[])[], width: number | undefined): readonly number[] {
  const fitted = columns.map(([title = '', ...cells]) => ({
    width: widestOf([title, ...cells]),
    min: cells.every((cell) => cell === '' || ID.test(cell)) ? Number.POSITIVE_INFINITY : CELL_MIN,
  }))
  while (width !== undefined && widthOf(fitted.map((each) => each.width)) > width) {
    const [widest] = fitted.filter((each) => each.width > each.min).toSorted((one, other) => other.width - one.width)
    if (!widest) break
    widest.width -= 1
  }
  return fitted.map((each) => each.width)
}

/** Ends with an ellipsis if the text is wider. */
export function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text
  let [kept, used] = ['', 1]
  for (const { segment } of segmenter.segment(text)) {
    used += stringWidth(segment)
    if (used > width) break
    kept += segment
  }
  return `${kept}…`
}

/** Breaks at spaces. A word that is wider than the line stays whole. */
export function wrap(text: string, width: number): string[] {
  if (stringWidth(text) <= width) return [text]
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`
    if (line !== '' && stringWidth(longer) > width) {
      lines.push(line.trimEnd())
      line = word
    } else line = longer
  }
  return [...lines, line]
}

export type Fact = readonly [name: string, text: string | null | undefined]

/** One indented line for each fact with a text. A longer text continues below its first line, unless it is a command line to copy. */
export function formatFacts(terminal: Terminal, width: number, facts: readonly Fact[]): string {
  const indent = ' '.repeat(width + 4)
  const room = (terminal.columns ?? Number.POSITIVE_INFINITY) - indent.length
  return facts
    .map(([name, text]) => {
      if (!text) return ''
      const lines = text.split('\n').flatMap((part) => (part.startsWith('concord ') ? [part] : wrap(part, room)))
      return `${`  ${name.padEnd(width)}  ${lines[0]}`.trimEnd()}\n${lines
        .slice(1)
        .map((line) => `${indent}${line}\n`)
        .join('')}`
    })
    .join('')
}
