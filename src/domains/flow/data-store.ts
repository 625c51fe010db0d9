/** The port to published data. The state of tasks never lives there, and a data store that is down stops no state write. */
import type { JsonObject } from '#kernel/json-value'

export type DataPlace = { readonly kind: string; readonly location: string }

type TableWrite = {
  readonly partition: string
  readonly rows: readonly JsonObject[]
  /** `append` by these columns: a row with the same key is replaced, so that a repeated task writes the same. */
  readonly uniqueKey: readonly string[]
  readonly strategy: 'append' | 'replace'
}

export interface DataStore {
  /** Rows of a table dataset. A partition is replaced as a whole, or its rows are put by key. */
  writeRows(place: DataPlace, write: TableWrite): Promise<void>
  readRows(place: DataPlace, partition: string | null, limit: number): Promise<readonly JsonObject[]>
  putFile(place: DataPlace, path: string, content: Uint8Array): Promise<void>
  getFile(place: DataPlace, path: string): Promise<Uint8Array | undefined>
  listFiles(place: DataPlace): Promise<readonly string[]>
}
