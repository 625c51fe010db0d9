/** Writes rows into a scheduler file that only a foreign program or a lost write could leave, for the next start to repair. */
import { randomUUID } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import { lifePaths } from './scheduler-life.ts'

/** Running without a run, with an open run, with a closed run; and a failure without a retry decision. */
export const plantedKinds = ['no run', 'open run', 'closed run', 'undecided'] as const
export type Planted = { readonly kind: (typeof plantedKinds)[number]; readonly jobId: string }

/** Undefined for a file without tables: a life that was killed before it created them leaves nothing to break. */
export function plant(folder: string, kind: Planted['kind'], atMs: number): Planted | undefined {
  const db = new DatabaseSync(lifePaths(folder).file, { timeout: 60_000 })
  const jobId = randomUUID()
  try {
    if (!db.prepare(`select 1 from sqlite_schema where name = 'job_types'`).get()) return undefined
    if (!db.prepare('select 1 from job_types').get()) return undefined
    db.exec('begin immediate')
    const next = db.prepare(`select coalesce(max(position), 0) + 100 as position from jobs`).get()
    db.prepare(
      `insert into jobs (job_id, job_type, params, position, created_at, queued_at) values (?, (select max(job_type) from job_types), '{}', ?, ?, ?)`,
    ).run(jobId, Number(next?.['position']), atMs, atMs)
    db.prepare(`update jobs set status = 'RUNNING', started_at = ? where job_id = ?`).run(atMs, jobId)
    if (kind !== 'no run') {
      const insert = `insert into job_runs (run_id, job_id, params_snapshot, started_at) values (?, ?, '{}', ?)`
      db.prepare(insert).run(randomUUID(), jobId, atMs)
    }
    if (kind === 'closed run' || kind === 'undecided') {
      db.prepare(`update job_runs set status = ?, finished_at = ?, error_class = ? where job_id = ?`).run(
        kind === 'undecided' ? 'FAILED' : 'COMPLETED',
        atMs,
        kind === 'undecided' ? 'work_failed' : null,
        jobId,
      )
    }
    if (kind === 'undecided') db.prepare(`update jobs set finished_at = ? where job_id = ?`).run(atMs, jobId)
    db.exec('commit')
    return { kind, jobId }
  } finally {
    db.close()
  }
}
