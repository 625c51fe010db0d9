/** Decides for every row whether it is proven, and counts per room. */
import type { TestResult } from './results.ts'
import type { Row } from './rows.ts'
import { type Citation, idsInPath } from './titles.ts'

/**
 * proven: a citing test passed and none failed. failing: a citing test failed. not run: cited in the source, but without a
 * result. open: not cited.
 */
type Standing = 'proven' | 'failing' | 'not run' | 'open'

type RowStanding = { readonly row: Row; readonly standing: Standing; readonly tests: readonly string[] }

export type RoomTally = {
  readonly room: string
  readonly rows: number
  readonly proven: number
  /** Core and important rows that are not proven. */
  readonly open: number
  /** Later rows that are not proven. */
  readonly later: number
}

type UnknownId = { readonly id: string; readonly places: readonly string[] }

export type Tally = {
  readonly rooms: readonly RoomTally[]
  readonly total: RoomTally
  readonly standings: readonly RowStanding[]
  readonly unknown: readonly UnknownId[]
}

type Evidence = { passed: string[]; failed: string[]; cited: string[] }

export function tally(rows: readonly Row[], results: readonly TestResult[], citations: readonly Citation[]): Tally {
  const evidence = gather(results, citations)
  const standings = rows.map((row) => standingOf(row, evidence.get(row.id)))
  const known = new Set(rows.map((row) => row.id))
  const unknown = [...evidence]
    .filter(([id]) => !known.has(id))
    .map(([id, { passed, failed, cited }]) => ({ id, places: cited.length > 0 ? cited : [...passed, ...failed] }))
  const rooms = [...Map.groupBy(standings, ({ row }) => row.room)].map(([room, members]) => count(room, members))
  return { rooms, total: count('total', standings), standings, unknown }
}

function gather(results: readonly TestResult[], citations: readonly Citation[]): Map<string, Evidence> {
  const evidence = new Map<string, Evidence>()
  const of = (id: string): Evidence => {
    const found = evidence.get(id) ?? { passed: [], failed: [], cited: [] }
    evidence.set(id, found)
    return found
  }
  const broken = results.filter(({ outcome }) => outcome === 'failed')
  for (const result of results) {
    const place = `${result.file}: ${result.titles.join(' › ')}`
    const isBrokenAbove = broken.some((above) => above.file === result.file && isAbove(above.titles, result.titles))
    for (const id of idsInPath(result.titles)) {
      if (isBrokenAbove) of(id).failed.push(place)
      else if (result.outcome === 'passed') of(id).passed.push(place)
      else if (result.outcome === 'failed') of(id).failed.push(place)
      else of(id).cited.push(place)
    }
  }
  for (const { id, file, line } of citations) of(id).cited.push(`${file}:${line}`)
  return evidence
}

/** A suite fails by itself when a hook fails; its tests prove nothing then. */
function isAbove(above: readonly string[], titles: readonly string[]): boolean {
  return above.length < titles.length && above.every((title, index) => title === titles[index])
}

function standingOf(row: Row, evidence: Evidence | undefined): RowStanding {
  if (!evidence) return { row, standing: 'open', tests: [] }
  const { passed, failed, cited } = evidence
  if (failed.length > 0) return { row, standing: 'failing', tests: failed }
  if (passed.length > 0) return { row, standing: 'proven', tests: passed }
  return { row, standing: 'not run', tests: cited }
}

function count(room: string, members: readonly RowStanding[]): RoomTally {
  const proven = members.filter(({ standing }) => standing === 'proven').length
  const unproven = members.filter(({ standing }) => standing !== 'proven')
  const later = unproven.filter(({ row }) => row.priority === 'later').length
  return { room, rows: members.length, proven, open: unproven.length - later, later }
}
