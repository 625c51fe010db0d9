/** Kahn's sort in one call: the topological order that is smallest by the stable order, or the part that a cycle leaves. */
import type { GraphIndex } from './graph.ts'

export function stableOrder({ upstream, downstream }: GraphIndex): readonly number[] {
  const remaining = upstream.map((before) => before.length)
  const order: number[] = []
  const ready: number[] = []
  for (const [position, count] of remaining.entries()) if (count === 0) push(ready, position)
  for (let next = pop(ready); next !== undefined; next = pop(ready)) {
    order.push(next)
    for (const after of downstream[next] ?? []) {
      const left = (remaining[after] ?? 0) - 1
      remaining[after] = left
      if (left === 0) push(ready, after)
    }
  }
  return order
}

/** A binary heap, smallest index first: a plain queue would let the order of completion break ties. */
function push(heap: number[], value: number): void {
  let at = heap.length
  heap.push(value)
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent] ?? value
    if (above <= value) break
    heap[at] = above
    at = parent
  }
  heap[at] = value
}

function pop(heap: number[]): number | undefined {
  const top = heap[0]
  const moved = heap.pop()
  if (heap.length === 0 || moved === undefined) return top
  let at = 0
  for (;;) {
    const left = 2 * at + 1
    const right = left + 1
    const child = (heap[right] ?? Infinity) < (heap[left] ?? Infinity) ? right : left
    const below = heap[child]
    if (below === undefined || below >= moved) break
    heap[at] = below
    at = child
  }
  heap[at] = moved
  return top
}
