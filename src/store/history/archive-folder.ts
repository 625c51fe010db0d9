/** Lists the folder of the archive: complete archives by their manifests, and leftovers of a killed writer. */
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isUuid } from '#kernel/ids'
import { LINES_SUFFIX, MANIFEST_SUFFIX } from './manifest.ts'
import { PART_SUFFIX } from './write-archive.ts'

export type ArchiveFolder = {
  /** Files that have a manifest. */
  readonly files: readonly string[]
  /** Unfinished and safe to remove: no row is deleted before its file has a manifest and was read back. */
  readonly leftovers: readonly string[]
}

export async function listArchiveFolder(folder: string): Promise<ArchiveFolder> {
  const files: string[] = []
  const leftovers: string[] = []
  for (const workspaceId of await namesIn(folder)) {
    if (!isUuid(workspaceId)) continue
    const names = await namesIn(join(folder, workspaceId))
    for (const name of names) {
      const id = name.slice(0, 36)
      // Other files in the folder belong to the operator.
      if (!isUuid(id)) continue
      const rest = name.slice(36)
      if (rest === MANIFEST_SUFFIX) files.push(`${workspaceId}/${id}${LINES_SUFFIX}`)
      else if (rest.endsWith(PART_SUFFIX)) leftovers.push(`${workspaceId}/${name}`)
      else if (rest === LINES_SUFFIX && !names.includes(`${id}${MANIFEST_SUFFIX}`))
        leftovers.push(`${workspaceId}/${name}`)
    }
  }
  return { files: files.toSorted(), leftovers: leftovers.toSorted() }
}

export async function removeLeftovers(folder: string, { leftovers }: Pick<ArchiveFolder, 'leftovers'>): Promise<void> {
  for (const name of leftovers) await rm(join(folder, name), { force: true })
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return []
    throw error
  }
}
