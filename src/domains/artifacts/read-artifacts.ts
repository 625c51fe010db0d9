/** Reads artifacts behind both walls: by id and workspace, and only what the reader may see. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ArtifactState } from '#kernel/machines/artifact'
import { type Db, scoped, type Sql } from '#store'
import { artifactLookup } from './artifact-repository.ts'
import type { StoredArtifact } from './artifact-row.ts'
import { mayRead, personOf } from './may-read.ts'
import { listArchivedSql, listCurrentSql, listSwarmArtifactsSql } from './sql/list-artifacts.ts'
import type { Reader } from './deps.ts'

export async function getArtifact(
  db: Db,
  reader: Reader,
  workspaceId: string,
  artifactId: string,
): Promise<Decision<StoredArtifact>> {
  const scope = scoped(db, workspaceId)
  const found = await scope.read((tx) => scope.find(artifactLookup, artifactId, tx))
  // One that is private to another answers exactly like one that is not there (T9).
  return found && mayRead(found, reader) ? accept(found) : refuse('row.not_found', 'there is no such artifact')
}

export type ListArtifacts = {
  readonly workspaceId: string
  readonly artifactType?: string | undefined
  /** Left out: all but the archive. */
  readonly status?: ArtifactState | undefined
  readonly commandId?: string | undefined
  readonly after?: readonly string[] | undefined
  readonly limit: number
}

export type ArtifactPage = {
  readonly items: readonly StoredArtifact[]
  readonly next: readonly string[] | undefined
}

export async function listArtifacts(db: Db, reader: Reader, query: ListArtifacts): Promise<ArtifactPage> {
  const [createdText = null, artifactId = null] = query.after ?? []
  const rows = await scoped(db, query.workspaceId).read((tx) =>
    tx.run(query.status === 'archived' ? listArchivedSql : listCurrentSql, [
      query.workspaceId,
      personOf(reader),
      reader.role === 'admin',
      query.artifactType ?? null,
      query.status ?? null,
      query.commandId ?? null,
      createdText,
      artifactId,
      // One row more than asked for says whether there is a next page.
      query.limit + 1,
    ]),
  )
  const items = rows.slice(0, query.limit)
  const last = rows.length > query.limit ? items.at(-1) : undefined
  return { items, next: last && [last.created_text, last.artifact_id] }
}

/** What a join reads: the rows alone, never a message. */
export function listSwarmArtifacts(
  sql: Sql,
  { workspaceId, swarmRunId }: { readonly workspaceId: string; readonly swarmRunId: string },
): Promise<StoredArtifact[]> {
  return sql.run(listSwarmArtifactsSql, [workspaceId, swarmRunId])
}
