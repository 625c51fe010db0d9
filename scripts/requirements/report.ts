/** Renders the tally as a table; colours are functions, so that plain text is possible. */
import type { RoomTally, Tally } from './tally.ts'

type Paint = (text: string) => string
export type Palette = { readonly [name in 'bold' | 'dim' | 'green' | 'yellow' | 'red' | 'cyan']: Paint }

const barWidth = 24
const columns = ['rows', 'proven', 'open', 'later'] as const

export function renderTally(tally: Tally, palette: Palette): string {
  const width = Math.max(...[...tally.rooms, tally.total].map(({ room }) => room.length))
  const head = ['room'.padEnd(width), ...columns.map((name) => name.padStart(6)), '', ''.padEnd(barWidth), '   %']
  const rule = palette.dim('─'.repeat(width + columns.length * 8 + barWidth + 10))
  return [
    palette.dim(head.join('  ')),
    rule,
    ...tally.rooms.map((room) => renderRoom(room, width, palette)),
    rule,
    palette.bold(renderRoom(tally.total, width, palette)),
  ].join('\n')
}

function renderRoom(tally: RoomTally, width: number, palette: Palette): string {
  const share = tally.rows === 0 ? 0 : tally.proven / tally.rows
  const shade = share === 1 ? palette.green : share > 0 ? palette.yellow : palette.dim
  const cells = columns.map((name) => {
    const text = String(tally[name]).padStart(6)
    if (tally[name] === 0) return palette.dim(text)
    return name === 'proven' ? palette.green(text) : text
  })
  return [tally.room.padEnd(width), ...cells, '', shade(bar(share)), percent(share)].join('  ')
}

/** Rounded down, so that a full bar and "100" mean every row. */
export function bar(share: number, width = barWidth): string {
  const full = Math.floor(share * width)
  return '█'.repeat(full) + '░'.repeat(width - full)
}

function percent(share: number): string {
  return String(Math.floor(share * 100)).padStart(4)
}

export function renderTroubles(tally: Tally, palette: Palette): string {
  const unknown = tally.unknown.map(({ id, places }) => `  ${palette.red(id)}  ${places[0] ?? ''}${more(places)}`)
  const failing = tally.standings.filter(({ standing }) => standing === 'failing')
  const notRun = tally.standings.filter(({ standing }) => standing === 'not run')
  const list = (rows: typeof failing) =>
    rows.map(({ row, tests }) => `  ${palette.yellow(row.id)}  ${tests[0] ?? ''}${more(tests)}`)
  return [
    ...section(palette.red('Cited, but no such row'), unknown),
    ...section(palette.red('Cited by a failing test'), list(failing)),
    ...section(palette.yellow('Cited, but not run'), list(notRun)),
  ].join('\n')
}

function section(title: string, lines: readonly string[]): string[] {
  const shown = lines.slice(0, 20)
  const rest = lines.length > shown.length ? [`  … and ${lines.length - shown.length} more`] : []
  return lines.length === 0 ? [] : ['', `${title} (${lines.length})`, ...shown, ...rest]
}

function more(places: readonly string[]): string {
  return places.length > 1 ? ` (+${places.length - 1})` : ''
}

/** Every row that no passing test proves, room by room. */
export function renderOpen(tally: Tally, palette: Palette): string {
  const open = tally.standings.filter(({ standing }) => standing !== 'proven')
  return [...Map.groupBy(open, ({ row }) => row.room)]
    .map(([room, members]) =>
      [
        palette.bold(`${room} (${members.length})`),
        ...members.map(({ row, standing }) => {
          const mark = standing === 'open' ? '' : palette.yellow(` [${standing}]`)
          return `  ${palette.cyan(row.id.padEnd(8))} ${row.priority.padEnd(9)}${mark} ${row.text}`
        }),
      ].join('\n'),
    )
    .join('\n\n')
}
