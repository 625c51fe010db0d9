/** Writes down what a provider says about itself where it is news, with the event in the same commit. */
import type { JsonObject } from '#kernel/json-value'
import { appendEvents } from '#store'
import { connectorLog } from '../events.ts'
import { saveSeenDefinition } from '../sql/save-seen-definition.ts'
import type { ConnectorDeps } from '../deps.ts'
import { hashDefinition } from './hash-definition.ts'
import type { DefinitionPlace } from './stored-definition.ts'

export async function noteDefinition(
  deps: Pick<ConnectorDeps, 'db' | 'now' | 'newId'>,
  { workspaceId, connectorName, operation }: DefinitionPlace,
  definition: JsonObject,
  traceId: string,
): Promise<void> {
  const [hash, at] = [hashDefinition(definition), deps.now()]
  await deps.db.transaction(async (tx) => {
    const values = [workspaceId, connectorName, operation, JSON.stringify(definition), hash, at]
    const [news] = await tx.run(saveSeenDefinition, values)
    if (!news) return
    const { approved_hash } = news
    await appendEvents(tx, connectorLog, [
      {
        eventId: deps.newId(),
        type: 'connector_definition_seen',
        payload: { connector: connectorName, operation, seen_hash: hash, approved_hash },
        actor: 'worker',
        actorKind: 'worker',
        traceId,
        at,
        links: { workspace_id: workspaceId },
      },
    ])
  })
}
