/** Holds every archived file against its manifest and its row, and names files that no row knows. Changes nothing. */
import { accept, type Decision, refuse } from '#kernel/refusal'
import { listArchiveFolder, verifyArchive } from '#store'
import { listArchives, type StoredArchive } from './archive-repository.ts'
import type { HistoryDeps } from './deps.ts'

type ArchiveState = 'whole' | 'missing' | 'damaged' | 'surplus'

export type ArchiveFinding = {
  readonly file: string
  readonly state: ArchiveState
  readonly events: number | null
  /** What was found, and what to do; null: nothing. */
  readonly found: string | null
}

export type VerifyHistory = {
  readonly signal?: AbortSignal
  readonly onProgress?: (looked: number, of: number) => void
}

export async function verifyHistory(
  { db, folder }: Pick<HistoryDeps, 'db' | 'folder'>,
  { signal, onProgress }: VerifyHistory = {},
): Promise<readonly ArchiveFinding[]> {
  const archives = await listArchives(db)
  const findings: ArchiveFinding[] = []
  for (const archive of archives) {
    if (signal?.aborted) return findings
    const checked = await checkArchive(folder, archive)
    const found = checked.ok ? null : checked.reason
    const state = checked.ok ? 'whole' : checked.code === 'history.file.missing' ? 'missing' : 'damaged'
    findings.push({ file: archive.file, state, events: archive.event_count, found })
    onProgress?.(findings.length, archives.length)
  }
  const known = new Set(archives.map(({ file }) => file))
  const { files } = await listArchiveFolder(folder)
  const surplus = files.filter((file) => !known.has(file))
  return [...findings, ...surplus.map((file) => ({ file, state: 'surplus' as const, events: null, found: SURPLUS }))]
}

const SURPLUS = 'no row names it: a run was cut before its deletion, or it belongs to another database'

/** The row is the judge: a file that was replaced together with its manifest does not fit it. */
export async function checkArchive(
  folder: string,
  archive: Pick<StoredArchive, 'file' | 'sha256' | 'event_count'>,
): Promise<Decision<undefined>> {
  const verified = await verifyArchive(folder, archive.file)
  if (!verified.ok) return verified
  const { sha256, event_count } = verified.value.manifest
  if (sha256 === archive.sha256 && event_count === archive.event_count) return accept(undefined)
  return refuse('history.file.damaged', `${archive.file} is not the file that was written`, {
    path: archive.file,
    hint: 'Restore the file from a backup.',
  })
}
