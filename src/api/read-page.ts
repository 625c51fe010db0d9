/** One page of a list that is ordered by one value: from the cursor that came to the cursor of what comes next. */
import { accept, type Decision } from '#kernel/refusal'
import type { CursorScope, PageCursors } from './page-cursor.ts'
import { limitOf } from './route-kit.ts'

export type PageQuery = { readonly cursor?: string | undefined; readonly limit?: number | undefined }

export type PageSource<Row, View> = {
  readonly scope: CursorScope
  /** After this position, or from the beginning. */
  readonly read: (from: string | null, limit: number) => Promise<readonly Row[]>
  readonly view: (row: Row) => View
  readonly position: (row: Row) => string
}

export async function readPage<Row, View>(
  cursors: PageCursors,
  query: PageQuery,
  { scope, read, view, position }: PageSource<Row, View>,
): Promise<Decision<{ items: View[]; next_cursor: string | null }>> {
  const from = query.cursor === undefined ? undefined : cursors.open(scope, query.cursor)
  if (from && !from.ok) return from
  const limit = limitOf(query)
  // One row more than asked for says whether there is a next page.
  const rows = await read(from?.value[0] ?? null, limit + 1)
  const items = rows.slice(0, limit)
  const last = rows.length > limit ? items.at(-1) : undefined
  return accept({ items: items.map(view), next_cursor: last ? cursors.seal(scope, [position(last)]) : null })
}
