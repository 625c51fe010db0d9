/**
 * Prints how many requirement rows the last test run proved.
 *
 *   npm run requirements                  per room: rows, proven, open, later
 *   npm run requirements -- --open        every row that no passing test proves yet
 *   npm run requirements -- --room flow   one room
 *   npm run requirements -- --json        for machines
 *   npm run requirements -- --check       exit 1 when a citing test failed or nothing has run
 *   npm run requirements -- --complete    exit 1 when a core or important row is open
 *
 * A citation of an unknown id always exits with 1.
 */
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import pc from 'picocolors'
import { renderOpen, renderTally, renderTroubles } from './requirements/report.ts'
import { parseResults, resultsFile, type TestResult } from './requirements/results.ts'
import { parseRows, type Row, roomOrder } from './requirements/rows.ts'
import { type RoomTally, type Tally, tally } from './requirements/tally.ts'
import { citationsInSource } from './requirements/titles.ts'
import { readFlags } from './read-flags.ts'

const ledger = 'docs/requirements'

const { values: options } = readFlags({
  options: {
    json: { type: 'boolean', default: false },
    open: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    complete: { type: 'boolean', default: false },
    room: { type: 'string' },
  },
})

function readRows(): Row[] {
  const order = roomOrder(readFileSync(`${ledger}/README.md`, 'utf8'))
  const place = (room: string) => (order.includes(room) ? order.indexOf(room) : order.length)
  return readdirSync(ledger)
    .filter((name) => name.endsWith('.md'))
    .map((name) => name.slice(0, -'.md'.length))
    .toSorted((a, b) => place(a) - place(b) || a.localeCompare(b))
    .flatMap((room) => parseRows(room, readFileSync(`${ledger}/${room}.md`, 'utf8')))
}

/** Results of deleted files do not count. */
function readResults(): TestResult[] | undefined {
  if (!existsSync(resultsFile)) return undefined
  return parseResults(readFileSync(resultsFile, 'utf8')).filter((result) => existsSync(result.file))
}

function readCitations() {
  const files = globSync('{src,test,scripts,examples,bench}/**/*.{test,case}.ts')
  return files.toSorted().flatMap((file) => citationsInSource(file, readFileSync(file, 'utf8')))
}

function only(found: Tally, room: string): Tally {
  const rooms = found.rooms.filter((each) => each.room === room)
  const empty: RoomTally = { room, rows: 0, proven: 0, open: 0, later: 0 }
  return {
    ...found,
    rooms,
    total: rooms[0] ?? empty,
    standings: found.standings.filter(({ row }) => row.room === room),
  }
}

const results = readResults()
const all = tally(readRows(), results ?? [], readCitations())
if (options.room !== undefined && !all.rooms.some(({ room }) => room === options.room)) {
  console.error(`No room ${options.room}. Rooms: ${all.rooms.map(({ room }) => room).join(', ')}`)
  process.exit(64)
}
const shown = options.room === undefined ? all : only(all, options.room)
const palette = pc.createColors(process.stdout.isTTY && pc.isColorSupported)

if (options.json) {
  const standings = shown.standings.map(({ row, standing, tests }) => ({ ...row, standing, tests }))
  console.log(JSON.stringify({ ran: results !== undefined, ...shown, standings }, null, 2))
} else if (options.open) {
  console.log(renderOpen(shown, palette))
} else {
  if (!results)
    console.log(`${palette.yellow('No test run yet:')} npm test records one. Until then rows are cited, not run.\n`)
  console.log(renderTally(shown, palette))
  const troubles = renderTroubles(shown, palette)
  if (troubles) console.log(troubles)
}

const failing = shown.standings.some(({ standing }) => standing === 'failing')
const wrong =
  all.unknown.length > 0 || (options.check && (!results || failing)) || (options.complete && shown.total.open > 0)
process.exitCode = wrong ? 1 : 0
