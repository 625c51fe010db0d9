/** What is known about the connectors at a time: their contracts, how they fare, and what the other side says about itself now. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import { defaultJsonLimits, type JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { scoped, statement } from '#store'
import { type Connector, type ConnectorResult, failed, succeeded } from './connector.ts'
import { toConnectorDetailView } from './contract.ts'
import type { ConnectorDeps } from './deps.ts'
import { callInTime } from './judge-answer.ts'
import type { OpenedConnector } from './opened-connector.ts'
import { openScrubber, openSecretDoor, type Scrubber } from './secrets.ts'

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
  /** Of the whole declaration: another one is another version. */
  readonly contract_hash: string
  /** True while nobody is sent there, as this process sees it. */
  readonly is_open: boolean
  /** In this workspace; null: never. */
  readonly last_success_at: string | null
  /** What a fresh look brought; null: it cannot be looked at, or the look failed. */
  readonly refreshed: JsonObject | null
  readonly error: string | null
}

/** All looks go on at once, so that one that never ends costs no more than this. */
const REFRESH_MS = 15_000
/** A description, not data; the result of the command holds it. */
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
  const looks = await Promise.all(opened.map((each) => look(deps, each, signal)))
  return opened.map(({ definition, breaker }, at) => ({
    name: definition.name,
    connector_type: definition.connector_type,
    operations: definition.operations.map(({ name }) => name),
    // A contract does not change because its other side is down.
    contract_hash: hash('sha256', canonicalJson({ ...toConnectorDetailView(definition, false) } as JsonObject)),
    is_open: breaker.isOpen,
    last_success_at: lastSuccess.get(definition.name)?.toISOString() ?? null,
    ...(looks[at] ?? unseen),
  }))
}

type Look = Pick<SyncedConnector, 'refreshed' | 'error'>
const unseen: Look = { refreshed: null, error: null }

async function look(
  deps: ConnectorDeps,
  { definition, connector }: OpenedConnector,
  signal: AbortSignal,
): Promise<Look> {
  if (!connector.refresh) return unseen
  const scrubber = openScrubber()
  const secrets = await openSecretDoor(deps.secrets, definition, scrubber)
  if (!secrets.ok) return refused(secrets.error.message, scrubber)
  const answer = await callInTime(deps, { timeout_ms: REFRESH_MS }, signal, (inner) =>
    refresh(connector, { ...secrets.door, signal: inner }),
  )
  // `callInTime` gives the result of `refresh` below, or one of its own.
  const { ok, output, error } = answer
  if (!ok) return refused(error?.message ?? 'it failed', scrubber)
  return { refreshed: scrubber.value(output) as JsonObject, error: null }
}

async function refresh(
  connector: Connector,
  context: Parameters<NonNullable<Connector['refresh']>>[0],
): Promise<ConnectorResult> {
  const given: unknown = await connector.refresh?.(context)
  const limits = { ...defaultJsonLimits, bytesMax: REFRESH_BYTES_MAX }
  const guarded = guardValue(given ?? {}, limits)
  if (guarded.ok) return succeeded(guarded.value)
  const message = `what it says about itself cannot be kept: ${guarded.reason}`
  return failed({ error_class: 'validation_error', message, happened: 'no' })
}

function refused(message: string, scrubber: Scrubber): Look {
  return { refreshed: null, error: scrubber.text(message).slice(0, ERROR_CHARS_MAX) }
}
