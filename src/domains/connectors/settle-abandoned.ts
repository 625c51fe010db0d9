/** Settles the calls whose process is gone: the record says that no answer came and that nobody knows whether it happened. */
import { isLostRace } from '#store'
import { TIMEOUT_MAX_MS } from './check-operation.ts'
import type { ConnectorError } from './connector.ts'
import type { ConnectorDefinition } from './define-connector.ts'
import { ABANDONED_BATCH, listAbandonedSql, nextHorizonSql } from './sql/list-abandoned.ts'
import { invocations, type StoredInvocation } from './stored-invocation.ts'
import type { ConnectorDeps } from './deps.ts'

/** What becomes of the effect is decided by its command, which asks before it repeats anything. */
export const abandoned: ConnectorError = {
  error_class: 'timeout',
  message: 'no answer was recorded in time: the process that made the call was gone',
  happened: 'unknown',
}

/** A process that is alive settles its call at the time limit; this long after it there is none. */
const MARGIN_MS = 60_000

type SweepDeps = Pick<ConnectorDeps, 'db' | 'now' | 'newId'>

/**
 * The first look goes over all calls there are; each later one begins where a whole look before it had settled everything. A call
 * whose connector nobody declares any more had at most the longest time that a declaration may give.
 */
export function openAbandonedSweep(deps: SweepDeps, definitions: readonly ConnectorDefinition[]) {
  const all = definitions.flatMap(({ name, operations }) => operations.map((operation) => ({ name, operation })))
  const limits = [
    all.map(({ name }) => name),
    all.map(({ operation }) => operation.name),
    all.map(({ operation }) => operation.timeout_ms + MARGIN_MS),
    TIMEOUT_MAX_MS + MARGIN_MS,
  ]
  let from: string | null = null
  return async ({ traceId }: { readonly traceId: string }): Promise<number> => {
    // A row is committed a moment after the time it bears: one more margin.
    const [next] = await deps.db.run(nextHorizonSql, [TIMEOUT_MAX_MS + 2 * MARGIN_MS])
    const rows = await deps.db.run(listAbandonedSql, [...limits, from])
    let count = 0
    for (const row of rows) if (await settle(deps, row, traceId)) count += 1
    if (rows.length < ABANDONED_BATCH && next) from = next.horizon
    return count
  }
}

async function settle(deps: SweepDeps, row: StoredInvocation, traceId: string): Promise<boolean> {
  const { error_class, message: error, happened } = abandoned
  const { connector_name: connector, operation, domain_effect_id, attempt } = row
  const system = { id: 'system', kind: 'system', traceId: row.trace_id ?? traceId } as const
  const settled = await invocations.transition(deps.db, row, 'failed', system, {
    at: deps.now(),
    newId: deps.newId,
    set: { error, error_class },
    payload: { connector, operation, domain_effect_id, attempt, ok: false, error_class, happened, latency_ms: null },
  })
  if (!settled.ok && !isLostRace(settled)) throw new Error(`a call could not be settled: ${settled.reason}`)
  return settled.ok
}
