/** A person approves one definition by its hash: the one that was shown, or none. */
import { actorOf, type Principal } from '#domains/identity'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { appendEvents } from '#store'
import type { ConnectorDefinition } from '../define-connector.ts'
import { connectorLog } from '../events.ts'
import { saveApprovedDefinition } from '../sql/save-approved-definition.ts'
import type { ConnectorDeps } from '../deps.ts'
import { findDefinition, type StoredDefinition } from './stored-definition.ts'

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
    const { actorId } = actorOf(principal)
    const values = [workspaceId, definition.name, operation, hash, actorId, at]
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
        actor: `user:${actorId}`,
        actorKind: 'human',
        traceId,
        at,
        links: { workspace_id: workspaceId },
      },
    ])
    return accept(approved)
  })
}
