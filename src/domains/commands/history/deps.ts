/** What the archive of the history stands on: the owner's connections, the clock, new ids, and the folder of its files. */
import type { Clock, NewId } from '#kernel/clock'
import type { Db } from '#store'

export type HistoryDeps = {
  /** Of the login that owns the tables: nobody else may let events go. */
  readonly db: Db
  readonly now: Clock
  readonly newId: NewId
  readonly folder: string
}
