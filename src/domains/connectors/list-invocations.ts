/** The calls of a connector, one page at a time, behind both walls: a workspace sees its own. */
import type { ConnectorInvocationState } from '#kernel/machines/connector-invocation'
import { type Db, scoped } from '#store'
import { listInvocationsSql } from './sql/list-invocations.ts'
import type { StoredInvocation } from './stored-invocation.ts'

export type ListInvocations = {
  readonly workspaceId: string
  readonly connectorName: string
  readonly status?: ConnectorInvocationState | undefined
  readonly commandId?: string | undefined
  /** The id of the last call of the page before. */
  readonly after?: readonly string[] | undefined
  readonly limit: number
}

export type InvocationPage = {
  readonly items: readonly StoredInvocation[]
  /** Where the next page starts; undefined on the last. */
  readonly next: readonly string[] | undefined
}

export async function listInvocations(db: Db, query: ListInvocations): Promise<InvocationPage> {
  const { workspaceId, connectorName, status = null, commandId = null, after, limit } = query
  // One row more than asked for says whether there is a next page.
  const values = [workspaceId, connectorName, status, commandId, after?.[0] ?? null, limit + 1]
  const rows = await scoped(db, workspaceId).read((tx) => tx.run(listInvocationsSql, values))
  const items = rows.slice(0, limit)
  const last = rows.length > limit ? items.at(-1) : undefined
  return { items, next: last && [last.connector_invocation_id] }
}
