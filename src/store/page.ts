/** Pages of a list. A page ends at its limit of rows, or before the row with which it would exceed 4 MiB. */
import { PAGE_BYTES_MAX } from '#kernel/page-limit'
import type { Sql } from './statement.ts'

/** A row of `pageText`: whether the list has a row after it, and the size of the page up to it. */
export type Paged = { readonly has_next: boolean; readonly page_bytes: string }

/**
 * Cuts a list in the database, so that a page of large rows never reaches this process. `rows` is a select in the order of the list, with a
 * limit of one row more than the page has. Rows are measured as JSON. The first row of a page is returned whatever its size.
 */
export function pageText(rows: string, usedBytes = 0): string {
  const first = usedBytes === 0 ? 'page.page_row = 1 or ' : ''
  return `select page.* from (
  select listed.*, row_number() over listing as page_row, lead(true, 1, false) over listing as has_next,
    sum(octet_length(row_to_json(listed)::text)) over listing as page_bytes
  from (${rows}) as listed window listing as (rows unbounded preceding)
) as page where ${first}page.page_bytes <= ${PAGE_BYTES_MAX - usedBytes} order by page.page_row`
}

/** The database measures every row that could be on a page, so a page of rows that may be large begins with this many. */
export const LARGE_ROWS = 4

/** Reads a page in slices. Each has sixteen times the rows of the one before, until one ends at its size. */
export async function readSlices<Row extends Paged>(
  sql: Sql,
  text: string,
  limit: number,
  firstRows: number,
  valuesOf: (limit: number, last: Row | undefined) => readonly unknown[],
): Promise<readonly Row[]> {
  const found: Row[] = []
  let bytes = 0
  for (let slice = firstRows; found.length < limit; slice *= 16) {
    const wanted = Math.min(slice, limit - found.length)
    const rows = await sql.query<Row>(pageText(text, bytes), valuesOf(wanted + 1, found.at(-1)))
    const fitting = rows.slice(0, wanted)
    found.push(...fitting)
    bytes += Number(fitting.at(-1)?.page_bytes ?? 0)
    if (rows.length <= wanted) break
  }
  return found
}

type Position = readonly string[]

/** A page of the rows of `pageText`, and the position to continue after; undefined on the last page. */
export function cutPage<Row extends Paged, V>(
  rows: readonly Row[],
  limit: number,
  view: (row: Row) => V,
  position: (row: Row) => string | Position,
): { items: V[]; next: Position | undefined } {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  return { items: items.map(view), next: last?.has_next ? [position(last)].flat() : undefined }
}
