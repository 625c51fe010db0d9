/**
 * The tenant guard behind the filters of the statements: work in a scope runs as `concord_app` with the workspace set for that one
 * transaction, so that row security hides what a forgotten filter would show.
 */
import { KernelFault } from '#kernel/errors'
import { isUuid } from '#kernel/ids'
import type { Db } from './db.ts'
import type { Tx } from './transaction.ts'

type Scope = {
  /** One read-only transaction. */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

export function scoped(db: Db, workspaceId: string): Scope {
  // The id becomes part of the text, since several statements in one round trip take no parameters.
  if (!isUuid(workspaceId)) throw new KernelFault('store.scope.invalid', 'A scope needs the id of a workspace.')
  // `true` means "until the end of the transaction": nothing is left for the next user of the connection.
  const enter = `select set_config('role', 'concord_app', true), set_config('concord.workspace_id', '${workspaceId}', true)`
  return {
    read: (work) => db.transaction(work, `begin read only; ${enter}`),
    transaction: (work) => db.transaction(work, `begin; ${enter}`),
  }
}
