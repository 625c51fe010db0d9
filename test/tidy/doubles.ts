/** An exported name means one thing: whoever searches for it finds one definition. */
import { findDoubles, readGraph } from '../../scripts/source/graph.ts'
import type { Finding } from './finding.ts'
import { isProduction } from './size.ts'
import type { Tree } from './tree.ts'

/** Those that had several meanings when the check came. Names are taken out, never put in. */
const allowedDoubles: ReadonlySet<string> = new Set(
  `

  `
    .trim()
    .split(/\s+/),
)

export function checkDoubles(tree: Tree, allowed: ReadonlySet<string> = allowedDoubles): Finding[] {
  return findDoubles(readGraph(tree, isProduction))
    .filter(([name]) => !allowed.has(name))
    .map(([name, files]) => ({
      path: files[0] ?? '',
      problem: `${name} has other meanings in ${files.slice(1).join(', ')}`,
    }))
}

/** What the list still allows and nobody needs any more. */
export function staleDoubles(tree: Tree, allowed: ReadonlySet<string> = allowedDoubles): string[] {
  const still = new Set(findDoubles(readGraph(tree, isProduction)).map(([name]) => name))
  return [...allowed].filter((name) => !still.has(name))
}
