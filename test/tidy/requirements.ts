/** The requirements are complete, and no test cites a row that does not exist. */
import { findDuplicates, parseRows, type Row } from '../../scripts/requirements/rows.ts'
import { citationsInSource } from '../../scripts/requirements/titles.ts'
import type { Finding } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

const folder = 'docs/requirements/'

/** The number of rows of each prefix. Rows are never removed or renumbered, so the numbers only grow. */
const rowsPerPrefix: Readonly<Record<string, number>> = {
  PRM: 28,
  CMD: 23,
  ST: 23,
  POL: 15,
  PLN: 16,
  APR: 20,
  EFF: 31,
  CAN: 15,
  ERR: 14,
  CON: 19,
  MEM: 21,
  ART: 11,
  EVT: 15,
  DEP: 9,
  AGT: 23,
  SWM: 36,
  RUN: 16,
  DET: 12,
  SCD: 5,
  PER: 10,
  REG: 60,
  API: 7,
  SEC: 9,
  TST: 8,
  OPS: 5,
  EXM: 13,
  YML: 10,
  OQ: 20,
  SUP: 22,
  MIS: 395,
  SCH: 128,
  COL: 142,
  FLOW: 112,
}

export function readRows(tree: Tree): Row[] {
  return [...tree]
    .filter(([path]) => path.startsWith(folder) && path.endsWith('.md'))
    .flatMap(([path, text]) => parseRows(path.slice(folder.length, -'.md'.length), text))
}

export function checkRequirements(tree: Tree, expected: Readonly<Record<string, number>> = rowsPerPrefix): Finding[] {
  const rows = readRows(tree)
  const known = new Set(rows.map(({ id }) => id))
  const wanted = Object.entries(expected).flatMap(([prefix, count]) => idsOf(prefix, count))
  const unknown = sources(tree, 'src', 'test', 'scripts', 'examples', 'bench')
    .filter(([path]) => isTest(path))
    .flatMap(([path, text]) => citationsInSource(path, text))
    .filter(({ id }) => !known.has(id))
  return [
    ...findDuplicates(rows).map(({ id, places }) => ({
      path: folder,
      problem: `${id} is in ${places.join(' and ')}`,
    })),
    ...wanted.filter((id) => !known.has(id)).map((id) => ({ path: folder, problem: `${id} is gone` })),
    ...[...known]
      .filter((id) => !wanted.includes(id))
      .map((id) => ({ path: folder, problem: `${id} is not counted in test/tidy/requirements.ts` })),
    ...unknown.map(({ id, file, line }) => ({ path: file, line, problem: `cites ${id}, which does not exist` })),
  ]
}

/** Two digits, or three for large prefixes. */
function idsOf(prefix: string, count: number): string[] {
  const width = count > 99 ? 3 : 2
  return Array.from({ length: count }, (_, index) => `${prefix}-${String(index + 1).padStart(width, '0')}`)
}
