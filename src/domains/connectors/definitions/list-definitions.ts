/** What the providers of a connector say about its operations, beside what was approved, with what differs. */
import { z } from 'zod'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { Sql } from '#store'
import type { ConnectorDefinition } from '../define-connector.ts'
import { findDefinitionSql } from '../sql/find-definition.ts'
import { diffDefinitions } from './hash-definition.ts'
import { isQuarantined, type StoredDefinition } from './stored-definition.ts'

const text = z.string().nullable()

export const definitionView = z
  .object({
    operation: z.string().meta({ example: 'search' }),
    status: z.enum(['approved', 'quarantined']).meta({ description: 'Quarantined: calls are refused.' }),
    seen_hash: z.string().meta({ example: 'sha256:9f86…', description: 'What an approval names.' }),
    seen_definition: z.record(z.string(), z.unknown()),
    seen_at: z.string().meta({ format: 'date-time' }),
    approved_hash: text,
    approved_by: text,
    approved_at: text,
    changes: z
      .array(z.object({ path: z.string(), was: text, is: text }))
      .meta({ description: 'From what was approved to what was seen; all of it where nothing was approved.' }),
  })
  .meta({ id: 'ConnectorOperationDefinition', description: 'What a provider says about one of its operations.' })

export function listDefinitions(
  sql: Sql,
  workspaceId: string,
  connectorName: string,
): Promise<readonly StoredDefinition[]> {
  return sql.run(findDefinitionSql, [workspaceId, connectorName, null])
}

/** A connector as this workspace has approved it: with the texts and schemas of the provider where somebody agreed to them. */
export async function approvedDefinition(
  sql: Sql,
  definition: ConnectorDefinition,
  workspaceId: string,
): Promise<ConnectorDefinition> {
  const { pinned } = definition
  if (pinned === null) return definition
  const rows = await listDefinitions(sql, workspaceId, definition.name)
  const operations = definition.operations.map((operation) => {
    const approved = rows.find((row) => row.operation === operation.name)?.approved_definition
    const contract = approved ? pinned.contractOf(operation, approved) : undefined
    return contract?.ok ? contract.value : operation
  })
  return { ...definition, operations }
}

export function toDefinitionView(row: StoredDefinition): z.infer<typeof definitionView> {
  return {
    operation: row.operation,
    status: isQuarantined(row) ? 'quarantined' : 'approved',
    seen_hash: row.seen_hash,
    seen_definition: { ...row.seen_definition },
    seen_at: formatInstant(row.seen_at),
    approved_hash: row.approved_hash,
    approved_by: row.approved_by === null ? null : encodeId('user', row.approved_by),
    approved_at: row.approved_at === null ? null : formatInstant(row.approved_at),
    changes: diffDefinitions(row.approved_definition, row.seen_definition).map((change) => ({ ...change })),
  }
}
