/**
 * The tenant guard. First barrier: a lookup is always by id and workspace, and a foreign id is "not found". Second barrier: work in
 * a scope runs as `concord_app` with the workspace set for that one transaction, so that row security hides what a
 * forgotten filter would show.
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { isUuid } from '#kernel/uuid'
import type { Db, Sql, Tx } from './db.ts'
import { columnName, statementName, tableName } from './sql/names.ts'
import { statement, type Statement } from './statement.ts'
import type { AnyRow, RowType } from './transition/stored-machine.ts'

export type Lookup<Row> = {
  /** The noun for such a row in messages. */
  readonly noun: string
  readonly tenant: string
  readonly statement: Statement<Row>
}

/** Declares how one row of a table is found: `$1` is its id, `$2` its workspace. */
export function defineLookup<Row = AnyRow>(of: {
  readonly noun: string
  readonly table: string
  readonly id: string
  readonly tenant: string
  readonly columns?: readonly string[]
  readonly row?: RowType<Row>
}): Lookup<Row> {
  const columns = of.columns?.map(columnName).join(', ') ?? '*'
  const text = `select ${columns} from ${tableName(of.table)} where ${columnName(of.id)} = $1 and ${columnName(of.tenant)} = $2`
  return { noun: of.noun, tenant: of.tenant, statement: statement(statementName(`lookup_${of.table}`, text), text) }
}

export type Scope = {
  readonly workspaceId: string
  find<Row>(lookup: Lookup<Row>, id: string, sql?: Sql): Promise<Row | undefined>
  get<Row>(lookup: Lookup<Row>, id: string, sql?: Sql): Promise<Decision<Row>>
  /** Runs one read-only transaction behind both barriers. */
  read<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

export function scoped(db: Db, workspaceId: string): Scope {
  // The id becomes part of the text, since several statements in one round trip take no parameters.
  if (!isUuid(workspaceId)) throw new KernelFault('store.scope.invalid', 'a scope needs the id of a workspace')
  // `true` means "until the end of the transaction": nothing is left for the next user of the connection.
  const enter = `select set_config('role', 'concord_app', true), set_config('concord.workspace_id', '${workspaceId}', true)`

  async function find<Row>(lookup: Lookup<Row>, id: string, sql: Sql = db): Promise<Row | undefined> {
    // The text is not an id: Postgres would raise an error, and the answer is known.
    if (!isUuid(id)) return undefined
    const [row] = await sql.run(lookup.statement, [id, workspaceId])
    return row
  }

  return {
    workspaceId,
    find,
    async get(lookup, id, sql) {
      const row = await find(lookup, id, sql)
      return row === undefined ? refuse('row.not_found', `there is no such ${lookup.noun}`) : accept(row)
    },
    read: (work) => db.transaction(work, `begin read only; ${enter}`),
    transaction: (work) => db.transaction(work, `begin; ${enter}`),
  }
}
