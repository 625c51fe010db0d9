/** What a provider says about one operation, as the database has it. */
import type { JsonObject } from '#kernel/json-value'
import type { Sql } from '#store'
import type { RowOf } from '#store/rows'
import { findDefinitionSql } from '../sql/find-definition.ts'

export type StoredDefinition = RowOf<
  'concord.connector_definitions',
  { readonly seen_definition: JsonObject; readonly approved_definition: JsonObject | null }
>

export type DefinitionPlace = {
  readonly workspaceId: string
  readonly connectorName: string
  readonly operation: string
}

export async function findDefinition(
  sql: Sql,
  { workspaceId, connectorName, operation }: DefinitionPlace,
): Promise<StoredDefinition | undefined> {
  const [row] = await sql.run(findDefinitionSql, [workspaceId, connectorName, operation])
  return row
}

/** Nobody is served by a definition that no person has seen. */
export function isQuarantined({ seen_hash, approved_hash }: StoredDefinition): boolean {
  return seen_hash !== approved_hash
}
