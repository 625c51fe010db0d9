/** Asks a provider what it says about itself now, and notes it. Calls none of its operations. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { resultOfThrown } from '../connector.ts'
import { callInTime } from '../judge-answer.ts'
import type { OpenedConnector } from '../opened-connector.ts'
import { openScrubber } from '../scrub.ts'
import { openSecretDoor } from '../secret-door.ts'
import { findDefinitionSql } from '../sql/find-definition.ts'
import type { ConnectorDeps } from '../deps.ts'
import { noteDefinition } from './note-definition.ts'
import type { StoredDefinition } from './stored-definition.ts'
import type { JsonObject } from '#kernel/json-value'

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
