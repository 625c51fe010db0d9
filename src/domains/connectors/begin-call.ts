/** Writes the row of a call before it is made, waiting a little where the limits of the connector are used up. */
import type { Db } from '#store'
import type { ConnectorDefinition, ConnectorOperationContract } from './define-connector.ts'
import { type BegunInvocation, beginInvocation } from './sql/begin-invocation.ts'
import type { ConnectorDeps } from './deps.ts'

export type Begun =
  | { readonly t: 'begun' }
  /** The command does not run, or its effect does not execute. */
  | { readonly t: 'not_allowed' }
  | { readonly t: 'limited'; readonly waitMs: number }

/** A wait up to here is shorter than another turn of the command would be. */
const WAIT_MAX_MS = 5_000
const LOOK_AGAIN_MS = 50
/** How much longer than its time limit a call may stand as started in a process that is alive. */
const SETTLE_MS = 5_000

export type BeginCall = {
  readonly definition: ConnectorDefinition
  readonly operation: ConnectorOperationContract
  /** In the order of the statement, $1 to $11. */
  readonly values: readonly unknown[]
  readonly signal: AbortSignal
}

export async function beginCall(deps: ConnectorDeps, call: BeginCall): Promise<Begun> {
  const { requests_per_minute: perMinute, concurrent } = call.definition.rate_limits
  const longestMs = Math.max(...call.definition.operations.map(({ timeout_ms }) => timeout_ms)) + SETTLE_MS
  const values = [...call.values, perMinute, concurrent, longestMs]
  const opening = perMinute === null && concurrent === null ? undefined : lockOf(call.definition.name)
  let waitedMs = 0
  for (;;) {
    const found = await ask(deps.db, values, opening)
    if (found.is_begun) return { t: 'begun' }
    if (!found.is_allowed) return { t: 'not_allowed' }
    const waitMs = Math.max(found.wait_ms ?? 0, LOOK_AGAIN_MS)
    if (waitedMs + waitMs > WAIT_MAX_MS || call.signal.aborted) return { t: 'limited', waitMs }
    await deps.sleep(waitMs, call.signal)
    waitedMs += waitMs
  }
}

async function ask(db: Db, values: readonly unknown[], opening: string | undefined): Promise<BegunInvocation> {
  const [found] =
    opening === undefined
      ? await db.run(beginInvocation, values)
      : await db.transaction((tx) => tx.run(beginInvocation, values), opening)
  return found ?? { is_allowed: false, is_begun: false, wait_ms: null, under_way: 0 }
}

/** The name has passed the check at start-up: lower-case letters, digits and underscores. */
function lockOf(name: string): string {
  return `begin; select pg_advisory_xact_lock(hashtextextended('concord.connector:${name}', 0))`
}
