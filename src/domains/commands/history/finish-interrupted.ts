/** Finishes what a killed run left: a whole file that no row names is verified and its events deleted; unfinished files go. */
import { accept, type Decision } from '#kernel/refusal'
import { listArchiveFolder, removeLeftovers, verifyArchive } from '#store'
import { listArchives } from './archive-repository.ts'
import type { ArchivedFile } from './archive-history.ts'
import { deleteArchived } from './delete-archived.ts'
import { refuseFolder } from './refuse-folder.ts'
import type { HistoryDeps } from './deps.ts'

/** A whole file that fits no longer stays where it is: `verifyHistory` tells of it, and a person decides. */
export async function finishInterrupted(
  deps: HistoryDeps,
  traceId: string,
): Promise<Decision<readonly ArchivedFile[]>> {
  let files: readonly string[]
  try {
    const there = await listArchiveFolder(deps.folder)
    await removeLeftovers(deps.folder, there)
    files = there.files
  } catch (error) {
    return refuseFolder(error, deps.folder)
  }
  const known = new Set((await listArchives(deps.db)).map(({ file }) => file))
  const finished: ArchivedFile[] = []
  for (const file of files) {
    if (known.has(file)) continue
    const verified = await verifyArchive(deps.folder, file)
    if (!verified.ok) continue
    const deleted = await deleteArchived(deps, verified.value, traceId)
    if (!deleted.ok) return deleted
    const { workspace_id: workspaceId, event_count: events } = verified.value.manifest
    if (deleted.value) finished.push({ workspaceId, file, events })
  }
  return accept(finished)
}
