/** Where a moved job goes: a free number between its new neighbours, or the wish for a renumbered queue. Pure. */
import { GAP_SIZE } from './sql/insert-job.ts'

/** Positions of the neighbours; undefined at the ends of the priority. */
export type Neighbours = { readonly above: number | undefined; readonly below: number | undefined }

/** Behind the last job of a priority: highest + 100, or 100 if there is none. */
export function endPosition(last: number | undefined): number {
  return (last ?? 0) + GAP_SIZE
}

/** Half way between two neighbours, so that the next move into the same gap finds room too; undefined: none is left. */
export function planPosition({ above, below }: Neighbours): number | undefined {
  if (below === undefined) return endPosition(above)
  if (above === undefined) return below - GAP_SIZE
  const middle = Math.floor((above + below) / 2)
  return middle > above && middle < below ? middle : undefined
}
