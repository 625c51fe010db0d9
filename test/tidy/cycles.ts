/** Finds circles of imports between files of one room. (Between rooms the table allows none.) */
import { posix } from 'node:path'
import type { Finding } from './finding.ts'
import { findImports } from '../../scripts/source/imports.ts'
import { sources, type Tree } from './tree.ts'

/** Types vanish before the program runs, so only imports of values count. */
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
