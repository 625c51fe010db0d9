/** The contract under which an operation is called now: as declared, or as a person approved what its provider says about it. */
import { isJsonObject, type JsonObject } from '#kernel/json-value'
import { type CallContext, ConnectorFailure, type ConnectorError } from '../connector.ts'
import type { ConnectorDefinition, ConnectorOperationContract } from '../define-connector.ts'
import type { Scrubber } from '../scrub.ts'
import type { ConnectorDeps } from '../deps.ts'
import { diffDefinitions, hashDefinition, sayChanges } from './hash-definition.ts'
import { noteDefinition } from './note-definition.ts'
import { type DefinitionPlace, findDefinition, type StoredDefinition } from './stored-definition.ts'

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
