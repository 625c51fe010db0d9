/** Checks a family after its last life: every acknowledged job exists, ran once, was retried as decided, and was notified. */
import { DatabaseSync } from 'node:sqlite'
import type { Planted } from './plant-broken-rows.ts'
import { executionsOf, lifePaths, linesOf } from './scheduler-life.ts'

type Ended = {
  readonly job_id: string
  readonly run_id: string
  readonly status: string
  readonly retry_decided: string | null
  readonly retry_of: string | null
}

export function findBrokenPromises(folder: string, planted: readonly Planted[]): string[] {
  const paths = lifePaths(folder)
  const db = new DatabaseSync(paths.file, { readOnly: true })
  const names = (sql: string) =>
    db
      .prepare(sql)
      .all()
      .map((row) => String(row['name']))
  try {
    const jobs = new Set(names('select job_id as name from jobs'))
    const lost = linesOf(paths.acknowledged).filter((id) => !jobs.has(id))
    const restless = names(
      `select job_id as name from jobs where status = 'QUEUED' or (status = 'RUNNING' and finished_at is null)`,
    )
    const told = new Set(linesOf(paths.told))
    const untold = names('select notification_id as name from notifications').filter((id) => !told.has(id))
    const undelivered = names(`select notification_id as name from notifications where status <> 'DELIVERED'`)
    const silent = names(
      `select r.run_id as name from job_runs r left join notifications n on n.job_id = r.job_id
        and n.kind in ('run_completed', 'run_skipped', 'run_failed', 'job_failed')
       group by r.run_id having count(n.seq) <> 1`,
    ).filter((id) => !isPlantedRun(db, id, planted))
    const runs = db
      .prepare(
        `select r.job_id, r.run_id, r.status, r.retry_decided, j.retry_of from job_runs r join jobs j using (job_id)`,
      )
      .all() as Ended[]
    return [
      ...lost.map((id) => `job ${id} was acknowledged and is gone`),
      ...restless.map((id) => `job ${id} did not come to rest`),
      ...untold.map((id) => `notification ${id} was never told`),
      ...undelivered.map((id) => `notification ${id} stands as undelivered`),
      ...silent.map((id) => `run ${id} has not exactly one notification`),
      ...judgeExecutions(runs, executionsOf(folder), planted),
    ]
  } finally {
    db.close()
  }
}

/** A job whose end was planted has no notification. */
function isPlantedRun(db: DatabaseSync, runId: string, planted: readonly Planted[]): boolean {
  const job = db.prepare('select job_id from job_runs where run_id = ?').get(runId)?.['job_id']
  return planted.some(({ kind, jobId }) => kind === 'closed run' && jobId === job)
}

/** A COMPLETED run was executed once; a failed one at most once, and its retry exists if it was decided. */
function judgeExecutions(
  runs: readonly Ended[],
  executions: readonly { readonly runId: string }[],
  planted: readonly Planted[],
): string[] {
  const times = new Map<string, number>()
  for (const { runId } of executions) times.set(runId, (times.get(runId) ?? 0) + 1)
  const retried = new Set(runs.map((run) => run.retry_of))
  const isPlanted = new Set(planted.map(({ jobId }) => jobId))
  return runs.flatMap(({ job_id, run_id, status, retry_decided }) => {
    const executed = times.get(run_id) ?? 0
    const wrong: string[] = []
    if (executed > 1) wrong.push(`run ${run_id} was executed ${executed} times`)
    if (status === 'COMPLETED' && executed !== 1 && !isPlanted.has(job_id)) wrong.push(`run ${run_id} says it was done`)
    if (status === 'SKIPPED' && executed > 0) wrong.push(`run ${run_id} was skipped and executed`)
    if (status === 'FAILED' && retry_decided === null) wrong.push(`about the failed run ${run_id} nothing was decided`)
    if ((retry_decided === 'retry') !== retried.has(job_id)) wrong.push(`the retry of job ${job_id} is not as decided`)
    return wrong
  })
}
