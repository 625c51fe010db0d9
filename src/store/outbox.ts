/**
 * Effects that must follow a commit: their rows are written in the transaction of the change and drained afterwards, at
 * least once, never by two drainers at the same time. Receivers detect a repeat by the row's id, which never changes.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { KernelFault } from '#kernel/errors'
import type { Db, Sql, Tx } from './db.ts'
import { failpoint } from './failpoints.ts'
import { tableName } from './sql/names.ts'
import { compileOutbox, type OutboxStatements } from './sql/outbox.ts'

/** The table has the nine columns of the flow outbox: id, kind, payload, status, available_at, attempts, last_error, created_at, processed_at. */
export type OutboxTable = { readonly table: string; readonly kinds: readonly string[] }

export type OutboxRow = {
  readonly id: string
  readonly kind: string
  readonly payload: Readonly<Record<string, unknown>>
  /** Failed attempts so far. */
  readonly attempts: number
  readonly last_error: string | null
  readonly created_at: Date
  /** Identifies this claim of the row. */
  readonly fence: string
}

export type OutboxDraft = { readonly kind: string; readonly payload: Readonly<Record<string, unknown>> }

/** Decides whether and when a row is retried after that many failed attempts: the kernel's `decideRetry` fits. */
type OutboxRetry = (
  attempts: number,
  error: unknown,
) => { readonly retry: true; readonly delayMs: number } | { readonly retry: false }

export type DrainOptions = {
  readonly handle: (row: OutboxRow, signal: AbortSignal | undefined) => Promise<void>
  readonly retry: OutboxRetry
  readonly limit?: number
  /** Longer than `handle` takes for a whole batch: afterwards another drainer takes the rows. */
  readonly visibilityMs: number
  readonly kinds?: readonly string[]
  readonly signal?: AbortSignal
}

export type Drained = {
  readonly claimed: number
  readonly done: number
  readonly failed: number
  readonly lost: number
}

const ERROR_LENGTH_MAX = 2_000
const compiled = new WeakMap<OutboxTable, OutboxStatements>()

export function outboxTable(table: OutboxTable): OutboxTable {
  tableName(table.table)
  compiled.set(table, compileOutbox(table))
  return table
}

function statementsOf(table: OutboxTable): OutboxStatements {
  const statements = compiled.get(table)
  if (statements === undefined)
    throw new KernelFault('store.outbox.binding', `${table.table} was not declared by outboxTable`)
  return statements
}

/** Writes rows in the transaction of the change they follow, in order; returns their ids. */
export async function writeOutbox(
  tx: Tx,
  table: OutboxTable,
  drafts: readonly OutboxDraft[],
): Promise<readonly string[]> {
  const strange = drafts.find(({ kind }) => !table.kinds.includes(kind))
  if (strange !== undefined) throw new KernelFault('store.outbox.kind', `${table.table} has no kind ${strange.kind}`)
  if (drafts.length === 0) return []
  const rows = await tx.run(statementsOf(table).write, [
    drafts.map(({ kind }) => kind),
    drafts.map(({ payload }) => JSON.stringify(payload)),
  ])
  return rows.map(({ id }) => id)
}

/** Drains one batch of due rows: claims, handles in parallel, settles. `claimed: 0` means that nothing was due. */
export async function drainOutbox(sql: Sql, table: OutboxTable, options: DrainOptions): Promise<Drained> {
  return drain(sql, table, options, 'claim')
}

/** Takes over rows that a dead drainer left in Processing, past their visibility time. */
export async function drainAbandoned(sql: Sql, table: OutboxTable, options: DrainOptions): Promise<Drained> {
  return drain(sql, table, options, 'reclaim')
}

async function drain(sql: Sql, table: OutboxTable, options: DrainOptions, by: 'claim' | 'reclaim'): Promise<Drained> {
  const { handle, retry, limit = 50, visibilityMs, kinds, signal } = options
  const statements = statementsOf(table)
  const rows = await sql.run(statements[by], [limit, visibilityMs, kinds ?? null])
  await failpoint('outbox.claimed')
  const done: OutboxRow[] = []
  const failed: { row: OutboxRow; error: unknown; attempts: number; waitMs: number | null }[] = []
  const fail = (row: OutboxRow, error: unknown, attempts: number) => {
    const decision = retry(attempts, error)
    failed.push({ row, error, attempts, waitMs: decision.retry ? decision.delayMs : null })
  }
  await Promise.all(
    rows.map(async (row) => {
      // A row that kills its handler is given up like any other that fails too often.
      if (by === 'reclaim' && !retry(row.attempts, row.last_error).retry) return fail(row, row.last_error, row.attempts)
      try {
        await handle(row, signal)
        done.push(row)
      } catch (error) {
        fail(row, error, row.attempts + 1)
      }
    }),
  )
  await failpoint('outbox.handled')
  const fence = rows[0]?.fence
  const finished = done.length === 0 ? [] : await sql.run(statements.finish, [done.map(({ id }) => id), fence])
  const settled =
    failed.length === 0
      ? []
      : await sql.run(statements.fail, [
          failed.map(({ row }) => row.id),
          fence,
          failed.map(({ error }) => textOf(error)),
          failed.map(({ waitMs }) => waitMs),
          failed.map(({ attempts }) => attempts),
        ])
  const lost = rows.length - finished.length - settled.length
  return { claimed: rows.length, done: finished.length, failed: settled.length, lost }
}

function textOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  // Postgres stores no NUL.
  return text.replaceAll('\0', '').slice(0, ERROR_LENGTH_MAX)
}

export type RunOutboxOptions = DrainOptions & {
  /** The pause when nothing is due; `wait` may end it early (a notice, a row written by this process). */
  readonly idleMs?: number
  readonly wait?: (ms: number, signal: AbortSignal | undefined) => Promise<void>
  readonly onError?: (error: unknown) => void
}

/** Batches of due rows between two checks for abandoned ones: no index covers those, so the check costs more. */
const DUE_BATCHES = 10

/** Drains until the signal is aborted. Checks for abandoned rows when nothing is due, and periodically under constant load. */
export async function runOutbox(db: Db, table: OutboxTable, options: RunOutboxOptions): Promise<void> {
  const { signal, idleMs = 1_000, onError = () => {} } = options
  const wait = options.wait ?? ((ms) => sleep(ms, undefined, signal ? { signal } : {}).catch(() => {}))
  for (let batch = 1; !signal?.aborted; batch++) {
    try {
      const { claimed } = await drainOutbox(db, table, options)
      if (claimed > 0 && (batch % DUE_BATCHES !== 0 || signal?.aborted)) continue
      if ((await drainAbandoned(db, table, options)).claimed > 0 || claimed > 0) continue
    } catch (error) {
      onError(error)
    }
    await wait(idleMs, signal)
  }
}
