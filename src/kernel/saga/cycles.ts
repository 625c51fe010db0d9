/** Finds cycles in the graph effect → compensation → counter-effect: a compensation must not lead to the effect that it undoes. */
import { findCycle, type GraphNode, indexGraph, sortNodes, stableOrder } from '../dag/graph.ts'
import type { Entry } from './manifests.ts'

/**
 * Returns one cycle for each connected group, as names of effects and compensations. Edges: an operation leads to its effects and to its
 * compensation; an effect leads to the compensations of its producers; a compensation leads to its own effects.
 */
export function findCycles(entries: readonly Entry[]): readonly (readonly string[])[] {
  const before = new Map<string, Set<string>>()
  const link = (from: string, to: string) => {
    before.set(from, before.get(from) ?? new Set())
    before.set(to, (before.get(to) ?? new Set()).add(from))
  }
  for (const { name, produces } of entries) for (const effect of produces) link(entryKey(name), effectKey(effect))
  for (const { name, of } of entries) {
    if (of === undefined) continue
    link(entryKey(of), entryKey(name))
    for (const parent of entries)
      if (parent.name === of) for (const effect of parent.produces) link(effectKey(effect), entryKey(name))
  }
  const cycles: string[][] = []
  let nodes: GraphNode[] = [...before].map(([id, from]) => ({ id, sequence: 0, dependsOn: [...from] }))
  for (;;) {
    const index = indexGraph(sortNodes(nodes))
    if (stableOrder(index).length === nodes.length) return cycles
    const cycle = new Set(findCycle(index).map(({ id }) => id))
    cycles.push([...cycle].map((key) => key.slice(key.indexOf(' ') + 1)))
    nodes = nodes
      .filter(({ id }) => !cycle.has(id))
      .map((node) => ({ ...node, dependsOn: node.dependsOn.filter((id) => !cycle.has(id)) }))
  }
}

/** An operation and an effect may share a name; they are two nodes. */
function entryKey(name: string): string {
  return `entry ${name}`
}

function effectKey(name: string): string {
  return `effect ${name}`
}
