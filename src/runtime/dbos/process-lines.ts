/** The lines of processes as operators see them: what is open, what is stuck, and the two things that can be done about it. */
import { checkProcess, DEFAULT_QUEUE, type Process, type ProcessView, type StuckProcess } from '#runtime'
import type { Db, Sql } from '#store'

export async function findLine(pool: Db, { kind, id }: Process): Promise<ProcessView | undefined> {
  const [row] = await pool.query<Omit<ProcessView, 'turn'> & { turn: string }>(
    `select kind, id, turn, due_at as "dueAt", queue, failures,
       case when state = 'aborted' then 'stuck' when state = 'queued' and due_at > clock_timestamp() then 'waiting' else state end as state
     from runtime.processes where kind = $1 and id = $2 and state <> 'idle'`,
    [kind, id],
  )
  return row && { ...row, turn: Number(row.turn) }
}

export function listStuck(pool: Db, limit: number): Promise<StuckProcess[]> {
  return pool.query<StuckProcess>(
    `select kind, id, why, coalesce(detail, '') as detail, changed_at as since from runtime.processes
     where state in ('stuck', 'aborted') order by changed_at limit $1`,
    [limit],
  )
}

/** The queue in which its turn waits; undefined when it is not stuck. */
export async function resumeProcess(sql: Sql, { kind, id }: Process): Promise<string | undefined> {
  const [row] = await sql.query<{ queue: string }>('select queue from runtime.resume($1, $2)', [kind, id])
  return row?.queue
}

const REASON_LENGTH_MAX = 2_000

/** `queue` is for a process that has no line yet. */
export async function abortProcess(sql: Sql, process: Process, reason: string, queue = DEFAULT_QUEUE): Promise<void> {
  checkProcess(process)
  const detail = reason.slice(0, REASON_LENGTH_MAX)
  await sql.query('select runtime.abort($1, $2, $3, $4)', [process.kind, process.id, detail, queue])
}
