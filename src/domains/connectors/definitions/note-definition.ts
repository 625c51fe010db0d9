/** Writes down what a provider says about itself where it is news, with the event in the same commit. */
import type { JsonObject } from '#kernel/json-value'
import { appendEvents } from '#store'
import { connectorLog } from '../events.ts'
import { saveSeenDefinition } from '../sql/save-seen-definition.ts'
import type { ConnectorWorld } from '../world.ts'
import { hashDefinition } from './hash-definition.ts'
import type { DefinitionPlace } from './stored-definition.ts'

export async function noteDefinition(
  world: Pick<ConnectorWorld, 'db' | 'now' | 'newId'>,
  { workspaceId, connectorName, operation }: DefinitionPlace,
  definition: JsonObject,
  traceId: string,
): Promise<void> {
  const [hash, at] = [hashDefinition(definition), world.now()]
  await world.db.transaction(async (tx) => {
    const values = [workspaceId, connectorName, operation, JSON.stringify(definition), hash, at]
    const [news] = await tx.run(saveSeenDefinition, values)
    if (!news) return
    const { approved_hash } = news
    await appendEvents(tx, connectorLog, [
      {
        eventId: world.newId(),
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
