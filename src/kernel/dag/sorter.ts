/** Kahn's sort step by step: hands out ready nodes and is notified of finished ones. Lives for one tick; the rows are authoritative. */
import { KernelFault } from '../errors.ts'
import { type Graph, type GraphNode, validateGraph } from './graph.ts'

export class TopologicalSorter {
  #nodes: GraphNode[] = []
  #graph: Graph | undefined
  #remaining: number[] = []
  #ready: number[] = []
  #handedOut = new Set<number>()
  #doneCount = 0

  /** Call before `prepare`, in any order: a predecessor may be added after the node that names it. */
  add(node: { readonly id: string; readonly sequence: number }, predecessors: readonly string[] = []): void {
    if (this.#graph) throw new KernelFault('dag.sorter.prepared', `The node ${node.id} was added after prepare.`)
    this.#nodes.push({ id: node.id, sequence: node.sequence, dependsOn: predecessors })
  }

  /** Throws on a cycle, with its path: callers validate first, so a cycle here is a fault. */
  prepare(): void {
    const decision = validateGraph(this.#nodes)
    if (!decision.ok) throw new KernelFault(decision.code, decision.reason, decision.facts)
    this.#graph = decision.value
    this.#remaining = decision.value.upstream.map((before) => before.length)
    this.#ready = [...this.#remaining.keys()].filter((position) => this.#remaining[position] === 0)
  }

  /** Returns the nodes that became ready since the last call, by sequence, then id; each node once. */
  getReady(): readonly string[] {
    const graph = this.#prepared()
    const ready = this.#ready.toSorted((a, b) => a - b)
    this.#ready = []
    for (const position of ready) this.#handedOut.add(position)
    return ready.flatMap((position) => graph.nodes[position]?.id ?? [])
  }

  /** Accepts only nodes that `getReady` handed out, once each. */
  done(...ids: readonly string[]): void {
    const graph = this.#prepared()
    for (const id of ids) {
      const position = graph.positions.get(id)
      if (position === undefined || !this.#handedOut.delete(position)) {
        throw new KernelFault('dag.sorter.not_handed_out', `The node ${id} was not handed out.`)
      }
      this.#doneCount++
      for (const after of graph.downstream[position] ?? []) {
        const left = (this.#remaining[after] ?? 0) - 1
        this.#remaining[after] = left
        if (left === 0) this.#ready.push(after)
      }
    }
  }

  /** True while a node is ready or handed out; false at once for an empty graph. */
  isActive(): boolean {
    return this.#doneCount < this.#prepared().nodes.length
  }

  #prepared(): Graph {
    if (!this.#graph) throw new KernelFault('dag.sorter.not_prepared', 'Call prepare first.')
    return this.#graph
  }
}
