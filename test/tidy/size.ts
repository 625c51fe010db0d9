/** No source file is longer than 400 lines. */
import type { Finding } from './finding.ts'
import { edgesOf, readGraph } from '../../scripts/source/graph.ts'
import { isTest, sources, type Tree } from './tree.ts'

export const longestLines = 400
/** From the catalogue of the database, and from openapi.json. */
const generated = ['src/store/rows.ts', 'src/client/api-types.ts']
/** Longer files are reported, not refused. */
export const longLines = 200

export function linesOf(text: string): number {
  return text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
}

export function checkSize(tree: Tree): Finding[] {
  return measure(tree, longestLines).map(({ path, lines }) => ({
    path,
    problem: `${lines} lines; above ${longestLines} it is two files`,
  }))
}

/** Files above a length, longest first. */
export function measure(tree: Tree, above: number): { path: string; lines: number }[] {
  return sources(tree, 'src', 'test', 'scripts', 'bench', 'examples', 'console')
    .map(([path, text]) => ({ path, lines: linesOf(text) }))
    .filter(({ path, lines }) => lines > above && !generated.includes(path))
    .toSorted((a, b) => b.lines - a.lines)
}

/** A file this short with one importer belongs into that importer; reported, not refused. */
export const shortestLines = 40

export function findFragments(tree: Tree): { path: string; lines: number; importer: string }[] {
  const importers = new Map<string, string[]>()
  for (const [from, targets] of edgesOf(readGraph(tree, isProduction), 'all'))
    for (const target of targets) importers.set(target, [...(importers.get(target) ?? []), from])
  return [...importers].flatMap(([path, [importer = '', ...others]]) => {
    const lines = linesOf(tree.get(path) ?? '')
    return others.length === 0 && lines <= shortestLines ? [{ path, lines, importer }] : []
  })
}

export function isProduction(path: string): boolean {
  return /^src\/.*\.tsx?$/.test(path) && !isTest(path)
}
