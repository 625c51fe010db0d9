/** The state of the connectors at one time: their contracts, their circuit breakers, and what their providers say about themselves. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import { defaultJsonLimits, type JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { scoped, statement } from '#store'
import { ConnectorFailure, succeeded } from './connector.ts'
import { toConnectorDetailView } from './contract.ts'
import type { ConnectorDeps, OpenedConnector } from './deps.ts'
import { callInTime } from './judge-answer.ts'
import { openScrubber, openSecretAccess } from './secrets.ts'

/** $1 workspace, $2 connectors. */
const findLastSuccessSql = statement<{ readonly connector_name: string; readonly completed_at: Date }>(
  'connectors_find_last_success',
  `select n.connector_name, i.completed_at
     from unnest($2::text[]) as n (connector_name)
     cross join lateral (
       select i.completed_at from concord.connector_invocations i
        where i.workspace_id = $1 and i.connector_name = n.connector_name and i.status = 'succeeded'
        order by i.connector_invocation_id desc limit 1
     ) as i`,
)

export type SyncConnectors = { readonly workspaceId: string; readonly signal: AbortSignal }

export type SyncedConnector = {
  readonly name: string
  readonly connector_type: string
  readonly operations: readonly string[]
  /** The hash of the whole declaration, which is its version. */
  readonly contract_hash: string
  /** Whether the circuit breaker of this process is open. */
  readonly is_open: boolean
  /** In this workspace; null: never. */
  readonly last_success_at: string | null
  /** The result of `refresh`; null if the connector has none or it failed. */
  readonly refreshed: JsonObject | null
  readonly error: string | null
}

/** All refreshes run at once, so that one that never ends costs no more than this. */
const REFRESH_MS = 15_000
/** A description, not data: it is stored in the result of the command. */
const REFRESH_BYTES_MAX = 65_536
const ERROR_CHARS_MAX = 500

export async function syncConnectors(
  deps: ConnectorDeps,
  opened: readonly OpenedConnector[],
  { workspaceId, signal }: SyncConnectors,
): Promise<readonly SyncedConnector[]> {
  const names = opened.map(({ definition }) => definition.name)
  const rows = await scoped(deps.db, workspaceId).read((tx) => tx.run(findLastSuccessSql, [workspaceId, names]))
  const lastSuccess = new Map(rows.map(({ connector_name, completed_at }) => [connector_name, completed_at]))
  const sync = async (each: OpenedConnector): Promise<SyncedConnector> => {
    const { definition, breaker } = each
    return {
      name: definition.name,
      connector_type: definition.connector_type,
      operations: definition.operations.map(({ name }) => name),
      // A contract does not change because its provider is down.
      contract_hash: hash('sha256', canonicalJson({ ...toConnectorDetailView(definition, false) } as JsonObject)),
      is_open: breaker.isOpen,
      last_success_at: lastSuccess.get(definition.name)?.toISOString() ?? null,
      ...(await refresh(deps, each, signal)),
    }
  }
  return Promise.all(opened.map(sync))
}

async function refresh(
  deps: ConnectorDeps,
  { definition, connector }: OpenedConnector,
  signal: AbortSignal,
): Promise<Pick<SyncedConnector, 'refreshed' | 'error'>> {
  if (!connector.refresh) return { refreshed: null, error: null }
  const scrubber = openScrubber()
  const { ok, output, error } = await callInTime(deps, REFRESH_MS, signal, async (inner) => {
    const secrets = await openSecretAccess(deps.secrets, definition, scrubber)
    const given: unknown = await connector.refresh?.({ ...secrets, signal: inner })
    const guarded = guardValue(given ?? {}, { ...defaultJsonLimits, bytesMax: REFRESH_BYTES_MAX })
    if (guarded.ok) return succeeded(guarded.value)
    const message = `The description of the provider cannot be stored: ${guarded.reason}`
    throw new ConnectorFailure('validation_error', message, 'no')
  })
  // Replacing texts does not change the type: an object stays an object.
  if (ok) return { refreshed: scrubber.value(output) as JsonObject, error: null }
  const message = scrubber.text(error?.message ?? 'The call failed.')
  return { refreshed: null, error: message.slice(0, ERROR_CHARS_MAX) }
}
