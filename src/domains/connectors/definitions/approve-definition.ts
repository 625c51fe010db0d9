/** A person approves one definition by its hash: the one that was shown, or none. */
import type { Principal } from '#domains/identity'
import { isJsonObject, type JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { appendEvents } from '#store'
import { type CallContext, type ConnectorError, ConnectorFailure, resultOfThrown } from '../connector.ts'
import type { ConnectorDefinition, ConnectorOperationContract } from '../define-connector.ts'
import type { ConnectorDeps } from '../deps.ts'
import { connectorLog } from '../events.ts'
import { callInTime } from '../judge-answer.ts'
import type { OpenedConnector } from '../opened-connector.ts'
import { openScrubber, openSecretDoor, type Scrubber } from '../secrets.ts'
import {
  type DefinitionPlace,
  diffDefinitions,
  findDefinition,
  findDefinitionSql,
  hashDefinition,
  noteDefinition,
  saveApprovedDefinition,
  sayChanges,
  type StoredDefinition,
} from './definition.ts'

export type CurrentContract =
  | { readonly ok: true; readonly operation: ConnectorOperationContract; readonly stored: StoredDefinition | undefined }
  | { readonly ok: false; readonly error: ConnectorError }

export async function currentContract(
  deps: ConnectorDeps,
  definition: ConnectorDefinition,
  declared: ConnectorOperationContract,
  workspaceId: string,
): Promise<CurrentContract> {
  if (definition.pinned === null) return { ok: true, operation: declared, stored: undefined }
  const place = { workspaceId, connectorName: definition.name, operation: declared.name }
  const stored = await findDefinition(deps.db, place)
  const no = (message: string): CurrentContract => ({
    ok: false,
    error: { error_class: 'permission_denied', message, happened: 'no' },
  })
  const subject = `${definition.name}.${declared.name}`
  if (!stored?.approved_definition)
    return no(
      `nobody has approved the definition of ${subject} yet: concord connectors check ${definition.connector_id}, then concord connectors approve`,
    )
  const contract = definition.pinned.contractOf(declared, stored.approved_definition)
  return contract.ok
    ? { ok: true, operation: contract.value, stored }
    : no(`the approved definition of ${subject} cannot be used: ${contract.reason}`)
}

/** What a call is given to confirm a definition with; whatever differs from what was approved ends the call. */
export function openConfirm(
  deps: ConnectorDeps,
  place: DefinitionPlace,
  stored: StoredDefinition | undefined,
  scrubber: Scrubber,
  traceId: string,
): CallContext['confirmDefinition'] {
  const subject = `${place.connectorName}.${place.operation}`
  return async (given) => {
    const seen = scrubber.value(given)
    // An object stays an object when texts in it are replaced; null stands for an operation that is gone.
    const said: JsonObject = seen !== null && isJsonObject(seen) ? seen : {}
    const hash = hashDefinition(said)
    if (hash !== stored?.seen_hash) await noteDefinition(deps, place, said, traceId)
    if (hash === stored?.approved_hash) return
    const changes = diffDefinitions(stored?.approved_definition ?? null, said)
    throw new ConnectorFailure(
      'permission_denied',
      `the definition of ${subject} is not the one that was approved: ${sayChanges(changes)}. ` +
        `A person looks at it (concord connectors definitions) and approves it, or not`,
      'no',
    )
  }
}

export type ApproveDefinition = {
  readonly workspaceId: string
  readonly operation: string
  /** As it was shown. */
  readonly hash: string
  readonly principal: Pick<Principal, 'userId'>
  readonly traceId: string
}

export async function approveDefinition(
  deps: Pick<ConnectorDeps, 'db' | 'now' | 'newId'>,
  definition: ConnectorDefinition,
  { workspaceId, operation, hash, principal, traceId }: ApproveDefinition,
): Promise<Decision<StoredDefinition>> {
  const place = { workspaceId, connectorName: definition.name, operation }
  const known = await findDefinition(deps.db, place)
  if (!known)
    return refuse('connectors.definition.not_found', `Nothing is known of an operation ${quote(operation)}.`, {
      path: 'operation',
      hint: `concord connectors check ${definition.connector_id} asks the provider what it has.`,
    })
  if (known.seen_hash !== hash)
    return refuse('connectors.definition.changed', 'This is not the definition that was seen last.', {
      path: 'hash',
      hint: `concord connectors definitions ${definition.connector_id} shows it; look at it again, then approve that one.`,
      facts: { seen_hash: known.seen_hash },
    })
  const declared = definition.operations.find(({ name }) => name === operation)
  const readable = declared && definition.pinned?.contractOf(declared, known.seen_definition)
  if (readable && !readable.ok) return readable
  const at = deps.now()
  return deps.db.transaction(async (tx) => {
    const values = [workspaceId, definition.name, operation, hash, principal.userId, at]
    const [approved] = await tx.run(saveApprovedDefinition, values)
    // Approved already, or changed since it was read a moment ago: the row says which.
    if (!approved) {
      const now = await findDefinition(tx, place)
      return now?.approved_hash === hash
        ? accept(now)
        : refuse('connectors.definition.changed', 'It has changed while it was being approved.', { path: 'hash' })
    }
    await appendEvents(tx, connectorLog, [
      {
        eventId: deps.newId(),
        type: 'connector_definition_approved',
        payload: { connector: definition.name, operation, approved_hash: hash, was_hash: known.approved_hash },
        actor: `user:${principal.userId}`,
        actorKind: 'human',
        traceId,
        at,
        links: { workspace_id: workspaceId },
      },
    ])
    return accept(approved)
  })
}

/** Asks a provider what it says about itself now, and notes it. Calls none of its operations. */
const LOOK_MS = 30_000
const LOOK_BYTES_MAX = 1_048_576

export type CheckDefinitions = {
  readonly workspaceId: string
  readonly traceId: string
  readonly signal: AbortSignal
}

export async function checkDefinitions(
  deps: ConnectorDeps,
  { definition, connector }: OpenedConnector,
  { workspaceId, traceId, signal: outer }: CheckDefinitions,
): Promise<Decision<readonly StoredDefinition[]>> {
  const { look } = connector
  if (!look)
    return refuse(
      'connectors.definition.not_found',
      `${definition.name} says nothing about itself that could change.`,
      {
        hint: 'Nothing is to be approved: its contract stands in the project.',
      },
    )
  const scrubber = openScrubber()
  const secrets = await openSecretDoor(deps.secrets, definition, scrubber)
  const unavailable = (reason: string) => refuse('connectors.definition.unavailable', `${definition.name}: ${reason}`)
  if (!secrets.ok) return unavailable(secrets.error.message)
  let seen: Awaited<ReturnType<typeof look>> = []
  const result = await callInTime(deps, { timeout_ms: LOOK_MS }, outer, async (signal) => {
    const limits = { timeout_ms: LOOK_MS, output_max_bytes: LOOK_BYTES_MAX }
    try {
      seen = await look.call(connector, { ...secrets.door, ...limits, signal })
      return { ok: true, output: null }
    } catch (error) {
      return resultOfThrown(error)
    }
  })
  if (!result.ok) return unavailable(scrubber.text(result.error?.message ?? 'it could not be asked'))
  for (const { operation, definition: said } of seen) {
    const place = { workspaceId, connectorName: definition.name, operation }
    // An object stays an object when texts in it are replaced.
    await noteDefinition(deps, place, scrubber.value(said) as JsonObject, traceId)
  }
  return accept(await deps.db.run(findDefinitionSql, [workspaceId, definition.name, null]))
}
