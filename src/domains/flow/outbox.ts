/**
 * Drains the outbox: effects that must follow a commit, at least once, never by two drainers at the same time. The table has no lock column: a claim moves
 * `available_at` forward, and that time is the fence, since a row that was claimed again has another.
 */
import type { Random } from '#kernel/clock'
import type { JsonObject } from '#kernel/json-value'
import { canMove } from '#kernel/machine'
import { type FlowOutboxState, flowOutboxMachine } from '#kernel/machines/flow'
import { KernelFault } from '#kernel/errors'
import { decideRetry } from '#kernel/retry'
import { outboxRetry } from '#kernel/retry-policy'
import { failpoint, type Sql, statement } from '#store'

export type OutboxRow = {
  readonly id: string
  readonly kind: 'enqueue_task' | 'route_event' | 'emit_lineage'
  readonly payload: JsonObject
  /** Failed attempts so far. */
  readonly attempts: number
  readonly last_error: string | null
  /** Identifies this claim. As text: a JavaScript date would lose its microseconds and never be equal. */
  readonly fence: string
}

const NOW = 'statement_timestamp()'
const BATCH = 100
/** Longer than a batch takes: afterwards another drainer takes its rows. */
const VISIBILITY_MS = 30_000

function status(from: FlowOutboxState, to: FlowOutboxState): string {
  if (!canMove(flowOutboxMachine, from, to))
    throw new KernelFault('flow.move', `An outbox row cannot move from ${from} to ${to}.`)
  return `'${to}'`
}

const back = `t.id::text, t.kind, t.payload, t.attempts, t.last_error, t.available_at::text as fence`
const take = (from: string, set: string) => `with next as materialized (
  select id from flow.outbox where status = '${from}' and available_at <= ${NOW} order by available_at, id limit $1::integer for update skip locked
)
update flow.outbox as t set status = 'Processing', available_at = ${NOW} + $2::integer * interval '1 millisecond'${set} from next where t.id = next.id returning ${back}`

/** $1 limit, $2 visibility in ms. */
const claimDue = statement<OutboxRow>('flow.outbox_claim', take('Pending', ''))
/** The same for rows whose drainer died: that counts as a failed attempt. */
const claimAbandoned = statement<OutboxRow>(
  'flow.outbox_reclaim',
  take('Processing', `, attempts = t.attempts + 1, last_error = 'The process that handled it did not finish.'`),
)
const held = `t.id = any($1::bigint[]) and t.status = 'Processing' and t.available_at = $2::timestamptz`
/** $1 ids, $2 fence. */
const finish = statement<{ readonly id: string }>(
  'flow.outbox_finish',
  `update flow.outbox as t set status = ${status('Processing', 'Done')}, processed_at = ${NOW} where ${held} returning t.id::text`,
)
/** $1 ids, $2 fence, $3 errors, $4 delays in ms (null: no further attempt), $5 attempts. */
const giveBack = statement<{ readonly id: string }>(
  'flow.outbox_fail',
  `update flow.outbox as t set status = case when f.delay_ms is null then ${status('Processing', 'Failed')} else ${status('Processing', 'Pending')} end, attempts = f.attempts, last_error = f.error,
  available_at = case when f.delay_ms is null then t.available_at else ${NOW} + f.delay_ms * interval '1 millisecond' end
from unnest($1::bigint[], $3::text[], $4::integer[], $5::integer[]) as f(id, error, delay_ms, attempts) where f.id = t.id and ${held} returning t.id::text`,
)

type DrainOptions = {
  readonly handle: (row: OutboxRow) => Promise<void>
  readonly random: Random
  readonly visibilityMs?: number
  readonly limit?: number
}
export type Drained = {
  readonly claimed: number
  readonly done: number
  readonly failed: number
  readonly lost: number
}

/** Drains one batch. `claimed: 0` means that nothing was due. `from` abandoned: rows that a dead process left. */
export async function drainOutbox(sql: Sql, from: 'due' | 'abandoned', options: DrainOptions): Promise<Drained> {
  const { handle, random, visibilityMs = VISIBILITY_MS, limit = BATCH } = options
  const rows = await sql.run(from === 'due' ? claimDue : claimAbandoned, [limit, visibilityMs])
  if (rows.length === 0) return { claimed: 0, done: 0, failed: 0, lost: 0 }
  await failpoint('flow.outbox_claimed')
  const done: string[] = []
  const failed: {
    readonly id: string
    readonly error: string
    readonly delayMs: number | null
    readonly attempts: number
  }[] = []
  const fail = (id: string, error: unknown, attempts: number) => {
    const decided = decideRetry(outboxRetry, { attempt: Math.max(1, attempts), errorClass: 'work_failed', random })
    failed.push({ id, error: textOf(error), delayMs: decided.retry ? decided.delayMs : null, attempts })
  }
  await Promise.all(
    rows.map(async ({ ...row }) => {
      // A row that kills its handler is given up like any other that fails too often.
      if (from === 'abandoned' && row.attempts >= outboxRetry.limit.attempts)
        return fail(row.id, row.last_error, row.attempts)
      try {
        await handle(row)
        done.push(row.id)
      } catch (error) {
        fail(row.id, error, row.attempts + 1)
      }
    }),
  )
  await failpoint('flow.outbox_handled')
  const fence = rows[0]?.fence
  const finished = done.length > 0 ? await sql.run(finish, [done, fence]) : []
  const settled =
    failed.length > 0
      ? await sql.run(giveBack, [
          failed.map(({ id }) => id),
          fence,
          failed.map(({ error }) => error),
          failed.map(({ delayMs }) => delayMs),
          failed.map(({ attempts }) => attempts),
        ])
      : []
  const lost = rows.length - finished.length - settled.length
  return { claimed: rows.length, done: finished.length, failed: settled.length, lost }
}

const ERROR_CHARS_MAX = 2_000
function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  // Postgres stores no NUL.
  return text.replaceAll('\0', '').slice(0, ERROR_CHARS_MAX)
}
