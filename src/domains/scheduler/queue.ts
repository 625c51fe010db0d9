/** The queue: reads it in order, finds and assigns positions, and caches reads until the file changes. */
import { accept, type Decision } from '#kernel/refusal'
import { type SqlReader, query, type WriteTx } from './database.ts'
import { GAP_SIZE, JOB_COLUMNS, pageOfJobs, type PagedJob, QUEUE_ORDER } from './job-repository.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoredJob } from './stored-rows.ts'

type Place = { readonly priority: number; readonly position: number }

/** Queries both partial indexes, because a held job keeps its place too. The moved job itself does not count. */
function edge(pick: 'min' | 'max', rest = '') {
  const condition = `priority = $priority and job_id <> $job_id ${rest}`
  return query<{ position: number | null }, Place & { job_id: string }>(`
    select ${pick}(position) as position from (
      select ${pick}(position) as position from jobs where status = 'QUEUED' and hold is null and ${condition} union all
      select ${pick}(position) from jobs where status = 'QUEUED' and hold is not null and ${condition})`)
}
const edges = {
  first: edge('min'),
  last: edge('max'),
  above: edge('max', 'and position < $position'),
  below: edge('min', 'and position > $position'),
}
const updatePlace = query<StoredJob, { job_id: string; priority: number; position: number }>(
  `update jobs set priority = $priority, position = $position where job_id = $job_id and status = 'QUEUED' returning ${JOB_COLUMNS}`,
)
const updateParams = query<StoredJob, { job_id: string; params: string }>(
  `update jobs set params = $params where job_id = $job_id and status = 'QUEUED' returning ${JOB_COLUMNS}`,
)
const renumber = query<never, { priority: number }>(`
   with ranked as (
     select job_id as id, row_number() over (order by position, created_at, job_id) * ${GAP_SIZE} as place
       from jobs where status = 'QUEUED' and priority = $priority)
   update jobs set position = ranked.place from ranked
    where jobs.job_id = ranked.id and jobs.status = 'QUEUED' and jobs.position <> ranked.place`)
const selectPriorities = query<{ priority: number }>(
  `select distinct priority from jobs where status = 'QUEUED' order by priority desc`,
)
/** Merges two sorted streams. With one condition over both, SQLite would sort the whole queue for every page. */
const AFTER = `(priority < $priority or (priority = $priority and (position, created_at, job_id) > ($position, $created_at, $job_id)))`
const page = (rest: string) => `
  select ${JOB_COLUMNS} from jobs where status = 'QUEUED' and hold is null ${rest} union all
  select ${JOB_COLUMNS} from jobs where status = 'QUEUED' and hold is not null ${rest}
   order by ${QUEUE_ORDER} limit $limit`
const selectQueue = query<PagedJob, { limit: number }>(pageOfJobs(page('')))
const selectQueueAfter = query<
  PagedJob,
  { limit: number; priority: number; position: number; created_at: number; job_id: string }
>(pageOfJobs(page(`and ${AFTER}`)))
const countQueue = query<{ ready: number; held: number }>(`
   select (select count(*) from jobs where status = 'QUEUED' and hold is null) as ready,
          (select count(*) from jobs where status = 'QUEUED' and hold is not null) as held`)

/** Finds the first or last position of a priority, or the nearest one above or below a place, ignoring the job `except`. */
export function findPosition(
  reader: SqlReader,
  which: keyof typeof edges,
  { priority, position = 0 }: { readonly priority: number; readonly position?: number },
  except: string,
): number | undefined {
  return reader.one(edges[which], { priority, position, job_id: except })?.position ?? undefined
}

/** Returns undefined when the job is no longer QUEUED. */
export function savePlace(tx: WriteTx, jobId: string, { priority, position }: Place): StoredJob | undefined {
  return tx.one(updatePlace, { job_id: jobId, priority, position })
}

export function saveParams(tx: WriteTx, jobId: string, params: string): StoredJob | undefined {
  return tx.one(updateParams, { job_id: jobId, params })
}

/** Renumbers to 100, 200, 300 … in the current order; returns the number of changed rows. */
export function renumberPriority(tx: WriteTx, priority: number): number {
  return tx.run(renumber, { priority })
}

export function listQueuedPriorities(reader: SqlReader): number[] {
  return reader.all(selectPriorities).map((row) => row.priority)
}

export function listQueued(reader: SqlReader, limit: number, after?: StoredJob): PagedJob[] {
  if (!after) return reader.all(selectQueue, { limit })
  const { priority, position, created_at, job_id } = after
  return reader.all(selectQueueAfter, { limit, priority, position, created_at, job_id })
}

export function countQueued(reader: SqlReader): { readonly ready: number; readonly held: number } {
  return reader.one(countQueue) ?? { ready: 0, held: 0 }
}

/** Positions of the neighbours; undefined at the ends of the priority. */
export type Neighbours = { readonly above: number | undefined; readonly below: number | undefined }

/** Returns the position behind the last job of a priority: highest + 100, or 100 without one. */
export function endPosition(last: number | undefined): number {
  return (last ?? 0) + GAP_SIZE
}

/** Returns the middle between two neighbours, which leaves room for the next move; undefined when the gap is used up. */
export function planPosition({ above, below }: Neighbours): number | undefined {
  if (below === undefined) return endPosition(above)
  if (above === undefined) return below - GAP_SIZE
  const middle = Math.floor((above + below) / 2)
  return middle > above && middle < below ? middle : undefined
}

/**
 * Caches values read from the file until it changes, for screens that redraw. Every write of any process empties the cache.
 * Only views use it, never a decision.
 */
export type QueueCache = {
  /** Returns the value of `read` at the current version of the file. */
  get<T>(key: string, read: (scheduler: Scheduler) => Decision<T>): Decision<T>
  /** Empties the cache. */
  clear(): void
  readonly size: number
}

export function openQueueCache(scheduler: Scheduler): QueueCache {
  const values = new Map<string, unknown>()
  let version = scheduler.db.version()
  return {
    get<T>(key: string, read: (scheduler: Scheduler) => Decision<T>): Decision<T> {
      // Taken before the read: a write in between empties the cache at the next call, so no stale value is kept.
      const current = scheduler.db.version()
      if (current !== version) values.clear()
      version = current
      // Stored below under the same key, with the type of its reader.
      if (values.has(key)) return accept(values.get(key) as T)
      const found = read(scheduler)
      if (found.ok) values.set(key, found.value)
      return found
    },
    clear: () => values.clear(),
    get size() {
      return values.size
    },
  }
}
