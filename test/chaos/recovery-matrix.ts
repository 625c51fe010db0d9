/** The five rows of the recovery matrix as a comparison of the states before and after. */
import { DatabaseSync } from 'node:sqlite'
import { CRASH_ERROR } from '#domains/scheduler'

type Row = Readonly<Record<string, string | number | null>>

export type State = {
  readonly jobs: ReadonlyMap<string, Row>
  /** By job. */
  readonly runs: ReadonlyMap<string, Row>
  readonly reservations: ReadonlyMap<string, Row>
  /** QUEUED jobs in the order of dispatch. */
  readonly queue: readonly string[]
}

export function readState(file: string): State {
  const db = new DatabaseSync(file, { readOnly: true, timeout: 60_000 })
  try {
    const by = (key: string, sql: string) =>
      new Map((db.prepare(sql).all() as Row[]).map((row) => [String(row[key]), { ...row }]))
    const order = `select job_id from jobs where status = 'QUEUED' order by priority desc, position, created_at, job_id`
    return {
      jobs: by('job_id', 'select * from jobs'),
      runs: by('job_id', 'select * from job_runs'),
      reservations: by('reservation_id', 'select * from direct_reservations'),
      queue: db
        .prepare(order)
        .all()
        .map((row) => String(row['job_id'])),
    }
  } finally {
    db.close()
  }
}

const same = (one: Row | undefined, other: Row | undefined) => JSON.stringify(one) === JSON.stringify(other)

/** One sentence per row that differs from the matrix. */
export function compareRecovery(before: State, after: State, when: { fromMs: number; toMs: number }): string[] {
  const wrong = [...before.jobs].flatMap(([id, job]) => judgeJob(id, job, before, after))
  for (const [id, was] of before.reservations) {
    const is = after.reservations.get(id)?.['status']
    const endsMs = Number(was['expires_at'])
    if (was['status'] !== 'ACTIVE') {
      if (is !== was['status']) wrong.push(`reservation ${id} was over and changed`)
    } else if (endsMs <= when.fromMs && is !== 'EXPIRED') wrong.push(`reservation ${id} was stale and is ${is}`)
    else if (endsMs > when.toMs && is !== 'ACTIVE') wrong.push(`reservation ${id} had time left and is ${is}`)
  }
  const still = after.queue.filter((id) => before.queue.includes(id))
  const then = before.queue.filter((id) => after.queue.includes(id))
  if (still.join() !== then.join()) wrong.push(`the order of the queue changed: ${then.join()} → ${still.join()}`)
  return wrong
}

function judgeJob(id: string, job: Row, before: State, after: State): string[] {
  const [was, is] = [before.runs.get(id), after.runs.get(id)]
  const now = after.jobs.get(id)
  if (!now) return [`job ${id} is gone`]
  if (job['status'] !== 'RUNNING') {
    // The end of one group member may start or cancel another.
    return job['group_id'] !== null || same(job, now) ? [] : [`${job['status']} job ${id} changed`]
  }
  if (now['finished_at'] === null) return [`job ${id} is still in flight`]
  if (job['finished_at'] !== null && !same(job, now)) return [`job ${id} had ended and changed`]
  if (was !== undefined && was['status'] !== null) {
    const undecided = was['status'] === 'FAILED' && was['retry_decided'] === null
    const expected = undecided ? { ...was, retry_decided: is?.['retry_decided'] ?? null } : was
    return same(expected, is) ? [] : [`the closed run of job ${id} changed`]
  }
  // Its command was interrupted, or ended while no scheduler ran.
  const isFailed = is?.['status'] === 'FAILED' && is['retry_decided'] !== null
  const isClosed =
    is?.['status'] === 'COMPLETED' || (isFailed && (is['error'] === CRASH_ERROR || is['exit_code'] !== null))
  return isClosed ? [] : [`job ${id} was interrupted, and its run says ${JSON.stringify(is)}`]
}
