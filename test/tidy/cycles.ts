/** Finds import cycles between files of one room. (Between rooms the table allows none.) */
import { posix } from 'node:path'
import type { Finding } from './finding.ts'
import { edgesOf, findCircles, readGraph } from '../../scripts/source/graph.ts'
import { findImports } from '../../scripts/source/imports.ts'
import { isProduction } from './size.ts'
import { sources, type Tree } from './tree.ts'

/** Types vanish before the program runs, so only value imports count. */
export function checkCycles(tree: Tree): Finding[] {
  const graph = new Map(
    sources(tree, 'src', 'test', 'scripts').map(([path, text]) => {
      const targets = findImports(text)
        .filter(({ specifier, kind }) => specifier.startsWith('.') && kind !== 'type' && kind !== 'dynamic')
        .map(({ specifier }) => posix.join(posix.dirname(path), specifier))
      return [path, targets] as const
    }),
  )
  const findings: Finding[] = []
  const done = new Set<string>()
  const walk = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path)
    if (start !== -1) {
      const circle = [...trail.slice(start), path].map((each) => posix.basename(each)).join(' → ')
      findings.push({ path, problem: `imports go in a circle: ${circle}` })
      return
    }
    if (done.has(path)) return
    for (const target of graph.get(path) ?? []) walk(target, [...trail, path])
    done.add(path)
  }
  for (const path of graph.keys()) walk(path, [])
  return findings
}

/** This many files may share their types; more of them are one module in pieces. */
const mostInCircle = 6

/** Known cycles: their first file by name, and the number of files. The numbers only fall. */
const allowedCircles: Readonly<Record<string, number>> = {}

export function checkTypeCycles(tree: Tree, allowed: Readonly<Record<string, number>> = allowedCircles): Finding[] {
  return findCircles(edgesOf(readGraph(tree, isProduction), 'all')).flatMap((circle) => {
    const most = Math.max(mostInCircle, ...circle.map((path) => allowed[path] ?? 0))
    if (circle.length <= most) return []
    const names = circle.map((path) => posix.basename(path)).join(', ')
    return [
      {
        path: circle[0] ?? '',
        problem: `${circle.length} files know one another, types included; at most ${most}: ${names}`,
      },
    ]
  })
}
